"""What a pass may still give away: a snapshot that shrinks with each booking, and views of it for one gang."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from capacity.index.fleet import stock_of, stocked
from capacity.model import Bystander, Gang, Holder, Node, Outcome, Plan, Preferences, Snapshot
from capacity.snapshot import book

Planner = Callable[[Gang, Snapshot, Preferences], Outcome]


@dataclass(frozen=True, slots=True)
class Room:
    snapshot: Snapshot

    def book(self, plan: Plan, booking: str, ends: int | None = None) -> "Room":
        """Less what the plan takes. `ends` is when its gang is over at the latest, in epoch seconds."""
        booked = book(self.snapshot, plan, booking)
        return Room(replace(booked, holders={**booked.holders, booking: Holder(plan.gang.name, ends)}))

    def only(self, pools: frozenset[str]) -> "Room":
        """The room of these pools alone; what runs on the nodes of others counts all the same."""
        here = self.snapshot
        others = tuple(node for node in here.nodes if node.pool not in pools)
        offerings = tuple(offering for offering in here.offerings if offering.pool in pools)
        if not others and len(offerings) == len(here.offerings):
            return self
        nodes = tuple(node for node in here.nodes if node.pool in pools)
        bystanders = (*here.bystanders, *map(_bystander, others))
        named = {node.reservation for node in nodes} | {offering.reservation for offering in offerings}
        uses = tuple(use for use in here.reservations if use.name in named)
        return Room(stocked(replace(here, nodes=nodes, offerings=offerings, bystanders=bystanders, reservations=uses)))

    def without(self, names: frozenset[str], holder: str) -> "Room":
        """The room less the nodes and offerings that a gang further ahead waits for."""
        if not names:
            return self
        taken = [node.name for node in self.snapshot.nodes if node.name in names and node.booked_by is None]
        stock = stock_of(self.snapshot).closed(taken, holder)
        offerings = tuple(
            replace(o, available=0, unavailable=o.unavailable or f"held for {holder}") if o.name in names else o
            for o in self.snapshot.offerings
        )
        return Room(replace(self.snapshot, nodes=stock.nodes, offerings=offerings, stock=stock))


def _bystander(node: Node) -> Bystander:
    return Bystander(node.name, node.labels, node.pods, node.taints)
