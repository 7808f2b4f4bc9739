"""What a gang asks of the places of its pods with respect to each other, and how far the largest domains get."""

from collections.abc import Iterator

from capacity.lots import Survey
from capacity.model import HOSTNAME, Exclusive, PodSet, Slices
from capacity.rooms import by_domain, together
from capacity.topology import required_key

MOST_DOMAINS = 4


def levels(seen: Survey) -> Iterator[str]:
    """For each required level: how many pods it must hold, and the domain that holds most."""
    bound: dict[tuple[str, str], list[int]] = {}
    for index, pod_set in enumerate(seen.pod_sets):
        if key := required_key(pod_set, seen.preferences):
            bound.setdefault((key, pod_set.topology_group), []).append(index)
    for (key, _), indexes in sorted(bound.items()):
        wanted = sum(seen.pod_sets[index].count for index in indexes)
        rooms = together(seen, indexes, key)
        if not rooms:
            known = any(lot.where[key] is not None for lot in seen.lots)
            none = "none has room for any" if known else "nothing that can be had is known to carry that label"
            yield f"needs {wanted} pods in one {key}; {none}"
            continue
        name, room = max(rooms.items(), key=lambda item: (item[1], item[0]))
        also = "" if room < wanted else ", but not for all of them together"
        yield f"needs {wanted} pods in one {key}; largest has room for {room} ({name}){also}"


def rules(seen: Survey) -> Iterator[str]:
    """What keeps pods apart, near each other or in equal parts."""
    for index, pod_set in enumerate(seen.pod_sets):
        yield from _apart(seen, index, pod_set)
        yield from _even(seen, index, pod_set)
        yield from _units(seen, index, pod_set.name, pod_set.slices, "slices")
        yield from _units(seen, index, pod_set.name, pod_set.exclusive, "units, each alone")
        for term in pod_set.near:
            yield f"{pod_set.name}: has to be near other pods in one {term.topology_key} (pod affinity)"


def _apart(seen: Survey, index: int, pod_set: PodSet) -> Iterator[str]:
    for key in sorted({term.topology_key for term in pod_set.apart}):
        if key == HOSTNAME:
            yield f"{pod_set.name}: must not share a node with the pods that it names (pod anti-affinity)"
        else:
            count = len(by_domain(seen, index, key))
            yield f"{pod_set.name}: must not share a {key} with the pods that it names (pod anti-affinity); {count} have room"


def _even(seen: Survey, index: int, pod_set: PodSet) -> Iterator[str]:
    for spread in pod_set.spreads:
        told = ""
        if spread.topology_key != HOSTNAME:
            rooms = sorted(by_domain(seen, index, spread.topology_key).items(), key=lambda one: (one[1], one[0]))
            told = f"; least room: {', '.join(f'{name} {room}' for name, room in rooms[:MOST_DOMAINS])}" if rooms else "; no room"
        yield f"{pod_set.name}: spread over {spread.topology_key} with maxSkew {spread.max_skew}{told}"


def _units(seen: Survey, index: int, name: str, rule: Slices | Exclusive | None, what: str) -> Iterator[str]:
    """How many whole units the domains hold; of exclusive ones no more than one each."""
    if rule is None:
        return
    count = seen.pod_sets[index].count
    size = rule.size or count
    told = ""
    if rule.topology_key != HOSTNAME:
        holds = [room // size for room in by_domain(seen, index, rule.topology_key).values()]
        fit = sum(min(1, one) for one in holds) if isinstance(rule, Exclusive) else sum(holds)
        told = f"; there is room for {fit}"
    yield f"{name}: needs {-(-count // size)} {what} in one {rule.topology_key}, of {size} pods{told}"
