"""Whether, and how often, a pod goes on one node: kube-scheduler's filters in their order, on a node or on one still to be
bought.

Host ports are counted as resources, so that one sum tells what fits together: a port of the node is `WHOLE`, of which a pod that
binds it on every address takes all, and one that binds a single address takes 1 and the one unit of that address.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacity.model import HOSTNAME, Gang, Labels, Node, Offering, PodSet, Preferences, Resources
from capacity.quantity import show
from capacity.requirements import HostPort, NodeSelectorTerm, Taint, affinity_matches, selector_misses, untolerated

BOOKED_TAINT = "corral.dev/booked"  # every gang that is admitted with a plan tolerates it
NEW = "<new>"  # name and hostname of a node that isn't there yet: no valid label value, so only NotIn and Exists match it
WHOLE = 1 << 16  # more addresses than pods on one node could ever bind
_PORT = "port "  # no name of a resource has a space
_ANY = "0.0.0.0"  # noqa: S104  # an address to compare with, nothing binds it


@dataclass(frozen=True, slots=True)
class Host:
    """What the scheduler's filters look at. `unknown` holds label keys whose values only a launch will tell."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    free: Resources
    unknown: frozenset[str] = frozenset()


def host(node: Node) -> Host:
    free = {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}
    return Host(node.name, node.labels, node.taints, free | ports_left(pod.ports for pod in node.pods))


def new_host(offering: Offering, topology_keys: Iterable[str]) -> Host:
    """A node as it will be once bought here, its DaemonSets running."""
    shape = offering.shape
    labels = {**shape.labels, **offering.domain, HOSTNAME: NEW}
    free = {name: amount - shape.overhead.get(name, 0) for name, amount in shape.allocatable.items()}
    free |= ports_left(pod.ports for pod in shape.pods)
    return Host(NEW, labels, shape.taints, free, frozenset(key for key in topology_keys if key not in labels))


def needs(pod_set: PodSet) -> dict[str, int]:
    """What one pod takes of each resource, itself as one pod and its host ports included; zero requests are never checked
    (noderesources/fit.go).
    """
    asked = {name: amount for name, amount in {"pods": 1, **pod_set.requests}.items() if amount > 0}
    return asked | _claims(pod_set.ports) if pod_set.ports else asked


def is_port(name: str) -> bool:
    """Whether a name in `needs` is a host port rather than a resource."""
    return name.startswith(_PORT)


def room(free: Mapping[str, int], name: str) -> int:
    """How much is free of a resource; of one that `free` doesn't name nothing, unless it is a host port: that one is whole."""
    amount = free.get(name)
    if amount is not None:
        return amount
    if not is_port(name):
        return 0
    return 1 if "@" in name else WHOLE


def ports_left(taken: Iterable[Sequence[HostPort]]) -> dict[str, int]:
    """What pods that bind these ports, one entry a pod, leave of each port that they touch."""
    left: dict[str, int] = {}
    for ports in taken:
        for name, amount in _claims(ports).items():
            left[name] = room(left, name) - amount
    return left


def slots(requests: Mapping[str, int], free: Mapping[str, int]) -> int:
    """How many identical pods fit at once in `free`."""
    return max(0, min(room(free, name) // amount for name, amount in requests.items()))


def together(requests: Sequence[Mapping[str, int]], counts: Sequence[int], free: Mapping[str, int]) -> bool:
    """Whether `counts[i]` pods of each `requests[i]` fit at once."""
    names = {name for one, count in zip(requests, counts, strict=True) if count for name in one}
    return all(
        sum(one.get(name, 0) * count for one, count in zip(requests, counts, strict=True)) <= room(free, name) for name in names
    )


def kept_off(taints: Iterable[Taint], pod_set: PodSet) -> str:
    """The first of the taints that the pod doesn't tolerate, in words; "" when it bears all."""
    taint = untolerated(taints, pod_set.tolerations)
    if taint is None:
        return ""
    return f"taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect} not tolerated"


def refusal(pod_set: PodSet, where: Host) -> str:
    """Why the filters turn the pod away whatever else runs there, "" when they don't: taints, then labels, as in the default
    profile.
    """
    if why := kept_off((taint for taint in where.taints if taint.key != BOOKED_TAINT), pod_set):
        return why
    missed = selector_misses(pod_set.node_selector, where.labels)
    if missed is not None:
        return _selector_refusal(missed, pod_set, where)
    if not affinity_matches(_certain(pod_set.affinity, where.unknown), where.labels, where.name):
        if lacking_level := next((key for key in pod_set.levels if key not in where.labels), None):
            return f"has no label {lacking_level}, a level of the topology by which Kueue places the pods"
        return "node affinity does not match" if pod_set.affinity else "node affinity has no term and matches nothing"
    if not all(affinity_matches(_certain(terms, where.unknown), where.labels, where.name) for terms in pod_set.volumes):
        return "a volume can't be reached from here"
    return ""


def shortage(pod_set: PodSet, where: Host) -> str:
    """The first resource of which not even one pod's worth is free, with numbers; "" when a pod fits."""
    for name, amount in sorted(needs(pod_set).items()):
        if (left := room(where.free, name)) < amount:
            return lacking(name, amount, left)
    return ""


def lacking(name: str, amount: int, left: int) -> str:
    """That less is `left` of a resource or port than the `amount` that one pod takes of it, in words."""
    return f"host {name} is taken" if is_port(name) else f"{name}: needs {show(name, amount)}, {show(name, max(0, left))} free"


def ends_too_soon(ends: int | None, gang: Gang, now: int) -> str:
    """Why capacity that goes away can't take the gang: an unknown run time never enters it."""
    if ends is None:
        return ""
    if gang.run_duration is None:
        return "ends, and the gang's run time is unknown"
    left = ends - now
    return f"ends in {max(0, left)} s, the gang runs {gang.run_duration} s" if gang.run_duration > left else ""


def barred(node: Node, gang: Gang, now: int, preferences: Preferences) -> str:
    """Why a node is out of the question for any gang, or for this one by the policy; "" when it may be used."""
    if node.booked_by is not None:
        return "booked"
    if not node.ready:
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    if node.capacity_type is not None and node.capacity_type not in preferences.capacity_order:
        return f"the policy does not use {node.capacity_type}"
    return ends_too_soon(node.ends, gang, now)


def closed(offering: Offering, gang: Gang, now: int, preferences: Preferences) -> str:
    """Why nothing may be bought of an offering now, whatever its shape; "" when something may."""
    if offering.capacity_type not in preferences.capacity_order:
        return f"the policy does not use {offering.capacity_type}"
    if offering.starts is not None and offering.starts > now:
        return f"starts in {offering.starts - now} s"
    if ended := ends_too_soon(offering.ends, gang, now):
        return ended
    if offering.available <= 0:
        return f"0 of {offering.total} available" + (f": {offering.unavailable}" if offering.unavailable else "")
    return ""


def _claims(ports: Sequence[HostPort]) -> dict[str, int]:
    """What a pod takes of the ports it binds: 0.0.0.0 conflicts with every address, two other addresses don't conflict
    (HostPortInfo.CheckConflict, k8s.io/kube-scheduler 0.36.3).
    """
    claims: dict[str, int] = {}
    for port in sorted(set(ports), key=lambda one: (one.protocol, one.port, one.address)):
        name = f"{_PORT}{port.protocol}/{port.port}"
        if port.address == _ANY:
            claims[name] = WHOLE
        else:
            claims[name] = min(WHOLE, claims.get(name, 0) + 1)
            claims[f"{name}@{port.address}"] = 1
    return claims


def _selector_refusal(key: str, pod_set: PodSet, where: Host) -> str:
    wanted = f"{key}={pod_set.node_selector[key]}"
    if key in where.unknown:
        return f"node selector asks for {wanted}, which is not known before launch"
    return f"node selector asks for {wanted}, here it is {where.labels.get(key, 'absent')}"


def _certain(terms: tuple[NodeSelectorTerm, ...] | None, unknown: frozenset[str]) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms that can be judged before launch: one on a label not yet known may turn out either way."""
    if terms is None or not unknown:
        return terms
    return tuple(term for term in terms if not any(e.key in unknown for e in term.expressions))
