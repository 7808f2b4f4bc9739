"""What the simulated cloud sells, refuses, and does when it is spoilt."""

from typing import Any

import pytest

from provisioner.clouds.base import InstanceState
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.config import ConfigError
from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.records import Announcement, Change, ReservationChange, Stock
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World
from tests.provisioner.clouds.simulated.worlds import BLOCK, H100, RACK, START, add, after, on_demand, racks, reserved, world


def code(there: World, order: LaunchRequest, seconds: float = 0) -> str:
    with pytest.raises(Refused) as caught:
        there.launch(order, after(seconds))
    return caught.value.code


def free(there: World, reservation: str = "cr", seconds: float = 0) -> dict[str, int]:
    record = there.memory.reservations.get(reservation)
    assert record is not None
    return there.room(after(seconds)).reserved_free(record)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(on_demand(zone="z9"), "InvalidParameterValue", id="unknown zone"),
        pytest.param(on_demand(shape="p9"), "InvalidParameterValue", id="unknown shape"),
        pytest.param(on_demand(shape="m7i.4xlarge", zone="z2"), "Unsupported", id="shape not sold in the zone"),
        pytest.param(on_demand(reservation="cr"), "InvalidParameterCombination", id="on demand with a reservation"),
        pytest.param(reserved(reservation=None), "InvalidParameterCombination", id="reserved without one"),
        pytest.param(reserved(reservation="cr-9"), "InvalidCapacityReservationId.NotFound", id="unknown reservation"),
        pytest.param(reserved(shape="m7i.4xlarge"), "InvalidParameterCombination", id="reservation of another shape"),
        pytest.param(reserved(zone="z2"), "InvalidParameterCombination", id="reservation of another zone"),
        pytest.param(reserved(capacity_type="capacity-block"), "InvalidParameterCombination", id="reservation of another type"),
        pytest.param(on_demand(domain={RACK: "r1"}), "InvalidParameterCombination", id="on demand into a rack"),
        pytest.param(reserved(domain={"x": "y"}), "InvalidParameterCombination", id="narrowed by an unknown label"),
        pytest.param(on_demand(count=2, min_count=3), "InvalidParameterCombination", id="minimum above count"),
        pytest.param(on_demand(count=8), "InsufficientInstanceCapacity", id="seven are not reserved"),
        pytest.param(reserved(count=5), "ReservationCapacityExceeded", id="four are free"),
        pytest.param(reserved(count=3, domain={RACK: "r1"}), "ReservationCapacityExceeded", id="two are free in the rack"),
        pytest.param(reserved(domain={BLOCK: "b2"}), "ReservationCapacityExceeded", id="nothing reserved in the block"),
        pytest.param(on_demand(count=3, zone="z2"), "InsufficientInstanceCapacity", id="stock without racks"),
    ],
)
def test_refused_and_nothing_is_bought(order: LaunchRequest, expected: str) -> None:
    there = world()
    assert code(there, order) == expected
    assert len(there.memory.machines) == len(there.memory.tokens) == 0


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(reserved(count=4), ["r1", "r1", "r2", "r2"], id="all that is free of the reservation"),
        pytest.param(reserved(count=2, domain={RACK: "r2", BLOCK: "b1"}), ["r2", "r2"], id="one rack"),
        pytest.param(reserved(count=4, domain={BLOCK: "b1"}), ["r1", "r1", "r2", "r2"], id="one block"),
        pytest.param(
            reserved(domain={RACK: "r1", "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "sim-1"}),
            ["r1"],
            id="zone and region may be named too",
        ),
        pytest.param(on_demand(count=7), ["r1", "r2", "r2", "r3", "r3", "r3", "r3"], id="all that is not reserved"),
        pytest.param(on_demand(count=9, min_count=2, zone="z2"), ["", ""], id="no fewer than the minimum"),
        pytest.param(
            on_demand(domain={"topology.kubernetes.io/zone": "z1"}, count=7), ["r1", *["r2"] * 2, *["r3"] * 4], id="zone"
        ),
    ],
)
def test_places(order: LaunchRequest, expected: list[str]) -> None:
    assert racks(world().launch(order, START)) == expected


def test_on_demand_machines_are_scattered_by_token() -> None:
    places = {tuple(machine.rack for machine in world().launch(on_demand(f"t{n}", 3), START)) for n in range(20)}
    assert len(places) > 5


def test_a_machine_lives_and_dies_by_the_clock_and_keeps_its_slot_until_it_is_gone() -> None:
    there = world()
    (machine,) = there.launch(on_demand(zone="z2"), START)
    assert [machine.state(after(s)) for s in (0, 0.9, 1)] == [InstanceState.PENDING, InstanceState.PENDING, InstanceState.RUNNING]
    (machine,) = there.terminate([machine.id], after(5))
    assert [machine.state(after(s)) for s in (5, 5.9, 6)] == [
        InstanceState.STOPPING,
        InstanceState.STOPPING,
        InstanceState.TERMINATED,
    ]
    assert code(there, on_demand("u", 2, zone="z2"), 5.9) == "InsufficientInstanceCapacity"
    assert len(there.launch(on_demand("u", 2, zone="z2"), after(6))) == 2
    assert there.terminate([machine.id], after(9)) == (machine,)


def test_tokens() -> None:
    there = world()
    assert code(there, on_demand("t", 8)) == "InsufficientInstanceCapacity"
    bought = there.launch(on_demand("t", 2), START)  # a token that bought nothing is as good as new
    assert there.launch(on_demand("t", 2), after(1)) == bought
    assert code(there, on_demand("t", 2, tags={"a": "b"})) == "IdempotentParameterMismatch"
    there.terminate([bought[0].id], after(2))
    assert {machine.id for machine in there.launch(on_demand("t", 2), after(3))} == {machine.id for machine in bought}
    there.terminate([bought[1].id], after(3))
    assert code(there, on_demand("t", 2), 3) == "IdempotentInstanceTerminated"
    assert code(there, on_demand("t", 2), 99) == "IdempotentInstanceTerminated"
    assert len(there.memory.machines) == 2


def test_quota_counts_on_demand_machines_of_all_zones() -> None:
    there = world(quotas={H100: 3})
    there.launch(on_demand("a", 2, zone="z2"), START)
    assert code(there, on_demand("b", 2)) == "InstanceLimitExceeded"
    there.launch(reserved("c", 2), START)
    there.launch(on_demand("d", 1), START)


def test_reservation_is_usable_inside_its_window_alone() -> None:
    block = {"id": "cb", "shape": H100, "zone": "z1", "capacityType": "capacity-block", "racks": {"r3": 2}}
    there = world(reservations=[{**block, "starts": after(10).isoformat(), "ends": after(60).isoformat()}])
    order = {"reservation": "cb", "capacity_type": "capacity-block"}
    assert code(there, reserved("a", **order), 9) == "InvalidCapacityReservationState.Unavailable"
    (machine,) = there.launch(reserved("b", **order), after(10))
    there.advance(after(59))
    assert there.memory.machines.get(machine.id) == machine
    there.advance(after(60))
    assert code(there, reserved("c", **order), 60) == "InvalidCapacityReservationState.Unavailable"
    (ended,) = there.described(after(61), tags={})
    assert ended.state(after(61)) is InstanceState.TERMINATED


def test_machines_of_a_plain_reservation_outlive_it() -> None:
    there = world()
    (machine,) = there.launch(reserved(), START)
    there.change_reservation(ReservationChange(id="cr", ends=after(5)), START)
    there.advance(after(9))
    assert there.memory.machines.get(machine.id) == machine


def test_terminate_is_all_or_nothing() -> None:
    there = world(delays={"visible": "3s"})
    (old,) = there.launch(on_demand("a"), START)
    (new,) = there.launch(on_demand("b"), after(4))
    for unknown in ("i-no", new.id):
        with pytest.raises(Refused, match=unknown) as caught:
            there.terminate([old.id, unknown], after(5))
        assert caught.value.code == "InvalidInstanceID.NotFound"
    assert there.memory.machines.get(old.id) == old


def test_described() -> None:
    there = world(delays={"visible": "3s", "terminate": "1s"})
    (one,) = there.launch(on_demand("a", tags={"k": "v", "l": "w"}), START)
    (two,) = there.launch(on_demand("b", tags={"k": "v"}), START)

    def ids(seconds: float, **query: Any) -> set[str]:
        return {machine.id for machine in there.described(after(seconds), **{"tags": {}, **query})}

    assert ids(2.9) == set()
    assert ids(3) == {one.id, two.id}
    assert ids(3, tags={"k": "v", "l": "w"}) == {one.id}
    assert ids(3, ids=[two.id]) == ids(3, token="b") == {two.id}
    there.terminate([one.id], after(10))
    assert ids(3600) == {one.id, two.id}
    assert ids(3611) == {two.id}


# --- faults ---------------------------------------------------------------------------------------------------------------


def test_stock_out_ends_by_itself_and_spares_other_places() -> None:
    there = world()
    add(there, "stock-out", shape=H100, zone="z2", lasts="30s", message="dry until noon")
    with pytest.raises(Refused, match="dry until noon"):
        there.launch(on_demand("a", zone="z2"), after(29.9))
    there.launch(on_demand("b"), after(1))
    there.launch(reserved("c"), after(1))
    there.launch(on_demand("d", zone="z2"), after(30))


def test_stock_out_of_a_reservation() -> None:
    there = world()
    add(there, "stock-out", reservation="cr", times=1)
    there.launch(on_demand("a"), START)
    assert code(there, reserved("b")) == "ReservationCapacityExceeded"
    there.launch(reserved("b"), START)


def test_fault_that_begins_later() -> None:
    there = world()
    add(there, "stock-out", after="10s")
    there.launch(on_demand("a"), after(9))
    assert code(there, on_demand("b"), 10) == "InsufficientInstanceCapacity"


def test_partial_delivery_spares_the_minimum_not() -> None:
    there = world()
    add(there, "partial", deliver=2, times=1)
    assert len(there.launch(on_demand("a", 4), START)) == 2
    assert len(there.launch(on_demand("a", 4), START)) == 2
    assert len(there.launch(on_demand("b", 4), START)) == 4
    add(there, "partial", deliver=0)
    assert code(there, on_demand("c")) == "InsufficientInstanceCapacity"


def test_bad_machines_are_counted_one_by_one() -> None:
    there = world()
    add(there, "fewer-devices", devices={"nvidia.com/gpu": 7}, times=1)
    add(there, "wrong-rack", rack="r3", times=1)
    add(there, "never-joins", times=2)
    add(there, "never-ready", times=1)
    add(there, "late", delay="1m", times=1)
    add(there, "invisible", delay="20s", times=1)
    one, two, three = there.launch(reserved("a", 3, domain={BLOCK: "b1"}), START)
    assert [machine.devices["nvidia.com/gpu"] for machine in (one, two, three)] == [7, 8, 8]
    assert (one.said_rack, two.said_rack) == ("r3", two.rack)
    assert views.instance(there.config, one, START).domain[RACK] == one.rack != "r3"
    assert [machine.joins_at for machine in (one, two, three)] == [None, None, after(2)]
    assert [machine.becomes_ready for machine in (one, two)] == [False, True]
    assert [machine.running_at for machine in (one, two)] == [after(61), after(1)]
    assert [machine.visible_at for machine in (one, two)] == [after(20), START]


def test_hanging_termination_ends_with_its_fault() -> None:
    there = world()
    (one, two) = there.launch(on_demand("a", 2), START)
    hang = add(there, "hang-termination", times=1)
    there.terminate([one.id, two.id], START)
    states = [machine.state(after(3600)) for machine in there.memory.machines.values()]
    assert states == [InstanceState.STOPPING, InstanceState.TERMINATED]
    there.clear_faults([hang], after(4000))
    assert [machine.state(after(4001)) for machine in there.memory.machines.values()] == [InstanceState.TERMINATED] * 2


def test_hanging_termination_with_a_time() -> None:
    there = world()
    (machine,) = there.launch(on_demand("a"), START)
    hang = add(there, "hang-termination", lasts="1m")
    (machine,) = there.terminate([machine.id], after(10))
    assert [machine.state(after(s)) for s in (59, 60)] == [InstanceState.STOPPING, InstanceState.TERMINATED]
    there.clear_faults([hang], after(99))
    assert there.memory.machines.get(machine.id) == machine, "what is gone doesn't come back"


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("error", {"call": "launch"}, "needs code"),
        ("error", {"code": "InternalError"}, "needs call"),
        ("error", {"call": "launch", "code": "Nonsense"}, "use one of InsufficientInstanceCapacity"),
        ("stock-out", {"deliver": 1}, "has no deliver"),
        ("partial", {}, "needs deliver"),
        ("wrong-rack", {"rack": "r9"}, "use one of r1, r2, r3"),
        ("error", {"call": "inventory", "code": "InternalError", "zone": "z1"}, "say nothing about the call inventory"),
    ],
)
def test_faults_that_make_no_sense(kind: str, fields: dict[str, Any], words: str) -> None:
    there = world()
    with pytest.raises(Refused, match=words):
        add(there, kind, **fields)
    assert len(there.memory.faults) == 0


def test_unknown_fault_is_not_cleared() -> None:
    with pytest.raises(Refused, match="there is no fault f9"):
        world().clear_faults(["f9"], START)


# --- changes of what there is ---------------------------------------------------------------------------------------------


def test_others_take_from_a_reservation_what_we_have_not() -> None:
    there = world()
    there.launch(reserved("a", 2, domain={RACK: "r2"}), START)
    there.change_reservation(ReservationChange(id="cr", outside={"r1": 3}), START)
    assert free(there) == {"r1": 0, "r2": 0}
    assert code(there, reserved("b")) == "ReservationCapacityExceeded"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "cr-9"}, "cr-9 does not exist"),
        ({"id": "cr", "racks": {"r1": 3, "r2": 1}}, "rack r2 has 2 machines in use and 1 reserved"),
        ({"id": "cr", "outside": {"r2": 1}}, "rack r2 has 3 machines in use and 2 reserved"),
        ({"id": "cr", "outside": {"r3": 1}}, "rack r3 has 1 machines in use and 0 reserved"),
        ({"id": "cr", "racks": {"r1": 5, "r2": 2}}, "rack r1 lacks 1 slots"),
        ({"id": "cr", "racks": {"r1": 4, "r2": 2, "r9": 1}}, "rack r9 has no slot"),
        ({"id": "cr", "count": 9}, "give racks instead of count"),
    ],
)
def test_reservation_never_oversells(change: dict[str, Any], words: str) -> None:
    there = world()
    there.launch(reserved("a", 2, domain={RACK: "r2"}), START)
    before = there.memory.reservations.get("cr")
    with pytest.raises(Refused, match=words):
        there.change_reservation(ReservationChange(**change), START)
    assert there.memory.reservations.get("cr") == before


def test_on_demand_machines_keep_a_reservation_from_growing() -> None:
    there = world()
    there.launch(on_demand("a", 7), START)
    with pytest.raises(Refused, match="rack r2 lacks 1 slots"):
        there.change_reservation(ReservationChange(id="cr", racks={"r1": 3, "r2": 3}), START)


def test_scheduled_changes_happen_once_when_they_are_due() -> None:
    there = world()
    there.schedule(Change(id="c1", at=after(5), reservation=ReservationChange(id="cr", racks={"r1": 1, "r2": 2})))
    there.schedule(Change(id="c2", at=after(5), stock=Stock(zone="z2", shape=H100, count=9)))
    there.schedule(Change(id="c3", at=after(5), reservation=ReservationChange(id="cr", racks={})))
    there.advance(after(4.9))
    assert free(there) == {"r1": 2, "r2": 2}
    there.advance(after(5))
    assert free(there) == {"r1": 0, "r2": 2}, "c3 is not possible: one machine is in use"
    assert len(there.launch(on_demand("a", 9, zone="z2"), after(5))) == 9
    assert len(there.memory.changes) == 0


def test_stock_of_what_is_not_there() -> None:
    with pytest.raises(Refused, match="zone z9"):
        world().set_stock(Stock(zone="z9", shape=H100, count=1))


def test_seed_keeps_what_was_changed_and_adds_what_is_new() -> None:
    there = world(faults=[{"kind": "stock-out"}])
    there.change_reservation(ReservationChange(id="cr", outside={"r1": 3}), START)
    there.clear_faults(["config-0"], START)
    block = {"id": "cb", "shape": H100, "zone": "z1", "racks": {"r3": 1}}
    again = world(there.memory, reservations=[{**block}], faults=[{"kind": "stock-out"}])
    assert free(again) == {"r1": 0, "r2": 2}
    assert free(again, "cb") == {"r3": 1}
    assert len(again.memory.faults) == 0


def test_inventory() -> None:
    there = world()
    there.launch(reserved("a", 1, domain={RACK: "r2"}), START)
    seen = views.inventory(there.room(START))
    (reservation,) = seen.reservations
    assert (reservation.total, reservation.used) == (5, 2)
    assert [(each.domain[RACK], each.count) for each in reservation.free_by_domain] == [("r1", 2), ("r2", 1)]
    assert reservation.free_by_domain[0].domain == {"topology.kubernetes.io/zone": "z1", BLOCK: "b1", RACK: "r1"}
    assert {shape.name for shape in seen.shapes} == {H100, "m7i.4xlarge"}
    assert {(each.zone, each.shape): each.available for each in seen.stock} == {
        ("z1", H100): None,
        ("z1", "m7i.4xlarge"): 20,
        ("z2", H100): None,
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"racks": {"r1": 5}}, "rack r1 lacks 1 slots"),
        ({"racks": {"r9": 1}}, "rack r9 has no slot"),
        ({"zone": "z9", "count": 1}, "zone z9 is not known"),
        ({"racks": {"r1": 1}, "outside": {"r1": 2}}, "2 machines in use and 1 reserved"),
        ({"count": 2}, "give racks instead of count"),
    ],
)
def test_reservations_of_the_file_must_fit(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        world(reservations=[{"id": "cx", "shape": H100, "zone": "z1", **fields}])


def test_faults_of_the_file_are_checked() -> None:
    with pytest.raises(ConfigError, match="needs deliver"):
        world(faults=[{"kind": "partial"}])


def test_a_machine_that_was_announced_is_taken_back_when_the_time_comes() -> None:
    there = world()
    [machine] = there.launch(reserved(), START)
    order = Announcement(ids=(machine.id,), kind="SpotInterruption", after="2m", words="capacity is needed")
    there.announce(order, after(10))
    there.advance(after(129))
    [told] = there.described(after(129), tags={})
    view = views.instance(there.config, told, after(129))
    assert (view.state, [(each.kind, each.at, each.words) for each in view.announced]) == (
        InstanceState.RUNNING,
        [("SpotInterruption", after(130), "capacity is needed")],
    )
    there.advance(after(130))
    assert there.memory.machines.get(machine.id).state(after(130)) is InstanceState.STOPPING  # type: ignore[union-attr]


def test_only_machines_that_are_known_can_be_announced() -> None:
    with pytest.raises(Refused, match="i-none"):
        world().announce(Announcement(ids=("i-none",)), START)


def test_a_fault_may_strike_one_machine_in_so_many() -> None:
    """By chance, but the same ones each time: 200 machines of which one in ten is bad have 20, give or take 12 (3 sigma)."""
    there = world(zones=[{"name": "z1", "onDemand": [{"shape": H100, "count": 200}]}], reservations=[], quotas={})
    add(there, "never-ready", one_in=10)
    machines = there.launch(on_demand(count=200), START)
    assert 8 <= sum(not machine.becomes_ready for machine in machines) <= 32


def test_one_in_so_many_is_for_machines() -> None:
    with pytest.raises(Refused, match="oneIn is for faults of machines, not for stock-out"):
        add(world(), "stock-out", one_in=10)
