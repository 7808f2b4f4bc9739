"""What a pass may still give away: a snapshot, and the limits that several of its offerings share.

The planner knows how many nodes each offering has, not that a limit on on-demand nodes or money holds for their sum. So a plan
that breaks a shared limit is made again with the limit dealt out among the offerings beforehand, in several orders.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from capacity.model import Gang, Offering, Outcome, Plan, Preferences, Shortfall, Snapshot
from capacity.snapshot import book

Planner = Callable[[Gang, Snapshot, Preferences], Outcome]
MOST_ORDERS = 12


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that offerings share: `weight` is what a node of each takes of it (1, or micro-dollars of the day), by name.

    `left` is what may still be taken, `whole` the limit itself; `text` names it for people.
    """

    text: str
    weight: Mapping[str, int]
    left: int
    whole: int


@dataclass(frozen=True, slots=True)
class Room:
    snapshot: Snapshot
    budgets: tuple[Budget, ...] = ()

    def plan(self, gang: Gang, preferences: Preferences, planner: Planner) -> Outcome:
        """The planner's outcome in which no shared limit is broken."""
        outcome = planner(gang, self._capped(), preferences)
        if isinstance(outcome, Shortfall) and self.budgets:
            free = planner(gang, self.snapshot, preferences)
            return _explained(outcome, self.broken(free)) if isinstance(free, Plan) else outcome
        if not isinstance(outcome, Plan) or not self.broken(outcome):
            return outcome
        best: Outcome | None = None
        for order in self._orders(outcome):
            again = planner(gang, self._dealt(order), preferences)
            if best is None or (isinstance(again, Plan) and (not isinstance(best, Plan) or again.cost < best.cost)):
                best = again
        best = best or outcome
        return _explained(replace(best, hopeless=False), self.broken(outcome)) if isinstance(best, Shortfall) else best

    def broken(self, plan: Plan) -> tuple[Budget, ...]:
        return tuple(budget for budget in self.budgets if taken(budget, plan) > budget.left)

    def book(self, plan: Plan, booking: str) -> "Room":
        budgets = tuple(replace(budget, left=budget.left - taken(budget, plan)) for budget in self.budgets)
        return Room(book(self.snapshot, plan, booking), budgets)

    def only(self, pools: frozenset[str]) -> "Room":
        """The room of these pools alone."""
        nodes = tuple(node for node in self.snapshot.nodes if node.pool in pools)
        offerings = tuple(offering for offering in self.snapshot.offerings if offering.pool in pools)
        return Room(replace(self.snapshot, nodes=nodes, offerings=offerings), self.budgets)

    def without(self, names: frozenset[str], holder: str) -> "Room":
        """The room less the nodes and offerings that a gang further ahead waits for."""
        if not names:
            return self
        nodes = tuple(replace(n, booked_by=n.booked_by or holder) if n.name in names else n for n in self.snapshot.nodes)
        offerings = tuple(
            replace(o, available=0, unavailable=o.unavailable or f"held for {holder}") if o.name in names else o
            for o in self.snapshot.offerings
        )
        return Room(replace(self.snapshot, nodes=nodes, offerings=offerings), self.budgets)

    def _capped(self) -> Snapshot:
        return replace(self.snapshot, offerings=capped(self.snapshot.offerings, self.budgets))

    def _dealt(self, order: Sequence[tuple[str, int]]) -> Snapshot:
        return replace(self.snapshot, offerings=_deal(self.snapshot.offerings, self.budgets, order))

    def _orders(self, plan: Plan) -> Iterable[Sequence[tuple[str, int]]]:
        """Which offering is dealt how much of a shared limit first: what the plan took, then each offering all alone."""
        yield [(purchase.offering.name, purchase.count) for purchase in plan.purchases]
        used = [purchase.offering.name for purchase in plan.purchases]
        others = [o.name for o in self.snapshot.offerings if o.available and o.name not in used]
        for name in [*used, *others][:MOST_ORDERS]:
            yield [(name, max(o.available for o in self.snapshot.offerings if o.name == name))]


def _explained(outcome: Shortfall, broken: Iterable[Budget]) -> Shortfall:
    """Names the limits that stand in the way: without them there was a plan."""
    limits = "; ".join(f"LimitExceeded: {budget.text}" for budget in broken)
    return replace(outcome, message=f"{outcome.message}; {limits}" if limits else outcome.message)


def taken(budget: Budget, plan: Plan) -> int:
    return sum(purchase.count * budget.weight.get(purchase.offering.name, 0) for purchase in plan.purchases)


def capped(offerings: Iterable[Offering], budgets: Sequence[Budget]) -> tuple[Offering, ...]:
    """Each offering as far as the limits allow it by itself."""
    return tuple(_cap(offering, budgets) for offering in offerings)


def _cap(offering: Offering, budgets: Iterable[Budget]) -> Offering:
    """No more than each limit would allow if nobody else took of it."""
    for budget in budgets:
        weight = budget.weight.get(offering.name, 0)
        if weight:
            available = min(offering.available, max(0, budget.left) // weight)
            why = f"LimitExceeded: {budget.text}" if offering.available and not available else offering.unavailable
            offering = replace(offering, available=available, total=min(offering.total, budget.whole // weight), unavailable=why)
    return offering


def _deal(offerings: Sequence[Offering], budgets: Sequence[Budget], first: Sequence[tuple[str, int]]) -> tuple[Offering, ...]:
    """Offerings whose sum keeps every limit: those in `first` get up to the count named, then each what is left, in order."""
    left = [budget.left for budget in budgets]
    dealt: dict[str, int] = {}
    wanted = [*first, *((offering.name, offering.available) for offering in offerings)]
    known = {offering.name: offering for offering in offerings}
    for name, count in wanted:
        more = max(0, min(count, known[name].available) - dealt.get(name, 0))
        weights = [budget.weight.get(name, 0) for budget in budgets]
        allowed = min([more, *(max(0, n) // w for n, w in zip(left, weights, strict=True) if w)])
        dealt[name] = dealt.get(name, 0) + allowed
        left = [n - allowed * w for n, w in zip(left, weights, strict=True)]
    return tuple(replace(_cap(offering, budgets), available=dealt[offering.name]) for offering in offerings)
