"""Cases by seed and number: each has one main feature, often a second in passing, and sizes at the edge of what fits."""

from collections.abc import Callable, Mapping
from random import Random

from bench.agreement import demands, filters, gangs, neighbours, oracle
from bench.agreement.cases import Case, PodSet, Probe, without_cordoned
from bench.agreement.draft import RACK, ZONE, Amounts, Draft, write_request
from bench.agreement.truth.reach import TooBigError
from bench.agreement.truth.reading import sites

FEATURES: Mapping[str, Callable[[Draft], None]] = {
    "resources": demands.resources,
    "init-containers": demands.init_containers,
    "overhead": demands.overhead,
    "pod-level": demands.pod_level,
    "pods-count": demands.pods_count,
    "extended": demands.extended,
    "node-selector": filters.node_selector,
    "node-affinity": filters.node_affinity,
    "match-fields": filters.match_fields,
    "taints": filters.taints,
    "cordon": filters.cordon,
    "startup-taints": gangs.startup_taints,
    "host-ports": demands.host_ports,
    "pod-affinity": neighbours.pod_affinity,
    "pod-anti-affinity": neighbours.pod_anti_affinity,
    "symmetric-anti-affinity": neighbours.symmetric_anti_affinity,
    "exclusive": neighbours.exclusive,
    "spread": neighbours.spread,
    "volumes": filters.volumes,
    "daemon-sets": gangs.daemon_sets,
    "several-pod-sets": gangs.several_pod_sets,
    "required-level": gangs.required_level,
    "slices": gangs.slices,
    "purchases": gangs.purchases,
}
_LIGHT = tuple(name for name in FEATURES if name not in ("slices", "cordon", "startup-taints"))
MOST_PODS = 8
_ATTEMPTS, _HOPELESS = 4, 25
_EFFORT = 20_000
_PROMISED = {"several-pod-sets": 60, "slices": 95, "spread": 60}
"""With these more fits in some order than can be promised in any: the percentage of cases that are drawn at the latter edge."""


Free = Mapping[str, Mapping[str, int]]
"""What is free on each node and on one to be bought of each offering, DaemonSets off: by its name and by resource."""


def generate(seed: int, number: int) -> Case:
    """The case of this number. All numbers together go through the features in turn; of the cases that can't fit with even one
    pod, most are made anew.
    """
    for attempt in range(_ATTEMPTS):
        rng = Random(f"{seed}/{number}/{attempt}")
        found = _made(rng, seed, number)
        room = _room(found, promised=rng.randrange(100) < _PROMISED.get(found.features[0], 0))
        if room or rng.randrange(100) < _HOPELESS:
            break
    found.pod_sets[0].count = _count(rng, room, found.pod_sets[0])
    return found


def _made(rng: Random, seed: int, number: int) -> Case:
    names = list(FEATURES)
    chosen = [names[number % len(names)]]
    if rng.randrange(100) < 40:
        chosen.append(rng.choice([name for name in _LIGHT if name not in chosen]))
    draft = _base(rng, several="several-pod-sets" in chosen)
    for name in sorted(chosen, key=names.index):
        FEATURES[name](draft)
    found = Case(
        features=chosen,
        nodes=list(draft.nodes.values()),
        pod_sets=draft.sets,
        pods=draft.pods,
        others=draft.others,
        daemon_sets=draft.daemon_sets,
        offerings=draft.offerings,
        topology_keys=[ZONE, RACK],
        seed=f"{seed}/{number}",
    )
    free = {site.offering or site.name: site.room for site in sites(found, {one.name: 1 for one in draft.offerings})}
    for pod_set in draft.sets:
        _size(draft, free, pod_set.name)
    found.probes = _probes(draft)
    return found


def _base(rng: Random, *, several: bool) -> Draft:
    """Two to four nodes, some partly filled, and one pod set, seldom two."""
    draft = Draft(rng)
    for _ in range(rng.choice((2, 3, 3, 4))):
        name = draft.add_node()
        if draft.chance(50):
            draft.run(name, {"cpu": rng.choice((1, 100, 250, 333)), "memory": rng.choice((1, 64 << 20, 10**8))})
    gangs.add_set(draft)
    if not several and draft.chance(12):
        gangs.add_set(draft)
    return draft


def _size(draft: Draft, free: Free, name: str) -> None:
    """Requests that fill the free room of some node in whole slots, or miss it by one unit; and a count near what there is."""
    rng, pod_set = draft.rng, draft.pod_set(name)
    form = draft.forms.get(name, rng.choice(("plain", "plain", "two", "rounded")))
    ask = _ask(draft, free, name)
    spec = pod_set.template["spec"]
    if form != "nothing":
        write_request(rng, spec, ask, "plain" if "initContainers" in spec else form)
    pod_set.count = rng.choice((1, 1, 2)) if pod_set is not draft.sets[0] else 1


def _ask(draft: Draft, free: Free, name: str) -> Amounts:
    """One resource is at the edge of a node (or offering), the others are small, or follow the feature."""
    rng = draft.rng
    ask = {"cpu": rng.choice((1, 50, 100)), "memory": rng.choice((1, 1 << 20, 10**6))} | draft.asks.get(name, {})
    new = [offering.name for offering in draft.offerings]
    there = free[rng.choice(new if new and draft.chance(60) else sorted(draft.nodes))]
    edge = rng.choice(("cpu", "cpu", "cpu", "memory"))
    slots = rng.choice((1, 1, 2, 3))
    extra = _overhead(draft, name).get(edge, 0)
    ask[edge] = max(1, there.get(edge, 0) // slots + rng.choice((0, 0, 0, 1, 1, -1)) - extra)
    return ask


def _overhead(draft: Draft, name: str) -> Amounts:
    """What the pod set's RuntimeClass adds."""
    if "runtimeClassName" not in draft.pod_set(name).template["spec"]:
        return {}
    fixed = next(each["overhead"]["podFixed"] for each in draft.others if each["kind"] == "RuntimeClass")
    return {"cpu": 250, **({"memory": 100 << 20} if "memory" in fixed else {})}


def _step(pod_set: PodSet) -> int:
    return int(pod_set.template["metadata"].get("annotations", {}).get("corral.dev/slice-size", 1))


def _room(case: Case, *, promised: bool) -> int:
    """How many pods the first pod set may have at most, by the oracle, the others being as they are; 0 if it can't have any.

    With `promised` as many as can be had in whatever order the scheduler takes them, else in some order.
    """
    first, usable = case.pod_sets[0], without_cordoned(case)
    most = 0
    for count in range(_step(first), MOST_PODS + 1, _step(first)):
        usable.pod_sets[0].count = count
        if not (_promised(usable) if promised else oracle.feasible(usable)):
            break
        most = count
    first.count = max(most, _step(first))
    return most


def _promised(case: Case) -> bool:
    try:
        return oracle.cheapest_steered(case, _EFFORT).cost is not None
    except TooBigError:
        return False


def _count(rng: Random, room: int, first: PodSet) -> int:
    """All that fits, or a pod (a slice) more than that; in the rest of the cases, less."""
    step = _step(first)
    chance = rng.randrange(100)
    if chance < 70 or not room:
        return max(step, room) + (step if chance >= 40 or not room else 0)
    return rng.randrange(step, room + 1, step)


def _probes(draft: Draft) -> list[Probe]:
    """One pod on one node, twice; and one pod that may choose."""
    names = [pod_set.name for pod_set in draft.sets]
    pinned = [Probe(draft.rng.choice(names), draft.name_of_node()) for _ in range(2)]
    unique = {(probe.pod_set, probe.node): probe for probe in [*pinned, Probe(draft.rng.choice(names))]}
    return list(unique.values())
