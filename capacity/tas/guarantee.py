"""Whether Kueue's topology-aware scheduling places a plan's pods: its own algorithm on the plan's nodes, and its answer checked.

Checked, because Kueue v0.17.0 errs (pkg/cache/scheduler/tas_flavor_snapshot.go):
- pods that earlier pod sets of a workload were given count with their requests, but not against a node's `pods`;
- host ports are never looked at;
- a leader is placed by its workers' node selector, its own is never looked at;
- a domain of which one child has nothing to lose to a leader is thought to lose nothing to it;
- below the level of slices, the leader of a domain whose workers need several children is forgotten.
"""

from collections.abc import Iterable, Iterator, Sequence

from capacity.fit import Host, needs, together
from capacity.model import PodSet, Resources
from capacity.tas.domains import simulate
from capacity.tas.guises import TooManyError, guises
from capacity.tas.room import PODS, Placement, RefusalError, Request

__all__ = ["Placement", "Request", "assign", "guaranteed"]


def assign(requests: Sequence[Request], hosts: Sequence[Host], levels: Sequence[str]) -> Placement | str:
    """Pods by host by pod set if Kueue places all of them, only where they may run, and within the room there is; else what is
    wrong. Arguments as for `simulate`.
    """
    return _checked(requests, [{PODS: 1, **one.requests} for one in requests], hosts, levels)


def guaranteed(pod_sets: Sequence[PodSet], places: Sequence[tuple[Host, frozenset[str]]], levels: Sequence[str]) -> str:
    """Why Kueue might not place all pods of the pod sets that it places, "" when it surely does.

    `pod_sets` are in the workload's order. `places` are the nodes with the names of the pod sets that each is marked for; one
    whose hostname is no valid label value is not there yet. What only time will tell is tried in every way (tas_guises.py), so
    that "" is a proof; where there are too many ways, that is what is wrong. Inter-pod rules are not looked at.
    """
    mine = [one for one in pod_sets if one.placed_by_kueue and one.count > 0]
    others = [one.name for one in pod_sets if not one.placed_by_kueue and one.count > 0]
    if mine and others:
        return f"Kueue places {mine[0].name}, but not {others[0]}"
    requests = [_request(one, places) for one in mine]
    wanted = [needs(one) for one in mine]
    try:
        for hosts in guises([host for host, _ in places], levels, requests):
            found = _checked(requests, wanted, hosts, levels)
            if isinstance(found, str):
                return found
    except TooManyError as error:
        return f"it can't be told where Kueue places the pods: {error}"
    return ""


def _request(one: PodSet, places: Iterable[tuple[Host, frozenset[str]]]) -> Request:
    marked = frozenset(host.name for host, names in places if one.name in names)
    preferred = None if one.required_topology else one.preferred_topology
    requests = {name: amount for name, amount in one.requests.items() if amount}
    return Request(one.name, one.count, requests, marked, one.required_topology, preferred, one.slices, one.topology_group)


def _checked(
    requests: Sequence[Request], wanted: Sequence[Resources], hosts: Sequence[Host], levels: Sequence[str]
) -> Placement | str:
    try:
        placed = simulate(requests, hosts, levels)
    except RefusalError as refusal:
        return str(refusal)
    return next(_flaws(requests, wanted, placed, hosts), placed)


def _flaws(requests: Sequence[Request], wanted: Sequence[Resources], placed: Placement, hosts: Iterable[Host]) -> Iterator[str]:
    for one in requests:
        given = placed[one.name]
        if sum(given.values()) != one.count or any(pods < 0 for pods in given.values()):
            yield f"Kueue places {sum(given.values())} of {one.count} pods of {one.name}"
        if stray := sorted(given.keys() - one.hosts):
            yield f"Kueue sends {one.name} to {stray[0]}, which does not admit it"
    for host in hosts:
        counts = [placed[one.name].get(host.name, 0) for one in requests]
        if not together(wanted, counts, host.free):
            yield f"Kueue sends more pods to {host.name} than fit"
