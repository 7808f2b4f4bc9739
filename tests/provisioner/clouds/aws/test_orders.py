"""What is sent for an order. Expected values: EC2's API reference and the rules in the reports of users (named by each row)."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from capacity.requirements import Taint
from provisioner.clouds.aws import interfaces, orders, userdata
from provisioner.clouds.aws.account import Subnet, Template
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.orders import Site
from provisioner.clouds.aws.shapes import Card, InstanceType
from provisioner.clouds.base import Order

NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}"
ANY, OLD = ("interface", "efa", "efa-only"), ("interface", "efa")
P5 = InstanceType("p5.48xlarge", 192, 2**41, gpus=8, cards=(Card(2, ANY), *[Card(1, ANY)] * 31), addresses=50, efas=32)
P4 = InstanceType("p4d.24xlarge", 96, 2**40, gpus=8, cards=(Card(15, OLD),) * 4, addresses=50, efas=4)
B300 = InstanceType("p6-b300.48xlarge", 192, 2**42, gpus=8, cards=(Card(4), *[Card(4, ANY)] * 16), addresses=50, efas=16)
G6 = InstanceType("g6.xlarge", 4, 2**34, gpus=1, cards=(Card(4),), addresses=15)
SITE = Site(
    cluster="train",
    template=Template("lt-1", "7", user_data=NODE_CONFIG, groups=("sg-1",), has_interfaces=True, image="ami-1"),
    kind=P5,
    subnets=(Subnet("subnet-b", "us-east-1a", "use1-az6", 9, 16), Subnet("subnet-a", "us-east-1a", "use1-az6", 9, 8)),
)
ORDER = Order(
    token="t0", shape="p5.48xlarge", zone="us-east-1a", capacity_type="on-demand", count=4, labels={"corral.dev/pool": "p"},
    taints=(Taint("corral.dev/booked", "NoSchedule"),), tags={"corral.dev/installation": "here"},
)  # fmt: skip
RESERVED = replace(ORDER, capacity_type="reserved", reservation="cr-1")


def sent(order: Order, site: Site = SITE, number: int = 0, subnet: int = 0) -> dict[str, Any]:
    return dict(orders.run(order, site, number, order.count, subnet).parameters)


def test_all_or_nothing_of_one_type_from_a_pinned_template() -> None:
    call = sent(ORDER)
    assert (call["MinCount"], call["MaxCount"], call["InstanceType"]) == (4, 4, "p5.48xlarge")
    assert call["LaunchTemplate"] == {"LaunchTemplateId": "lt-1", "Version": "7"}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(ORDER, {"CapacityReservationPreference": "none"}, id="on demand never slips into open reservations"),
        pytest.param(
            RESERVED,
            {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
            },
            id="mcm-aws-114: never open and a target",
        ),
    ],
)
def test_the_preference_for_reservations_is_always_said(order: Order, expected: dict[str, Any]) -> None:
    assert sent(order)["CapacityReservationSpecification"] == expected


def test_a_machine_that_is_shut_down_from_within_is_gone() -> None:
    assert sent(ORDER)["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_a_capacity_block_is_another_market() -> None:
    assert "InstanceMarketOptions" not in sent(RESERVED)
    block = replace(RESERVED, capacity_type="capacity-block")
    assert sent(block)["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


def test_the_placement_group_is_that_of_the_reservation_or_none() -> None:
    assert "Placement" not in sent(RESERVED)  # terraform-aws-eks-3730: any other has no capacity
    assert sent(RESERVED, replace(SITE, placement_group="cpg"))["Placement"] == {"GroupName": "cpg"}


@pytest.mark.parametrize(
    ("number", "subnet", "token"),
    [
        pytest.param(0, 0, "t0", id="first"),
        pytest.param(1, 0, "t0.1.0", id="second call"),
        pytest.param(0, 1, "t0.0.1", id="subnet"),
    ],
)
def test_a_token_stands_for_one_set_of_parameters(number: int, subnet: int, token: str) -> None:
    assert sent(ORDER, number=number, subnet=subnet)["ClientToken"] == token


def test_instances_volumes_and_interfaces_are_tagged_at_launch_with_what_was_ordered() -> None:
    order = replace(
        RESERVED, domain={"topology.k8s.aws/network-node-layer-1": "n1", "topology.k8s.aws/network-node-layer-2": "n2"}
    )
    tagged = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in sent(order)["TagSpecifications"]
    }
    assert set(tagged) == {"instance", "volume", "network-interface"}
    assert tagged["instance"] == {
        "Name": "train-p5.48xlarge",
        "kubernetes.io/cluster/train": "owned",
        "corral.dev/installation": "here",
        "corral.dev/token": "t0",
        "corral.dev/zone-id": "use1-az6",
        "corral.dev/reservation": "cr-1",
        "corral.dev/efas": "32",
        "corral.dev/network-nodes": "n1/n2",
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(P5, [("efa", 0, 0), *(("efa-only", card, 1) for card in range(1, 32))], id="p5"),
        pytest.param(P4, [("efa", 0, 0), ("efa", 1, 1), ("efa", 2, 1), ("efa", 3, 1)], id="libfabric-6: p4d"),
        pytest.param(B300, [("interface", 0, 0), *(("efa-only", card, 1) for card in range(1, 17))], id="first card without EFA"),
        pytest.param(G6, [(None, None, 0)], id="no EFA"),
    ],
)
def test_the_whole_set_of_efas_by_the_index_rule(kind: InstanceType, expected: list[Any]) -> None:
    found = interfaces.interfaces(kind, "subnet-b", ["sg-1"])
    assert [(each.get("InterfaceType"), each.get("NetworkCardIndex"), each["DeviceIndex"]) for each in found] == expected
    assert all(each["SubnetId"] == "subnet-b" and each["Groups"] == ["sg-1"] for each in found)
    assert not any("AssociatePublicIpAddress" in each for each in found)  # karpenter-5666: refused beside a second interface


def test_a_call_names_a_subnet_only_where_nothing_names_interfaces() -> None:
    assert "SubnetId" not in sent(ORDER)
    plain = replace(SITE, kind=G6, template=replace(SITE.template, has_interfaces=False))
    assert sent(ORDER, plain)["SubnetId"] == "subnet-b"
    assert "NetworkInterfaces" not in sent(ORDER, plain)


@pytest.mark.parametrize(
    ("template", "order", "possible"),
    [
        pytest.param({"preference": "none", "efas": 32}, ORDER, True, id="template says all"),
        pytest.param({"efas": 32}, ORDER, False, id="would use open reservations"),
        pytest.param({"preference": "none", "efas": 1}, ORDER, False, id="too few EFAs"),
        pytest.param({"preference": "none", "efas": 32}, RESERVED, False, id="can't name one reservation"),
    ],
)
def test_a_fleet_only_where_the_template_says_what_a_fleet_can_not(
    template: dict[str, Any], order: Order, possible: bool
) -> None:
    assert orders.by_fleet(order, replace(SITE, template=replace(SITE.template, **template))) is possible


def test_a_fleet_buys_all_or_nothing_in_one_zone() -> None:
    launch = orders.fleet(ORDER, SITE, 0, 4)
    call = launch.parameters
    assert launch.op is Op.FLEET
    assert call["Type"] == "instant"
    assert {each["ResourceType"] for each in call["TagSpecifications"]} == {"fleet", "instance", "volume", "network-interface"}
    assert call["OnDemandOptions"] == {
        "AllocationStrategy": "lowest-price",
        "SingleInstanceType": True,
        "SingleAvailabilityZone": True,
        "MinTargetCapacity": 4,
    }
    [config] = call["LaunchTemplateConfigs"]
    assert [each["SubnetId"] for each in config["Overrides"]] == ["subnet-b", "subnet-a"]
    assert b"corral.dev/pool=p" in base64.b64decode(config["LaunchTemplateSpecification"]["LaunchTemplateSpecificationUserData"])


@pytest.mark.parametrize(("count", "calls"), [(1, [1]), (1000, [1000]), (1001, [1000, 1]), (2500, [1000, 1000, 500])])
def test_several_calls_above_the_limit_of_one(count: int, calls: list[int]) -> None:
    assert orders.chunks(count) == calls


# --- user data ------------------------------------------------------------------------------------------------------------

LABELS = {"corral.dev/pool": "p", "topology.kubernetes.io/zone": "a", "node.kubernetes.io/x": "1", "team": "t"}
TAINTS = (Taint("corral.dev/booked", "NoSchedule"), Taint("nvidia.com/gpu", "NoSchedule", "present"))
TOLD = "corral.dev/pool=p,node.kubernetes.io/x=1,team=t"  # kubelet refuses other labels of kubernetes.io
KEPT = "corral.dev/booked=:NoSchedule,nvidia.com/gpu=present:NoSchedule"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(NODE_CONFIG, id="bare"),
        pytest.param(
            'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
            f"Content-Type: application/node.eks.aws\n\n{NODE_CONFIG}\n--//--\n",
            id="multipart",
        ),
    ],
)
def test_nodeadm_gets_one_more_node_config_after_the_templates(template: str) -> None:
    text = userdata.render(template, LABELS, TAINTS)
    first, second = text.split("Content-Type: application/node.eks.aws")[1:]
    assert NODE_CONFIG in first
    assert f'"--node-labels={TOLD}"' in second
    assert f'"--register-with-taints={KEPT}"' in second
    assert text.startswith("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=")
    assert text.endswith("--\n")


def test_other_user_data_has_placeholders() -> None:
    script = "#!/bin/sh\nkubelet --node-labels=${CORRAL_NODE_LABELS} --register-with-taints=${CORRAL_REGISTER_WITH_TAINTS}\n"
    assert userdata.render(script, LABELS, TAINTS) == f"#!/bin/sh\nkubelet --node-labels={TOLD} --register-with-taints={KEPT}\n"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("", "neither a NodeConfig", id="none"),
        pytest.param("#!/bin/sh\n/etc/eks/bootstrap.sh train", "neither a NodeConfig", id="AL2"),
        pytest.param("kubelet ${CORRAL_NODE_LABELS}", "must hold both", id="labels alone"),
        pytest.param(NODE_CONFIG + "x" * 16_000, "EC2 takes 16384", id="too long"),
    ],
)
def test_nodes_that_could_not_be_told(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        userdata.render(template, LABELS, TAINTS)
