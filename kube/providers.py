"""Where a CapacityPool's nodes come from: one record a kind of cloud."""

from typing import Annotated, Literal

from msgspec import Meta, field

from kube.fields import LabelKey, LabelValue, Money
from kube.meta import Record

InstanceType = Annotated[str, Meta(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", max_length=63)]
SubnetId = Annotated[str, Meta(pattern=r"^subnet-[0-9a-f]+$", max_length=32)]


class SimulatedProvider(Record, frozen=True, kw_only=True):
    """The simulated cloud's HTTP endpoint, e.g. http://127.0.0.1:8090."""

    endpoint: Annotated[str, Meta(pattern=r"^https?://", max_length=255)]


class AdoptedProvider(Record, frozen=True, kw_only=True):
    """Nodes that are there already: booked, never launched, never terminated."""


class RegisteredTaint(Record, frozen=True, kw_only=True):
    """A taint that nodes register with."""

    key: LabelKey
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: LabelValue = ""


class AwsLaunchTemplate(Record, frozen=True, kw_only=True):
    """A version by number: `$Latest` would make a repeated launch another launch."""

    id: Annotated[str, Meta(pattern=r"^lt-[0-9a-f]+$", max_length=32)]
    version: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,9}$")]


class AwsProvider(Record, frozen=True, kw_only=True):
    """EC2 instances of one launch template in some subnets of one region.

    `region` and `endpoint` are left to boto3 (AWS_REGION, profiles) when empty. `taints` stay on the nodes, `startup_taints` go
    before they are ready; both are registered by Corral, so the launch template must not set them again.
    """

    cluster_name: Annotated[str, Meta(pattern=r"^[0-9A-Za-z][-A-Za-z0-9_]{0,99}$")]
    launch_template: AwsLaunchTemplate
    subnet_ids: Annotated[tuple[SubnetId, ...], Meta(min_length=1, max_length=16)] = field(name="subnetIDs")
    region: Annotated[str, Meta(pattern=r"^([a-z]{2}(-[a-z]+)+-[0-9])?$", max_length=32)] = ""
    endpoint: Annotated[str, Meta(pattern=r"^(https?://.*)?$", max_length=255)] = ""
    devices: Annotated[tuple[Annotated[str, Meta(max_length=63)], ...], Meta(max_length=8)] = (
        "nvidia.com/gpu",
        "aws.amazon.com/neuron",
    )
    allocatable: Annotated[dict[str, Annotated[str, Meta(max_length=32)]], Meta(max_length=8)] = {}
    taints: Annotated[tuple[RegisteredTaint, ...], Meta(max_length=8)] = ()
    startup_taints: Annotated[tuple[RegisteredTaint, ...], Meta(max_length=8)] = ()
    prices: Annotated[dict[str, Money], Meta(max_length=64)] = {}


class Provider(Record, frozen=True, kw_only=True):
    """Exactly one of the fields is set."""

    simulated: SimulatedProvider | None = None
    adopted: AdoptedProvider | None = None
    aws: AwsProvider | None = None
