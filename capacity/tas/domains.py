"""Kueue's topology assignment, step by step: count what fits in each domain, find the level, take the fewest domains, descend.

The behaviour is that of Kueue v0.17.0, pkg/cache/scheduler/tas_flavor_snapshot.go, under its default feature gates
(TASProfileMixed on; balanced placement, multi-layer topology and elastic workloads off), with hosts as the lowest level and no
failed node to replace. Its errors are part of it: capacity/tas/guarantee.py tells a right placement from a wrong one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from capacity.fit import Host
from capacity.model import Slices
from capacity.tas.room import PODS, Ask, Domain, Placement, RefusalError, Request, Tree, Usage, fill, grow


def simulate(requests: Sequence[Request], hosts: Iterable[Host], levels: Sequence[str]) -> Placement:
    """Pods by host by pod set as Kueue would write them, be it a right placement or not; raises RefusalError when it refuses.

    `levels` are label keys from the widest to the hostname; a host that lacks one is none of Kueue's. `free` of a host includes
    `pods`. Hostnames and host names are unique.
    """
    tree = grow(hosts, levels)
    placed: Placement = {}
    used: dict[str, dict[str, int]] = {}
    for group in _groups(requests):
        workers, *leader = sorted(group, key=lambda one: -one.count)
        found = _place(tree, levels, workers, leader[0] if leader else None, used)
        for one in group:
            placed[one.name] = found[one.name]
            _assume(used, one, found[one.name])
    return placed


def _groups(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """The pod sets of each group, in the order of the first of each; one of more than two pod sets is refused."""
    groups: dict[str, list[Request]] = {}
    for number, request in enumerate(requests):
        groups.setdefault(request.group or str(number), []).append(request)
    for group in groups.values():
        if len(group) > 2:
            raise RefusalError(group[0].name, 0, group[0].count, f"Kueue can't place {len(group)} pod sets in one group")
        yield group


def _assume(used: dict[str, dict[str, int]], one: Request, placed: Mapping[str, int]) -> None:
    """Take off what pods placed before will use. As in Kueue that leaves out `pods`."""
    for host, count in placed.items():
        taken = used.setdefault(host, {})
        for name, amount in one.requests.items():
            if name != PODS:
                taken[name] = taken.get(name, 0) + amount * count


def _place(tree: Tree, levels: Sequence[str], workers: Request, leader: Request | None, used: Usage) -> Placement:
    ask = _ask(workers, leader, levels)
    fill(tree, ask, used)
    level, chosen = _find(tree, ask, ask.level)
    chosen = _trim(chosen, ask.workers.count, ask.leaders, ask, sliced=True)
    for _ in range(level, ask.slice_level):
        below = _sorted((child for domain in chosen for child in domain.children), ask)
        chosen = _trim(below, ask.workers.count, ask.leaders, ask, sliced=True)
    for _ in range(max(level, ask.slice_level), len(levels) - 1):
        chosen = [
            child
            for domain in chosen
            for child in _trim(_sorted(domain.children, ask), domain.pods, domain.leaders, ask, sliced=False)
        ]
    if leader is None:
        return {workers.name: _counts((domain.host, domain.pods) for domain in chosen)}
    return {
        leader.name: _counts((domain.host, domain.leaders) for domain in chosen),
        workers.name: _counts((domain.host, domain.pods) for domain in chosen if domain.pods > 0),
    }


def _counts(given: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for host, pods in given:
        if pods:
            counts[host] = counts.get(host, 0) + pods
    return dict(sorted(counts.items()))


def _ask(workers: Request, leader: Request | None, levels: Sequence[str]) -> Ask:
    """Slices without a level start at the widest and count as unconstrained."""
    slices = workers.slices or Slices(levels[-1], 1)
    named = workers.required or workers.preferred
    key = named or (levels[0] if workers.slices else levels[-1])
    for wanted in (key, slices.topology_key):
        if wanted not in levels:
            raise RefusalError(workers.name, 0, workers.count, f"Kueue's topology has no level {wanted}")
    level, slice_level = levels.index(key), levels.index(slices.topology_key)
    if level > slice_level:
        raise RefusalError(workers.name, 0, workers.count, f"Kueue wants slices at or below {key}, not at {slices.topology_key}")
    return Ask(workers, leader, slices.size, level, slice_level, not named)


# ---- which domains, and how much in each


def _find(tree: Tree, ask: Ask, level: int) -> tuple[int, list[Domain]]:
    """The level at which to place, from the wanted one up, and the domains there that suffice, in the order of filling."""
    wanted = ask.workers.count // ask.size
    if not tree[level]:
        raise RefusalError(ask.workers.name, 0, wanted, f"Kueue knows no node for {ask.workers.name}")
    domains = sorted(tree[level], key=lambda domain: (-domain.leaders, *_order(domain, ask, domain.led_slices, domain.led_pods)))
    if ask.loose:
        one = next((domain for domain in domains if domain.slices >= wanted), None)
        return level, [one] if one is not None else _several(domains, ask, wanted)
    one = domains[0]
    if one.led_slices >= wanted and one.leaders >= ask.leaders:
        one = _pick(domains, ask, wanted, "led_slices")
    if one.led_slices >= wanted and one.leaders >= ask.leaders:
        return level, [one]
    if ask.workers.required:
        raise RefusalError(ask.workers.name, one.slices, wanted)
    return _find(tree, ask, level - 1) if level > 0 else (level, _several(domains, ask, wanted))


def _several(domains: list[Domain], ask: Ask, wanted: int) -> list[Domain]:
    """First domains for the leader, then those of most room for the rest (of least, when unconstrained)."""
    chosen: list[Domain] = []
    left, leaders, taken = wanted, ask.leaders, 0
    while leaders > 0 and taken < len(domains) and domains[taken].leaders > 0:
        chosen.append(_pick(domains[taken:], ask, left, "led_slices"))
        leaders -= chosen[-1].leaders
        left -= chosen[-1].led_slices
        taken += 1
    if leaders > 0:
        raise RefusalError(ask.workers.name, ask.leaders - leaders, wanted)
    rest = _sorted(domains[taken:], ask)
    for number in range(len(rest)):
        if left <= 0:
            break
        chosen.append(_pick(rest[number:], ask, left, "slices"))
        left -= chosen[-1].slices
    if left > 0:
        raise RefusalError(ask.workers.name, wanted - left, wanted)
    return chosen


def _trim(domains: Sequence[Domain], pods: int, leaders: int, ask: Ask, *, sliced: bool) -> list[Domain]:
    """Give domains their part, in order, until all `pods` and `leaders` have one; if that never comes, none is given at all.

    Counts in slices down to the level of slices, in pods below it.
    """
    size = ask.size if sliced else 1
    own = "slices" if sliced else "pods"
    left = pods // size
    given: list[Domain] = []
    for number, first in enumerate(domains):
        room = f"led_{own}" if leaders > 0 else own
        domain = _pick(domains[number:], ask, left, room) if first.leaders >= leaders else first
        given.append(domain)
        domain.leaders = domain.leaders if leaders > 0 else 0
        if getattr(domain, room) >= left and domain.leaders >= leaders:
            setattr(domain, own, left)
            domain.leaders, domain.pods = leaders, left * size
            return given
        part = _sliced_part if sliced else _pod_part
        left, leaders = part(domain, left, leaders, size)
    return []


def _sliced_part(domain: Domain, left: int, leaders: int, size: int) -> tuple[int, int]:
    """Fill a domain that does not suffice; how many slices and leaders remain."""
    if leaders > 0:
        domain.led_slices = min(domain.led_slices, left)
        domain.leaders = min(domain.leaders, leaders)
    part = domain.led_slices if leaders > 0 else domain.slices
    domain.pods = part * size
    return left - part, leaders - domain.leaders


def _pod_part(domain: Domain, left: int, leaders: int, _: int) -> tuple[int, int]:
    """As `_sliced_part`, but for pods. Kueue forgets the leader of such a domain and gives it no fewer workers for it."""
    if leaders == 0:
        return left - domain.pods, 0
    left, leaders = left - domain.led_pods, leaders - domain.leaders
    domain.led_pods = min(domain.led_pods, left)
    domain.leaders = min(domain.leaders, leaders)
    return left, leaders


def _pick(domains: Sequence[Domain], ask: Ask, needed: int, room: str) -> Domain:
    """The first domain or, if it has all that is needed and room counts, the one with the least room that has."""
    if ask.loose or getattr(domains[0], room) < needed:
        return domains[0]
    return min((domain for domain in domains if getattr(domain, room) >= needed), key=lambda domain: int(getattr(domain, room)))


def _sorted(domains: Iterable[Domain], ask: Ask) -> list[Domain]:
    return sorted(domains, key=lambda domain: _order(domain, ask, domain.slices, domain.pods))


def _order(domain: Domain, ask: Ask, slices: int, pods: int) -> tuple[int, int, tuple[str, ...]]:
    """Most slices first (least, when unconstrained), then fewest pods left over, then by name."""
    return (slices if ask.loose else -slices, pods, domain.values)
