"""Whether any rule looks at the labels of a gang's pods: if none does, gangs that differ in them alone have the same plan."""

from capacity.index.fleet import stock_of
from capacity.model import Gang, PodSet, Snapshot
from capacity.requirements import PodTerm

Watchers = tuple[PodTerm, ...]


def watchers(snapshot: Snapshot) -> Watchers:
    """The anti-affinity terms of all pods that run or are to come, each once."""
    beside = (term for one in snapshot.bystanders for pod in one.pods for term in pod.apart)
    return tuple(dict.fromkeys((*stock_of(snapshot).fleet.terms(), *beside)))


def seen(gang: Gang, by: Watchers) -> str:
    """What rules may see of the gang's pods: their namespaces and labels, "" when no rule looks at them."""
    if not any(_looks(each) or any(term.selects(each.namespace, each.labels) for term in by) for each in gang.pod_sets):
        return ""
    return repr([(each.namespace, sorted(each.labels.items())) for each in gang.pod_sets])


def _looks(pod_set: PodSet) -> bool:
    """Whether the pods mind each other or what runs already."""
    return bool(pod_set.near or pod_set.apart or pod_set.spreads or pod_set.exclusive)
