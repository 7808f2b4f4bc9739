"""Which DaemonSets run on booked nodes, what they take, and which of them the taint would keep away."""

import pytest

from capacity.requirements import HostPort
from kube import core
from kube.meta import decode
from provisioner.planning.daemons import blocked, company, daemon_pods, overheads
from tests.provisioner.make import CPU, H100, daemon_set, node, pool

GPU = {"key": "gpu", "operator": "Exists"}
BOOKED = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
ALL = {"operator": "Exists"}
SHAPES = (H100.shape, CPU.shape)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(daemon_set("d", GPU, BOOKED), {"h100": {"cpu": 100, "memory": 2**30, "pods": 1}}, id="both"),
        pytest.param(daemon_set("d", ALL), {"h100": {"cpu": 100, "memory": 2**30, "pods": 1}}, id="all"),
        pytest.param(daemon_set("d", GPU), {"h100": {}}, id="not-booked-nodes"),
        pytest.param(daemon_set("d", BOOKED), {"h100": {}}, id="not-gpu-nodes"),
        pytest.param(
            daemon_set("d", ALL, nodeSelector={"node.kubernetes.io/instance-type": "cpu"}), {"h100": {}}, id="elsewhere"
        ),
    ],
)
def test_what_daemon_sets_take_of_a_shape(there: core.DaemonSet, expected: object) -> None:
    assert overheads(pool(), [H100.shape], daemon_pods([there])) == expected


def test_overheads_add_up() -> None:
    pods = daemon_pods([daemon_set("a", ALL), daemon_set("b", ALL)])
    assert overheads(pool(), [CPU.shape], pods) == {"cpu": {"cpu": 200, "memory": 2**31, "pods": 2}}


def test_pods_of_daemon_sets_that_run_there() -> None:
    bound = {"containers": [{"name": "c", "ports": [{"hostPort": 9100}]}]}
    pods = daemon_pods(
        [daemon_set("a", ALL, **bound), daemon_set("b", GPU, containers=[{"name": "c", "ports": [{"hostPort": 1}]}])]
    )
    found = company(pool(), SHAPES, pods)
    assert {name: [pod.ports for pod in there] for name, there in found.items()} == {
        "h100": [(HostPort(9100),)],
        "cpu": [(HostPort(9100),)],
    }


@pytest.mark.parametrize(
    ("there", "required", "offenders", "missing", "stops"),
    [
        pytest.param([daemon_set("d", ALL)], ["kube-system/d"], (), (), (), id="tolerates-all"),
        pytest.param([daemon_set("d", GPU)], [], ("kube-system/d",), (), (), id="offends-but-is-not-required"),
        pytest.param([daemon_set("d", GPU)], ["kube-system/d"], ("kube-system/d",), (), ("kube-system/d",), id="required"),
        pytest.param([daemon_set("d")], [], (), (), (), id="never-runs-on-gpu-nodes"),
        pytest.param([daemon_set("d")], ["kube-system/d"], ("kube-system/d",), (), ("kube-system/d",), id="required-anyhow"),
        pytest.param([], ["kube-system/d"], (), ("kube-system/d",), ("kube-system/d",), id="missing"),
    ],
)
def test_blocked(
    there: list[core.DaemonSet], required: list[str], offenders: tuple[str, ...], missing: tuple[str, ...], stops: tuple[str, ...]
) -> None:
    of = pool(readiness={"requiredDaemonSets": required})
    found = blocked(of, [H100.shape], [], daemon_pods(there))
    assert (found.offenders, found.missing, found.required) == (offenders, missing, stops)


def test_a_daemon_set_on_an_adopted_node_counts() -> None:
    there = node("n", spec={"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]})
    assert blocked(pool(), [], [there], daemon_pods([daemon_set("d", nodeSelector={"team": "train"})])).offenders == (
        "kube-system/d",
    )


def test_the_message_names_the_remedy() -> None:
    text = blocked(
        pool(readiness={"requiredDaemonSets": ["kube-system/gone"]}), [H100.shape], [], daemon_pods([daemon_set("d", GPU)])
    )
    assert "DaemonSet kube-system/d would not run on booked nodes" in text.message
    assert "{key: corral.dev/booked, operator: Exists, effect: NoSchedule}" in text.message
    assert "DaemonSet kube-system/gone: required" in text.message


def test_one_that_cannot_be_read_is_left_out() -> None:
    raw = daemon_set("d").to_json()
    raw["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
    assert daemon_pods([decode(raw, core.DaemonSet)]) == ()
