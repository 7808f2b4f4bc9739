"""CreateFleet of type instant (cloud.md 1.4): all of it, some of it, or Errors[] under HTTP 200."""

from typing import Any

import pytest

from e2e.clouds.ec2 import Ec2
from tests.e2e_clouds.conftest import P5, Stage, refused
from tests.e2e_clouds.test_reservations import block

EFA = [
    {"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa", "Groups": ["sg-0efa"]},
    {"NetworkCardIndex": 1, "DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-0efa"]},
]
TARGET = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0b"}}
TEMPLATES = [
    {"id": "lt-0a", "name": "nodes", "versions": [{"ImageId": "ami-0a", "InstanceType": P5, "NetworkInterfaces": EFA}]},
    {
        "id": "lt-0b",
        "name": "block",
        "versions": [
            {
                "ImageId": "ami-0a",
                "InstanceType": P5,
                "InstanceMarketOptions": {"MarketType": "capacity-block"},
                "CapacityReservationSpecification": TARGET,
            }
        ],
    },
]
ALL_OR_NOTHING = {"SingleInstanceType": True, "SingleAvailabilityZone": True}


@pytest.fixture(autouse=True)
def templates(ec2: Ec2) -> None:
    ec2.change(launchTemplates=TEMPLATES)


def fleet(stage: Stage, count: int, *subnets: str, kind: str = "on-demand", template: str = "lt-0a", **fields: Any) -> Any:
    overrides = [{"SubnetId": each, "Priority": float(index)} for index, each in enumerate(subnets or ("subnet-0a",))]
    reference = {"LaunchTemplateId": template, "Version": "1"}
    return stage.client().create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": reference, "Overrides": overrides}],
        TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": kind},
        **fields,
    )


def counts(answer: Any) -> dict[str, int]:
    return {row["AvailabilityZone"]: len(row["InstanceIds"]) for row in answer["Instances"]}


def codes(answer: Any) -> list[str]:
    return [each["ErrorCode"] for each in answer["Errors"]]


@pytest.mark.parametrize(
    ("count", "options", "expected", "errors"),
    [
        pytest.param(4, {}, {"us-east-1a": 4}, [], id="enough in the first"),
        pytest.param(6, {}, {"us-east-1a": 4, "us-east-1b": 2}, ["InsufficientInstanceCapacity"], id="some of each"),
        pytest.param(
            6,
            {"MinTargetCapacity": 6, **ALL_OR_NOTHING},
            {"us-east-1b": 6},
            ["InsufficientInstanceCapacity"],
            id="one zone gives all",
        ),
        pytest.param(
            9, {"MinTargetCapacity": 9, **ALL_OR_NOTHING}, {}, ["InsufficientInstanceCapacity"] * 2, id="none gives all: none"
        ),
        pytest.param(
            6, {"SingleAvailabilityZone": True}, {"us-east-1a": 4}, ["InsufficientInstanceCapacity"], id="one zone, best effort"
        ),
    ],
)
def test_what_a_fleet_brings(
    ec2: Ec2, stand_in: Stage, count: int, options: dict[str, Any], expected: dict[str, int], errors: list[str]
) -> None:
    answer = fleet(stand_in, count, "subnet-0a", "subnet-0b", OnDemandOptions=options)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert (counts(answer), codes(answer)) == (expected, errors)
    assert len(ec2.instances()) == sum(expected.values())


def test_errors_name_their_pool(stand_in: Stage) -> None:
    (error,) = fleet(stand_in, 9, "subnet-0a", OnDemandOptions={"MinTargetCapacity": 9, **ALL_OR_NOTHING})["Errors"]
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == "subnet-0a"
    assert error["Lifecycle"] == "on-demand"


def test_rows_group_by_override_and_interfaces_move_to_its_subnet(ec2: Ec2, stand_in: Stage) -> None:
    (row,) = fleet(stand_in, 3, "subnet-0b")["Instances"]
    assert (len(row["InstanceIds"]), row["SubnetId"], row["InstanceType"]) == (3, "subnet-0b", P5)
    assert {(each["subnet"], each["efa"]) for each in ec2.instances()} == {("subnet-0b", 2)}


def test_priorities_order_the_pools(stand_in: Stage) -> None:
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0a", "Version": "1"},
        "Overrides": [{"SubnetId": "subnet-0a", "Priority": 2.0}, {"SubnetId": "subnet-0b", "Priority": 1.0}],
    }
    answer = stand_in.client().create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[config],
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
        OnDemandOptions={"AllocationStrategy": "prioritized"},
    )
    assert counts(answer) == {"us-east-1b": 1}


def test_a_token_gives_the_same_fleet(ec2: Ec2, stand_in: Stage) -> None:
    first = fleet(stand_in, 2, ClientToken="t")
    again = fleet(stand_in, 2, ClientToken="t")
    assert (again["FleetId"], again["Instances"]) == (first["FleetId"], first["Instances"])
    assert len(ec2.instances()) == 2
    assert refused(lambda: fleet(stand_in, 1, ClientToken="t")) == ("IdempotentParameterMismatch", 400)


def test_instances_bear_the_fleets_token_not_the_callers(ec2: Ec2, stand_in: Stage) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "attempt", "Value": "1"}]}]
    made = fleet(stand_in, 1, ClientToken="t", TagSpecifications=tags)
    client = stand_in.client()
    assert client.describe_instances(Filters=[{"Name": "client-token", "Values": ["t"]}])["Reservations"] == []
    (call,) = client.describe_instances(Filters=[{"Name": "tag:attempt", "Values": ["1"]}])["Reservations"]
    tags_told = {each["Key"]: each["Value"] for each in call["Instances"][0]["Tags"]}
    assert tags_told["aws:ec2:fleet-id"] == made["FleetId"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"OnDemandOptions": {"MinTargetCapacity": 2}}, "InvalidParameterCombination", id="a least of many zones"),
        pytest.param(
            {"OnDemandOptions": {"MinTargetCapacity": 3, **ALL_OR_NOTHING}},
            "InvalidParameterValue",
            id="a least above the target",
        ),
        pytest.param({"kind": "capacity-block"}, "InvalidParameterCombination", id="a block without its market"),
        pytest.param({"template": "lt-0b"}, "InvalidParameterCombination", id="a block's market on demand"),
        pytest.param({"template": "lt-0c"}, "InvalidLaunchTemplateId.NotFound", id="unknown template"),
        pytest.param({"DryRun": True}, "DryRunOperation", id="dry run"),
    ],
)
def test_fleets_that_are_refused(ec2: Ec2, stand_in: Stage, fields: dict[str, Any], expected: str) -> None:
    assert refused(lambda: fleet(stand_in, 2, **fields))[0] == expected
    assert ec2.instances() == []


def test_a_version_must_be_named(stand_in: Stage) -> None:
    order = {"LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0a"}}]}
    target = {"TotalTargetCapacity": 1}
    call = stand_in.client().create_fleet
    assert refused(lambda: call(Type="instant", TargetCapacitySpecification=target, **order))[0] == "MissingParameter"


def test_a_fleet_fills_a_block(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[block(48)])
    answer = fleet(stand_in, 4, kind="capacity-block", template="lt-0b")
    assert [(row["Lifecycle"], len(row["InstanceIds"])) for row in answer["Instances"]] == [("capacity-block", 4)]
    again = fleet(stand_in, 1, kind="capacity-block", template="lt-0b")
    assert (again["Instances"], codes(again)) == ([], ["ReservationCapacityExceeded"])


def test_a_fleet_is_told_by_its_id_alone(stand_in: Stage) -> None:
    identity = fleet(stand_in, 2)["FleetId"]
    client = stand_in.client()
    assert client.describe_fleets()["Fleets"] == []
    (told,) = client.describe_fleets(FleetIds=[identity])["Fleets"]
    assert (told["Type"], told["FulfilledCapacity"]) == ("instant", 2.0)
