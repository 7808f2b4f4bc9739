"""What the stand-in and moto both do as AWS says."""

import pytest

from tests.e2e_clouds.conftest import P5, Stage, refused

pytestmark = pytest.mark.judged
NOBODY = "i-00000000000000001"


def states(stage: Stage, *ids: str) -> list[str]:
    told = stage.client().describe_instances(InstanceIds=list(ids))["Reservations"]
    return [each["State"]["Name"] for call in told for each in call["Instances"]]


def test_instance_types_tell_gpus_cards_and_efa(stage: Stage) -> None:
    (told,) = stage.client().describe_instance_types(InstanceTypes=[P5])["InstanceTypes"]
    assert told["VCpuInfo"]["DefaultVCpus"] == 192  # the figures of cloud.md 7
    assert told["MemoryInfo"]["SizeInMiB"] == 2048 * 1024
    assert told["GpuInfo"]["Gpus"][0]["Count"] == 8
    assert told["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32
    assert len(told["NetworkInfo"]["NetworkCards"]) == 32


def test_instance_types_by_wildcard(stage: Stage) -> None:
    wanted = [{"Name": "instance-type", "Values": ["p5*.48xlarge"]}]
    found = stage.client().describe_instance_types(Filters=wanted)["InstanceTypes"]
    assert sorted(each["InstanceType"] for each in found) == [P5, "p5e.48xlarge", "p5en.48xlarge"]


def test_zones_have_names_and_ids(stage: Stage) -> None:
    (zone,) = stage.client().describe_availability_zones(ZoneNames=["us-east-1a"])["AvailabilityZones"]
    assert (zone["ZoneName"], zone["ZoneId"], zone["State"], zone["RegionName"]) == (
        "us-east-1a",
        "use1-az6",
        "available",
        "us-east-1",
    )


def test_subnets_by_zone_lose_addresses_to_instances(stage: Stage) -> None:
    identity = stage.subnet("us-east-1b")

    def told() -> dict[str, object]:
        subnet: dict[str, object] = stage.client().describe_subnets(SubnetIds=[identity])["Subnets"][0]
        return subnet

    before = told()
    assert (before["AvailabilityZone"], before["AvailableIpAddressCount"]) == ("us-east-1b", 4091)
    stage.run(2, SubnetId=identity)
    assert told()["AvailableIpAddressCount"] == 4089


def test_launch_templates_keep_their_versions(stage: Stage) -> None:
    client = stage.client()
    first = {"ImageId": stage.image(), "InstanceType": P5}
    made = client.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=first)["LaunchTemplate"]
    identity = made["LaunchTemplateId"]
    client.create_launch_template_version(LaunchTemplateId=identity, LaunchTemplateData={"InstanceType": "m5.large"})
    (told,) = client.describe_launch_templates(LaunchTemplateIds=[identity])["LaunchTemplates"]
    assert (told["LaunchTemplateName"], told["DefaultVersionNumber"], told["LatestVersionNumber"]) == ("nodes", 1, 2)
    versions = client.describe_launch_template_versions(LaunchTemplateId=identity, Versions=["$Latest", "1"])
    told = {each["VersionNumber"]: each["LaunchTemplateData"] for each in versions["LaunchTemplateVersions"]}
    assert told == {2: {"InstanceType": "m5.large"}, 1: first}


def test_a_template_gives_what_the_call_leaves_out(stage: Stage) -> None:
    client = stage.client()
    data = {"ImageId": stage.image(), "InstanceType": "m5.large"}
    made = client.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)["LaunchTemplate"]
    template = {"LaunchTemplateId": made["LaunchTemplateId"], "Version": "1"}
    order = {"LaunchTemplate": template, "SubnetId": stage.subnet(), "MinCount": 1, "MaxCount": 1}
    launched = client.run_instances(InstanceType=P5, **order)["Instances"]
    assert [(each["ImageId"], each["InstanceType"]) for each in launched] == [(stage.image(), P5)]


def test_instances_are_pending_then_running_then_gone(stage: Stage) -> None:
    client = stage.client()
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "gang", "Value": "a"}]}]
    order = {"ImageId": stage.image(), "InstanceType": P5, "SubnetId": stage.subnet(), "TagSpecifications": tags}
    made = client.run_instances(MinCount=2, MaxCount=2, **order)
    assert [each["AmiLaunchIndex"] for each in made["Instances"]] == [0, 1]
    ids = [each["InstanceId"] for each in made["Instances"]]
    stage.settle()
    assert states(stage, *ids) == ["running", "running"]
    (call,) = client.describe_instances(Filters=[{"Name": "tag:gang", "Values": ["a"]}])["Reservations"]
    assert sorted(each["InstanceId"] for each in call["Instances"]) == sorted(ids)
    assert call["Instances"][0]["Placement"]["AvailabilityZone"] == "us-east-1a"
    ended = client.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    assert {(each["PreviousState"]["Code"], each["CurrentState"]["Code"]) for each in ended} == {(16, 32)}
    stage.settle()
    assert states(stage, *ids) == ["terminated", "terminated"]
    client.terminate_instances(InstanceIds=ids)  # again is no error (API reference)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("tag-key", "gang", id="tag key"),
        pytest.param("instance-type", P5, id="type"),
        pytest.param("instance-state-name", "running", id="state"),
        pytest.param("subnet-id", "{subnet}", id="subnet"),
        pytest.param("availability-zone", "us-east-1a", id="zone"),
    ],
)
def test_instances_are_filtered(stage: Stage, name: str, value: str) -> None:
    subnet = stage.subnet()
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "gang", "Value": "a"}]}]
    (wanted,) = stage.run(SubnetId=subnet, TagSpecifications=tags)
    stage.run(InstanceType=P5, SubnetId=stage.subnet("us-east-1b"))
    stage.settle()
    here = {"Name": "subnet-id", "Values": [subnet]}
    asked = {"Name": name, "Values": [value.format(subnet=subnet)]}
    found = stage.client().describe_instances(Filters=[here, asked])["Reservations"]
    assert [each["InstanceId"] for call in found for each in call["Instances"]] == [wanted]


def test_one_unknown_id_saves_the_others(stage: Stage) -> None:
    (there,) = stage.run()
    stage.settle()
    assert refused(lambda: stage.client().terminate_instances(InstanceIds=[there, NOBODY])) == ("InvalidInstanceID.NotFound", 400)
    assert states(stage, there) == ["running"]


def test_tags_can_come_later(stage: Stage) -> None:
    client, (identity,) = stage.client(), stage.run()
    stage.settle()
    client.create_tags(Resources=[identity], Tags=[{"Key": "late", "Value": "1"}])
    found = client.describe_instances(Filters=[{"Name": "tag:late", "Values": ["1"]}])["Reservations"]
    assert [each["InstanceId"] for call in found for each in call["Instances"]] == [identity]


def test_an_instant_fleet_launches_at_once(stage: Stage) -> None:
    client = stage.client()
    data = {"ImageId": stage.image(), "InstanceType": P5}
    made = client.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)["LaunchTemplate"]
    template = {"LaunchTemplateId": made["LaunchTemplateId"], "Version": "1"}
    fleet = client.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": [{"SubnetId": stage.subnet()}]}],
        TargetCapacitySpecification={"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"},
    )
    ids = [each for row in fleet["Instances"] for each in row["InstanceIds"]]
    stage.settle()
    assert states(stage, *ids) == ["running", "running"]


def test_no_group_is_told_by_an_unknown_name(stage: Stage) -> None:
    groups = stage.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nobody"])
    assert groups["AutoScalingGroups"] == []


def test_an_unknown_quota_is_an_error(stage: Stage) -> None:
    client = stage.client("service-quotas")
    code, status = refused(lambda: client.get_service_quota(ServiceCode="vpc", QuotaCode="L-0"))
    assert (code, status) == ("NoSuchResourceException", 400)


BAD = {
    "dry run": ("DryRunOperation", 412, {"DryRun": True}),
    "unknown subnet": ("InvalidSubnetID.NotFound", 400, {"SubnetId": "subnet-0123"}),
    "unknown security group": ("InvalidGroup.NotFound", 400, {"SecurityGroupIds": ["sg-0123"]}),
    "interfaces and a subnet": ("InvalidParameterCombination", 400, {"NetworkInterfaces": [{"DeviceIndex": 0}]}),
}


@pytest.mark.parametrize("case", [pytest.param(each, id=each) for each in BAD])
def test_launches_that_are_refused(stage: Stage, case: str) -> None:
    code, status, fields = BAD[case]
    assert refused(lambda: stage.run(**fields)) == (code, status)


CALLS = {
    "type": ("InvalidInstanceType", lambda client: client.describe_instance_types(InstanceTypes=["nope.large"])),
    "subnet": ("InvalidSubnetID.NotFound", lambda client: client.describe_subnets(SubnetIds=["subnet-0123"])),
    "security group": ("InvalidGroup.NotFound", lambda client: client.describe_security_groups(GroupIds=["sg-0123"])),
    "instance": ("InvalidInstanceID.NotFound", lambda client: client.describe_instances(InstanceIds=[NOBODY])),
    "ids and a page size": (
        "InvalidParameterCombination",
        lambda client: client.describe_instances(InstanceIds=[NOBODY], MaxResults=5),
    ),
    "template": (
        "InvalidLaunchTemplateName.NotFoundException",
        lambda client: client.describe_launch_templates(LaunchTemplateNames=["nobody"]),
    ),
    "permission only": ("DryRunOperation", lambda client: client.describe_instances(DryRun=True)),
}


@pytest.mark.parametrize("case", [pytest.param(each, id=each) for each in CALLS])
def test_describing_what_is_not_there(stage: Stage, case: str) -> None:
    code, call = CALLS[case]
    assert refused(lambda: call(stage.client()))[0] == code
