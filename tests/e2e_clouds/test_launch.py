"""Launches on demand: how many, at what limits, under which token (cloud.md 1.5, 1.7, 1.8, 1.9)."""

from typing import Any

import pytest

from e2e.clouds.ec2 import Ec2
from tests.e2e_clouds.conftest import P5, Stage, message, refused


def launched(stage: Stage, least: int, most: int, **fields: Any) -> int:
    order = {"ImageId": stage.image(), "InstanceType": P5, "SubnetId": "subnet-0a", **fields}
    return len(stage.client().run_instances(MinCount=least, MaxCount=most, **order)["Instances"])


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        pytest.param(2, 2, 2, id="exactly"),
        pytest.param(1, 9, 4, id="as many as there are"),
        pytest.param(4, 4, 4, id="the last one"),
        pytest.param(5, 5, None, id="one too many: none"),
        pytest.param(5, 9, None, id="too few for the least: none"),
    ],
)
def test_between_least_and_most_or_none(ec2: Ec2, stand_in: Stage, least: int, most: int, expected: int | None) -> None:
    if expected is None:
        assert refused(lambda: launched(stand_in, least, most)) == ("InsufficientInstanceCapacity", 500)
    else:
        assert launched(stand_in, least, most) == expected
    assert len(ec2.instances()) == (expected or 0)


def test_a_dry_zone_names_others(stand_in: Stage) -> None:
    assert "us-east-1b" in message(lambda: launched(stand_in, 5, 5))


def test_a_type_may_not_be_offered_in_a_zone(stand_in: Stage) -> None:
    assert refused(lambda: launched(stand_in, 1, 1, SubnetId="subnet-0c")) == ("Unsupported", 400)


def test_the_vcpu_quota_counts_reservations_too(ec2: Ec2, stand_in: Stage) -> None:
    """192 vCPUs each: 5 allowed, 3 of them reserved though nobody uses them (cloud.md 1.1)."""
    ec2.change(
        quotas=[{"code": "L-417A185B", "value": 192 * 5}],
        reservations=[{"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": 3}],
    )
    assert refused(lambda: launched(stand_in, 3, 3)) == ("VcpuLimitExceeded", 400)
    assert launched(stand_in, 2, 2) == 2
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}}
    assert launched(stand_in, 3, 3, CapacityReservationSpecification=target) == 3


def test_a_subnet_runs_out_of_addresses(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(subnets=[{"id": "subnet-0a", "zone": "us-east-1a", "addresses": 5}])
    assert launched(stand_in, 3, 3) == 3
    three_cards = [
        {"DeviceIndex": 0, "NetworkCardIndex": 0, "SubnetId": "subnet-0a"},
        {"DeviceIndex": 1, "NetworkCardIndex": 1, "SubnetId": "subnet-0a", "InterfaceType": "efa"},
        {"DeviceIndex": 1, "NetworkCardIndex": 2, "SubnetId": "subnet-0a", "InterfaceType": "efa"},
    ]
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "NetworkInterfaces": three_cards, "MinCount": 1, "MaxCount": 1}
    assert refused(lambda: stand_in.client().run_instances(**order)) == ("InsufficientFreeAddressesInSubnet", 400)


def test_a_token_launches_once(ec2: Ec2, stand_in: Stage) -> None:
    first = stand_in.run(2, ClientToken="t")
    assert stand_in.run(2, ClientToken="t") == first
    assert len(ec2.instances()) == 2
    assert refused(lambda: stand_in.run(1, ClientToken="t")) == ("IdempotentParameterMismatch", 400)
    assert stand_in.run(2, ClientToken="u") != first


def test_a_token_is_of_its_zone(stand_in: Stage) -> None:
    first = stand_in.run(ClientToken="t")
    assert stand_in.run(ClientToken="t", SubnetId="subnet-0b") != first, "another zone, another token"


@pytest.mark.parametrize("habit", [pytest.param("error", id="since 2025"), pytest.param("instances", id="before")])
def test_a_token_of_the_terminated(ec2: Ec2, stand_in: Stage, habit: str) -> None:
    ec2.change(settings={"tokenOfTerminated": habit})
    first = stand_in.run(ClientToken="t")
    stand_in.client().terminate_instances(InstanceIds=first)
    ec2.advance(10)
    if habit == "error":
        assert refused(lambda: stand_in.run(ClientToken="t")) == ("IdempotentInstanceTerminated", 400)
    else:
        assert stand_in.run(ClientToken="t") == first
    assert len(ec2.instances()) == 1


def test_a_token_finds_its_instances(stand_in: Stage) -> None:
    wanted = stand_in.run(2, ClientToken="t")
    stand_in.run()
    (call,) = stand_in.client().describe_instances(Filters=[{"Name": "client-token", "Values": ["t"]}])["Reservations"]
    assert [each["InstanceId"] for each in call["Instances"]] == wanted


def card(index: int, kind: str = "efa", **fields: Any) -> dict[str, Any]:
    """The index rule of cloud.md 1.7."""
    place = {"NetworkCardIndex": index, "DeviceIndex": 0 if index == 0 else 1}
    return {**place, "InterfaceType": kind, "SubnetId": "subnet-0a", "Groups": ["sg-0efa"], **fields}


FULL_SET = [card(index, "efa" if index % 4 == 0 else "efa-only") for index in range(32)]


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        pytest.param([card(0), card(32)], "InvalidParameterValue", id="no such card"),
        pytest.param([card(0), card(1, DeviceIndex=0)], "InvalidParameterValue", id="device 0 on another card"),
        pytest.param([card(1)], "InvalidParameterValue", id="no primary"),
        pytest.param([card(0), card(1), card(1)], "InvalidParameterValue", id="twice in one place"),
        pytest.param([card(0, "efa-only")], "InvalidParameterValue", id="a primary without addresses"),
        pytest.param(
            [card(0), card(1, "efa-only", PrivateIpAddress="10.0.0.9")], "InvalidParameterValue", id="efa-only with an address"
        ),
        pytest.param([card(0, AssociatePublicIpAddress=True), card(1)], "InvalidParameterCombination", id="public, and two"),
        pytest.param([card(0, Groups=["sg-0none"])], "InvalidGroup.NotFound", id="unknown group"),
    ],
)
def test_network_cards_have_their_rules(stand_in: Stage, cards: list[dict[str, Any]], expected: str) -> None:
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "NetworkInterfaces": cards, "MinCount": 1, "MaxCount": 1}
    assert refused(lambda: stand_in.client().run_instances(**order)) == (expected, 400)


def test_the_full_set_of_efa(ec2: Ec2, stand_in: Stage) -> None:
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "NetworkInterfaces": FULL_SET, "MinCount": 1, "MaxCount": 1}
    (made,) = stand_in.client().run_instances(**order)["Instances"]
    assert len(made["NetworkInterfaces"]) == 32
    (there,) = ec2.instances()
    assert (there["efa"], there["efaWorks"]) == (32, True)
    subnet = stand_in.client().describe_subnets(SubnetIds=["subnet-0a"])["Subnets"][0]
    assert subnet["AvailableIpAddressCount"] == 4091 - 8, "efa-only takes no address"


def test_efa_needs_a_group_that_lets_itself_in(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(securityGroups=[{"id": "sg-0efa", "fromItself": False}])
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "NetworkInterfaces": FULL_SET, "MinCount": 1, "MaxCount": 1}
    stand_in.client().run_instances(**order)
    assert [each["efaWorks"] for each in ec2.instances()] == [False]


def test_a_type_without_efa(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(stock=[{"type": "m5.large", "zone": "us-east-1a", "count": 1}])
    order = {
        "ImageId": stand_in.image(),
        "InstanceType": "m5.large",
        "NetworkInterfaces": [card(0)],
        "MinCount": 1,
        "MaxCount": 1,
    }
    assert refused(lambda: stand_in.client().run_instances(**order))[0] == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"InstanceType": "nope.large"}, "InvalidParameterValue", id="no such type"),
        pytest.param({"ImageId": ""}, "MissingParameter", id="no image"),
        pytest.param(
            {"Placement": {"AvailabilityZone": "us-east-1b"}}, "InvalidParameterCombination", id="subnet of another zone"
        ),
        pytest.param(
            {"Placement": {"AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az6"}},
            "InvalidParameterCombination",
            id="zone by name and id",
        ),
        pytest.param({"Placement": {"GroupName": "nobody"}}, "InvalidPlacementGroup.Unknown", id="unknown group"),
        pytest.param({"UserData": "x" * 16_385}, "InvalidParameterValue", id="long user data"),
        pytest.param({"LaunchTemplate": {"LaunchTemplateId": "lt-0"}}, "InvalidLaunchTemplateId.NotFound", id="unknown template"),
        pytest.param(
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:a", "Value": ""}]}]},
            "InvalidParameterValue",
            id="reserved tag",
        ),
        pytest.param(
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": str(n), "Value": ""} for n in range(51)]}]},
            "TagLimitExceeded",
            id="51 tags",
        ),
    ],
)
def test_launches_that_make_no_sense(stand_in: Stage, fields: dict[str, Any], expected: str) -> None:
    assert refused(lambda: launched(stand_in, 1, 1, **fields)) == (expected, 400)


def test_a_zone_may_be_named_by_its_id(stand_in: Stage) -> None:
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "Placement": {"AvailabilityZoneId": "use1-az1"}}
    (made,) = stand_in.client().run_instances(MinCount=1, MaxCount=1, **order)["Instances"]
    assert (made["Placement"]["AvailabilityZone"], made["SubnetId"]) == ("us-east-1b", "subnet-0b")
