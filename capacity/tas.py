"""Whether Kueue's topology-aware scheduling places a plan's pods: its own algorithm on the plan's nodes, and its answer checked.

Checked, because Kueue v0.17.0 errs (pkg/cache/scheduler/tas_flavor_snapshot.go):
- pods that earlier pod sets of a workload were given count with their requests, but not against a node's `pods`;
- a leader is placed by its workers' node selector, its own is never looked at;
- a domain of which one child has nothing to lose to a leader is thought to lose nothing to it;
- below the level of slices, the leader of a domain whose workers need several children is forgotten.
"""

from collections.abc import Iterable, Iterator, Sequence

from capacity.fit import Host, together
from capacity.tas_domains import PODS, Placement, RefusalError, Request, simulate

__all__ = ["Placement", "Request", "assign"]


def assign(requests: Sequence[Request], hosts: Sequence[Host], levels: Sequence[str]) -> Placement | str:
    """Pods by host by pod set if Kueue places all of them, only where they may run, and within the room there is; else what is
    wrong. Arguments as for `simulate`.
    """
    try:
        placed = simulate(requests, hosts, levels)
    except RefusalError as refusal:
        return str(refusal)
    return next(_flaws(requests, placed, hosts), None) or placed


def _flaws(requests: Sequence[Request], placed: Placement, hosts: Iterable[Host]) -> Iterator[str]:
    for one in requests:
        given = placed[one.name]
        if sum(given.values()) != one.count or any(pods < 0 for pods in given.values()):
            yield f"Kueue places {sum(given.values())} of {one.count} pods of {one.name}"
        if stray := sorted(given.keys() - one.hosts):
            yield f"Kueue sends {one.name} to {stray[0]}, which does not admit it"
    wanted = [{PODS: 1, **one.requests} for one in requests]
    for host in hosts:
        counts = [placed[one.name].get(host.name, 0) for one in requests]
        if not together(wanted, counts, host.free):
            yield f"Kueue sends more pods to {host.name} than fit"
