"""Expected values from kube-scheduler 1.36.3: plugins interpodaffinity/filtering.go and podtopologyspread."""

from typing import Any

import pytest

from capacity.fit import new_host
from capacity.model import HOSTNAME, ZONE, Bystander, Exclusive, Node, PodSet, Running, Snapshot
from capacity.neighbours import Neighbours
from capacity.requirements import Expression, LabelSelector, NodeSelectorTerm, PodTerm, Spread, Taint, Toleration
from tests.capacity.make import RACK, node, offering, pods, snapshot

WEB = LabelSelector((Expression("app", "In", ("web",)),))
JOB = LabelSelector((Expression("app", "In", ("job",)),))
DB = LabelSelector((Expression("app", "In", ("db",)),))
FLIES = LabelSelector((Expression("app", "In", ("web", "fly")),))
ANY_APP = LabelSelector((Expression("app", "Exists"),))
OTHERS = LabelSelector((Expression("job-key", "Exists"), Expression("job-key", "NotIn", ("mine",))))


def term(selector: LabelSelector | None, key: str = RACK, namespace: str | None = "ns") -> PodTerm:
    return PodTerm(key, selector, None if namespace is None else frozenset({namespace}))


def running(app: str = "web", namespace: str = "ns", **more: Any) -> Running:
    return Running(namespace, {"app": app}, **more)


def job(name: str = "w", app: str = "job", **more: Any) -> PodSet:
    return pods(name, 2, namespace="ns", labels={"app": app}, **more)


def racks(*there: Running, **more: Any) -> Snapshot:
    """Two racks of one zone, pods in the first; and a node without a rack."""
    return snapshot(
        node("n1", labels={ZONE: "a", RACK: "r1", HOSTNAME: "n1"}, pods=there),
        node("n2", labels={ZONE: "a", RACK: "r2", HOSTNAME: "n2"}),
        node("n3", labels={ZONE: "a", HOSTNAME: "n3"}),
        **more,
    )


def open_to(around: Neighbours, among: Snapshot, index: int = 0) -> list[str]:
    return [one.name for one in among.nodes if not around.refusal(index, one.labels)]


@pytest.mark.parametrize(
    ("there", "fields", "expected"),
    [
        pytest.param((running(),), {}, ["n1", "n2", "n3"], id="no rules"),
        pytest.param((running(),), {"apart": (term(WEB),)}, ["n2", "n3"], id="a node without the key is not concerned"),
        pytest.param((running(),), {"apart": (term(WEB, ZONE),)}, [], id="a wider key"),
        pytest.param((running(),), {"apart": (term(WEB, HOSTNAME),)}, ["n2", "n3"], id="hosts"),
        pytest.param((running(namespace="x"),), {"apart": (term(WEB),)}, ["n1", "n2", "n3"], id="another namespace"),
        pytest.param((running(namespace="x"),), {"apart": (term(WEB, RACK, None),)}, ["n2", "n3"], id="every namespace"),
        pytest.param((running("db"),), {"apart": (term(WEB), term(JOB))}, ["n1", "n2", "n3"], id="others"),
        pytest.param((running("db"),), {"apart": (term(WEB), term(ANY_APP))}, ["n2", "n3"], id="any one term forbids"),
        pytest.param((running(apart=(term(JOB),)),), {}, ["n2", "n3"], id="the running pod's own anti-affinity"),
        pytest.param((running(apart=(term(WEB),)),), {}, ["n1", "n2", "n3"], id="which is not about these pods"),
        pytest.param((running(apart=(term(JOB, RACK, "x"),)),), {}, ["n1", "n2", "n3"], id="nor about their namespace"),
        pytest.param((running(terminating=True),), {"apart": (term(WEB),)}, ["n2", "n3"], id="a terminating pod counts"),
        pytest.param((running(),), {"near": (term(WEB),)}, ["n1"], id="affinity"),
        pytest.param((running(),), {"near": (term(WEB, ZONE),)}, ["n1", "n2", "n3"], id="affinity in a zone"),
        pytest.param((running(),), {"near": (term(WEB), term(JOB))}, [], id="no pod matches all terms"),
        pytest.param((running(),), {"near": (term(WEB), term(ANY_APP, HOSTNAME))}, ["n1"], id="one pod matches all terms"),
        pytest.param((running(),), {"near": (term(WEB, ZONE), term(ANY_APP, "row"))}, [], id="a key that no node has"),
        pytest.param((), {"near": (term(WEB),)}, [], id="nobody to be near to"),
        pytest.param((), {"near": (term(JOB),)}, ["n1", "n2"], id="the first of its kind goes where the key is"),
        pytest.param((running("job"),), {"near": (term(JOB),)}, ["n1"], id="there is one of its kind"),
        pytest.param((running("job", "x"),), {"near": (term(JOB),)}, ["n1", "n2"], id="but not in its namespace"),
        pytest.param((), {"near": (term(None),)}, [], id="no selector selects nothing"),
        pytest.param((), {"spreads": (Spread(RACK, 1, JOB), Spread(ZONE, 1, JOB))}, ["n1", "n2"], id="all keys of spreads"),
        pytest.param((Running("x", {"job-key": "its"}),), {"exclusive": Exclusive(RACK, OTHERS)}, ["n2"], id="a rival's rack"),
        pytest.param((Running("x", {"job-key": "mine"}),), {"exclusive": Exclusive(RACK, OTHERS)}, ["n1", "n2"], id="no rival"),
    ],
)
def test_refusal(there: tuple[Running, ...], fields: dict[str, Any], expected: list[str]) -> None:
    among = racks(*there)
    assert open_to(Neighbours(among, [job(**fields)]), among) == expected


def test_pods_on_nodes_that_lack_the_key_count_nowhere() -> None:
    among = snapshot(node("n1", pods=(running("job"),)), node("n2", labels={RACK: "r2"}))
    around = Neighbours(among, [job(near=(term(JOB),))])
    assert not around.attracted(0)
    assert open_to(around, among) == ["n2"]


def test_every_term_needs_a_pod_in_its_own_domain() -> None:
    """The running pod counts for the rack alone: the first-pod exception is over, and no row has such a pod."""
    among = snapshot(node("n1", labels={RACK: "r1"}, pods=(running("job"),)), node("n2", labels={RACK: "r1", "row": "x"}))
    around = Neighbours(among, [job(near=(term(JOB), term(JOB, "row")))])
    assert around.attracted(0)
    assert open_to(around, among) == []


def test_an_empty_label_is_a_domain_and_an_absent_one_is_none() -> None:
    among = snapshot(node("n1", labels={RACK: ""}, pods=(running(),)), node("n2"))
    assert open_to(Neighbours(among, [job(apart=(term(WEB),))]), among) == ["n2"]


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [
        pytest.param(Bystander("b", {RACK: "r1"}, (running(),)), ["n2", "n3"], id="on a node that is not ours"),
        pytest.param(node("b", labels={RACK: "r1"}, booked_by="x", pods=(running(),)), ["n2", "n3"], id="on a booked node"),
        pytest.param(Bystander("b", {}, (running(),)), ["n1", "n2", "n3"], id="on one that has no rack"),
    ],
)
def test_pods_count_wherever_they_are(elsewhere: Bystander | Node, expected: list[str]) -> None:
    among = racks()
    whole = racks(bystanders=(elsewhere,)) if isinstance(elsewhere, Bystander) else snapshot(*among.nodes, elsewhere)
    assert open_to(Neighbours(whole, [job(apart=(term(WEB),))]), among) == expected


@pytest.mark.parametrize(
    ("there", "fields", "keys"),
    [
        pytest.param((running(),), {}, (), id="no rules"),
        pytest.param((), {"apart": (term(WEB),)}, (), id="anti-affinity to nobody"),
        pytest.param((running(),), {"apart": (term(WEB), term(JOB, ZONE))}, (RACK,), id="only what matters"),
        pytest.param((), {"near": (term(JOB), term(JOB, ZONE))}, (RACK, ZONE), id="affinity asks for its keys"),
        pytest.param((), {"spreads": (Spread(HOSTNAME, 1, JOB),)}, (HOSTNAME,), id="so do spreads"),
        pytest.param((running(apart=(term(JOB, ZONE),)),), {}, (ZONE,), id="anti-affinity of others"),
    ],
)
def test_keys(there: tuple[Running, ...], fields: dict[str, Any], keys: tuple[str, ...]) -> None:
    assert Neighbours(racks(*there), [job(**fields)]).keys == keys


@pytest.mark.parametrize(
    ("there", "fields", "expected"),
    [
        pytest.param((running(),), {"apart": (term(WEB),)}, "rack is not known before launch", id="it may come to be r1"),
        pytest.param((running(),), {"near": (term(WEB),)}, "rack is not known before launch", id="it must come to be r1"),
        pytest.param((running(),), {"apart": (term(WEB, HOSTNAME),)}, "", id="a host of its own"),
        pytest.param(
            (running(),),
            {"near": (term(WEB, HOSTNAME),)},
            f"no pod that its affinity asks for runs in {HOSTNAME}=<new>",
            id="nobody is there",
        ),
        pytest.param((running(),), {"apart": (term(WEB, "row"),)}, "", id="a label that it will not have"),
        pytest.param((), {"spreads": (Spread("row", 1, JOB),)}, "has no label row", id="one that it must have"),
    ],
)
def test_refusal_of_a_node_to_be_bought(there: tuple[Running, ...], fields: dict[str, Any], expected: str) -> None:
    where = new_host(offering("o", 1), (ZONE, RACK))
    assert Neighbours(racks(*there), [job(**fields)]).refusal(0, where.labels, where.unknown) == expected


@pytest.mark.parametrize(
    ("others", "attracted", "settled"),
    [
        pytest.param([], True, True, id="alone"),
        pytest.param([job("l", "db")], True, True, id="others that it does not ask for"),
        pytest.param([job("l", "web")], True, False, id="others may bring their own"),
        pytest.param([job("l", "web", near=(term(WEB),))], True, True, id="others that are drawn to the same"),
        pytest.param([job("l", "web", near=(term(WEB, ZONE),))], True, False, id="others that are drawn less close"),
        pytest.param([job("l", "web", near=(term(DB),))], True, False, id="others that are drawn elsewhere"),
        pytest.param([job("l", "web", near=(term(FLIES),)), job("f", "fly")], True, False, id="others that follow a free one"),
    ],
)
def test_settled(others: list[PodSet], attracted: bool, settled: bool) -> None:
    among = racks(running(), bystanders=(Bystander("b", {RACK: "r2"}, (running("db"),)),))
    around = Neighbours(among, [job(near=(term(WEB),)), *others])
    assert (around.attracted(0), around.settled(0)) == (attracted, settled)


def test_affinity_may_wait_for_another_pod_set() -> None:
    among = racks()
    around = Neighbours(among, [job(near=(term(WEB),)), job("l", "web")])
    assert not around.attracted(0)
    assert open_to(around, among) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(WEB, 2, id="of its namespace, terminating ones apart"),
        pytest.param(ANY_APP, 3, id="another selector"),
        pytest.param(LabelSelector(), 0, id="an empty selector counts no running pod"),
        pytest.param(None, 0, id="no selector"),
    ],
)
def test_counted(selector: LabelSelector | None, expected: int) -> None:
    there = (running(), running(), running("db"), running(namespace="x"), running(terminating=True))
    among = racks(*there)
    around = Neighbours(among, [job(spreads=(Spread(RACK, 1, selector),))])
    assert [around.counted(0, 0, one) for one in among.nodes] == [expected, 0, 0]


@pytest.mark.parametrize(
    ("spread", "pod", "expected"),
    [
        pytest.param({"honors_affinity": False}, {}, {"r1": 2, "r2": 0, "r3": 1}, id="all domains"),
        pytest.param({"honors_affinity": True}, {}, {"r1": 2, "r2": 0, "r3": 1}, id="no affinity to honor"),
        pytest.param({"honors_affinity": True}, {"node_selector": {ZONE: "a"}}, {"r1": 1, "r2": 0}, id="its node selector"),
        pytest.param({"honors_affinity": False}, {"node_selector": {ZONE: "a"}}, {"r1": 2, "r2": 0, "r3": 1}, id="ignored"),
        pytest.param(
            {"honors_affinity": True},
            {"affinity": (NodeSelectorTerm(fields=(Expression("metadata.name", "NotIn", ("n1",)),)),)},
            {"r1": 1, "r2": 0, "r3": 1},
            id="its node affinity",
        ),
        pytest.param({"honors_affinity": False, "honors_taints": True}, {}, {"r1": 2, "r2": 0}, id="taints"),
        pytest.param(
            {"honors_affinity": False, "honors_taints": True},
            {"tolerations": (Toleration("", "Exists"),)},
            {"r1": 2, "r2": 0, "r3": 1},
            id="tolerated taints",
        ),
        pytest.param(
            {"honors_affinity": False}, {"spreads": (Spread(ZONE, 1, WEB),)}, {"r1": 2, "r2": 0}, id="the keys of all spreads"
        ),
    ],
)
def test_domains(spread: dict[str, Any], pod: dict[str, Any], expected: dict[str, int]) -> None:
    others = (
        Bystander("b1", {RACK: "r1", ZONE: "b"}, (running(), running(namespace="x"))),
        Bystander("b2", {RACK: "r3"}, (running(),), (Taint("k", "NoSchedule"),)),
    )
    first = Spread(RACK, 1, WEB, **spread)
    pod_set = job(**{**pod, "spreads": (first, *pod.get("spreads", ()))})
    assert Neighbours(racks(running(), bystanders=others), [pod_set]).domains(0, 0) == expected
