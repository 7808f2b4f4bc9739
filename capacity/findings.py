"""What was looked at for a gang, and what kept it from each: one finding an offering, one for all nodes of one verdict."""

from collections.abc import Iterable, Iterator

from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, shortage, slots
from capacity.model import Finding, Gang, Node, Offering, PodSet, Preferences, Snapshot

MOST = 40


def considered(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> list[Finding]:
    """At most `MOST` findings, those that could hold most first."""
    pod_sets = _pod_sets(gang)
    nodes: dict[str, list[int]] = {}
    for node in snapshot.nodes:
        where = host(node)
        detail = barred(node, gang, snapshot.now, preferences) or verdict(pod_sets, where)
        nodes.setdefault(detail or "free", []).append(0 if detail else _holds(pod_sets, where, 1))
    found = [Finding(f"{len(held)} node{'s' if len(held) > 1 else ''}", detail, sum(held)) for detail, held in nodes.items()]
    found += [_offering(pod_sets, gang, snapshot, offering, preferences) for offering in snapshot.offerings]
    return sorted(found, key=lambda one: (-one.pods, one.subject, one.detail))[:MOST]


def usable(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> frozenset[str]:
    """Names of the offerings and nodes on which at least one pod of the gang could go now, topology apart."""
    pod_sets = _pod_sets(gang)
    nodes = (n.name for n in snapshot.nodes if not barred(n, gang, snapshot.now, preferences) and not verdict(pod_sets, host(n)))
    offerings = (
        offering.name
        for offering in snapshot.offerings
        if not closed(offering, gang, snapshot.now, preferences)
        and not verdict(pod_sets, new_host(offering, snapshot.topology_keys))
    )
    return frozenset((*nodes, *offerings))


def prepaid_misfits(gang: Gang, snapshot: Snapshot, preferences: Preferences, missing: int) -> str:
    """What prepaid capacity is free but does not suit the gang, in words, if there is enough of it for `missing` pods; else
    "".
    """
    pod_sets = _pod_sets(gang)
    misfits = list(_misfits(pod_sets, gang, snapshot, preferences))
    room = sum(count * max(1, held) for count, held, _ in misfits)
    if not missing or room < missing:
        return ""
    merged: dict[str, int] = {}
    for count, _, why in misfits:
        merged[why] = merged.get(why, 0) + count
    total = sum(merged.values())
    why = ", ".join(f"{count} of {detail}" for detail, count in sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:4])
    return f"{total} prepaid nodes are free but do not suit: {why}"


def verdict(pod_sets: Iterable[PodSet], where: Host) -> str:
    """Why no pod set of the gang can put even one pod there, by the first filter that fails; "" when one can."""
    reasons: list[str] = []
    for pod_set in pod_sets:
        why = refusal(pod_set, where) or shortage(pod_set, where)
        if not why:
            return ""
        reasons.append(f"{pod_set.name}: {why}")
    return "; ".join(reasons)


def _misfits(pod_sets: list[PodSet], gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Iterator[tuple[int, int, str]]:
    """(nodes, pods that one would hold by size alone, subject and why) of prepaid capacity that is free but can't be used."""
    for offering in snapshot.offerings:
        if offering.capacity_type.prepaid and offering.available > 0:
            where = new_host(offering, snapshot.topology_keys)
            why = closed(offering, gang, snapshot.now, preferences) or verdict(pod_sets, where)
            if why:
                yield offering.available, _largest(pod_sets, where), f"{offering.reservation or offering.name} ({why})"
    for node in snapshot.nodes:
        idle = node.booked_by is None and node.ready and not node.unschedulable and not _busy(node)
        if idle and node.capacity_type is not None and node.capacity_type.prepaid:
            why = barred(node, gang, snapshot.now, preferences) or verdict(pod_sets, host(node))
            if why:
                yield 1, _largest(pod_sets, host(node)), f"{node.reservation or node.pool} ({why})"


def _busy(node: Node) -> bool:
    """Whether devices of the node are in use: what is taken of extended resources isn't free, whatever its shape."""
    return any("/" in name and amount for name, amount in node.requested.items())


def _largest(pod_sets: Iterable[PodSet], where: Host) -> int:
    return max((slots(needs(pod_set), where.free) for pod_set in pod_sets), default=0)


def _offering(pod_sets: list[PodSet], gang: Gang, snapshot: Snapshot, offering: Offering, preferences: Preferences) -> Finding:
    where = new_host(offering, snapshot.topology_keys)
    why = closed(offering, gang, snapshot.now, preferences) or verdict(pod_sets, where)
    if why:
        return Finding(offering.name, why)
    pods = _holds(pod_sets, where, offering.available)
    return Finding(offering.name, f"{offering.available} of {offering.total} available, room for {pods} pods", pods)


def _holds(pod_sets: Iterable[PodSet], where: Host, count: int) -> int:
    """Pods of the gang that `count` such nodes could hold, of the pod set that suits them best."""
    return max((min(one.count, slots(needs(one), where.free) * count) for one in pod_sets if not refusal(one, where)), default=0)


def _pod_sets(gang: Gang) -> list[PodSet]:
    return [pod_set for pod_set in gang.pod_sets if pod_set.count > 0]
