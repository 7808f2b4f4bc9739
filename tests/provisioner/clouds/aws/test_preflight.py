"""Checks before money is spent: each trouble is told with its remedy, and only what is sure to fail stops purchases."""

from dataclasses import replace
from typing import Any

import pytest

from provisioner.clouds.aws import preflight
from provisioner.clouds.aws.account import Subnet, Template
from provisioner.clouds.aws.preflight import Facts
from provisioner.clouds.aws.reservations import Held
from provisioner.clouds.aws.shapes import Card, InstanceType
from provisioner.clouds.base import Check

ALL = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
GROUP = {"GroupId": "sg-1", "IpPermissions": [ALL], "IpPermissionsEgress": [ALL]}
P5 = InstanceType("p5.48xlarge", 192, 2**41, gpus=8, cards=(Card(2, ("interface", "efa")),), efas=1)
HELD = Held("cr-1", "reserved", "p5.48xlarge", "us-east-1a", "use1-az6", "active", 8, 5, match="targeted")
FACTS = Facts(
    template=Template("lt-1", "7", "kind: NodeConfig # node.eks.aws", groups=("sg-1",), has_interfaces=True, image="ami-1"),
    wanted_subnets=("subnet-1",),
    subnets=(Subnet("subnet-1", "us-east-1a", "use1-az6", 100, 256),),
    types=(P5,),
    held=(HELD,),
    on_demand=True,
    groups=(GROUP,),
    quotas={"L-417A185B": 1920},
)
SCALED: dict[str, Any] = {
    "AutoScalingGroupName": "asg",
    "LaunchTemplate": {"LaunchTemplateId": "lt-1"},
    "AvailabilityZones": ["us-east-1a", "us-east-1b"],
}


def found(facts: Facts) -> dict[str, Check]:
    return {each.type: each for each in preflight.checks(facts)}


def template(**more: Any) -> Facts:
    return replace(FACTS, template=replace(FACTS.template, **more))


def test_reservations_take_of_the_quota_used_or_not() -> None:
    """8 machines of 192 vCPUs in the account's own; those of a block, of another account and one that is over take nothing."""
    own = replace(HELD, owner="111122223333")
    others = (
        replace(own, kind="capacity-block"),
        replace(own, owner="444455556666"),
        replace(own, state="expired"),
        replace(own, shape="m5.large"),
    )
    assert preflight.promised((own, *others), (P5,), "111122223333") == {"L-417A185B": 1536, "L-1216C47A": 0}


def test_all_is_well() -> None:
    assert [each.type for each in preflight.checks(FACTS) if not each.ok] == []
    assert len(found(FACTS)) == 9


@pytest.mark.parametrize(
    ("facts", "type_", "words", "blocks"),
    [
        pytest.param(
            template(user_data=""), "LaunchTemplateUnfit", "would register without Corral's marks", True, id="user data"
        ),
        pytest.param(
            template(tells_tags=True),
            "LaunchTemplateUnfit",
            "InstanceMetadataTags",
            True,
            id="cloud-provider-aws-762: tags with /",
        ),
        pytest.param(template(image=""), "LaunchTemplateUnfit", "names no ImageId", True, id="image"),
        pytest.param(template(market="spot"), "LaunchTemplateUnfit", "take that out", True, id="market"),
        pytest.param(
            template(placement_group="cpg"), "LaunchTemplateUnfit", "cpg isn't that of cr-1", True, id="terraform-aws-eks-3730"
        ),
        pytest.param(template(outside=("sg-1",)), "LaunchTemplateUnfit", "DeviceIndex 0, not beside", True, id="groups beside"),
        pytest.param(
            replace(FACTS, subnets=()),
            "SubnetsUnfit",
            "subnet-1 isn't there: correct provider.aws.subnetIDs",
            True,
            id="no subnet",
        ),
        pytest.param(
            replace(FACTS, held=(replace(HELD, zone="us-east-1b", zone_id="use1-az1"),)),
            "SubnetsUnfit",
            "none is in us-east-1b (use1-az1), the zone of cr-1",
            False,
            id="parallelcluster-4627: reservation elsewhere",
        ),
        pytest.param(
            replace(FACTS, subnets=(replace(FACTS.subnets[0], free=4),)), "SubnetsUnfit", "4 addresses are free", False, id="full"
        ),
        pytest.param(
            replace(FACTS, groups=({**GROUP, "IpPermissionsEgress": []},)),
            "SecurityGroupUnfit",
            "allows all traffic from and to itself",
            True,
            id="one way only",
        ),
        pytest.param(replace(FACTS, denied="UnauthorizedOperation: no"), "PermissionMissing", "no", True, id="permission"),
        pytest.param(
            replace(FACTS, held=(replace(HELD, why="its state is expired"),)),
            "ReservationsUnusable",
            "cr-1 can't be used",
            False,
            id="expired",
        ),
        pytest.param(
            replace(FACTS, quotas={"L-417A185B": 0}), "QuotaShort", "one p5.48xlarge needs 192", False, id="skypilot-3937"
        ),
        pytest.param(
            replace(FACTS, promised={"L-417A185B": 1800}), "QuotaShort", "reservations hold 1800", False, id="all promised"
        ),
        pytest.param(replace(FACTS, unpriced=("p9.48xlarge",)), "PriceUnknown", "set provider.aws.prices", False, id="price"),
        pytest.param(replace(FACTS, scaling=(SCALED,)), "OtherScaler", "replaces what we terminate", False, id="group"),
        pytest.param(
            replace(FACTS, scaling=({**SCALED, "Tags": [{"Key": "k8s.io/cluster-autoscaler/enabled", "Value": "true"}]},)),
            "OtherScaler",
            "Cluster Autoscaler scales it",
            False,
            id="cluster autoscaler",
        ),
        pytest.param(replace(FACTS, strangers=("i-9",)), "OtherScaler", "Karpenter launches", False, id="karpenter"),
        pytest.param(replace(FACTS, scaling=(SCALED,)), "AZRebalance", "suspend AZRebalance", False, id="rebalance"),
    ],
)
def test_trouble_is_told_with_its_remedy(facts: Facts, type_: str, words: str, blocks: bool) -> None:
    check = found(facts)[type_]
    assert not check.ok
    assert words in check.message
    assert check.blocks is blocks


@pytest.mark.parametrize(
    ("facts", "type_"),
    [
        pytest.param(
            replace(FACTS, quotas={"L-417A185B": 0}, on_demand=False), "QuotaShort", id="quota is no matter to reservations"
        ),
        pytest.param(
            replace(FACTS, scaling=({**SCALED, "LaunchTemplate": {"LaunchTemplateId": "lt-2"}},)), "OtherScaler", id="CPU nodes"
        ),
        pytest.param(
            replace(FACTS, scaling=({**SCALED, "SuspendedProcesses": [{"ProcessName": "AZRebalance"}]},)),
            "AZRebalance",
            id="suspended",
        ),
        pytest.param(replace(FACTS, types=(InstanceType("g6.xlarge", 4, 1),), groups=()), "SecurityGroupUnfit", id="no EFA"),
        pytest.param(
            replace(FACTS, groups=(), unread={"security groups": "UnauthorizedOperation"}),
            "SecurityGroupUnfit",
            id="not readable",
        ),
    ],
)
def test_what_is_no_trouble(facts: Facts, type_: str) -> None:
    assert found(facts)[type_].ok


@pytest.mark.parametrize(
    ("name", "code"),
    [("p5.48xlarge", "L-417A185B"), ("g6e.xlarge", "L-DB2E81BA"), ("trn2.48xlarge", "L-2C3B7624"), ("m7i.large", "L-1216C47A")],
)
def test_which_quota_counts_a_type(name: str, code: str) -> None:
    assert preflight.quota_code(name) == code
