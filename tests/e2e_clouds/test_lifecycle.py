"""Instances after launch: not known at once, slow to end, and where they stand (cloud.md 1.5, 1.6, 1.9)."""

from typing import Any

import pytest

from e2e.clouds.ec2 import Ec2
from tests.e2e_clouds.conftest import P5, Stage, refused

RACKS = [
    {"nodes": ["s1", "b1", "r1"], "count": 2},
    {"nodes": ["s1", "b2", "r2"], "count": 2},
    {"nodes": ["s2", "b3", "r3"], "count": 3},
]


def states(ec2: Ec2) -> list[str]:
    return [each["state"] for each in ec2.instances()]


def told_states(stage: Stage, ids: list[str]) -> list[str]:
    calls = stage.client().describe_instances(InstanceIds=ids)["Reservations"]
    return [each["State"]["Name"] for call in calls for each in call["Instances"]]


def test_a_new_instance_is_not_known_at_once(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"visible": 30, "running": 60})
    client, ids = stand_in.client(), stand_in.run(2, ClientToken="t")
    gone = ("InvalidInstanceID.NotFound", 400)
    assert refused(lambda: client.describe_instances(InstanceIds=ids)) == gone
    assert refused(lambda: client.create_tags(Resources=ids, Tags=[{"Key": "a", "Value": "b"}])) == gone
    assert refused(lambda: client.terminate_instances(InstanceIds=ids)) == gone
    assert client.describe_instances(Filters=[{"Name": "client-token", "Values": ["t"]}])["Reservations"] == []
    ec2.advance(31)
    assert told_states(stand_in, ids) == ["pending", "pending"]
    ec2.advance(30)
    assert told_states(stand_in, ids) == ["running", "running"]


def test_an_end_takes_its_time_and_is_remembered_for_an_hour(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"terminating": 180})
    ids = stand_in.run()
    stand_in.client().terminate_instances(InstanceIds=ids)
    ec2.advance(170)
    assert told_states(stand_in, ids) == ["shutting-down"]
    ec2.advance(11)
    assert told_states(stand_in, ids) == ["terminated"]
    ec2.advance(3590)
    assert told_states(stand_in, ids) == ["terminated"]
    ec2.advance(20)
    assert refused(lambda: stand_in.client().describe_instances(InstanceIds=ids))[0] == "InvalidInstanceID.NotFound"


def test_a_protected_instance_keeps_those_of_its_zone(ec2: Ec2, stand_in: Stage) -> None:
    """The example of the API reference, TerminateInstances."""
    a, b = stand_in.run(2)
    (c,) = stand_in.run(SubnetId="subnet-0b", DisableApiTermination=True)
    (d,) = stand_in.run(SubnetId="subnet-0b")
    assert refused(lambda: stand_in.client().terminate_instances(InstanceIds=[a, b, c, d])) == ("OperationNotPermitted", 400)
    assert {each["id"]: each["state"] for each in ec2.instances()} == {
        a: "shutting-down",
        b: "shutting-down",
        c: "running",
        d: "running",
    }


def test_no_more_than_a_thousand_ids(stand_in: Stage) -> None:
    ids = [f"i-{number:017x}" for number in range(1001)]
    assert refused(lambda: stand_in.client().terminate_instances(InstanceIds=ids))[0] == "InvalidParameterValue"


def test_the_cloud_may_kill(ec2: Ec2, stand_in: Stage) -> None:
    (identity,) = stand_in.run()
    ec2.kill(identity)
    (call,) = stand_in.client().describe_instances(InstanceIds=[identity])["Reservations"]
    assert call["Instances"][0]["StateReason"]["Code"] == "Server.InternalError"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param({}, [7], id="all at once"),
        pytest.param({"MaxResults": 5}, [5, 2], id="pages of five"),
    ],
)
def test_instances_come_in_pages(ec2: Ec2, stand_in: Stage, sizes: dict[str, int], expected: list[int]) -> None:
    stand_in.run(7, SubnetId="subnet-0b")
    client, found, token = stand_in.client(), [], {}
    while True:
        answer = client.describe_instances(**sizes, **token)
        found.append(sum(len(call["Instances"]) for call in answer["Reservations"]))
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    assert found == expected


@pytest.mark.parametrize("size", [pytest.param(4, id="too small"), pytest.param(1001, id="too large")])
def test_pages_have_their_sizes(stand_in: Stage, size: int) -> None:
    assert refused(lambda: stand_in.client().describe_instances(MaxResults=size))[0] == "InvalidParameterValue"


def test_an_unknown_filter_is_an_error(stand_in: Stage) -> None:
    wrong = [{"Name": "capacity-reservation", "Values": ["cr-0a"]}]
    assert refused(lambda: stand_in.client().describe_instances(Filters=wrong))[0] == "InvalidParameterValue"


# --- topology -------------------------------------------------------------------------------------------------------------


def paths(ec2: Ec2) -> list[tuple[str, ...]]:
    return sorted(tuple(each["nodes"]) for each in ec2.instances())


def test_nodes_are_told_of_running_instances_alone(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(stock=[{"type": P5, "zone": "us-east-1a", "count": 7, "places": RACKS}], settings={"running": 60})
    ids, client = stand_in.run(2), stand_in.client()
    assert [each["NetworkNodes"] for each in client.describe_instance_topology(InstanceIds=ids)["Instances"]] == [[], []]
    ec2.advance(61)
    first, second = client.describe_instance_topology(InstanceIds=ids)["Instances"]
    assert [len(first["NetworkNodes"]), first["ZoneId"]] == [3, "use1-az6"]
    assert all(node.startswith("nn-") for node in first["NetworkNodes"])
    assert (first["NetworkNodes"] == second["NetworkNodes"]) is (len(set(paths(ec2))) == 1)


def test_without_a_group_machines_come_from_anywhere(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(stock=[{"type": P5, "zone": "us-east-1a", "count": 7, "places": RACKS}])
    stand_in.run(3)
    assert len(set(paths(ec2))) == 3


def test_a_cluster_group_keeps_together_or_fails(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(stock=[{"type": P5, "zone": "us-east-1a", "count": 7, "places": RACKS}])
    client, placed = stand_in.client(), {"Placement": {"GroupName": "pg"}}
    client.create_placement_group(GroupName="pg", Strategy="cluster")
    stand_in.run(3, **placed)
    assert {path[0] for path in paths(ec2)} == {"s1"}
    assert refused(lambda: stand_in.run(2, **placed)) == ("InsufficientInstanceCapacity", 500)
    stand_in.run(1, **placed)
    stand_in.run(3)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(["s1", "b1", "r1"], 2, id="the same spine"),
        pytest.param(["s9", "b9", "r9"], None, id="another spine"),
    ],
)
def test_a_remainder_on_demand_joins_the_reservations_group(
    ec2: Ec2, stand_in: Stage, nodes: list[str], expected: int | None
) -> None:
    group = "arn:aws:ec2:us-east-1:111122223333:placement-group/pg"
    stand_in.client().create_placement_group(GroupName="pg", Strategy="cluster")
    home = {"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": 1, "placementGroupArn": group, "places": RACKS[:1]}
    stock = {"type": P5, "zone": "us-east-1a", "count": 1, "places": [{"nodes": nodes, "count": 1}]}
    ec2.change(reservations=[home], stock=[stock])
    placed = {"Placement": {"GroupName": "pg"}}
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}}
    stand_in.run(CapacityReservationSpecification=target, **placed)
    order = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}, **placed}
    if expected is None:
        assert refused(lambda: stand_in.run(**order))[0] == "InsufficientInstanceCapacity"
    else:
        stand_in.run(**order)
        assert len(ec2.instances()) == expected


def test_without_told_places_a_zone_is_near(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[{"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": 1}])
    stand_in.run(CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}})
    stand_in.run()
    first, second = (each["nodes"] for each in ec2.instances())
    assert (first[:2] == second[:2], first[2] == second[2]) == (True, False)


def test_a_spread_group_takes_seven_of_a_zone(ec2: Ec2, stand_in: Stage) -> None:
    stand_in.client().create_placement_group(GroupName="pg", Strategy="spread")
    order = {"SubnetId": "subnet-0b", "Placement": {"GroupName": "pg"}}
    assert refused(lambda: stand_in.run(8, **order)) == ("InsufficientInstanceCapacity", 500)
    stand_in.run(7, **order)


def test_groups_are_unique_and_outlive_their_instances(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"terminating": 60})
    client = stand_in.client()
    client.create_placement_group(GroupName="pg", Strategy="cluster")
    assert (
        refused(lambda: client.create_placement_group(GroupName="pg", Strategy="cluster"))[0] == "InvalidPlacementGroup.Duplicate"
    )
    client.terminate_instances(InstanceIds=stand_in.run(Placement={"GroupName": "pg"}))
    assert refused(lambda: client.delete_placement_group(GroupName="pg"))[0] == "InvalidPlacementGroup.InUse"
    ec2.advance(61)
    client.delete_placement_group(GroupName="pg")
    assert client.describe_placement_groups()["PlacementGroups"] == []
    assert refused(lambda: client.describe_placement_groups(GroupNames=["pg"]))[0] == "InvalidPlacementGroup.Unknown"


@pytest.mark.parametrize(
    ("places", "state", "shared"),
    [
        pytest.param(RACKS[:1], None, 3, id="one rack"),
        pytest.param(RACKS[:2], None, 1, id="one spine"),
        pytest.param(RACKS, None, 0, id="nothing in common"),
        pytest.param(RACKS[:1], "pending", 3, id="pending"),
        pytest.param(RACKS[:1], "expired", 0, id="over"),
    ],
)
def test_a_reservation_tells_the_nodes_it_lies_below(
    ec2: Ec2, stand_in: Stage, places: list[dict[str, Any]], state: str | None, shared: int
) -> None:
    """Before launch, and only as far down as all of it shares (cloud.md 1.6; API reference)."""
    total = sum(each["count"] for each in places)
    ec2.change(reservations=[{"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": total, "places": places, "state": state}])
    client = stand_in.client()
    (told,) = client.describe_capacity_reservation_topology(CapacityReservationIds=["cr-0a"])["CapacityReservations"]
    assert len(told["NetworkNodes"]) == shared


def test_a_reservations_nodes_are_those_of_its_instances(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[{"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": 2, "places": RACKS[:1]}])
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}}
    ids, client = stand_in.run(2, CapacityReservationSpecification=target), stand_in.client()
    (before,) = client.describe_capacity_reservation_topology()["CapacityReservations"]
    after = client.describe_instance_topology(InstanceIds=ids)["Instances"]
    assert {tuple(each["NetworkNodes"]) for each in after} == {tuple(before["NetworkNodes"])}


def test_topology_has_its_limits(ec2: Ec2, stand_in: Stage) -> None:
    client = stand_in.client()
    many = [f"i-{number:017x}" for number in range(101)]
    assert refused(lambda: client.describe_instance_topology(InstanceIds=many))[0] == "InvalidParameterValue"
    reservations = [{"id": f"cr-{n}", "type": P5, "zone": "us-east-1a", "total": 1} for n in range(11)]
    ec2.change(reservations=reservations)
    eleven = [each["id"] for each in reservations]
    call = client.describe_capacity_reservation_topology
    assert refused(lambda: call(CapacityReservationIds=eleven))[0] == "InvalidParameterValue"
    assert len(call()["CapacityReservations"]) == 10
    assert not client.can_paginate("describe_capacity_reservation_topology")
