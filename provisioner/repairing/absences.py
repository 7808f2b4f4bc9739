"""Nodes that were there before and on which the booking's pods can't run any more, the pure part: since when, why, and when they
count as lost. The times are those of machines: a node may come back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from kube.ours import AbsentNode, BookedNode, BookingStatus
from kube.times import length, stamp
from provisioner.steps import SeenNode, Verdict, View


@dataclass(frozen=True, slots=True)
class Absence:
    """Why no pod can run there, and after how many seconds without interruption the node counts as lost; in `doubt` only its
    condition says something then.
    """

    words: str
    patience: int = 0
    doubt: bool = False


def noted(view: View) -> BookingStatus:
    """The status with the taken nodes that are absent now. One that isn't seen and not known to be gone stays as it was."""
    known = {each.name: each for each in view.status.absent}
    absent = tuple(_noted(view, planned, known.get(planned.name)) for planned in view.spec.nodes)
    found = tuple(each for each in absent if each)
    return view.status if found == view.status.absent else replace(view.status, absent=found)


def _noted(view: View, planned: BookedNode, old: AbsentNode | None) -> AbsentNode | None:
    if not _gone(view, planned) and planned.name not in view.seen.nodes:
        return old
    why = _absence(view, planned)
    if why is None:
        return None
    same = old is not None and old.message == why.words
    return old if same else AbsentNode(name=planned.name, since=stamp(view.now), message=why.words)


def lost(view: View) -> list[BookedNode]:
    """The taken nodes that are given up for lost."""
    return [planned for planned, why in _long_absent(view) if not why.doubt]


def doubted(view: View) -> list[str]:
    """Names of the taken nodes that would be given up for lost if it weren't for so many others."""
    return [planned.name for planned, why in _long_absent(view) if why.doubt]


def _long_absent(view: View) -> Iterator[tuple[BookedNode, Absence]]:
    since = {each.name: each.since for each in view.status.absent}
    absences = ((planned, _absence(view, planned)) for planned in view.spec.nodes if planned.name in since)
    return ((planned, why) for planned, why in absences if why and view.age(since[planned.name]) >= why.patience)


def words(view: View) -> list[str]:
    """`node n1 is gone` for each lost one."""
    why = {each.name: each.message for each in view.status.absent}
    return [f"node {each.name} {why[each.name]}" for each in lost(view)]


def beyond_repair(view: View) -> str:
    """Why the gang can't begin any more: what was lost, and that nothing stood in for it in time; "" if it may."""
    since = {each.name: each.since for each in view.status.absent}
    allowed = view.seen.sought.seconds
    if view.used or not any(view.age(since[each.name]) >= allowed for each in lost(view)):
        return ""
    unfound = f": {view.seen.sought.unfound}" if view.seen.sought.unfound else ""
    return f"{'; '.join(words(view))}; nothing took its place within {length(allowed)}{unfound}"


def standing_in(view: View) -> list[str]:
    """Names of the nodes that came in place of lost ones and are not as they should be yet."""
    nodes = ((each, view.seen.nodes.get(each.name)) for each in view.spec.nodes if each.since)
    return [each.name for each, node in nodes if not (node and sound(node) and settled(view, each))]


def own(view: View) -> set[str]:
    """Names of the taken nodes that are there, as the machines that were planned, without keys of others."""
    nodes = ((each, view.seen.nodes.get(each.name)) for each in view.spec.nodes)
    return {each.name for each, node in nodes if node and not node.others and not _gone(view, each)}


def sound(node: SeenNode) -> bool:
    """Whether it is marked and as promised."""
    return node.marked and node.verdict is Verdict.SOUND


def settled(view: View, planned: BookedNode) -> bool:
    """Whether it was chosen long enough ago for pods that the scheduler was binding there to be seen."""
    return view.age(planned.since) > view.terms.settle


def _gone(view: View, planned: BookedNode) -> bool:
    """Its name is free, or another machine bears it."""
    node = view.seen.nodes.get(planned.name)
    another = node is not None and planned.provider_id and node.provider_id != planned.provider_id
    return planned.name in view.seen.gone or bool(another)


def _absence(view: View, planned: BookedNode) -> Absence | None:
    node = view.seen.nodes.get(planned.name)
    if _gone(view, planned):
        return Absence("is gone", view.terms.absent)
    if node is None:
        return None
    if not node.ready and not node.doubted:
        return Absence("is not Ready", view.terms.lost)
    if node.notice and _leaving(view, node):
        return Absence(f"is about to end: {node.notice.words}")
    in_use = view.seen.consumers.get(node.name, 0) > 0
    if node.verdict is Verdict.SICK and not in_use:
        return Absence(f"is unhealthy: {node.words}")
    free = planned.since or (node.others and not node.touched)
    taken = _taken(view, planned, node) if free and not in_use else None
    in_doubt = Absence("is not Ready, and the network is in doubt", view.terms.lost, doubt=True) if node.doubted else None
    return taken or in_doubt


def _taken(view: View, planned: BookedNode, node: SeenNode) -> Absence | None:
    """A node that came later was idle when it was chosen: somebody may have been faster. Or ours lost our marks to others."""
    if node.others:
        return Absence(f"belongs to booking {', '.join(node.others)}")
    return Absence("was filled before it was marked") if settled(view, planned) and not node.holds else None


# --- nodes that were given up ------------------------------------------------------------------------------------------------


def left_silent(view: View) -> set[str]:
    """Those that were given up for lost and are not Ready still: they must not come back to be booked just like that. In doubt
    that can wait.
    """
    return {node.name for node in _former(view) if not node.ready and not node.doubted}


def released(view: View) -> tuple[str, ...]:
    """Those that were given up for lost and that the booking lets go of, without pods of it: they are well again, or quarantined,
    and then their pool's to end.
    """
    free = (node for node in _former(view) if not view.seen.consumers.get(node.name))
    return tuple(node.name for node in free if node.quarantined or _well(view, node))


def _well(view: View, node: SeenNode) -> bool:
    """One whose end is announced is so until its drain begins: each node of a capacity block has such a notice."""
    return node.ready and node.verdict is not Verdict.SICK and not _leaving(view, node)


def _leaving(view: View, node: SeenNode) -> bool:
    return node.notice is not None and node.notice.begun(view.now)


def _former(view: View) -> Iterator[SeenNode]:
    nodes = (view.seen.nodes.get(each.name) for each in view.spec.former)
    return (node for node in nodes if node and node.touched)
