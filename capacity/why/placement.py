"""What a gang asks of the places of its pods with respect to each other, and how far the largest domains get."""

from collections.abc import Iterator, Sequence

from capacity.model import HOSTNAME, ZONE, Exclusive, PodSet, Slices, Snapshot
from capacity.topology import required_key
from capacity.why.lots import Survey
from capacity.why.rooms import by_domain, together

MOST_DOMAINS = 4


def asks(seen: Survey, snapshot: Snapshot, *, levels_alone: bool) -> Iterator[str]:
    """The required levels, then the rules: where `levels_alone` are in the way, only if some domain has room by count, for then
    it is a rule that keeps the pods from it.
    """
    found = list(_levels(seen, snapshot))
    yield from (text for text, _ in found)
    if not levels_alone or any(roomy for _, roomy in found):
        yield from rules(seen)


def _levels(seen: Survey, snapshot: Snapshot) -> Iterator[tuple[str, bool]]:
    """For each required level: how many pods it must hold and the domain that holds most; whether that is enough by count."""
    bound: dict[tuple[str, str], list[int]] = {}
    for index, pod_set in enumerate(seen.pod_sets):
        if key := required_key(pod_set, seen.preferences):
            bound.setdefault((key, pod_set.topology_group), []).append(index)
    for (key, _), indexes in sorted(bound.items()):
        wanted = sum(seen.pod_sets[index].count for index in indexes)
        rooms = together(seen, indexes, key)
        if not rooms:
            known = any(lot.where[key] is not None for lot in seen.lots)
            none = (
                "none has room for any" if known else f"nothing that can be had is known to carry that label; {_here(snapshot)}"
            )
            yield f"needs {wanted} pods in one {key}; {none}", False
            continue
        name, room = max(rooms.items(), key=lambda item: (item[1], item[0]))
        also = "" if room < wanted else _by_count(seen, indexes)
        yield f"needs {wanted} pods in one {key}; largest has room for {room} ({name}){also}", room >= wanted


def _by_count(seen: Survey, indexes: Sequence[int]) -> str:
    """What the count of a domain's room leaves out."""
    if len(indexes) > 1:
        return f" if each of the {len(indexes)} pod sets had it to itself"
    return " but for the rules among its pods" if next(rules(seen), None) else ", but not for all of them together"


def _here(snapshot: Snapshot) -> str:
    """The levels of which domains are known."""
    nodes, offerings = snapshot.nodes, snapshot.offerings
    found = [
        key
        for key in dict.fromkeys((ZONE, *snapshot.topology_keys))
        if any(key in node.labels for node in nodes) or any(key in each.domain or key in each.shape.labels for each in offerings)
    ]
    return f"levels here are {', '.join((*found, HOSTNAME))}"


def rules(seen: Survey) -> Iterator[str]:
    """What keeps pods apart, near each other or in equal parts."""
    for index, pod_set in enumerate(seen.pod_sets):
        yield from _apart(seen, index, pod_set)
        yield from _even(seen, index, pod_set)
        yield from _units(seen, index, pod_set.name, pod_set.slices, "slices", "each")
        yield from _units(seen, index, pod_set.name, pod_set.exclusive, "units", "each alone")
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
        told, least = "", f" and minDomains {spread.min_domains}" * (spread.min_domains > 1)
        if spread.topology_key != HOSTNAME:
            rooms = sorted(by_domain(seen, index, spread.topology_key).items(), key=lambda one: (one[1], one[0]))
            told = f"; least room: {', '.join(f'{name} {room}' for name, room in rooms[:MOST_DOMAINS])}" if rooms else "; no room"
        yield f"{pod_set.name}: spread over {spread.topology_key} with maxSkew {spread.max_skew}{least}{told}"


def _units(seen: Survey, index: int, name: str, rule: Slices | Exclusive | None, what: str, how: str) -> Iterator[str]:
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
    yield f"{name}: needs {-(-count // size)} {what} of {size} pod{'s' * (size > 1)}, {how} in one {rule.topology_key}{told}"
