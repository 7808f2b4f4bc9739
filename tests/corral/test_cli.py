"""Bad input to the command line: one line on standard error that names what is wrong, exit code 2, never a traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.cli import main

POOL = """
apiVersion: corral.dev/v1alpha1
kind: CapacityPool
metadata: {name: h100}
spec: {provider: {simulated: {endpoint: "http://cloud"}}, sources: [{name: od, capacityType: on-demand}]}
"""
KNOWN = POOL + (
    'status: {shapes: [{name: s, allocatable: {cpu: "4", pods: "110"}}], '
    "offerings: [{name: o, source: od, shape: s, zone: z, capacityType: on-demand, available: 2, total: 2}]}\n"
)
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: llm, namespace: team}
spec: {parallelism: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}}
"""
NODE = "kind: Node\nmetadata: {name: n1, labels: {corral.dev/pool: h100}}\nstatus: {allocatable: {cpu: many}}\n"

Files = Callable[..., list[str]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """`files("text", ...)`: each text as a file, as arguments of -f."""

    def write(*texts: str | bytes) -> list[str]:
        arguments = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            arguments += ["-f", str(path)]
        return arguments

    return write


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that is refused."""
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err


def test_a_plan_that_fits(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *files(JOB, KNOWN)]) == 0
    assert capsys.readouterr().out.startswith("FITS job/llm")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        pytest.param(["a: [b"], "0.yaml: not YAML", id="no-yaml"),
        pytest.param([b"\xff\xfe\x00"], "0.yaml: not text in UTF-8", id="binary"),
        pytest.param(["- 1"], "no Kubernetes object", id="no-object"),
        pytest.param(["kind: 5"], "no Kubernetes object", id="kind-is-a-number"),
        pytest.param(["{kind: List, items: 5}"], "no Kubernetes object", id="items-is-a-number"),
        pytest.param(["{kind: Job, metadata: 5}"], "no Kubernetes object", id="metadata-is-a-number"),
        pytest.param(["", KNOWN], "no workload in the files", id="empty"),
        pytest.param(["kind: Elephant", KNOWN], "no workload in the files", id="unknown-kind-only"),
        pytest.param([JOB], "no CapacityPool in the files", id="no-pool"),
        pytest.param([JOB, POOL], "CapacityPool h100: status.shapes is empty", id="pool-without-status"),
        pytest.param(
            [JOB.replace('"1"', '"1x"'), KNOWN], 'Job team/llm: container c: requests: cpu: "1x" is not a quantity', id="quantity"
        ),
        pytest.param([JOB.replace('"1"', '"-1"'), KNOWN], "is negative", id="negative-quantity"),
        pytest.param([JOB.replace(": 2", ": -2"), KNOWN], "Job team/llm: parallelism is '-2'", id="negative-count"),
        pytest.param([JOB.replace(": 2", ": two"), KNOWN], "Job team/llm: parallelism is 'two'", id="count-in-words"),
        pytest.param([JOB.replace(": 2", ": 0"), KNOWN], "Job team/llm: asks for no pod at all: ask for 1 to 16384", id="zero"),
        pytest.param([JOB.replace(": 2", ": 16385"), KNOWN], "pod set main has 16385 pods", id="too-many"),
        pytest.param(["{kind: Job, metadata: {name: j}}", KNOWN], "Job j: spec is missing: add it", id="no-spec"),
        pytest.param(
            ["{kind: Job, metadata: {name: j}, spec: []}", KNOWN], "Job j: a field has another form", id="spec-is-a-list"
        ),
        pytest.param([JOB.replace(": 2", ": true"), KNOWN], "Job team/llm: parallelism is 'True'", id="count-is-a-truth"),
        pytest.param(
            [JOB.replace('"1"', '"0"'), KNOWN], "Job team/llm: pod set main requests nothing: set requests", id="asks-for-nothing"
        ),
        pytest.param(
            [JOB, JOB.replace(": 2", ": 3"), KNOWN], "Job team/llm: is in the files twice, and not the same", id="twice"
        ),
        pytest.param(
            [JOB, KNOWN, "{kind: CapacityPolicy, metadata: {name: p}, spec: {crosszone: {policy: Allow}}}"],
            "CapacityPolicy p: there is no field spec.crosszone (known there: bareRequests, ",
            id="policy-mistyped",
        ),
        pytest.param(
            [JOB, KNOWN.replace("capacityType: on-demand}]}", "capacityType: on-demand, maxNode: 1}]}", 1)],
            "CapacityPool h100: there is no field spec.sources[0].maxNode (known there: capacityType, ",
            id="pool-mistyped",
        ),
        pytest.param(
            ["{kind: Workload, metadata: {name: w}, spec: {podSets: [{name: main, count: -1, template: {spec: {}}}]}}", KNOWN],
            "Workload w: pod set main has -1 pods",
            id="workload-count",
        ),
        pytest.param(
            [JOB, KNOWN.replace("capacityType: on-demand}]}", "capacityType: on-demand, maxNodes: -1}]}", 1)],
            "CapacityPool h100: Expected `int` >= 0 - at `$.spec.sources[0].maxNodes`",
            id="pool-negative-count",
        ),
        pytest.param([JOB, KNOWN.replace('"4"', "lots")], "CapacityPool h100: status.shapes s: allocatable cpu", id="shape"),
        pytest.param(
            [JOB, KNOWN.replace("available: 2", "available: -1")], "status.offerings o: available is -1", id="available"
        ),
        pytest.param([JOB, KNOWN.replace("on-demand, av", "spot, av")], "status.offerings o: 'spot'", id="capacity-type"),
        pytest.param([JOB, KNOWN.replace("total: 2", "total: 2, ends: soon")], "status.offerings o: Invalid", id="instant"),
        pytest.param([JOB, KNOWN, NODE], 'Node n1, with its pods: cpu: "many" is not a quantity', id="node"),
        pytest.param(
            [JOB, KNOWN, "{kind: CapacityPolicy, metadata: {name: p}, spec: {capacityOrder: [spot]}}"],
            "CapacityPolicy p: Invalid enum value 'spot' - at `$.spec.capacityOrder[0]`",
            id="policy",
        ),
    ],
)
def test_plan_names_what_is_wrong_in_a_file(
    files: Files, capsys: pytest.CaptureFixture[str], texts: list[str], words: str
) -> None:
    assert words in complaint(capsys, "plan", *files(*texts))


def test_what_is_in_the_files_twice_counts_once(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *files(JOB, KNOWN, KNOWN, JOB)]) == main(["plan", *files(JOB, KNOWN)])
    once, again = capsys.readouterr().out.split("FITS")[1:]
    assert once == again


def test_a_reader_that_has_seen_enough(files: Files) -> None:
    """Its end of the pipe is closed before the answer comes."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "corral", "plan", *files(JOB, KNOWN)]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")


def test_plan_without_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none.yaml: No such file" in complaint(capsys, "plan", "-f", str(tmp_path / "none.yaml"))
    assert "Is a directory" in complaint(capsys, "plan", "-f", str(tmp_path))


@pytest.mark.parametrize("target", ["llm", "job/", "/q"])
def test_why_with_a_bad_target(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = complaint(capsys, "why", target)
    assert f'"{target}" is no target: name what waits: job/NAME' in line


UNREACHABLE = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {token: secret}}]
"""


@pytest.mark.parametrize(
    ("kubeconfig", "words"),
    [
        pytest.param(None, "no such file", id="missing"),
        pytest.param("a: [", "parsing", id="no-yaml"),
        pytest.param("a: 5", "current-context", id="no-kubeconfig"),
        pytest.param("- 5", "kubeconfig", id="list"),
        pytest.param(UNREACHABLE, "the cluster can't be read", id="unreachable"),
    ],
)
def test_why_without_a_cluster(kubeconfig: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kubeconfig"
    if kubeconfig is not None:
        path.write_text(kubeconfig)
    line = complaint(capsys, "why", "job/llm", "--kubeconfig", str(path))
    assert words in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("worker: 3", "worker", id="unknown-key"),
        pytest.param("kind: [", "not valid YAML", id="no-yaml"),
        pytest.param("- 1", "", id="list"),
        pytest.param(None, "none.yaml", id="missing"),
    ],
)
@pytest.mark.parametrize("command", ["admission", "provisioner", "simulated-cloud"])
def test_services_name_what_is_wrong_in_their_configuration(
    command: str, text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.yaml"
    if text is not None:
        path.write_text(text)
    line = complaint(capsys, command, "--config", str(path))
    assert line.startswith(f"corral {command}: {path}: ")
    assert words in line


@pytest.mark.parametrize("command", ["admission", "provisioner"])
def test_services_without_a_kubeconfig(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "service.yaml"
    path.write_text(f"clientConnection: {{kubeconfig: {tmp_path}/nowhere}}")
    assert f"kubeconfig {tmp_path}/nowhere" in complaint(capsys, command, "--config", str(path))


def test_an_api_server_that_does_not_answer_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kubeconfig").write_text(UNREACHABLE)
    path = tmp_path / "service.yaml"
    path.write_text(f"clientConnection: {{kubeconfig: {tmp_path}/kubeconfig}}")
    assert main(["provisioner", "--config", str(path)]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("corral provisioner: GET /api/v1/namespaces/kube-system")


def test_a_service_that_never_gets_its_lists_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("runtime.manager.SYNC_LIMIT", 0.2)
    (tmp_path / "kubeconfig").write_text(UNREACHABLE)
    path = tmp_path / "service.yaml"
    path.write_text(
        f"clientConnection: {{kubeconfig: {tmp_path}/kubeconfig}}\nhealth: {{bindAddress: '0'}}\nmetrics: {{bindAddress: '0'}}"
    )
    assert main(["admission", "--config", str(path)]) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "corral admission: after 0 s no complete list yet of: provisioningrequests, workloads, " in told.splitlines()[-1]
