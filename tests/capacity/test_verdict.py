"""Expected values from kube-scheduler 1.36.3: its default filters, read in the source and seen on the real one."""

from typing import Any

import pytest

from capacity.model import HOSTNAME, Bystander, Node, Running
from capacity.requirements import Expression, HostPort, LabelSelector, PodTerm, Spread, Taint, Toleration
from capacity.verdict import Answer, Verdict, verdict
from tests.capacity.make import GPU, RACK, node, pods, snapshot

JOB = LabelSelector((Expression("app", "In", ("job",)),))
CORDON = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")
ME = Running("ns", {"app": "job"})


@pytest.mark.parametrize(
    ("here", "pod", "reason"),
    [
        pytest.param({}, {}, "", id="fits"),
        pytest.param({"ready": False}, {}, "", id="readiness plays no part"),
        pytest.param({"unschedulable": True}, {}, "cordoned", id="cordoned"),
        pytest.param({"unschedulable": True}, {"tolerations": (CORDON,)}, "", id="cordoned, tolerated"),
        pytest.param(
            {"taints": (Taint("corral.dev/booked", "NoSchedule"),)},
            {},
            "taint corral.dev/booked:NoSchedule not tolerated",
            id="taint",
        ),
        pytest.param(
            {"labels": {}}, {"node_selector": {"a": "b"}}, "node selector asks for a=b, here it is absent", id="selector"
        ),
        pytest.param({"requested": {GPU: 1}}, {}, f"{GPU}: needs 8, 7 free", id="room"),
        pytest.param(
            {"pods": (Running("x", {}, (HostPort(80),)),)}, {"ports": (HostPort(80),)}, "host port TCP/80 is taken", id="port"
        ),
        pytest.param(
            {"pods": (ME,)},
            {"apart": (PodTerm(HOSTNAME, JOB, None),)},
            f"anti-affinity to pods that run in {HOSTNAME}=n1",
            id="anti-affinity",
        ),
        pytest.param({}, {"near": (PodTerm(RACK, JOB, None),)}, "", id="affinity to itself: the first goes anywhere"),
        pytest.param({}, {"near": (PodTerm("row", JOB, None),)}, "has no label row", id="where the key is"),
    ],
)
def test_verdict(here: dict[str, Any], pod: dict[str, Any], reason: str) -> None:
    one = node("n1", **{"labels": {HOSTNAME: "n1", RACK: "r1"}} | here)
    pod_set = pods("w", 1, namespace="ns", labels={"app": "job"}, **pod)
    assert verdict(pod_set, one, snapshot(one)) == Verdict(Answer.NO_FIT if reason else Answer.FIT, reason)


def test_what_is_not_modelled_is_undecidable() -> None:
    one = node("n1")
    assert verdict(pods("w", 99, undecidable=("a resource claim",)), one, snapshot(one)) == Verdict(
        Answer.UNDECIDABLE, "a resource claim"
    )


def test_what_is_not_there_yet_is_undecidable() -> None:
    one = node("n1")
    assert verdict(pods("w", 1, awaits=("its claim",)), one, snapshot(one)) == Verdict(Answer.UNDECIDABLE, "its claim")


def in_rack(name: str, rack: str | None, running: int, **more: Any) -> Node:
    return node(name, labels={} if rack is None else {RACK: rack}, pods=(ME,) * running, **more)


@pytest.mark.parametrize(
    ("counts", "spread", "expected"),
    [
        pytest.param((1, 0), Spread(RACK, 1, JOB), [False, True], id="1 + 1 - 0 is above a skew of 1"),
        pytest.param((1, 1), Spread(RACK, 1, JOB), [True, True], id="even"),
        pytest.param((2, 1), Spread(RACK, 2, JOB), [True, True], id="a wider skew"),
        pytest.param((1, 1), Spread(RACK, 1, JOB, min_domains=3), [False, False], id="fewer domains than asked for: least is 0"),
        pytest.param((1, 1), Spread(RACK, 1, JOB, min_domains=2), [True, True], id="as many domains as asked for"),
        pytest.param((3, 0), Spread(RACK, 1, LabelSelector()), [True, True], id="an empty selector never blocks"),
        pytest.param((3, 0), Spread(RACK, 1, None), [True, True], id="no selector counts nobody"),
        pytest.param(
            (1, 0), Spread(RACK, 1, LabelSelector((Expression("app", "Exists"),))), [False, True], id="matches itself as well"
        ),
    ],
)
def test_spread(counts: tuple[int, int], spread: Spread, expected: list[bool]) -> None:
    nodes = (in_rack("n1", "r1", counts[0]), in_rack("n2", "r2", counts[1]), in_rack("n3", None, 5))
    among = snapshot(*nodes)
    pod_set = pods("w", 1, namespace="ns", labels={"app": "job"}, spreads=(spread,))
    found = [verdict(pod_set, one, among).answer is Answer.FIT for one in nodes]
    assert found == [*expected, False]


def test_spread_that_does_not_count_the_pod_itself() -> None:
    """2 + 0 - 1 is no more than 1."""
    others = Bystander("b", {RACK: "r3"}, (ME,))
    nodes = (in_rack("n1", "r1", 2), in_rack("n2", "r2", 3))
    pod_set = pods("w", 1, namespace="ns", labels={"app": "web"}, spreads=(Spread(RACK, 1, JOB),))
    among = snapshot(*nodes, bystanders=(others,))
    assert [verdict(pod_set, one, among).answer for one in nodes] == [Answer.FIT, Answer.NO_FIT]
    assert verdict(pod_set, nodes[1], among).reason == "spread over rack: 2 more in r2 than in the emptiest domain, at most 1"
