"""A gang whose pods are pinned to nodes already: the plan is those nodes, or why they can't be booked."""

from collections.abc import Iterator, Mapping

from capacity.fit import barred, host, needs, refusal, together
from capacity.model import HOSTNAME, Gang, Node, Plan, Preferences, Snapshot, Undecidable, Use

Pods = Mapping[str, int]
"""How many pods of each pod set, by its name."""


def pinned(gang: Gang) -> bool:
    return any(one.pinned for one in gang.pod_sets)


def answer(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Plan | Undecidable:
    """No other nodes will do, so that what stands in the way has to go away; it may."""
    if flaws := tuple(_unclear(gang)):
        return Undecidable(flaws, lasting=True)
    nodes = {node.labels.get(HOSTNAME, ""): node for node in snapshot.nodes}
    asked: dict[str, dict[str, int]] = {}
    for one in gang.pod_sets:
        for name, count in one.pinned.items():
            asked.setdefault(name, {})[one.name] = count
    flaws = tuple(
        f"Kueue has placed pods on node {name}, which {flaw}"
        for name, pods in sorted(asked.items())
        if (flaw := _flaw(nodes.get(name), pods, gang, snapshot, preferences))
    )
    if flaws:
        return Undecidable(flaws)
    uses = tuple(Use(nodes[name], pods) for name, pods in sorted(asked.items()))
    cost = sum(use.node.price for use in uses)
    if preferences.price_ceiling is not None and cost > preferences.price_ceiling:
        return Undecidable(
            (f"the nodes on which Kueue has placed its pods cost more than the ceiling of {preferences.price_ceiling}",)
        )
    return Plan(gang, uses, (), cost)


def _unclear(gang: Gang) -> Iterator[str]:
    for one in gang.pod_sets:
        if sum(one.pinned.values()) != one.count:
            yield f"{one.name}: Kueue has placed {sum(one.pinned.values())} of {one.count} pods"
        if one.near or one.apart or one.spreads:
            yield f"{one.name}: Kueue doesn't look at its inter-pod rules"


def _flaw(node: Node | None, pods: Pods, gang: Gang, snapshot: Snapshot, preferences: Preferences) -> str:
    if node is None:
        return "is not one of the pools' that it may use"
    if why := barred(node, gang, snapshot.now, preferences):
        return f"is {why}"
    where = host(node)
    here = [one for one in gang.pod_sets if pods.get(one.name)]
    for one in here:
        if why := refusal(one, where):
            return f"does not admit {one.name}: {why}"
    fits = together([needs(one) for one in here], [pods[one.name] for one in here], where.free)
    return "" if fits else "has no room for them"
