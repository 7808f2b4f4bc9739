"""The launch calls of an order. Pure.

RunInstances with MinCount = MaxCount buys all or nothing, from one reservation or block, in one zone, and says all of it itself.
CreateFleet does so on demand in all subnets of the zone at once, but takes network interfaces and the preference for reservations
from the launch template alone; where the template lacks them, RunInstances buys on demand, too.

The preference is always given: EC2's default, `open`, would let on-demand instances slip into other people's open reservations.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capacity.requirements import Taint
from provisioner.clouds.aws import topology, userdata
from provisioner.clouds.aws.account import Subnet, Template
from provisioner.clouds.aws.interfaces import efas, interfaces
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.shapes import InstanceType
from provisioner.clouds.base import Order

MOST_AT_ONCE = 1000
"""MinTargetCapacity's limit (EC2 API Reference, OnDemandOptionsRequest)."""
TAG_TOKEN = "corral.dev/token"  # noqa: S105 of an order, no secret
TAG_ZONE_ID = "corral.dev/zone-id"
TAG_RESERVATION = "corral.dev/reservation"
TAG_EFAS = "corral.dev/efas"
TAG_NODES = "corral.dev/network-nodes"
"""Tags say what was ordered, so that any process can tell later whether that is what came."""
NONE, ONLY = "none", "capacity-reservations-only"
_MADE = ("instance", "volume", "network-interface")
"""What a launch makes: config/aws/policy.json lets nothing of it come without the installation's tag."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all launches of one order share. `subnets` are those of its zone, in the order in which they are tried.

    `placement_group` is the one that the reservation was made in: a reservation outside of one must be used without. `taints` are
    those that every node of the pool registers with, `zones` all zones of the pool.
    """

    cluster: str
    template: Template
    kind: InstanceType
    subnets: tuple[Subnet, ...]
    placement_group: str = ""
    taints: tuple[Taint, ...] = ()
    zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """One call and how many machines it asks for."""

    op: Op
    parameters: Mapping[str, Any]
    count: int


def chunks(count: int) -> list[int]:
    """How many to buy in each call."""
    return [min(MOST_AT_ONCE, count - done) for done in range(0, count, MOST_AT_ONCE)]


def by_fleet(order: Order, site: Site) -> bool:
    """Whether CreateFleet can do what the order needs."""
    template = site.template
    plain = not efas(site.kind) or template.efas == efas(site.kind)
    return order.reservation is None and template.preference == NONE and plain and not template.market


def first(order: Order, site: Site) -> Launch:
    """The call that an order begins with. Raises ValueError as `userdata.render` does."""
    count = chunks(order.count)[0]
    return fleet(order, site, 0, count) if by_fleet(order, site) else run(order, site, 0, count, 0)


def run(order: Order, site: Site, number: int, count: int, subnet: int) -> Launch:
    """RunInstances of the n-th chunk (from 0) in the n-th subnet (from 0). Raises ValueError as `userdata.render` does."""
    parameters: dict[str, Any] = {
        "LaunchTemplate": _pinned(site.template),
        "InstanceType": order.shape,
        "MinCount": count,
        "MaxCount": count,
        "ClientToken": token(order, number, subnet),
        "CapacityReservationSpecification": _reservation(order),
        "TagSpecifications": _tagged(_MADE, tags(order, site)),
        "UserData": _user_data(order, site),
        "InstanceInitiatedShutdownBehavior": "terminate",  # shut down from within it would be kept, stopped, and paid for
        **_network(site, site.subnets[subnet].id),
    }
    if order.capacity_type == "capacity-block":
        parameters["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if site.placement_group:
        parameters["Placement"] = {"GroupName": site.placement_group}
    return Launch(Op.RUN, parameters, count)


def fleet(order: Order, site: Site, number: int, count: int) -> Launch:
    """CreateFleet of the n-th chunk (from 0). Raises ValueError as `userdata.render` does."""
    text = _user_data(order, site)
    encoded = base64.b64encode(text.encode()).decode()  # boto3 encodes that of RunInstances itself
    pinned = {**_pinned(site.template), "LaunchTemplateSpecificationUserData": encoded}
    overrides = [{"InstanceType": order.shape, "SubnetId": each.id} for each in site.subnets]
    parameters = {
        "Type": "instant",
        "ClientToken": token(order, number, 0),
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": pinned, "Overrides": overrides}],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "OnDemandTargetCapacity": count,
            "DefaultTargetCapacityType": "on-demand",
        },
        "OnDemandOptions": {
            "AllocationStrategy": "lowest-price",
            "SingleInstanceType": True,
            "SingleAvailabilityZone": True,
            "MinTargetCapacity": count,
        },
        "TagSpecifications": _tagged(("fleet", *_MADE), tags(order, site)),
    }
    return Launch(Op.FLEET, parameters, count)


def _user_data(order: Order, site: Site) -> str:
    own = {key: name for key, name in order.domain.items() if key == topology.ULTRASERVER}
    return userdata.render(site.template.user_data, {**order.labels, **own}, (*site.taints, *order.taints))


def token(order: Order, number: int, subnet: int) -> str:
    """The ClientToken: 64 characters at most. One per chunk and subnet, for a token stands for one set of parameters."""
    return f"{order.token}.{number}.{subnet}" if number or subnet else order.token


def tags(order: Order, site: Site) -> dict[str, str]:
    return {
        **order.tags,
        "Name": f"{site.cluster}-{order.shape}",
        f"kubernetes.io/cluster/{site.cluster}": "owned",
        TAG_TOKEN: order.token,
        TAG_ZONE_ID: site.subnets[0].zone_id,
        TAG_RESERVATION: order.reservation or NONE,
        TAG_EFAS: str(efas(site.kind)),
        **({TAG_NODES: place} if (place := topology.path(order.domain)) else {}),
    }


def _reservation(order: Order) -> dict[str, Any]:
    if order.reservation is None:
        return {"CapacityReservationPreference": NONE}
    target = {"CapacityReservationId": order.reservation}
    return {"CapacityReservationPreference": ONLY, "CapacityReservationTarget": target}


def _network(site: Site, subnet: str) -> dict[str, Any]:
    """A call that names interfaces must not name a subnet beside them, nor one whose template names interfaces."""
    if efas(site.kind) or site.template.has_interfaces:
        return {"NetworkInterfaces": interfaces(site.kind, subnet, site.template.groups)}
    return {"SubnetId": subnet}


def _pinned(template: Template) -> dict[str, str]:
    return {"LaunchTemplateId": template.id, "Version": template.version}


def _tagged(kinds: Iterable[str], tags: Mapping[str, str]) -> list[dict[str, Any]]:
    listed: Sequence[Mapping[str, str]] = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]
