"""What a snapshot looks like once a plan on it is booked: the next gang of the same pass is planned on that."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from capacity.index.fleet import stock_of
from capacity.model import HOSTNAME, Budget, Bystander, Plan, PodSet, Running, Snapshot
from capacity.requirements import PodTerm


def book(snapshot: Snapshot, plan: Plan, booking: str) -> Snapshot:
    """The snapshot in which `booking` holds the plan's nodes whole, and its purchases are gone from offerings and budgets. Its
    pods, still to come, stand on bystanders in the places of these nodes.
    """
    stock = stock_of(snapshot).closed([use.node.name for use in plan.uses], booking)
    bought: dict[str, int] = {}
    for purchase in plan.purchases:
        bought[purchase.offering.name] = bought.get(purchase.offering.name, 0) + purchase.count
    offerings = tuple(
        replace(offering, available=offering.available - bought[offering.name]) if offering.name in bought else offering
        for offering in snapshot.offerings
    )
    return replace(
        snapshot,
        nodes=stock.nodes,
        offerings=offerings,
        budgets=tuple(replace(budget, left=budget.left - taken(budget, plan)) for budget in snapshot.budgets),
        bystanders=(*snapshot.bystanders, *_places(plan, booking)),
        stock=stock,
    )


def taken(budget: Budget, plan: Plan) -> int:
    """What the plan's purchases take of a budget."""
    return sum(purchase.count * budget.weight.get(purchase.offering.name, 0) for purchase in plan.purchases)


def arriving(pod_set: PodSet) -> Running:
    """What one pod of the set will mean for others. A gang in exclusive domains keeps its rivals out of them."""
    exclusive = pod_set.exclusive
    rivals = (PodTerm(exclusive.topology_key, exclusive.rivals, None),) if exclusive else ()
    return Running(pod_set.namespace, pod_set.labels, pod_set.ports, (*pod_set.apart, *rivals))


def _places(plan: Plan, booking: str) -> Iterator[Bystander]:
    """Which slots of a plan with more slots than pods stay empty isn't known, so all count."""
    pods = {each.name: arriving(each) for each in plan.gang.pod_sets}
    for use in plan.uses:
        yield Bystander(use.node.name, use.node.labels, _slots(use.pods, pods), use.node.taints)
    for place, purchase in enumerate(plan.purchases):
        shape = purchase.offering.shape
        for number in range(purchase.count):
            name = f"<{booking}/{place}/{number}>"  # no valid label value: a host of its own
            labels = {**shape.labels, **purchase.offering.domain, HOSTNAME: name}
            yield Bystander(name, labels, _slots(purchase.pods, pods), shape.taints)


def _slots(slots: Mapping[str, int], pods: Mapping[str, Running]) -> tuple[Running, ...]:
    return tuple(pods[name] for name, count in sorted(slots.items()) for _ in range(count))
