"""The proof of a plan for one pod set whose pods mind no other pods: read from the plan's text, apart from what found it.

No order of scheduling can spoil such a plan: while a pod is unplaced, one of the marked nodes holds fewer pods of the gang than
it is marked for, and nothing else comes there; since that many fit beside what runs there already, one more does. Nodes are
looked at in the fleet's columns; capacity/proof/prove.py reads records alone and agrees.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import is_

import numpy as np

from capacity.fit import closed, host, needs, new_host, refusal, slots
from capacity.index.columns import MOST, Vector
from capacity.index.fleet import Stock
from capacity.index.nodes import at
from capacity.lens import Lens
from capacity.model import Gang, Plan, PodSet, Preferences, Purchase, Snapshot
from capacity.topology import required_key


def stands(plan: Plan, rows: Vector, pod_set: PodSet, stock: Stock, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Whether every pod of the gang's only pod set with pods is sure of its place. `rows` says where in the stock the nodes of
    `plan.uses` are.
    """
    name = pod_set.name
    there = at(stock.nodes, rows.tolist())
    pods = np.array([use.pods[name] for use in plan.uses], np.int64)
    tiers = np.bincount(stock.fleet.column("tier")[rows]).tolist()
    price = sum(count * tier[0] for count, tier in zip(tiers, stock.fleet.tiers(), strict=False))
    price += sum(one.count * one.offering.price for one in plan.purchases)
    return (
        len(rows) == len(plan.uses)
        and all(map(is_, there, [use.node for use in plan.uses]))
        and int(np.bincount(rows, minlength=1).max()) <= 1
        and int(pods.sum()) + sum(one.count * one.pods[name] for one in plan.purchases) >= pod_set.count
        and price == plan.cost
        and (preferences.price_ceiling is None or price <= preferences.price_ceiling)
        and _nodes_hold(plan.gang, pod_set, stock, rows, pods, snapshot, preferences)
        and _can_be_bought(plan, pod_set, snapshot, preferences)
        and _within(plan, snapshot)
        and all(_one_domain(plan, stock, rows, key, value) for key, value in _domains(plan, pod_set, preferences))
    )


def _nodes_hold(
    gang: Gang, pod_set: PodSet, stock: Stock, rows: Vector, pods: Vector, snapshot: Snapshot, preferences: Preferences
) -> bool:
    """Whether each node may be booked, lets the pods in, and has room for as many as it is marked for."""
    fleet = stock.fleet
    late = MOST if gang.run_duration is None else snapshot.now + gang.run_duration
    tiers = fleet.tiers()
    kinds = {tiers[tier][1] for tier in np.bincount(fleet.column("tier")[rows]).nonzero()[0].tolist()}
    return (
        bool(stock.open[rows].all())
        and bool((fleet.column("ends")[rows] >= late).all())
        and kinds <= {None, *preferences.capacity_order}
        and all(bool((fleet.column("free", name)[rows] >= pods * amount).all()) for name, amount in needs(pod_set).items())
        and all(not refusal(pod_set, host(fleet.node(row))) for row in _one_of_each(pod_set, stock, rows))
    )


def _one_of_each(pod_set: PodSet, stock: Stock, rows: Vector) -> Iterable[int]:
    """A row for each combination of taints and labels asked for."""
    keys = Lens((pod_set,)).labels if pod_set.node_selector or pod_set.affinity is not None or pod_set.volumes else ()
    columns = [stock.fleet.column("taints")[rows], *(stock.fleet.column("label", key)[rows] for key in keys)]
    if len(columns) == 1:
        last = np.zeros(int(columns[0].max(initial=-1)) + 1, np.int64)
        last[columns[0]] = rows + 1
        found: list[int] = (last[last > 0] - 1).tolist()
        return found
    return dict(zip(zip(*[column.tolist() for column in columns], strict=True), rows.tolist(), strict=True)).values()


def _can_be_bought(plan: Plan, pod_set: PodSet, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Whether every offering sells, lets the pods in, and has room for them; judged once for those of one shape that are alike in
    the labels asked for.
    """
    keys = Lens((pod_set,)).labels if plan.purchases else ()
    sorts = {_sort(one, keys): one for one in sorted(plan.purchases, key=lambda one: one.pods[pod_set.name])}
    return all(not closed(one.offering, plan.gang, snapshot.now, preferences) for one in plan.purchases) and all(
        not refusal(pod_set, where) and slots(needs(pod_set), where.free) >= one.pods[pod_set.name]
        for one in sorts.values()
        for where in [new_host(one.offering, snapshot.topology_keys)]
    )


def _sort(one: Purchase, keys: Sequence[str]) -> tuple[object, ...]:
    return id(one.offering.shape), *[one.offering.domain.get(key) for key in keys]


def _within(plan: Plan, snapshot: Snapshot) -> bool:
    """Whether there is as much of each offering, and no limit that they share is broken."""
    bought = Counter[str]()
    for one in plan.purchases:
        bought[one.offering.name] += one.count
    return all(bought[one.offering.name] <= one.offering.available for one in plan.purchases) and all(
        sum(budget.weight.get(name, 0) * count for name, count in bought.items()) <= max(0, budget.left)
        for budget in (snapshot.budgets if bought else ())
    )


def _domains(plan: Plan, pod_set: PodSet, preferences: Preferences) -> Sequence[tuple[str, str]]:
    """Keys of which the plan must keep to one domain, with the one that it names."""
    required = required_key(pod_set, preferences)
    return [*plan.domains.items(), *([(required, "")] if required and required not in plan.domains else [])]


def _one_domain(plan: Plan, stock: Stock, rows: Vector, key: str, value: str) -> bool:
    codes, values = stock.fleet.column("label", key)[rows], stock.fleet.codes(key).values
    found = {values[code] for code in ((int(codes.min()), int(codes.max())) if len(codes) else ())}
    found |= {{**one.offering.shape.labels, **one.offering.domain}.get(key) for one in plan.purchases}
    return found == {value} and bool(value)
