"""Whether Kueue's topology-aware scheduling places a plan's pods: its own algorithm on the plan's nodes, and its answer checked.

Checked, because Kueue v0.17.0 errs (pkg/cache/scheduler/tas_flavor_snapshot.go):
- pods that earlier pod sets of a workload were given count with their requests, but not against a node's `pods`;
- host ports are never looked at;
- a leader is placed by its workers' node selector, its own is never looked at;
- a domain of which one child has nothing to lose to a leader is thought to lose nothing to it;
- below the level of slices, the leader of a domain whose workers need several children is forgotten.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from capacity.fit import Host, needs, together
from capacity.model import HOSTNAME, PodSet, Resources
from capacity.tas_domains import simulate
from capacity.tas_room import PODS, Placement, RefusalError, Request

__all__ = ["Placement", "Request", "assign", "guaranteed"]

_LABEL_VALUE = re.compile(r"[A-Za-z0-9._-]*")
_BEFORE, _AFTER = "!", "~"  # sort before and after whatever a label value starts with


def assign(requests: Sequence[Request], hosts: Sequence[Host], levels: Sequence[str]) -> Placement | str:
    """Pods by host by pod set if Kueue places all of them, only where they may run, and within the room there is; else what is
    wrong. Arguments as for `simulate`.
    """
    return _checked(requests, [{PODS: 1, **one.requests} for one in requests], hosts, levels)


def guaranteed(pod_sets: Sequence[PodSet], places: Sequence[tuple[Host, frozenset[str]]], levels: Sequence[str]) -> str:
    """Why Kueue might not place all pods of the pod sets that it places, "" when it surely does.

    `pod_sets` are in the workload's order. `places` are the nodes with the names of the pod sets that each is marked for; one
    whose hostname is no valid label value is not there yet. What only time will tell is tried both ways: how new nodes are named,
    which decides between equals; whether they share a domain of a level of unknown value; and, where a leader is to be placed,
    nodes that are not the plan's. That is a proof for a single pod set, whose fate depends on none of these, and a sample of
    what may come for several. Inter-pod rules are not looked at.
    """
    mine = [one for one in pod_sets if one.placed_by_kueue and one.count > 0]
    others = [one.name for one in pod_sets if not one.placed_by_kueue and one.count > 0]
    if mine and others:
        return f"Kueue places {mine[0].name}, but not {others[0]}"
    requests = [_request(one, places) for one in mine]
    wanted = [needs(one) for one in mine]
    for hosts in _guises([host for host, _ in places], levels, requests):
        found = _checked(requests, wanted, hosts, levels)
        if isinstance(found, str):
            return found
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


# ---- what is not known yet, both ways


def _guises(hosts: Sequence[Host], levels: Sequence[str], requests: Sequence[Request]) -> Iterator[list[Host]]:
    """The nodes as they may turn out. Names don't matter to a single pod set."""
    led = len({one.group or one.name for one in requests}) < len(requests)
    unknown = any(key in host.unknown for host in hosts for key in levels)
    for apart in (False, True) if unknown else (False,):
        known = [_settled(host, levels, number if apart else 0) for number, host in enumerate(hosts)]
        for named in _namings(known) if len(requests) > 1 else (known,):
            yield named
            for depth in range(len(levels) - 1) if led else ():
                yield [*named, *_bystanders(named, levels, depth)]


def _settled(host: Host, levels: Sequence[str], number: int) -> Host:
    guess = {key: f"{_AFTER}{number:06}" for key in levels if key in host.unknown and key != HOSTNAME}
    return replace(host, labels={**host.labels, **guess}) if guess else host


def _namings(hosts: Sequence[Host]) -> Iterator[list[Host]]:
    """New nodes named before all others, after all others in reverse, and each after one of the others in turn."""
    names = [host.labels.get(HOSTNAME, "") for host in hosts]
    new = [index for index, name in enumerate(names) if not _LABEL_VALUE.fullmatch(name)]
    old = sorted(set(names) - {names[index] for index in new}) or [_BEFORE]
    turns = range(len(new))
    for given in (
        [f"{_BEFORE}{turn:06}" for turn in turns],
        [f"{_AFTER}{len(new) - turn:06}" for turn in turns],
        [f"{old[turn % len(old)]}{_BEFORE}{turn:06}" for turn in turns],
    )[: 3 if new else 1]:
        named = list(hosts)
        for index, name in zip(new, given, strict=True):
            named[index] = replace(hosts[index], labels={**hosts[index].labels, HOSTNAME: name})
        yield named


def _bystanders(hosts: Sequence[Host], levels: Sequence[str], depth: int) -> list[Host]:
    """One more node, which takes none of the pods, in each domain of a level and in a domain of its own of each level below."""
    inside = sorted(
        {tuple(host.labels[key] for key in levels[: depth + 1]) for host in hosts if host.labels.keys() >= set(levels)}
    )
    return [
        Host(name, dict(zip(levels, (*path, *[name] * (len(levels) - depth - 1)), strict=True)), (), {})
        for path in inside
        for name in (f"{_AFTER}beside {'/'.join(path)}",)
    ]
