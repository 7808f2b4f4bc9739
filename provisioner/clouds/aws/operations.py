"""Every call that this provider makes to AWS, with the permissions it needs. config/aws/policy.json is tested against this list.

Permissions: AWS Service Authorization Reference for EC2, EC2 Auto Scaling, Service Quotas and IAM.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Lane = Literal["read", "launch", "terminate"]
"""Each has a boto3 client of its own: launches must not be sent twice by the SDK, terminations must not wait behind reads."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`service` and `method` as boto3 names them. `actions` are the IAM actions that the call needs."""

    service: str
    method: str
    actions: tuple[str, ...]
    lane: Lane = "read"


class Op(Enum):
    """Tags at launch need CreateTags, a launch template with an instance profile PassRole; a fleet launches by RunInstances."""

    INSTANCE_TYPES = Operation("ec2", "describe_instance_types", ("ec2:DescribeInstanceTypes",))
    SUBNETS = Operation("ec2", "describe_subnets", ("ec2:DescribeSubnets",))
    SECURITY_GROUPS = Operation("ec2", "describe_security_groups", ("ec2:DescribeSecurityGroups",))
    TEMPLATES = Operation("ec2", "describe_launch_template_versions", ("ec2:DescribeLaunchTemplateVersions",))
    RESERVATIONS = Operation("ec2", "describe_capacity_reservations", ("ec2:DescribeCapacityReservations",))
    BLOCKS = Operation("ec2", "describe_capacity_blocks", ("ec2:DescribeCapacityBlocks",))
    RESERVATION_TOPOLOGY = Operation(
        "ec2", "describe_capacity_reservation_topology", ("ec2:DescribeCapacityReservationTopology",)
    )
    INSTANCES = Operation("ec2", "describe_instances", ("ec2:DescribeInstances",))
    STATUS = Operation("ec2", "describe_instance_status", ("ec2:DescribeInstanceStatus",))
    INSTANCE_TOPOLOGY = Operation("ec2", "describe_instance_topology", ("ec2:DescribeInstanceTopology",))
    QUOTA = Operation("service-quotas", "get_service_quota", ("servicequotas:GetServiceQuota",))
    GROUPS = Operation("autoscaling", "describe_auto_scaling_groups", ("autoscaling:DescribeAutoScalingGroups",))
    RUN = Operation("ec2", "run_instances", ("ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"), "launch")
    FLEET = Operation("ec2", "create_fleet", ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"), "launch")
    TERMINATE = Operation("ec2", "terminate_instances", ("ec2:TerminateInstances",), "terminate")
