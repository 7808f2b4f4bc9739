"""Instances as EC2 tells them, and whether they are what was ordered: their tags say what that was. Pure."""

from collections.abc import Mapping
from typing import Any

from capacity.model import Labels
from provisioner.clouds.aws import topology
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.orders import NONE, TAG_EFAS, TAG_NODES, TAG_RESERVATION, TAG_TOKEN, TAG_ZONE_ID, Launch, Site
from provisioner.clouds.base import Announcement, Instance, InstanceState, Order

_STATES: Mapping[str, InstanceState] = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "shutting-down": InstanceState.STOPPING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.RUNNING,
    "terminated": InstanceState.TERMINATED,
}
"""A stopped instance holds no job and does not come back, but is there and paid for until it is terminated: it counts as one that
runs, and isn't as ordered. EC2 stops those whose hosts it retires (EC2 User Guide, "Scheduled events for your instances")."""

_OVER = ("[Completed]", "[Canceled]")
"""How the description of an event begins that is over (EC2 User Guide, "Scheduled events for your instances")."""


def provider_id(zone: str, identity: str) -> str:
    """As the AWS cloud provider of Kubernetes writes Node.spec.providerID (cloud-provider-aws, `instances.go`)."""
    return f"aws:///{zone}/{identity}"


def instance(answer: Mapping[str, Any], zone_ids: Mapping[str, str], domain: Labels) -> Instance:
    """From an instance of DescribeInstances or RunInstances. `zone_ids` by zone name; `domain` is empty while not known."""
    tags = {each["Key"]: each.get("Value", "") for each in answer.get("Tags") or ()}
    zone = (answer.get("Placement") or {}).get("AvailabilityZone") or ""
    state = _STATES.get((answer.get("State") or {}).get("Name") or "", InstanceState.PENDING)
    return Instance(
        id=answer["InstanceId"],
        provider_id=provider_id(zone, answer["InstanceId"]),
        state=state,
        shape=answer.get("InstanceType") or "",
        zone=zone,
        token=tags.get(TAG_TOKEN) or (answer.get("ClientToken") or "").partition(".")[0],
        reservation=answer.get("CapacityReservationId") or None,
        domain=domain,
        tags=tags,
        wrong=_wrong(answer, tags, zone_ids.get(zone, ""), domain) if state is InstanceState.RUNNING else "",
    )


def _wrong(answer: Mapping[str, Any], tags: Mapping[str, str], zone_id: str, domain: Labels) -> str:
    """What of the order it fails, for good: nothing of this can change on a running instance."""
    if answer["State"]["Name"] == "stopped":
        return "it was stopped, by EC2 or by hand"
    wanted, found = tags.get(TAG_RESERVATION), answer.get("CapacityReservationId") or NONE
    if wanted and found != wanted:
        return f"it runs in reservation {found}, ordered was {wanted}"
    if zone_id and tags.get(TAG_ZONE_ID) not in (None, "", zone_id):
        return f"it runs in zone {zone_id}, ordered was {tags[TAG_ZONE_ID]}"
    attached = sum((each.get("InterfaceType") or "").startswith("efa") for each in answer.get("NetworkInterfaces") or ())
    efas = tags.get(TAG_EFAS, "0")
    if efas.isdigit() and attached < int(efas):
        return f"it has {attached} of {efas} EFA interfaces, which can't be added later"
    place = topology.elsewhere(domain, topology.labels(_nodes(tags)))
    return f"it stands at {place}" if place else ""


def announcements(answer: Mapping[str, Any]) -> tuple[Announcement, ...]:
    """The scheduled events of an item of DescribeInstanceStatus that are still to come."""
    return tuple(
        Announcement("Maintenance", int(each["NotBefore"].timestamp()), f"{each.get('Code', '')}: {each.get('Description', '')}")
        for each in answer.get("Events") or ()
        if each.get("NotBefore") and not (each.get("Description") or "").startswith(_OVER)
    )


def awaits_topology(machine: Instance) -> bool:
    """Whether it was ordered at certain network nodes, and EC2 hasn't been heard on where it stands."""
    return bool(_nodes(machine.tags)) and machine.state is InstanceState.RUNNING and not machine.domain


def _nodes(tags: Mapping[str, str]) -> list[str]:
    return [name for name in tags.get(TAG_NODES, "").split("/") if name]


def launched(answer: Mapping[str, Any], order: Order, launch: Launch, site: Site) -> tuple[Instance, ...]:
    """The machines of a launch's answer. A fleet tells nothing but their ids; the rest is as ordered until it is looked at."""
    zone_ids = {each.zone: each.zone_id for each in site.subnets}
    if launch.op is Op.RUN:
        return tuple(instance(each, zone_ids, {}) for each in answer.get("Instances") or ())
    ids = [identity for each in answer.get("Instances") or () for identity in each.get("InstanceIds") or ()]
    return tuple(
        Instance(
            identity,
            provider_id(order.zone, identity),
            InstanceState.PENDING,
            order.shape,
            order.zone,
            order.token,
            tags=order.tags,
        )
        for identity in ids
    )
