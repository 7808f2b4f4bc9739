"""Random histories of the simulated cloud: nothing is oversold, no token buys twice, and the disk knows all of it."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.records import Memory, ReservationChange
from provisioner.clouds.simulated.store import Store
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World
from tests.provisioner.clouds.simulated.worlds import BLOCK, H100, RACK, START, add, on_demand, reserved, world

ORDERS = st.one_of(
    st.builds(
        on_demand,
        token=st.sampled_from("abcdef"),
        count=st.integers(1, 5),
        zone=st.sampled_from(["z1", "z2"]),
        min_count=st.sampled_from([None, 1]),
    ),
    st.builds(
        reserved,
        token=st.sampled_from("abcdef"),
        count=st.integers(1, 4),
        domain=st.sampled_from([{}, {RACK: "r1"}, {RACK: "r2"}, {BLOCK: "b1"}]),
    ),
)
FAULTS: list[dict[str, Any]] = [
    {"kind": "partial", "deliver": 1, "times": 1},
    {"kind": "stock-out", "lasts": "3s"},
    {"kind": "stock-out", "reservation": "cr", "times": 1},
    {"kind": "wrong-rack", "rack": "r3", "times": 1},
    {"kind": "hang-termination", "times": 1},
    {"kind": "never-joins", "times": 1},
]


class Histories(RuleBasedStateMachine):
    """`answered` is what the caller was told: the order and the machines of each token that bought."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "cloud.db")
        self.store = Store(self.path)
        self.world: World = world()
        self.now = START
        self.answered: dict[str, tuple[LaunchRequest, frozenset[str]]] = {}
        self._save()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    @rule(order=ORDERS)
    def launch(self, order: LaunchRequest) -> None:
        before = self.answered.get(order.token)
        bought, code = self._try_launch(order)
        self._save()
        assert (code == "IdempotentParameterMismatch") == (before is not None and before[0] != order)
        if not code:
            assert before in (None, (order, bought))
            assert 0 < len(bought) <= order.count
            self.answered[order.token] = (order, bought)

    @precondition(lambda self: any(self.answered))
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        ids = sorted(each for _, machines in self.answered.values() for each in machines)
        self.world.terminate(data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True)), self.now)
        self._save()

    @rule(seconds=st.floats(0.1, 3))
    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.world.advance(self.now)
        self._save()

    @rule(fault=st.sampled_from(FAULTS))
    def spoil(self, fault: dict[str, Any]) -> None:
        add(self.world, at=self.now, **fault)
        self._save()

    @rule(racks=st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 5)), others=st.integers(0, 3))
    def change(self, racks: dict[str, int], others: int) -> None:
        with suppress(Refused):
            self.world.change_reservation(ReservationChange(id="cr", racks=racks, outside={"r1": others}), self.now)
        self._save()

    @rule()
    def crash(self) -> None:
        """The process dies; another one goes on from its disk."""
        self.store.close()
        self.store = Store(self.path)
        memory = self.store.load()
        assert dump(memory) == dump(self.world.memory)
        self.world = world(memory, self.now)

    @invariant()
    def nothing_is_oversold(self) -> None:
        if not hasattr(self, "world"):
            return
        there = [machine for machine in self.world.memory.machines.values() if machine.occupies(self.now)]
        reservation = self.world.memory.reservations.get("cr")
        assert reservation is not None
        for rack in ("r1", "r2", "r3"):
            here = [machine for machine in there if machine.rack == rack]
            ours = sum(machine.order.reservation == "cr" for machine in here)
            held = reservation.racks.get(rack, 0)
            assert ours + reservation.outside.get(rack, 0) <= held
            assert len(here) - ours + held <= 4
        assert sum(machine.order.zone == "z2" for machine in there) <= 2
        assert all(machine.order.shape == H100 for machine in there)

    @invariant()
    def every_machine_was_answered_for(self) -> None:
        if not hasattr(self, "world"):
            return
        told = {each for _, machines in self.answered.values() for each in machines}
        assert told == {machine.id for machine in self.world.memory.machines.values()}

    def _try_launch(self, order: LaunchRequest) -> tuple[frozenset[str], str]:
        """The machines, or none and the code of the refusal."""
        try:
            return frozenset(machine.id for machine in self.world.launch(order, self.now)), ""
        except Refused as refused:
            return frozenset(), refused.code

    def _save(self) -> None:
        self.store.save(self.world.memory.take_changes())


def dump(memory: Memory) -> dict[str, list[Any]]:
    tables = ("machines", "tokens", "reservations", "stock", "faults", "changes")
    return {name: list(getattr(memory, name).values()) for name in tables}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
