"""Who may pass the head of the line, and that it gets its turn however many come behind it. Times are virtual minutes."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from capacity.model import Gang, Holder, Node, Plan, PodSet, Snapshot
from capacity.plan import plan
from provisioner.asking.acceptance import Accepted
from provisioner.asking.parameters import Terms, terms
from provisioner.planning.backfill import latest_end, latest_start
from provisioner.planning.room import Room
from provisioner.planning.turns import Candidate, Memo, Pass
from provisioner.telling.outcomes import Book
from provisioner.telling.progress import ToPlan, Waiting
from tests.provisioner.make import NOW, RACK, policy

MINUTE = 60
BEGAN = int(NOW.timestamp())
REQUESTS = {"nvidia.com/gpu": 8, "pods": 1}
QUICK = terms({}, lambda _: policy(timeouts={"provision": "1m", "booking": "1m"}, crossZone={"policy": "Allow"}))


@dataclass
class Line:
    """Two racks of four nodes. `running` maps bookings to their nodes and end (a minute), as declared or not."""

    minute: int = 0
    running: dict[str, tuple[frozenset[str], int, bool]] = field(default_factory=dict)
    waiting: list[Candidate] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        return NOW + timedelta(minutes=self.minute)

    def ask(self, name: str, pods: int, minutes: int, *, declared: bool = False, rack: bool = False, first: bool = False) -> None:
        own = replace(QUICK, run_duration=minutes * MINUTE if declared else None)
        pod_set = PodSet("main", pods, REQUESTS, required_topology=RACK if rack else None)
        gang = Gang(name, (pod_set,), own.run_duration)
        accepted = Accepted(gang, own, f"{pods}{minutes}{declared}{rack}")
        place = 0 if first else len(self.waiting)
        self.waiting.insert(place, Candidate(accepted, ToPlan(NOW + timedelta(days=9)), self.now, self.now))
        self.lengths[name] = minutes

    def snapshot(self) -> Snapshot:
        holder = {node: name for name, (nodes, _, _) in self.running.items() for node in nodes}
        nodes = tuple(
            Node(f"{rack}{n}", "p", REQUESTS | {"pods": 9}, {}, {RACK: rack}, booked_by=holder.get(f"{rack}{n}"))
            for rack in "ab"
            for n in range(4)
        )
        ends = {
            name: Holder(name, BEGAN + end * MINUTE if declared else None) for name, (_, end, declared) in self.running.items()
        }
        now = int(self.now.timestamp())
        return Snapshot(now=now, nodes=nodes, topology_keys=(RACK,), holders=ends)

    def tick(self) -> None:
        """One minute: what is over goes, then a pass in turn."""
        self.running = {name: each for name, each in self.running.items() if each[1] > self.minute}
        current = Pass(Room(self.snapshot()), {"p": "Active"}, plan, Memo(), {})
        for each in list(self.waiting):
            found, name = current.turn(replace(each, now=self.now)), each.accepted.gang.name
            if isinstance(found, Book):
                current.book(found.plan, name)
                nodes = frozenset(use.node.name for use in found.plan.uses)
                declared = each.accepted.terms.run_duration is not None
                self.running[name] = (nodes, self.minute + self.lengths[name], declared)
                self.begun[name] = self.minute
                self.waiting.remove(each)
            else:
                assert isinstance(found, Waiting)
        self.minute += 1

    def crowd(self, minutes: int, length: int, *, declared: bool) -> Iterator[int]:
        """Two small ones a minute: always more than there is room for."""
        for _ in range(minutes):
            for twin in "xy":
                self.ask(f"small-{self.minute}{twin}", 1, length, declared=declared)
            self.tick()
            yield self.minute


@pytest.mark.parametrize("declared", [True, False], ids=["run times declared", "run times unknown"])
@pytest.mark.parametrize("length", [3, 7, 30])
def test_a_big_gang_isn_t_starved_by_a_stream_of_small_ones(length: int, declared: bool) -> None:
    """First in turn, it begins when what ran as it came is over, at the latest; the small ones then go on."""
    line = Line()
    for _ in line.crowd(12, length, declared=declared):
        pass
    asked = line.minute
    line.ask("big", 4, 10, rack=True, first=True)
    for _ in line.crowd(2 * length, length, declared=declared):
        pass
    assert line.begun["big"] - asked <= length
    assert max(line.begun.values()) > line.begun["big"]


def test_those_surely_over_in_time_pass_and_the_head_loses_nothing() -> None:
    """Both racks have a long runner that ends at 30 and 60; the head needs a whole rack, at 30 it has one."""
    line = Line()
    line.ask("a", 1, 30, declared=True)
    line.tick()
    line.ask("b", 4, 60, declared=True, rack=True)
    line.tick()
    line.ask("head", 4, 60, declared=True, rack=True)
    line.ask("short", 1, 10, declared=True)
    line.ask("long", 1, 40, declared=True)
    line.ask("secret", 1, 1)
    for _ in range(28):
        line.tick()
    assert line.begun == {"a": 0, "b": 1, "short": 2}
    line.tick()
    assert line.begun["head"] == 30


def test_what_the_same_pass_has_booked_counts_by_its_end_too() -> None:
    line = Line()
    line.ask("b", 4, 60, declared=True, rack=True)
    line.ask("a", 1, 20, declared=True)
    line.ask("head", 4, 60, rack=True)
    line.ask("long", 1, 21, declared=True)
    line.ask("short", 1, 20, declared=True)
    line.tick()
    assert line.begun.keys() == {"b", "a", "short"}


def test_one_that_could_delay_the_head_by_its_timeouts_waits() -> None:
    """Run time, provision and booking timeouts, each at its longest: 2 + 26 + 1 + 1 minutes are over at 30 exactly."""
    for minutes, passes in ((26, True), (27, False)):
        line = Line()
        line.ask("a", 1, 30, declared=True)
        line.tick()
        line.ask("b", 4, 60, declared=True, rack=True)
        line.tick()
        line.ask("head", 4, 60, rack=True)
        line.ask("next", 1, minutes, declared=True)
        line.tick()
        assert ("next" in line.begun) is passes


def own(duration: int | None) -> Terms:
    return replace(QUICK, provision=40, booking=15, run_duration=duration)


def test_an_unknown_run_time_never_ends() -> None:
    assert latest_end(own(None), 1000) is None
    assert latest_end(own(100), 1000) == 1155


@pytest.mark.parametrize(
    ("ends", "start"),
    [
        pytest.param((20, 50), 50, id="when the last of those in the way is over"),
        pytest.param((20, None), None, id="one whose end is unknown"),
        pytest.param((20, -5), None, id="one that should be over already"),
    ],
)
def test_when_the_head_begins_at_the_latest(ends: tuple[int | None, ...], start: int | None) -> None:
    names = [f"b{number}" for number in range(len(ends))]
    nodes = tuple(Node(name, "p", REQUESTS | {"pods": 9}, {}, booked_by=name) for name in names)
    holders = {name: Holder(name, None if end is None else 1000 + end) for name, end in zip(names, ends, strict=True)}
    where = Snapshot(now=1000, nodes=nodes, holders=holders)
    question = (Gang("head", (PodSet("main", len(ends), REQUESTS),)), where, QUICK.preferences)
    found = latest_start(question, lambda asked: isinstance(plan(*asked), Plan))
    assert found == (None if start is None else 1000 + start)
