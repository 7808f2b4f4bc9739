"""What is read out of EC2's answers. Expected values: AWS's own pages and hand arithmetic."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from capacity.requirements import Taint
from kube.ours import AwsLaunchTemplate, AwsProvider, RegisteredTaint
from provisioner.clouds.aws import account, machines, prices, reservations, shapes, topology
from provisioner.clouds.aws.reservations import Ceilings
from provisioner.clouds.base import InstanceState

PROVIDER = AwsProvider(
    cluster_name="train",
    launch_template=AwsLaunchTemplate(id="lt-0a", version="1"),
    subnet_ids=("subnet-0a",),
    region="us-east-1",
)
P5: dict[str, Any] = {
    "InstanceType": "p5.48xlarge",
    "VCpuInfo": {"DefaultVCpus": 192},
    "MemoryInfo": {"SizeInMiB": 2097152},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "GpuInfo": {"Gpus": [{"Name": "H100", "Manufacturer": "NVIDIA", "Count": 8}]},
    "NetworkInfo": {
        "NetworkCards": [
            {"NetworkCardIndex": card, "MaximumNetworkInterfaces": 2, "InterfaceTypes": ["interface", "efa", "efa-only"]}
            for card in range(32)
        ],
        "Ipv4AddressesPerInterface": 50,
        "EfaSupported": True,
        "EfaInfo": {"MaximumEfaInterfaces": 32},
    },
}
END = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
HELD: dict[str, Any] = {
    "CapacityReservationId": "cr-1",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "AvailabilityZoneId": "use1-az6",
    "State": "active",
    "TotalInstanceCount": 8,
    "AvailableInstanceCount": 5,
    "InstanceMatchCriteria": "targeted",
}


# --- types ----------------------------------------------------------------------------------------------------------------


def test_a_p5_as_the_scheduler_will_see_it() -> None:
    """EKS reserves 60+10+5+5 milli-cores for the first four and 2.5 for each further one; 255 MiB and 11 for each of 100 pods."""
    shape = shapes.shape(shapes.parse(P5), PROVIDER)
    assert shape.shape.allocatable == {
        "cpu": 192_000 - (60 + 10 + 10 + 470),
        "memory": 2097152 * 2**20 * 925 // 1000 - (255 + 1100 + 100) * 2**20,
        "pods": 100,
        "nvidia.com/gpu": 8,
    }
    assert shape.on_demand_price == 55_040_000
    assert shape.shape.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "topology.kubernetes.io/region": "us-east-1",
    }


def test_what_the_pool_declares_of_its_nodes_counts() -> None:
    more = AwsProvider(
        cluster_name="train",
        launch_template=PROVIDER.launch_template,
        subnet_ids=("subnet-0a",),
        devices=("nvidia.com/gpu", "vpc.amazonaws.com/efa"),
        allocatable={"ephemeral-storage": "1Gi", "pods": "30"},
        taints=(RegisteredTaint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
        startup_taints=(RegisteredTaint(key="efa", effect="NoExecute"),),
        prices={"p5.48xlarge": "61.5"},
    )
    made = shapes.shape(shapes.parse(P5), more)
    assert (made.shape.allocatable["vpc.amazonaws.com/efa"], made.shape.allocatable["pods"]) == (32, 30)
    assert made.shape.allocatable["ephemeral-storage"] == 2**30
    assert made.shape.taints == (Taint("nvidia.com/gpu", "NoSchedule", "present"),)
    assert made.startup_taints == (Taint("efa", "NoExecute"),)
    assert made.on_demand_price == 61_500_000


def test_a_price_that_nobody_knows() -> None:
    assert prices.hourly("p9.48xlarge", {}) is None
    assert prices.hourly("p9.48xlarge", {"p9.48xlarge": "0.000001"}) == 1


# --- reservations ---------------------------------------------------------------------------------------------------------


UNUSABLE = (
    *("expired", "cancelled", "pending", "failed", "payment-pending", "payment-failed", "assessing", "delayed", "unsupported"),
    *("cancelling", "unavailable", "a-new-one"),
)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({}, "", id="active"),
        pytest.param({"State": "scheduled"}, "", id="scheduled"),
        *(pytest.param({"State": state}, f"its state is {state}", id=state) for state in UNUSABLE),
        pytest.param({"InstancePlatform": "Windows"}, "Windows", id="platform"),
        pytest.param({"Tenancy": "dedicated"}, "tenancy", id="tenancy"),
        pytest.param({"OutpostArn": "arn:x"}, "Outpost", id="outpost"),
        pytest.param({"Interruptible": True}, "take it back", id="interruptible"),
        pytest.param({"LaunchStatus": "unlaunchable"}, "not launchable", id="UltraServer that isn't ready"),
    ],
)  # fmt: skip
def test_which_reservations_can_be_used(more: dict[str, Any], words: str) -> None:
    why = reservations.parse({**HELD, **more}).why
    assert words in why
    assert bool(why) == bool(words)


def test_free_is_what_is_available_and_no_more() -> None:
    held = reservations.parse(HELD)
    domain = {"topology.k8s.aws/network-node-layer-1": "n1"}
    found = reservations.offered(held, 5, False, domain)
    assert (found.total, found.used, found.ends, found.starts) == (8, 3, None, None)
    assert (found.total_by_domain, found.free_by_domain) == (((domain, 8),), ((domain, 5),))
    assert reservations.offered(held, 99, False, {}).used == 0


@pytest.mark.parametrize(
    ("ultraserver", "ends"),
    [
        pytest.param(False, datetime(2026, 12, 1, 11, 0, tzinfo=UTC), id="half an hour before"),
        pytest.param(True, datetime(2026, 12, 1, 10, 30, tzinfo=UTC), id="an hour before"),
    ],
)
def test_a_block_ends_when_its_instances_are_killed(ultraserver: bool, ends: datetime) -> None:
    block = reservations.parse({**HELD, "ReservationType": "capacity-block", "EndDate": END, "CapacityBlockId": "cb-1"})
    found = reservations.offered(block, 5, ultraserver, {})
    assert (found.capacity_type, found.ends) == ("capacity-block", int(ends.timestamp()))


def test_instances_outlive_an_ordinary_reservation() -> None:
    assert reservations.offered(reservations.parse({**HELD, "EndDate": END}), 5, False, {}).ends is None


def test_a_block_to_come_is_all_free_and_starts_later() -> None:
    later = reservations.parse({**HELD, "State": "scheduled", "StartDate": END, "AvailableInstanceCount": 0})
    found = reservations.offered(later, reservations.free(later), False, {})
    assert (found.used, found.starts) == (0, int(END.timestamp()))


def test_the_placement_group_is_named_by_an_arn() -> None:
    arn = "arn:aws:ec2:us-east-1:111122223333:placement-group/cpg"
    assert reservations.parse({**HELD, "PlacementGroupArn": arn}).placement_group == "cpg"


def test_a_launch_counts_before_ec2_has_counted_it() -> None:
    ceilings = Ceilings()
    assert ceilings.of("cr-1", 5, now=0) == 5
    ceilings.launched("cr-1", before=5, count=3, now=0)
    assert ceilings.of("cr-1", 5, now=1) == 2  # EC2's count lags
    assert ceilings.of("cr-1", 1, now=1) == 1  # it has caught up, and others came
    ceilings.launched("cr-1", before=5, count=1, now=2)
    assert ceilings.of("cr-1", 5, now=3) == 1
    assert ceilings.of("cr-1", 5, now=40) == 5
    ceilings.full("cr-1", now=40)
    assert (ceilings.of("cr-1", 5, now=99), ceilings.of("cr-1", 5, now=101)) == (0, 5)


# --- instances ------------------------------------------------------------------------------------------------------------

TAGS = {
    "corral.dev/token": "t0",
    "corral.dev/reservation": "cr-1",
    "corral.dev/zone-id": "use1-az6",
    "corral.dev/efas": "2",
    "corral.dev/network-nodes": "n1/n2",
}
RUNNING: dict[str, Any] = {
    "InstanceId": "i-0a",
    "InstanceType": "p5.48xlarge",
    "State": {"Name": "running"},
    "Placement": {"AvailabilityZone": "us-east-1a"},
    "CapacityReservationId": "cr-1",
    "NetworkInterfaces": [{"InterfaceType": "efa"}, {"InterfaceType": "efa-only"}],
    "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()],
}
ZONES = {"us-east-1a": "use1-az6", "us-east-1b": "use1-az1"}
PLACE = {"topology.k8s.aws/network-node-layer-1": "n1", "topology.k8s.aws/network-node-layer-2": "n2"}


def test_an_instance_as_it_is_told() -> None:
    found = machines.instance(RUNNING, ZONES, PLACE)
    assert (found.id, found.provider_id, found.token) == ("i-0a", "aws:///us-east-1a/i-0a", "t0")
    assert (found.state, found.reservation, found.wrong) == (InstanceState.RUNNING, "cr-1", "")


@pytest.mark.parametrize(
    ("more", "place", "words"),
    [
        pytest.param({"CapacityReservationId": "cr-2"}, PLACE, "reservation cr-2, ordered was cr-1", id="another reservation"),
        pytest.param({"CapacityReservationId": None}, PLACE, "reservation none, ordered was cr-1", id="no reservation"),
        pytest.param({"Placement": {"AvailabilityZone": "us-east-1b"}}, PLACE, "zone use1-az1, ordered was use1-az6", id="zone"),
        pytest.param({"NetworkInterfaces": [{"InterfaceType": "efa"}]}, PLACE, "1 of 2 EFA", id="karpenter-2440: too few EFAs"),
        pytest.param({}, {**PLACE, "topology.k8s.aws/network-node-layer-2": "n9"}, "n9 instead of n2", id="network node"),
        pytest.param({}, {}, "", id="place not known yet"),
        pytest.param({"State": {"Name": "pending"}, "NetworkInterfaces": []}, {}, "", id="not judged before it runs"),
        pytest.param({"Tags": []}, PLACE, "", id="not ours"),
        pytest.param({"State": {"Name": "stopped"}}, PLACE, "was stopped", id="its host was retired"),
    ],
)
def test_what_is_not_as_ordered(more: dict[str, Any], place: dict[str, str], words: str) -> None:
    wrong = machines.instance({**RUNNING, **more}, ZONES, place).wrong
    assert words in wrong
    assert bool(wrong) == bool(words)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        pytest.param("pending", InstanceState.PENDING, id="pending"),
        pytest.param("stopping", InstanceState.STOPPING, id="stopping"),
        pytest.param("stopped", InstanceState.RUNNING, id="there until it is terminated"),
        pytest.param("shutting-down", InstanceState.STOPPING, id="ending"),
        pytest.param("terminated", InstanceState.TERMINATED, id="gone"),
    ],
)
def test_what_is_left_of_a_machine(name: str, state: InstanceState) -> None:
    assert machines.instance({**RUNNING, "State": {"Name": name}}, ZONES, PLACE).state is state


def test_the_place_is_asked_for_where_it_was_ordered_and_not_known() -> None:
    assert machines.awaits_topology(machines.instance(RUNNING, ZONES, {}))
    assert not machines.awaits_topology(machines.instance(RUNNING, ZONES, PLACE))
    assert not machines.awaits_topology(machines.instance({**RUNNING, "Tags": []}, ZONES, {}))


def test_what_ec2_announces_and_what_is_over() -> None:
    coming = {"Code": "instance-retirement", "Description": "The instance is running on degraded hardware", "NotBefore": END}
    over = {"Code": "system-reboot", "Description": "[Completed] scheduled reboot", "NotBefore": END}
    [found] = machines.announcements({"InstanceId": "i-0a", "Events": [coming, over]})
    assert (found.kind, found.at) == ("Maintenance", 1_796_124_600)  # 2026-12-01T11:30:00Z
    assert found.words == "instance-retirement: The instance is running on degraded hardware"


def test_network_nodes_are_layers_from_the_top() -> None:
    assert topology.of_item({"NetworkNodes": ["n1", "n2"]}) == PLACE
    assert topology.path(PLACE) == "n1/n2"
    assert topology.of_item({}) == {}


# --- templates and subnets ------------------------------------------------------------------------------------------------


def test_a_template_whose_groups_stand_in_its_first_interface() -> None:
    data = {
        "ImageId": "ami-1",
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"], "InterfaceType": "efa"}],
        "UserData": "aGk=",
        "MetadataOptions": {"InstanceMetadataTags": "enabled"},
    }
    maker = "arn:aws:sts::111122223333:assumed-role/admin/me"
    found = account.template({"LaunchTemplateId": "lt-1", "VersionNumber": 3, "CreatedBy": maker, "LaunchTemplateData": data})
    assert (found.owner, found.tells_tags) == ("111122223333", True)
    assert (found.version, found.groups, found.outside, found.efas, found.user_data) == ("3", ("sg-1",), (), 1, "hi")
    beside = account.template(
        {"LaunchTemplateId": "lt-1", "VersionNumber": 3, "LaunchTemplateData": {"SecurityGroupIds": ["sg-2"]}}
    )
    assert (beside.groups, beside.outside, beside.has_interfaces) == (("sg-2",), ("sg-2",), False)


@pytest.mark.parametrize(
    ("zone", "zone_id", "name"),
    [
        pytest.param("us-east-1a", "use1-az6", "us-east-1a", id="own"),
        pytest.param("us-east-1c", "use1-az6", "us-east-1a", id="another account's name"),
        pytest.param("us-east-1a", "use1-az2", "use1-az2", id="a name that means another zone here"),
        pytest.param("us-east-1c", "use1-az2", "us-east-1c", id="no subnet there"),
        pytest.param("us-east-1a", "", "us-east-1a", id="no id told"),
    ],
)
def test_zones_are_the_same_by_id_alone(zone: str, zone_id: str, name: str) -> None:
    subnets = [account.Subnet("s1", "us-east-1a", "use1-az6", 9, 16), account.Subnet("s2", "us-east-1b", "use1-az1", 9, 16)]
    assert account.zone_name(subnets, zone, zone_id) == name


def test_the_largest_subnet_of_the_zone_comes_first_whatever_is_free() -> None:
    def subnet(name: str, block: str, free: int, zone: str = "a") -> account.Subnet:
        return account.subnet(
            {
                "SubnetId": name,
                "AvailabilityZone": zone,
                "CidrBlock": block,
                "AvailableIpAddressCount": free,
                "State": "available",
            }
        )

    small, large, other = subnet("s1", "10.0.0.0/28", 9), subnet("s2", "10.0.1.0/24", 1), subnet("s3", "10.1.0.0/16", 9, zone="b")
    assert account.in_zone([small, large, other], "a") == (large, small)
    assert account.in_zone([replace(small, free=0), large], "a") == (large, replace(small, free=0))
