# One image, one program: `corral admission`, `corral provisioner`, `corral simulated-cloud`.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/runtime.txt requirements/build.txt requirements/
# Dependencies come from the hashed lock alone; pip and the build backend stay out of the final image.
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
 && python -m venv --without-pip /opt/corral \
 && /opt/build/bin/pip --python /opt/corral/bin/python install --require-hashes --only-binary=:all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY capacity capacity
COPY runtime runtime
COPY kube kube
COPY admission admission
COPY provisioner provisioner
COPY corral corral
# Bytecode is compiled here, since the root file system is read-only where it runs.
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/build/bin/pip --python /opt/corral/bin/python install --no-deps --no-index /dist/*.whl \
 && /opt/corral/bin/python -m compileall -q /opt/corral/lib/python3.11/site-packages

FROM python:3.11-slim-bookworm
ENV PATH=/opt/corral/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/corral /opt/corral
USER 65532:65532
ENTRYPOINT ["corral"]
