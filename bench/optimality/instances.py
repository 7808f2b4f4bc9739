"""Instances of at most five nodes, there or to be bought, and eight pods; many have rules between pods, levels, a ceiling."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from bench.agreement.cases import HOSTNAME, ID, REQUIRED_LEVEL, Case, Json, Offering, PodSet, container, node, pod, template
from bench.agreement.oracle import SLICE_LEVEL, SLICE_SIZE

ZONE, RACK, GPU = f"zone.{ID}", f"rack.{ID}", "example.com/gpu"
MOST_SITES, MOST_PODS = 5, 8

_LEVELS = (ZONE, RACK, HOSTNAME)
_PRICES = (0, 0, 1_000_000, 1_000_000, 1_500_000, 2_500_000)


@dataclass
class Instance:
    """`ceiling` is in micro-dollars an hour."""

    case: Case
    ceiling: int | None = None


def instance(seed: int, number: int) -> Instance:
    rng = Random(f"{seed}/{number}")
    case = Case(features=[], nodes=[], pod_sets=_pod_sets(rng), topology_keys=[ZONE, RACK], seed=f"{seed}/{number}")
    _sites(rng, case)
    names = [name for name in sorted(RULES) if rng.randrange(100) < RULES[name][0]]
    for name in names:
        RULES[name][1](rng, case)
    ceiling = _ceiling(rng, case) if case.offerings and rng.randrange(100) < 25 else None
    case.features = [*(names or ["resources"]), *(["ceiling"] if ceiling is not None else [])]
    return Instance(case, ceiling)


def _pod_sets(rng: Random) -> list[PodSet]:
    sets, left = [], rng.choice((2, 3, 4, 5, 6, 7, MOST_PODS))
    for name in ("worker", "launcher", "parameter")[: rng.choice((1, 1, 2, 2, 2, 3))]:
        if not left:
            break
        count = rng.randrange(1, left + 1)
        left -= count
        requests = {GPU: str(rng.choice((1, 1, 2, 3, 4))), "cpu": f"{rng.choice((1, 2, 3))}"}
        sets.append(PodSet(name, count, template(requests, {"role": name})))
    return sets


def _sites(rng: Random, case: Case) -> None:
    """Nodes that are there, some partly filled; offerings for the rest, of which fewer may be had."""
    there = rng.randrange(MOST_SITES)
    for number in range(there):
        name = f"{ID}-n{number}"
        case.nodes.append(node(name, _room(rng), _place(rng)))
        if rng.randrange(100) < 30:
            taken = template({GPU: "1", "cpu": "1"}, {"role": rng.choice(("other", "worker"))})
            case.pods.append(pod(f"run{number}", taken, node_name=name))
    left = MOST_SITES - there
    while left and len(case.offerings) < 2:
        limit = rng.randrange(1, min(left, 3) + 1)
        left -= limit
        labels = {**_place(rng), "kind": f"o{len(case.offerings)}"}
        case.offerings.append(Offering(f"o{len(case.offerings)}", node("", _room(rng), labels), limit, rng.choice(_PRICES)))
        if rng.randrange(100) < 30:
            break


def _room(rng: Random) -> Json:
    return {GPU: str(rng.choice((2, 4, 4, 5, 6))), "cpu": str(rng.choice((3, 4, 5, 6, 8))), "pods": "110"}


def _place(rng: Random) -> Json:
    zone = rng.randrange(2)
    return {ZONE: f"z{zone}", RACK: f"z{zone}-r{rng.randrange(2)}"}


def _ceiling(rng: Random, case: Case) -> int:
    """What some purchase costs, or a micro-dollar less."""
    cost = sum(offering.price * rng.randrange(offering.limit + 1) for offering in case.offerings)
    return max(0, cost - rng.choice((0, 0, 1)))


# --- rules ----------------------------------------------------------------------------------------------------------------


def _level(rng: Random, case: Case) -> None:
    key = rng.choice((ZONE, RACK, RACK, HOSTNAME))
    for pod_set in case.pod_sets[: rng.choice((1, 3))]:
        pod_set.template["metadata"].setdefault("annotations", {})[REQUIRED_LEVEL] = key


def _slices(rng: Random, case: Case) -> None:
    for pod_set in [one for one in case.pod_sets if one.count % 2 == 0][:1]:
        notes = pod_set.template["metadata"].setdefault("annotations", {})
        notes |= {SLICE_LEVEL: rng.choice((ZONE, RACK, HOSTNAME)), SLICE_SIZE: "2"}


def _spread(rng: Random, case: Case) -> None:
    pod_set = rng.choice(case.pod_sets)
    selector = {"matchLabels": {"role": pod_set.name}} if rng.randrange(100) < 80 else {"matchLabels": {"case": ID}}
    rule = {"maxSkew": rng.choice((1, 1, 2)), "topologyKey": rng.choice(_LEVELS), "whenUnsatisfiable": "DoNotSchedule"}
    least = {"minDomains": rng.randrange(1, 4)} if rng.randrange(100) < 20 else {}
    pod_set.template["spec"]["topologySpreadConstraints"] = [{**rule, **least, "labelSelector": selector}]


def _apart(rng: Random, case: Case) -> None:
    _between(rng, case, "podAntiAffinity")


def _near(rng: Random, case: Case) -> None:
    _between(rng, case, "podAffinity")


def _between(rng: Random, case: Case, kind: str) -> None:
    """The pods of one pod set, with respect to its own or to another's."""
    pod_set, other = rng.choice(case.pod_sets), rng.choice(case.pod_sets)
    term = {"topologyKey": rng.choice(_LEVELS), "labelSelector": {"matchLabels": {"role": other.name}}}
    part = pod_set.template["spec"].setdefault("affinity", {})
    part[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _ports(rng: Random, case: Case) -> None:
    for pod_set in case.pod_sets[: rng.choice((1, 3))]:
        first = pod_set.template["spec"]["containers"][0]
        requests = first["resources"]["requests"]
        pod_set.template["spec"]["containers"][0] = container(requests, ports=[{"containerPort": 29500, "hostPort": 29500}])


def _selector(rng: Random, case: Case) -> None:
    pod_set = rng.choice(case.pod_sets)
    pod_set.template["spec"]["nodeSelector"][ZONE] = f"z{rng.randrange(2)}"


RULES: Mapping[str, tuple[int, Callable[[Random, Case], None]]] = {
    "level": (20, _level),
    "slices": (8, _slices),
    "spread": (14, _spread),
    "anti-affinity": (14, _apart),
    "affinity": (10, _near),
    "ports": (6, _ports),
    "node-selector": (8, _selector),
}
"""What a rule adds to a case, and in how many of a hundred cases it does."""
