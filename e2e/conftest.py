"""Fixtures for tests against the real control plane.

It is started once per run of pytest, in a directory of its own, so that several runs don't meet. To use one that is up
already (`python -m e2e.controlplane up`), and so save its start, set CORRAL_CONTROLPLANE to its directory.
"""

import asyncio
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import scenario
from e2e.api import Api, path
from e2e.cluster import Cluster
from e2e.conformance.evidence import Evidence
from e2e.controlplane import build
from e2e.controlplane.cluster import RUNS, ControlPlane
from e2e.controlplane.progress import plain
from e2e.scenario import Scenario
from e2e.spans import SpanReceiver
from e2e.stack import NAMESPACE, ROOT, Program, Stack, configured
from kube import resources

Kubectl = Callable[..., str]

# Without this, looptime asks for "the" loop of every test that has none, and the one made for it is never closed.
asyncio.set_event_loop(None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before any test's own time begins to count. Raises UsageError for tests that can't run together."""
    if session.config.option.collectonly:
        return
    used = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if used >= {"admission", "stack"}:
        raise pytest.UsageError("tests with fixtures admission and stack meet at one Lease: run them as the Makefile does, apart")
    if "controlplane" in used and build.missing():
        build.ensure(plain())


@pytest.fixture(scope="session")
def controlplane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with Kueue, shared by all tests: each makes its own names, and leaves every program running."""
    if given := os.environ.get("CORRAL_CONTROLPLANE"):
        yield ControlPlane(Path(given))
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # fixtures are torn down, as on Ctrl-C
    _sweep()
    all_kinds = any("all_kinds" in getattr(item, "fixturenames", ()) for item in request.session.items)
    with ControlPlane(RUNS / f"pytest-{os.getpid()}", all_kinds=all_kinds) as plane:
        yield plane


@pytest.fixture(scope="session")
def all_kinds(controlplane: ControlPlane) -> None:
    """The control plane has the CRDs of every operator that Kueue knows: a start that takes longer, only for tests that ask."""
    remedy = "start it with python -m e2e.controlplane up --all-kinds"
    assert controlplane.layout.all_kinds, f"CORRAL_CONTROLPLANE has no CRDs of operators: {remedy}"


@pytest.fixture(scope="session")
def api(controlplane: ControlPlane) -> Iterator[Api]:
    """The API server over one kept connection, far quicker than kubectl where hundreds of calls are made."""
    client = Api(controlplane.kubeconfig)
    yield client
    client.close()


@pytest.fixture
def kubeconfig(controlplane: ControlPlane) -> Path:
    """Kubeconfig of the administrator."""
    return controlplane.kubeconfig


@pytest.fixture
def kubectl(controlplane: ControlPlane) -> Kubectl:
    """`kubectl("get", "pods", stdin=None, timeout=60.0) -> stdout`; raises ControlPlaneError."""
    return controlplane.kubectl


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of the test's own; its deletion is asked for afterwards, and not waited for."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    api.call("DELETE", path(resources.NAMESPACES, name=name))


@pytest.fixture
def evidence(controlplane: ControlPlane, namespace: str, request: pytest.FixtureRequest) -> Iterator[Evidence]:
    """What Kueue itself writes to the test's Workloads; the conformance table shows it beside the rows that the test claims."""
    with Evidence(controlplane.kubeconfig, namespace) as seen:
        yield seen
    request.node.user_properties += [("evidence", line) for line in seen.notes]


@pytest.fixture(autouse=True)
def _row(request: pytest.FixtureRequest) -> None:
    """No test that claims a row is without evidence."""
    if request.node.get_closest_marker("row"):
        request.getfixturevalue("evidence")


def _sweep() -> None:
    """Stop and remove what runs of pytest that were killed have left; a run that goes on is known by its pid."""
    for directory in RUNS.glob("pytest-*"):
        if not Path("/proc", directory.name.removeprefix("pytest-")).exists():
            ControlPlane(directory).stop()
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def spans() -> Iterator[SpanReceiver]:
    """Where the services of `stack` send their traces."""
    with SpanReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def stack(controlplane: ControlPlane, spans: SpanReceiver) -> Iterator[Stack]:
    """Both services and the simulated cloud, as a user runs them, with the device plugin's DaemonSet; shared by all tests."""
    directory = controlplane.directory / f"corral-{os.getpid()}"
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    with Stack(controlplane, directory, scenario.cloud(), env) as running:
        controlplane.kubectl("apply", "-f", str(ROOT / "e2e" / "demo" / "manifests" / "cluster.yaml"))
        yield running


@pytest.fixture(scope="session")
def shapes() -> Iterator[str]:
    """Instance types that no test has used yet."""
    return iter(scenario.SHAPES)


@pytest.fixture
def corner(stack: Stack, namespace: str, shapes: Iterator[str]) -> Iterator[Scenario]:
    """A corner of the cluster of the test's own. Afterwards its pool is paused, so that nothing new is bought there."""
    made = Scenario(stack, namespace, next(shapes))
    yield made
    made.clear()


@pytest.fixture(scope="session")
def installed(controlplane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    """The control plane with Corral's kinds and roles, none of its programs running."""
    Stack(controlplane, tmp_path_factory.mktemp("installed"), {}).install()
    return controlplane


@pytest.fixture(scope="module")
def admission(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The admission service alone, with the rights of its own role, no more."""
    directory = tmp_path_factory.mktemp("admission")
    settings = {
        "leaderElection": {"resourceNamespace": NAMESPACE, "leaseDuration": 20, "renewDeadline": 15, "retryPeriod": 1},
        "clientConnection": {"kubeconfig": str(installed.service_account(NAMESPACE, "corral-admission"))},
    }
    program = configured("admission", directory, settings)
    program.start()
    yield program
    assert program.stop() == 0, program.tail()


@pytest.fixture
def cluster(kubectl: Kubectl, api: Api, namespace: str, admission: Program) -> Iterator[Cluster]:
    made = Cluster(kubectl, api, namespace)
    yield made
    made.clear()
    assert admission.alive, admission.tail()
