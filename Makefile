# Everything on a fresh machine with Python 3.11+ and Go 1.26: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: agreement bench-admission bench-optimality bench-repair demo test lint types contracts unit e2e e2e-aws e2e-gangs e2e-kinds e2e-parts install lock crds clean bench-planner chaos conformance faults

demo: $(READY)
	$(BIN)/python -m e2e.demo $(if $(KEEP),--keep)

test: lint types contracts unit e2e

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports --no-logo

unit: $(READY)
	$(BIN)/pytest -q tests

# Two at a time, each with a control plane of its own: the services as a user runs them, their parts, and a cloud. The tests of
# e2e/conformance are run by `make conformance`.
GANGS := e2e/test_gang.py e2e/test_crash.py e2e/test_bad_input.py e2e/test_trace.py e2e/test_topology.py e2e/test_topology_ends.py
# With the CRDs of every operator, whose start takes a while.
KINDS := e2e/test_kinds.py e2e/test_pod_sets.py e2e/test_elastic.py
# Services as a user runs them, too: no process may run both these and tests of admission alone, for they have one Lease.
CORNERS := e2e/test_growth.py e2e/test_policies.py e2e/test_karpenter.py e2e/test_backoff.py e2e/test_why.py
CORNERS += e2e/test_transfer.py e2e/test_handover.py e2e/test_repair.py e2e/test_hung.py e2e/test_stand_in.py e2e/test_checkups.py

e2e: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(MAKE) --jobs=2 --output-sync=target e2e-gangs e2e-kinds e2e-parts e2e-aws

e2e-gangs: $(READY)
	$(BIN)/pytest -q $(GANGS)

e2e-kinds: $(READY)
	$(BIN)/pytest -q $(KINDS)
	$(BIN)/pytest -q $(CORNERS)

e2e-parts: $(READY)
	$(BIN)/pytest -q e2e --ignore=e2e/conformance --ignore=e2e/test_aws.py $(GANGS:%=--ignore=%) $(KINDS:%=--ignore=%) $(CORNERS:%=--ignore=%)

# Gangs on the stand-in for EC2; a table of the situations with the calls that each took comes before pytest's last line.
e2e-aws: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(BIN)/pytest -q -p e2e.aws.table e2e/test_aws.py

bench-optimality: $(READY)
	$(BIN)/python -m bench.optimality --cases $(or $(N),2000) --seed $(or $(SEED),1)

# S1 to S4 of the planner beside Cluster Autoscaler, Kueue and Karpenter: half an hour, more while their programs are built.
bench-planner: $(READY)
	$(BIN)/python -m bench.planner $(if $(QUICK),--quick)

# S5 and S6: N workloads through our check and through Kueue's own, each on a control plane of its own.
bench-admission: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(BIN)/python -m bench.admission --workloads $(or $(N),1000)

# Generated cases, put to the planner and to the real kube-scheduler; ends with one line of counts, fails on any disagreement.
agreement: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(BIN)/python -m bench.agreement run --cases $(or $(N),500) --seed $(or $(SEED),1) $(if $(OUT),--out $(OUT))

# Every case of Kueue's own provisioning check beside ours, with the real Kueue; writes docs/conformance.md, fails on any red row.
conformance: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(BIN)/python -m e2e.conformance

# A gang of 250 machines of which one in a hundred is bad, in virtual time: N seeds without and with spares; a quarter of an hour.
bench-repair: $(READY)
	$(BIN)/python -m bench.repair --seeds $(or $(N),100) --seed $(or $(SEED),1)

# Every fault at MOST calls of each name in each scene (MOST=9999: at all), then N pairs and triples, in virtual time between twins of
# API server and cloud; ends with one line of counts, fails if any invariant broke.
faults: $(READY)
	PYTHONHASHSEED=0 $(BIN)/python -m tests.faults --runs $(or $(N),2000) --seed $(or $(SEED),1) --most $(or $(MOST),1)

# Gangs and faults on the real control plane, both services with two replicas, a second installation beside them: MINUTES of it, then
# until all is quiet; ends with one line of counts, fails if anything was wrong.
chaos: $(READY)
	$(BIN)/python -m e2e.controlplane build
	$(BIN)/python -m e2e.chaos --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(if $(OUT),--out $(OUT))

install: $(READY)

$(READY): pyproject.toml requirements/uv.txt requirements/dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Corral needs Python 3.11 or newer: name one with make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
lock: $(READY)
	$(LOCK) pyproject.toml -o requirements/runtime.txt
	$(LOCK) pyproject.toml --group dev -o requirements/dev.txt
	$(LOCK) --group build -o requirements/build.txt
	$(LOCK) --group uv -o requirements/uv.txt

crds: $(READY)
	$(BIN)/python -m kube.crds write

clean:
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis
