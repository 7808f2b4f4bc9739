"""What was looked at for a gang, and what kept it from each: one finding an offering, one for all nodes of one verdict."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, shortage, slots
from capacity.lens import Glimpse, Lens
from capacity.model import Finding, Gang, Node, Offering, PodSet, Preferences, Snapshot

MOST = 40


@dataclass(frozen=True, slots=True)
class Seen:
    """A node, or the `count` nodes that an offering has now. `why` tells what keeps the gang out, "" when nothing does;
    `pods` is how many of its pods go there; `size` how many would go on one by room alone, whatever else keeps them out.
    """

    subject: Node | Offering
    count: int
    why: str
    pods: int
    size: int


def survey(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> list[Seen]:
    """Every node and offering once, topology apart."""
    pod_sets = [pod_set for pod_set in gang.pod_sets if pod_set.count > 0]
    lens = Lens(pod_sets)
    known: dict[Glimpse, tuple[str, int, int]] = {}
    seen: list[Seen] = []
    for node in snapshot.nodes:
        key = lens.node(node)
        if key not in known:
            known[key] = _look(pod_sets, host(node), 1)
        why, pods, size = known[key]
        bar = barred(node, gang, snapshot.now, preferences)
        seen.append(Seen(node, 1, bar or why, 0 if bar else pods, size))
    for offering in snapshot.offerings:
        why, pods, size = _look(pod_sets, new_host(offering, snapshot.topology_keys), offering.available)
        bar = closed(offering, gang, snapshot.now, preferences)
        seen.append(Seen(offering, offering.available, bar or why, 0 if bar else pods, size))
    return seen


def considered(seen: Sequence[Seen]) -> list[Finding]:
    """At most `MOST` findings, those that could hold most first."""
    nodes: dict[str, list[int]] = {}
    for one in seen:
        if isinstance(one.subject, Node):
            nodes.setdefault(one.why or "free", []).append(one.pods)
    found = [Finding(f"{len(pods)} node{'s' if len(pods) > 1 else ''}", why, sum(pods)) for why, pods in nodes.items()]
    found += [_offering(one, one.subject) for one in seen if isinstance(one.subject, Offering)]
    return sorted(found, key=lambda one: (-one.pods, one.subject, one.detail))[:MOST]


def usable(seen: Sequence[Seen]) -> frozenset[str]:
    """Names of the offerings and nodes on which at least one pod of the gang could go now."""
    return frozenset(one.subject.name for one in seen if not one.why)


def prepaid_misfits(seen: Sequence[Seen], missing: int) -> str:
    """What prepaid capacity is free but does not suit, in words, if there is enough of it for `missing` pods; else ""."""
    misfits = [one for one in seen if one.why and _idle(one)]
    if not missing or sum(one.count * max(1, one.size) for one in misfits) < missing:
        return ""
    merged = Counter[str]()
    for one in misfits:
        merged[f"{_source(one.subject)} ({one.why})"] += one.count
    most = sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:4]
    return f"{merged.total()} prepaid nodes are free but do not suit: {', '.join(f'{count} of {what}' for what, count in most)}"


def _look(pod_sets: Sequence[PodSet], where: Host, count: int) -> tuple[str, int, int]:
    """Why no pod goes there, by the first filter that fails for each pod set; pods that go on `count` such nodes; size."""
    sizes = [slots(needs(pod_set), where.free) for pod_set in pod_sets]
    reasons = [refusal(pod_set, where) or shortage(pod_set, where) for pod_set in pod_sets]
    pods = [min(one.count, size * count) for one, size, why in zip(pod_sets, sizes, reasons, strict=True) if not why]
    why = "" if pods else "; ".join(f"{one.name}: {why}" for one, why in zip(pod_sets, reasons, strict=True))
    return why, max(pods, default=0), max(sizes, default=0)


def _idle(one: Seen) -> bool:
    """Prepaid and not in use: what others booked, or whose devices pods hold, isn't free, whatever its shape."""
    subject = one.subject
    if isinstance(subject, Offering):
        return subject.capacity_type.prepaid and subject.available > 0
    busy = any("/" in name and amount for name, amount in subject.requested.items())
    up = subject.booked_by is None and subject.ready and not subject.unschedulable
    return up and not busy and subject.capacity_type is not None and subject.capacity_type.prepaid


def _source(subject: Node | Offering) -> str:
    return subject.reservation or (subject.name if isinstance(subject, Offering) else subject.pool)


def _offering(one: Seen, offering: Offering) -> Finding:
    room = f"{offering.available} of {offering.total} available, room for {one.pods} pods"
    return Finding(offering.name, one.why or room, one.pods)
