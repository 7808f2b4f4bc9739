"""Whether kube-scheduler would let one pod on one node that is there, every other node standing by: its filters, one by one."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from capacity.fit import host, kept_off, refusal, shortage
from capacity.model import Node, PodSet, Snapshot
from capacity.neighbours import Neighbours
from capacity.requirements import Spread, Taint

_CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class Answer(StrEnum):
    FIT = "fit"
    NO_FIT = "no fit"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is "" for a fit, else the first thing that stands in the way, for people."""

    answer: Answer
    reason: str = ""


def verdict(pod_set: PodSet, node: Node, snapshot: Snapshot) -> Verdict:
    """Whether one pod of the set goes on a node of the snapshot as things are, by the filters of kube-scheduler 1.36.3's default
    profile. A booking's taint counts as any other here, and so does cordoning, which a pod may tolerate
    (nodeunschedulable/node_unschedulable.go); readiness plays no part.
    """
    if unclear := (*pod_set.undecidable, *pod_set.awaits):
        return Verdict(Answer.UNDECIDABLE, "; ".join(unclear))
    why = next((why for why in _obstacles(pod_set, node, snapshot) if why), "")
    return Verdict(Answer.NO_FIT if why else Answer.FIT, why)


def _obstacles(pod_set: PodSet, node: Node, snapshot: Snapshot) -> Iterator[str]:
    """What each filter says in turn, "" when it lets the pod through."""
    where = host(node)
    yield "cordoned" if node.unschedulable and kept_off((_CORDON,), pod_set) else ""
    yield kept_off(node.taints, pod_set)
    yield refusal(pod_set, where)
    yield shortage(pod_set, where)
    around = Neighbours(snapshot, (pod_set,))
    yield around.refusal(0, node.labels)
    for index, spread in enumerate(pod_set.spreads):
        yield _uneven(pod_set, spread, around.domains(0, index), node)


def _uneven(pod_set: PodSet, spread: Spread, counts: dict[str, int], node: Node) -> str:
    """Why one more pod would spread them too unevenly; fewer domains than asked for count as an empty one more."""
    value = node.labels[spread.topology_key]
    least = min(counts.values()) if counts and len(counts) >= spread.min_domains else 0
    own = spread.selector is not None and spread.selector.selects(pod_set.labels)
    skew = counts.get(value, 0) + own - least
    if skew <= spread.max_skew:
        return ""
    return f"spread over {spread.topology_key}: {skew} more in {value} than in the emptiest domain, at most {spread.max_skew}"
