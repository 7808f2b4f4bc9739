"""The places that were looked at, as a short list, and what follows from them for the reason."""

from collections import Counter
from collections.abc import Sequence

from capacity.fit import host, new_host, refusal
from capacity.index.standing import busy
from capacity.model import Constraint, Finding, Node, Offering
from capacity.why.lots import Lot, Survey

MOST = 40
_HELD = (Constraint.BOOKED, Constraint.NOT_AVAILABLE, Constraint.IN_USE)


def findings(seen: Survey) -> list[Finding]:
    """At most `MOST` findings, those that could hold most first."""
    nodes: dict[str, list[int]] = {}
    best: dict[str, tuple[int, Lot]] = {}
    for lot in seen.lots:
        each = _pods(seen, lot)
        if isinstance(lot.subject, Node):
            for why, count in lot.whys.items():
                held = nodes.setdefault(why or "free", [0, 0])
                held[0] += count
                held[1] += count * each
        elif lot.subject.name not in best or each * lot.count > best[lot.subject.name][0]:
            best[lot.subject.name] = each * lot.count, lot
    found = [(-pods, f"{count} node{'s' if count > 1 else ''}", why) for why, (count, pods) in nodes.items()]
    found += [_offering(*best[name]) for name in sorted(best, key=lambda name: (-best[name][0], name))[:MOST]]
    return [Finding(subject, detail, -pods) for pods, subject, detail in sorted(found)[:MOST]]


def prepaid_misfits(seen: Survey, missing: int) -> str:
    """What prepaid capacity is free but does not suit, in words, if there is enough of it for `missing` pods; else ""."""
    misfits = [lot for lot in seen.lots if not lot.usable and _idle(lot)]
    if not missing or sum(lot.count * max(1, *(one.size for one in lot.verdicts)) for lot in misfits) < missing:
        return ""
    merged = Counter[str]()
    for lot in misfits:
        for why, count in lot.whys.items():
            merged[f"{_source(lot.subject)} ({why})"] += count
    largest = sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:4]
    return (
        f"{merged.total()} prepaid nodes are free but do not suit: {', '.join(f'{count} of {what}' for what, count in largest)}"
    )


def held(seen: Survey, lot: Lot, keys: Sequence[str]) -> bool:
    """Whether a pod would go there if others didn't hold it: what keeps nodes from every gang hides what keeps this one off.
    `keys` are the topology keys of the snapshot.
    """
    where = host(lot.subject) if isinstance(lot.subject, Node) else new_host(lot.subject, keys)
    return any(
        one.constraint in _HELD and one.whole and not refusal(pod_set, where)
        for one, pod_set in zip(lot.verdicts, seen.pod_sets, strict=True)
    )


def _idle(lot: Lot) -> bool:
    """Prepaid and not in use: what others booked, or whose devices pods hold, isn't free, whatever its shape."""
    subject = lot.subject
    if subject.capacity_type is None or not subject.capacity_type.prepaid:
        return False
    if isinstance(subject, Offering):
        return lot.verdicts[0].constraint not in (Constraint.NOT_AVAILABLE, Constraint.LIMIT)
    return subject.booked_by is None and subject.ready and not subject.unschedulable and not busy(subject)


def _source(subject: Node | Offering) -> str:
    return subject.reservation or (subject.name if isinstance(subject, Offering) else subject.pool)


def _offering(pods: int, best: Lot) -> tuple[int, str, str]:
    """Told by the nodes of it that could hold most; pods count down."""
    offering = best.subject
    assert isinstance(offering, Offering)
    if best.verdicts[0].constraint is Constraint.NOT_AVAILABLE:
        why = f": {offering.unavailable}" if offering.unavailable else ""
        return 0, offering.name, f"0 of {offering.total} available{why}"
    [why] = best.whys  # all nodes of one offering are alike
    return -pods, offering.name, why or f"{best.count} of {offering.total} available, room for {pods} pods"


def _pods(seen: Survey, lot: Lot) -> int:
    """Pods that go on a node of the lot, of the pod set of which most do; a node never counts for more than there are."""
    return max(min(one.pods, pod_set.count) for one, pod_set in zip(lot.verdicts, seen.pod_sets, strict=True))
