"""Reservations and blocks: who gets their slots, what is told of them, and how they end (cloud.md 1.1, 1.2, 1.5)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.clouds.ec2 import Ec2
from tests.e2e_clouds.conftest import P5, Stage, refused

GROUP = "arn:aws:ec2:us-east-1:111122223333:placement-group/pg"
RESOURCE_GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/crs"


def reservation(identity: str = "cr-0a", **fields: Any) -> dict[str, Any]:
    return {"id": identity, "type": P5, "zone": "us-east-1a", "total": 4, **fields}


def block(hours: float, **fields: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    dates = {"start": now - timedelta(days=1), "end": now + timedelta(hours=hours)}
    return reservation("cr-0b", kind="capacity-block", block="cb-0b", **dates, **fields)


def into(identity: str = "cr-0a", preference: str | None = None) -> dict[str, Any]:
    """The field of a launch that names a reservation."""
    told = {} if preference is None else {"CapacityReservationPreference": preference}
    return {"CapacityReservationSpecification": {**told, "CapacityReservationTarget": {"CapacityReservationId": identity}}}


def block_order(identity: str = "cr-0b") -> dict[str, Any]:
    return {"InstanceMarketOptions": {"MarketType": "capacity-block"}, **into(identity)}


def preferring(preference: str) -> dict[str, Any]:
    return {"CapacityReservationSpecification": {"CapacityReservationPreference": preference}}


def told(stage: Stage, identity: str = "cr-0a") -> dict[str, Any]:
    found = stage.client().describe_capacity_reservations(CapacityReservationIds=[identity])["CapacityReservations"]
    return dict(found[0])


def used(ec2: Ec2) -> list[str]:
    """Where each living instance's slot is from."""
    return sorted(each["source"] for each in ec2.instances() if each["holdsSlot"])


ON_DEMAND = f"{P5}/us-east-1a"


@pytest.mark.parametrize(
    ("match", "order", "expected"),
    [
        pytest.param("targeted", {}, [ON_DEMAND], id="targeted: nobody falls in"),
        pytest.param("open", {}, ["cr-0a"], id="open: the default falls in"),
        pytest.param("open", preferring("open"), ["cr-0a"], id="open: said"),
        pytest.param("open", preferring("none"), [ON_DEMAND], id="none keeps out"),
        pytest.param("targeted", into(), ["cr-0a"], id="named"),
        pytest.param("targeted", into(preference="capacity-reservations-only"), ["cr-0a"], id="named, as Karpenter does"),
        pytest.param("open", preferring("capacity-reservations-only"), ["cr-0a"], id="only open ones"),
    ],
)
def test_whose_slot_a_launch_takes(ec2: Ec2, stand_in: Stage, match: str, order: dict[str, Any], expected: list[str]) -> None:
    ec2.change(reservations=[reservation(match=match)])
    stand_in.run(**order)
    assert used(ec2) == expected


def test_an_open_one_overflows_on_demand(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(match="open", outside=2)])
    stand_in.run(3)
    assert used(ec2) == ["cr-0a", "cr-0a", ON_DEMAND]


@pytest.mark.parametrize(
    ("fields", "order", "expected"),
    [
        pytest.param({"outside": 2}, into(), ("ReservationCapacityExceeded", 400), id="full"),
        pytest.param({"broken": 2}, into(), ("ReservationCapacityExceeded", 400), id="told free, and can't be had"),
        pytest.param({"zone": "us-east-1b"}, into(), ("ReservationCapacityExceeded", 400), id="another zone"),
        pytest.param({"platform": "Windows"}, into(), ("ReservationCapacityExceeded", 400), id="another platform"),
        pytest.param({"launchable": False}, into(), ("ReservationCapacityExceeded", 400), id="unlaunchable"),
        pytest.param({}, into("cr-0c"), ("InvalidCapacityReservationId.NotFound", 400), id="unknown"),
        pytest.param({"state": "scheduled"}, into(), ("InvalidCapacityReservationState.Unavailable", 400), id="not yet"),
        pytest.param({"placementGroupArn": GROUP}, into(), ("InsufficientInstanceCapacity", 500), id="its group left out"),
        pytest.param({}, into(preference="open"), ("InvalidParameterCombination", 400), id="open, and named"),
        pytest.param(
            {},
            {**into(), "InstanceMarketOptions": {"MarketType": "capacity-block"}},
            ("InvalidParameterCombination", 400),
            id="no block",
        ),
        pytest.param(
            {"match": "open", "total": 2},
            preferring("capacity-reservations-only"),
            ("ReservationCapacityExceeded", 400),
            id="only, and full",
        ),
    ],
)
def test_a_reservation_gives_all_or_nothing(
    ec2: Ec2, stand_in: Stage, fields: dict[str, Any], order: dict[str, Any], expected: tuple[str, int]
) -> None:
    ec2.change(reservations=[reservation(**fields)])
    assert refused(lambda: stand_in.run(3, **order)) == expected
    assert used(ec2) == []


def test_no_group_is_invented_for_a_reservation(ec2: Ec2, stand_in: Stage) -> None:
    """cloud.md 1.5: into a placement group with a reservation made without it is ICE, whatever the count says."""
    stand_in.client().create_placement_group(GroupName="pg", Strategy="cluster")
    placed = {"Placement": {"GroupName": "pg"}}
    ec2.change(reservations=[reservation(), reservation("cr-0g", placementGroupArn=GROUP)])
    assert refused(lambda: stand_in.run(**into(), **placed)) == ("InsufficientInstanceCapacity", 500)
    stand_in.run(**into("cr-0g"), **placed)
    assert used(ec2) == ["cr-0g"]


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        pytest.param({}, ["cr-0a", "cr-0a", ON_DEMAND], id="falls back in silence"),
        pytest.param({"CapacityReservationPreference": "capacity-reservations-only"}, "ReservationCapacityExceeded", id="strict"),
    ],
)
def test_a_resource_group_falls_back_unless_told(
    ec2: Ec2, stand_in: Stage, preference: dict[str, str], expected: list[str] | str
) -> None:
    ec2.change(reservations=[reservation(total=2, groups=[RESOURCE_GROUP])])
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": RESOURCE_GROUP}}
    order = {"CapacityReservationSpecification": {**preference, **target}}
    if isinstance(expected, str):
        assert refused(lambda: stand_in.run(3, **order))[0] == expected
    else:
        stand_in.run(3, **order)
        assert used(ec2) == expected


def test_the_count_lags(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(outside=1)], settings={"counting": 30})
    stand_in.run(2, **into())
    assert told(stand_in)["AvailableInstanceCount"] == 3
    ec2.advance(31)
    after = told(stand_in)
    assert (after["AvailableInstanceCount"], after["TotalInstanceCount"]) == (1, 4)
    assert after["CapacityAllocations"] == [{"AllocationType": "used", "Count": 3}]


def test_a_reservation_may_lie(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(outside=4, told=4)])
    assert told(stand_in)["AvailableInstanceCount"] == 4
    assert refused(lambda: stand_in.run(**into()))[0] == "ReservationCapacityExceeded"


def test_a_slot_is_free_when_its_instance_is_terminated(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(total=1)], settings={"terminating": 120, "counting": 0})
    (identity,) = stand_in.run(**into())
    stand_in.client().terminate_instances(InstanceIds=[identity])
    ec2.advance(110)
    assert refused(lambda: stand_in.run(**into()))[0] == "ReservationCapacityExceeded"
    ec2.advance(11)
    stand_in.run(**into())


def test_a_block_returns_its_slot_minutes_later(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[block(48, total=1)], settings={"terminating": 60, "blockReleasing": 240})
    (identity,) = stand_in.run(**block_order())
    stand_in.client().terminate_instances(InstanceIds=[identity])
    ec2.advance(61)
    (state,) = [each["state"] for each in ec2.instances()]
    assert state == "terminated"
    assert refused(lambda: stand_in.run(**block_order()))[0] == "ReservationCapacityExceeded"
    ec2.advance(240)
    stand_in.run(**block_order())


@pytest.mark.parametrize(
    ("ultraserver", "early"),
    [pytest.param("", 30, id="half an hour early"), pytest.param("u-p6e-gb200x72", 60, id="UltraServer: an hour")],
)
def test_a_block_ends_with_its_instances(ec2: Ec2, stand_in: Stage, ultraserver: str, early: int) -> None:
    ec2.change(reservations=[block(2, ultraserver=ultraserver)])
    stand_in.run(2, **block_order())
    ec2.advance((120 - early) * 60 - 30)
    assert {each["state"] for each in ec2.instances()} == {"running"}
    ec2.advance(40)
    assert {each["state"] for each in ec2.instances()} <= {"shutting-down", "terminated"}
    (call,) = stand_in.client().describe_instances()["Reservations"]
    assert {each["InstanceLifecycle"] for each in call["Instances"]} == {"capacity-block"}


def test_a_reservation_ends_without_its_instances(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(end=datetime.now(UTC) + timedelta(hours=1))])
    (identity,) = stand_in.run(**into())
    ec2.advance(3601)
    ((there,),) = [call["Instances"] for call in stand_in.client().describe_instances(InstanceIds=[identity])["Reservations"]]
    assert there["State"]["Name"] == "running"
    assert "CapacityReservationId" not in there
    assert told(stand_in)["State"] == "expired"
    assert refused(lambda: stand_in.run(**into()))[0] == "InvalidCapacityReservationState.Unavailable"


def test_a_block_needs_its_market(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[block(48)])
    assert refused(lambda: stand_in.run(**into("cr-0b")))[0] == "InvalidParameterCombination"
    assert (
        refused(lambda: stand_in.run(InstanceMarketOptions={"MarketType": "capacity-block"}))[0] == "InvalidParameterCombination"
    )


def test_blocks_name_their_reservations(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[block(48), reservation()])
    (told_block,) = stand_in.client().describe_capacity_blocks()["CapacityBlocks"]
    assert (told_block["CapacityBlockId"], told_block["CapacityReservationIds"], told_block["State"]) == (
        "cb-0b",
        ["cr-0b"],
        "active",
    )
    assert told(stand_in, "cr-0b")["ReservationType"] == "capacity-block"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({"state": ["active"]}, ["cr-0", "cr-2"], id="state"),
        pytest.param({"state": ["active", "scheduled"]}, ["cr-0", "cr-1", "cr-2"], id="either"),
        pytest.param({"instance-match-criteria": ["open"]}, ["cr-2"], id="open"),
        pytest.param({"tag:team": ["a"]}, ["cr-1"], id="tag"),
        pytest.param({"tag-key": ["te*"]}, ["cr-1"], id="tag key, wildcard"),
        pytest.param({"owner-id": ["999988887777"], "state": ["active"]}, ["cr-2"], id="shared by another account"),
    ],
)
def test_reservations_are_filtered(ec2: Ec2, stand_in: Stage, filters: dict[str, list[str]], expected: list[str]) -> None:
    ec2.change(
        reservations=[
            reservation("cr-0"),
            reservation("cr-1", state="scheduled", tags={"team": "a"}),
            reservation("cr-2", match="open", owner="999988887777"),
        ]
    )
    asked = [{"Name": name, "Values": values} for name, values in filters.items()]
    found = stand_in.client().describe_capacity_reservations(Filters=asked)["CapacityReservations"]
    assert [each["CapacityReservationId"] for each in found] == expected


def test_zone_ids_tell_shared_reservations_apart(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(owner="999988887777")])
    assert told(stand_in)["AvailabilityZoneId"] == "use1-az6"
    assert told(stand_in)["OwnerId"] == "999988887777"


def test_pages_and_ids_do_not_mix(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[reservation(f"cr-{number}") for number in range(5)])
    client = stand_in.client()
    pages = client.get_paginator("describe_capacity_reservations").paginate(PaginationConfig={"PageSize": 2})
    assert [len(each["CapacityReservations"]) for each in pages] == [2, 2, 1]
    asked = {"CapacityReservationIds": ["cr-0"], "MaxResults": 2}
    assert refused(lambda: client.describe_capacity_reservations(**asked))[0] == "InvalidParameterCombination"
    unknown = {"CapacityReservationIds": ["cr-0", "cr-x"]}
    assert refused(lambda: client.describe_capacity_reservations(**unknown))[0] == "InvalidCapacityReservationId.NotFound"
