"""What a snapshot looks like once a plan on it is booked: the next gang of the same pass is planned on that."""

from dataclasses import replace

from capacity.fleet import stock_of
from capacity.model import Budget, Plan, Snapshot


def book(snapshot: Snapshot, plan: Plan, booking: str) -> Snapshot:
    """The snapshot in which `booking` holds the plan's nodes whole and its purchases are gone from offerings and budgets."""
    stock = stock_of(snapshot).closed([use.node.name for use in plan.uses], booking)
    bought: dict[str, int] = {}
    for purchase in plan.purchases:
        bought[purchase.offering.name] = bought.get(purchase.offering.name, 0) + purchase.count
    offerings = tuple(
        replace(offering, available=offering.available - bought[offering.name]) if offering.name in bought else offering
        for offering in snapshot.offerings
    )
    budgets = tuple(replace(budget, left=budget.left - taken(budget, plan)) for budget in snapshot.budgets)
    return replace(snapshot, nodes=stock.nodes, offerings=offerings, budgets=budgets, stock=stock)


def taken(budget: Budget, plan: Plan) -> int:
    """What the plan's purchases take of a budget."""
    return sum(purchase.count * budget.weight.get(purchase.offering.name, 0) for purchase in plan.purchases)
