"""The judge itself: by the scheduler's rules worked out by hand, and against its own definition, by trying every single move."""

from itertools import product
from typing import Any

import pytest

from bench.agreement import oracle
from bench.agreement.cases import HOSTNAME, ID, REQUIRED_LEVEL, Case, Offering, PodSet, container, node, pod, template
from bench.agreement.oracle import GROUP, SLICE_LEVEL, SLICE_SIZE
from bench.agreement.truth import reach
from bench.agreement.truth.amounts import exact, pod_amounts
from bench.agreement.truth.assign import within_levels
from bench.agreement.truth.matching import blocked, holds, on_node, selected
from bench.agreement.truth.reading import world as world_of
from bench.optimality.instances import instance

ZONE = f"zone.{ID}"
GPU = "example.com/gpu"
ROLE = {"matchLabels": {"role": "worker"}}


def host(name: str, gpus: int = 8, zone: str = "", **labels: str) -> dict[str, Any]:
    return node(name, {GPU: str(gpus), "cpu": "64", "pods": "10"}, {**({ZONE: zone} if zone else {}), **labels})


def gang(*sets: PodSet, nodes: list[dict[str, Any]], **more: Any) -> Case:
    return Case(features=[], nodes=nodes, pod_sets=list(sets), topology_keys=[ZONE], **more)


def workers(count: int, gpus: int = 1, *, name: str = "worker", **spec: Any) -> PodSet:
    return PodSet(name, count, template({GPU: str(gpus)}, {"role": name}, **spec))


def between(kind: str, key: str, selector: dict[str, Any] = ROLE) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def over(key: str, skew: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": ROLE, **more}]


# --- amounts and matching: scheduler.md 1.3 to 1.5 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        pytest.param("100m", 100, id="milli"),
        pytest.param("1.5", 1500, id="decimal"),
        pytest.param("1Gi", 1024**3 * 1000, id="binary"),
        pytest.param("1G", 10**12, id="thousands"),
        pytest.param("2e3", 2_000_000, id="exponent"),
        pytest.param("999001u", 1000, id="rounds-up-to-thousandths"),
        pytest.param(3, 3000, id="number"),
    ],
)
def test_quantity(text: str | int, thousandths: int) -> None:
    assert exact(text) * 1000 == thousandths


@pytest.mark.parametrize("text", ["", "m", "1.2.3", "1 Gi", "1ki"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        exact(text)


def cpus(main: str | None, *inits: tuple[str, bool], level: dict[str, Any] | None = None) -> dict[str, Any]:
    early = [container({"cpu": amount}, **({"restartPolicy": "Always"} if stays else {})) for amount, stays in inits]
    more = {"resources": level} if level else {}
    return {"containers": [container({"cpu": main} if main else {})], "initContainers": early, **more}


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        pytest.param(cpus("3", ("4", False), ("2", True), ("8", False)), 10_000, id="an-init-beside-the-sidecar-before-it"),
        pytest.param(cpus("3", ("8", False), ("2", True)), 8000, id="an-init-before-the-sidecar"),
        pytest.param(cpus("3", ("2", True), ("1", True)), 6000, id="sidecars-add-up"),
        pytest.param(cpus("500001u"), 501, id="no-part-of-a-milli-core"),
        pytest.param(cpus("1", level={"requests": {"cpu": "2"}}), 2000, id="pod-level-request"),
        pytest.param(cpus(None, level={"limits": {"cpu": "2"}}), 2000, id="pod-level-limit-where-nobody-asks"),
        pytest.param(cpus("1", level={"limits": {"cpu": "2"}}), 1000, id="pod-level-limit-where-a-container-asks"),
    ],
)
def test_cpu_of_a_pod(spec: dict[str, Any], milli: int) -> None:
    assert pod_amounts(spec)["cpu"] == milli


def test_limits_stand_for_requests_and_overhead_is_added() -> None:
    spec = {"containers": [{"resources": {"limits": {"memory": "1Ki", GPU: "1"}, "requests": {"memory": "1"}}}]}
    assert pod_amounts(spec, {"memory": "1k"}) == {"memory": 1001, GPU: 1, "pods": 1}


@pytest.mark.parametrize(
    ("operator", "values", "label", "answer"),
    [
        pytest.param("In", ["a"], None, False, id="in-absent"),
        pytest.param("NotIn", ["a"], None, True, id="not-in-absent"),
        pytest.param("NotIn", ["a"], "a", False, id="not-in"),
        pytest.param("Exists", [], "", True, id="exists-empty"),
        pytest.param("DoesNotExist", [], None, True, id="does-not-exist"),
        pytest.param("Gt", ["6"], "007", True, id="leading-zeros-are-a-number"),
        pytest.param("Gt", ["7"], "007", False, id="not-greater-than-itself"),
        pytest.param("Lt", ["8"], None, False, id="absent-is-not-less"),
        pytest.param("Gt", ["6"], "7_0", False, id="underscore"),
        pytest.param("Lt", ["9223372036854775807"], "9223372036854775808", False, id="beyond-64-bits"),
    ],
)
def test_operator(operator: str, values: list[str], label: str | None, answer: bool) -> None:
    labels = {} if label is None else {"gen": label}
    assert holds({"key": "gen", "operator": operator, "values": values}, labels) is answer


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert (selected(None, {"a": "b"}), selected({}, {"a": "b"})) == (False, True)


@pytest.mark.parametrize(
    ("terms", "answer"),
    [
        pytest.param([{}], False, id="an-empty-term-matches-nothing"),
        pytest.param([], False, id="no-terms-match-nothing"),
        pytest.param([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], True, id="any-term"),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}], False, id="not-by-name"
        ),
    ],
)
def test_node_affinity(terms: list[dict[str, Any]], answer: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert on_node({"affinity": {"nodeAffinity": required}}, "n", {}) is answer


@pytest.mark.parametrize(
    ("taint", "toleration", "answer"),
    [
        pytest.param({"effect": "PreferNoSchedule"}, {"key": "other"}, False, id="a-preference-blocks-nobody"),
        pytest.param({"effect": "NoExecute"}, {"key": "t"}, False, id="any-effect"),
        pytest.param({"effect": "NoExecute"}, {"key": "t", "effect": "NoSchedule"}, True, id="another-effect"),
        pytest.param({"effect": "NoSchedule", "value": "a"}, {"key": "t"}, True, id="another-value"),
        pytest.param({"effect": "NoSchedule", "value": "a"}, {"operator": "Exists"}, False, id="everything"),
    ],
)
def test_taint(taint: dict[str, Any], toleration: dict[str, Any], answer: bool) -> None:
    assert blocked([{"key": "t", **taint}], [toleration]) is answer


# --- what can be reached: scheduler.md 1.6 to 1.8 -----------------------------------------------------------------------------

TWO = [host("a", 4, "z0"), host("b", 4, "z1")]
FEASIBLE = [
    pytest.param(gang(workers(8), nodes=TWO), True, id="exactly-full"),
    pytest.param(gang(workers(9), nodes=TWO), False, id="one-too-many"),
    pytest.param(gang(workers(2, 3), workers(2, name="small"), nodes=TWO), True, id="two-pod-sets-fill-both"),
    pytest.param(gang(workers(3, 3), nodes=TWO), False, id="fragments-do-not-add-up"),
    pytest.param(gang(workers(3, affinity=between("podAntiAffinity", HOSTNAME)), nodes=TWO), False, id="a-host-each"),
    pytest.param(gang(workers(2, affinity=between("podAntiAffinity", HOSTNAME)), nodes=TWO), True, id="two-hosts-for-two"),
    pytest.param(gang(workers(5, affinity=between("podAffinity", ZONE)), nodes=TWO), False, id="all-in-the-first-pods-zone"),
    pytest.param(gang(workers(4, affinity=between("podAffinity", ZONE)), nodes=TWO), True, id="one-zone-is-enough"),
    pytest.param(
        gang(workers(1, affinity=between("podAffinity", ZONE, {"matchLabels": {"role": "nobody"}})), nodes=TWO),
        False,
        id="nobody-to-follow",
    ),
    pytest.param(
        gang(workers(4, topologySpreadConstraints=over(ZONE)), nodes=[host("a", 3, "z0"), host("b", 1, "z1")]),
        False,
        id="the-full-zone-keeps-the-other-from-more",
    ),
    pytest.param(
        gang(workers(3, topologySpreadConstraints=over(ZONE)), nodes=[host("a", 3, "z0"), host("b", 1, "z1")]), True, id="skew-1"
    ),
    pytest.param(
        gang(workers(2, topologySpreadConstraints=over(ZONE, minDomains=3)), nodes=TWO), True, id="one-each-above-a-minimum-of-0"
    ),
    pytest.param(
        gang(workers(3, topologySpreadConstraints=over(ZONE, minDomains=3)), nodes=TWO), False, id="too-few-domains-to-go-on"
    ),
    pytest.param(
        gang(workers(2, topologySpreadConstraints=over(ZONE)), nodes=[host("a", 3, "z0"), host("b", 0, "z1")]),
        True,
        id="marks-leave-out-the-zone-without-room",
    ),
    pytest.param(
        gang(workers(4, topologySpreadConstraints=over(ZONE, minDomains=2, labelSelector={})), nodes=TWO[:1]),
        True,
        id="an-empty-selector-counts-nobody-but-itself",
    ),
    pytest.param(
        gang(
            workers(2, topologySpreadConstraints=over(ZONE, nodeAffinityPolicy="Ignore")),
            nodes=[host("a", 3, "z0"), host("b", 0, "z1")],
        ),
        False,
        id="not-where-the-constraint-ignores-marks",
    ),
]


@pytest.mark.parametrize(("case", "answer"), FEASIBLE)
def test_feasible(case: Case, answer: bool) -> None:
    assert oracle.feasible(case) is answer


def full(name: str, zone: str, role: str = "worker") -> tuple[dict[str, Any], dict[str, Any]]:
    """A node without room, and the pod that takes it."""
    return host(name, 1, zone), pod(f"on-{name}", template({GPU: "1"}, {"role": role}), node_name=name)


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        pytest.param(ROLE, True, id="a-marked-node-without-room-raises-the-minimum"),
        pytest.param({"matchLabels": {"role": "worker", "case": "other"}}, True, id="who-does-not-count-itself"),
        pytest.param({"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["other"]}]}, True, id="by-expression"),
        pytest.param({"matchLabels": {"case": ID}}, True, id="others-count-too"),
    ],
)
def test_two_of_a_spread_in_one_zone_beside_a_full_one(selector: dict[str, Any], answer: bool) -> None:
    node_, running = full("b", "z1")
    rules = over(ZONE, minDomains=2, labelSelector=selector)
    case = gang(workers(2, topologySpreadConstraints=rules), nodes=[host("a", 2, "z0"), node_], pods=[running])
    assert oracle.feasible(case) is answer


def test_the_full_zone_does_not_count_without_its_mark() -> None:
    """With one zone fewer than minDomains the minimum is 0: one pod and no more."""
    node_, running = full("b", "z1")
    rules = over(ZONE, minDomains=2)
    case = gang(workers(2, topologySpreadConstraints=rules), nodes=[host("a", 2, "z0"), node_], pods=[running])
    answers = [oracle.survives(case, marking) for marking in ([("a", frozenset({"worker"}))], both("worker"))]
    assert answers == [False, True]


def test_labels_that_match_label_keys_adds() -> None:
    """Only pods of the same version count, of which the running one isn't."""
    node_, running = full("b", "z1")
    rules = over(ZONE, minDomains=2, matchLabelKeys=["version"])
    asking = workers(2, topologySpreadConstraints=rules)
    asking.template["metadata"]["labels"]["version"] = "2"
    assert oracle.feasible(gang(asking, nodes=[host("a", 2, "z0"), node_], pods=[running])) is False


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        pytest.param({}, False, id="its-own-namespace"),
        pytest.param({"namespaces": ["b"]}, True, id="by-name"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "b"}}}, True, id="by-label"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "c"}}}, False, id="of-another-team"),
        pytest.param({"namespaceSelector": {}}, True, id="all"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}, True, id="by-the-label-of-its-name"
        ),
    ],
)
def test_namespaces_of_a_term(where: dict[str, Any], answer: bool) -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"role": "lead"}}, **where}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lead = pod("lead", template(labels={"role": "lead"}), node_name="a", namespace="b")
    space = {"kind": "Namespace", "metadata": {"name": "b", "labels": {"team": "b"}}}
    case = gang(workers(1, affinity=affinity), nodes=TWO, pods=[lead], others=[space])
    assert oracle.fits(case, "worker", "a") is answer


def test_host_network_makes_a_host_port_of_every_port() -> None:
    asking = PodSet("worker", 2, template(hostNetwork=True))
    asking.template["spec"]["containers"] = [container(ports=[{"containerPort": 29500}])]
    answers = [oracle.feasible(gang(asking, nodes=nodes)) for nodes in (TWO, TWO[:1])]
    assert answers == [True, False]


@pytest.mark.parametrize(
    ("volume", "labels", "answer"),
    [
        pytest.param({}, {}, [True, True, True], id="from-everywhere"),
        pytest.param({"nodeAffinity": ["z0"]}, {}, [True, False, False], id="node-affinity"),
        pytest.param({}, {"topology.kubernetes.io/zone": "v0"}, [True, False, True], id="a-node-without-zones-is-not-asked"),
        pytest.param({}, {"topology.kubernetes.io/zone": "v0__v1"}, [True, True, True], id="two-zones"),
        pytest.param({}, {"failure-domain.beta.kubernetes.io/zone": "v1"}, [False, True, True], id="the-old-label"),
    ],
)
def test_volumes(volume: dict[str, Any], labels: dict[str, str], answer: list[bool]) -> None:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": volume.get("nodeAffinity", [])}]}]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if volume else {}
    others = [
        {"kind": "PersistentVolume", "metadata": {"name": "pv", "labels": labels}, "spec": spec},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": ID}, "spec": {"volumeName": "pv"}},
    ]
    zones = [{"topology.kubernetes.io/zone": "v0"}, {"topology.kubernetes.io/zone": "v1"}, {}]
    nodes = [host(name, 4, f"z{number}", **zones[number]) for number, name in enumerate("abc")]
    asking = workers(1, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    case = gang(asking, nodes=nodes, others=others)
    assert [oracle.fits(case, "worker", name) for name in "abc"] == answer


def test_alike_nodes_to_be_bought_share_evenly_where_they_must() -> None:
    offering = Offering("o", node("", {GPU: "2", "pods": "9"}), 2)
    answers = [oracle.feasible(gang(workers(count), nodes=[], offerings=[offering])) for count in (4, 5)]
    assert answers == [True, False]


def test_pod_sets_of_one_level_share_its_domain_unless_grouped_apart() -> None:
    first, second = workers(4), workers(4, name="second")
    case = gang(first, second, nodes=TWO)
    first.template["metadata"]["annotations"] = {REQUIRED_LEVEL: ZONE}
    second.template["metadata"]["annotations"] = {REQUIRED_LEVEL: ZONE}
    assert oracle.feasible(case) is False
    second.template["metadata"]["annotations"][GROUP] = "apart"
    assert oracle.feasible(case) is True


def test_a_search_that_is_too_big_says_so() -> None:
    assert oracle.feasible(gang(workers(8), nodes=TWO), limit=2) is None
    assert oracle.survives(gang(workers(8), nodes=TWO), [("a", frozenset({"worker"}))], limit=2) is None


@pytest.mark.parametrize(
    ("annotations", "answer"),
    [
        pytest.param({REQUIRED_LEVEL: ZONE}, False, id="no-zone-has-room-for-six"),
        pytest.param({SLICE_LEVEL: ZONE, SLICE_SIZE: "3"}, True, id="slices-of-three"),
        pytest.param({SLICE_LEVEL: ZONE, SLICE_SIZE: "6"}, False, id="one-slice-of-six"),
    ],
)
def test_levels_and_slices(annotations: dict[str, str], answer: bool) -> None:
    case = gang(workers(6), nodes=[host("a", 4, "z0"), host("b", 4, "z1"), host("c", 8)])
    case.pod_sets[0].template["metadata"]["annotations"] = annotations
    assert oracle.feasible(case) is answer


@pytest.mark.parametrize(
    ("mine", "theirs", "answer"),
    [
        pytest.param({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True, id="two-addresses"),
        pytest.param({}, {"hostIP": "10.0.0.2"}, False, id="every-address"),
        pytest.param({"protocol": "UDP"}, {}, True, id="another-protocol"),
    ],
)
def test_ports_of_running_pods(mine: dict[str, Any], theirs: dict[str, Any], answer: bool) -> None:
    port = {"containerPort": 80, "hostPort": 80}
    running = template()
    running["spec"]["containers"] = [container(ports=[{**port, **theirs}])]
    asking = PodSet("worker", 1, template())
    asking.template["spec"]["containers"] = [container(ports=[{**port, **mine}])]
    assert oracle.fits(gang(asking, nodes=TWO, pods=[pod("r", running, node_name="a")]), "worker", "a") is answer


def test_a_running_pod_keeps_those_out_that_it_will_not_bear() -> None:
    running = template(labels={"role": "rival"}, affinity=between("podAntiAffinity", ZONE))
    case = gang(workers(1), nodes=[*TWO, host("c", 4, "z0")], pods=[pod("r", running, node_name="a")])
    assert [oracle.fits(case, "worker", name) for name in "abc"] == [False, True, False]


def test_a_cordoned_node_takes_only_who_tolerates_it() -> None:
    cordoned = node("a", {GPU: "1", "pods": "1"}, cordoned=True)
    tolerating = workers(1, name="bold", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    case = gang(workers(1), tolerating, nodes=[cordoned])
    assert [oracle.fits(case, name, "a") for name in ("worker", "bold")] == [False, True]
    assert oracle.feasible(gang(tolerating, nodes=[cordoned])) is False, "no gang is planned on it all the same"


# --- what can be promised -----------------------------------------------------------------------------------------------------


def both(*names: str) -> list[tuple[str, frozenset[str]]]:
    return [("a", frozenset(names)), ("b", frozenset(names))]


def test_two_shapes_that_share_nodes_may_be_put_badly() -> None:
    """Two pods of 4 devices may halve both nodes, and leave no room for one of 8 (scheduler.md 5.6)."""
    case = gang(workers(2, 4), workers(1, 8, name="big"), nodes=[host("a"), host("b")])
    assert oracle.survives(case, both("worker", "big")) is False
    assert oracle.stuck(case, both("worker", "big")) == {"a": {"worker": 1}, "b": {"worker": 1}}
    assert oracle.survives(case, [("a", frozenset({"worker"})), ("b", frozenset({"big"}))]) is True
    ends = {oracle.random_greedy(case, both("worker", "big"), seed) for seed in range(30)}
    assert ends == {True, False}


def test_what_follows_its_first_pod_needs_every_zone_to_hold_all() -> None:
    case = gang(workers(4, affinity=between("podAffinity", ZONE)), nodes=[host("a", 4, "z0"), host("b", 2, "z1")])
    assert oracle.survives(case, both("worker")) is False
    assert oracle.survives(case, [("a", frozenset({"worker"}))]) is True


def test_least_costs() -> None:
    """One large node at 5 is cheaper than two small ones at 3; without the free node all three are needed."""
    sets = (workers(2, 4), workers(1, 8, name="big"))
    offers = [
        Offering("large", node("", {GPU: "8", "pods": "9"}), 1, 5),
        Offering("small", node("", {GPU: "4", "pods": "9"}), 2, 3),
    ]
    case = gang(*sets, nodes=[host("a")], offerings=offers)
    assert oracle.cheapest(case) == 5
    promise = oracle.cheapest_steered(case)
    assert promise.cost == 5
    assert oracle.survives(case, promise.marking)
    assert oracle.cheapest(gang(*sets, nodes=[], offerings=offers)) == 11
    assert oracle.cheapest(gang(*sets, nodes=[], offerings=offers[1:])) is None


def test_luck_is_cheaper_than_a_promise() -> None:
    """5 and 3 devices twice on two nodes of 8: any order might put 3 and 3 together."""
    sets = (workers(2, 5), workers(2, 3, name="small"))
    offer = Offering("more", node("", {GPU: "6", "pods": "9"}), 1, 7)
    case = gang(*sets, nodes=[host("a"), host("b")], offerings=[offer])
    assert oracle.cheapest(case) == 0
    promise = oracle.cheapest_steered(case)
    assert promise.cost == 7
    assert oracle.survives(case, promise.marking)


def test_bought_nodes_come_with_daemons_and_without_passing_taints() -> None:
    taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "starting", "effect": "NoExecute"}]
    offered = node("", {GPU: "4", "pods": "5"}, taints=taints)
    form = template({GPU: "1"}, tolerations=[{"key": "corral.dev/booked", "operator": "Exists"}])
    daemon = {"metadata": {"name": "agent", "namespace": ID}, "spec": {"template": form}}
    offering = Offering("o", offered, 1, startup_taints=["starting"])

    def most() -> int:
        cases = [gang(workers(count), nodes=[], offerings=[offering], daemon_sets=[daemon]) for count in range(1, 5)]
        return sum(oracle.feasible(case) is True for case in cases)

    assert most() == 3
    form["spec"]["tolerations"] = []
    assert most() == 4, "no booked node takes this DaemonSet's pods"
    offering.startup_taints.clear()
    assert most() == 0


def test_no_order_may_break_a_slice() -> None:
    case = gang(workers(4), nodes=[host("a", 4, "z0"), host("b", 4, "z1")])
    case.pod_sets[0].template["metadata"]["annotations"] = {SLICE_LEVEL: ZONE, SLICE_SIZE: "2"}
    assert oracle.survives(case, both("worker")) is False
    assert oracle.survives(case, [("a", frozenset({"worker"}))]) is True


# --- against the definition -----------------------------------------------------------------------------------------------------


def by_definition(case: Case) -> bool:
    """Some purchases, some marks, some single moves one after the other that bind all pods."""
    for counts in product(*(range(offering.limit + 1) for offering in case.offerings)):
        world = world_of(case, {each.name: count for each, count in zip(case.offerings, counts, strict=True)})
        for allowed in within_levels(world, oracle._levels(case)):
            options = [_subsets(sorted(sites)) if rules else [sites] for sites, rules in zip(allowed, world.spreads, strict=True)]
            if any(_path(world, marks, oracle._goal(case, world)) for marks in product(*options)):
                return True
    return False


def _subsets(sites: list[int]) -> list[frozenset[int]]:
    return [
        frozenset(n for n, taken in zip(sites, chosen, strict=True) if taken) for chosen in product((0, 1), repeat=len(sites))
    ]


def _path(world: Any, marks: Any, goal: Any) -> bool:
    seen, stack = {world.start}, [world.start]
    while stack:
        state = stack.pop()
        if reach.complete(world, state) and goal(state):
            return True
        fresh = set(reach.moves(world, state, marks)) - seen
        seen |= fresh
        stack += fresh
    return False


@pytest.mark.parametrize("number", range(120))
def test_agrees_with_trying_every_move(number: int) -> None:
    case = instance(3, number).case
    for pod_set in case.pod_sets:
        pod_set.count = min(pod_set.count, 3)
    assert oracle.feasible(case) is by_definition(case)


@pytest.mark.parametrize("number", range(60))
def test_promises_hold_and_cost_no_less_than_luck(number: int) -> None:
    case = instance(4, number).case
    promise, least = oracle.cheapest_steered(case), oracle.cheapest(case)
    if promise.cost is not None:
        assert least is not None
        assert least <= promise.cost
        assert all(oracle.random_greedy(case, promise.marking, seed) for seed in range(20))
    else:
        assert (least is None) == (oracle.feasible(case) is False)
