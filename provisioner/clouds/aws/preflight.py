"""What can be known to go wrong before any money is spent, each with its remedy. Pure.

A check that could not be made for lack of a permission is passed with a word on that: it must not stop what might work.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioner.clouds.aws import userdata
from provisioner.clouds.aws.account import Subnet, Template, in_zone
from provisioner.clouds.aws.interfaces import efas
from provisioner.clouds.aws.reservations import ACTIVE, Held
from provisioner.clouds.aws.shapes import InstanceType
from provisioner.clouds.base import Check

Group = Mapping[str, Any]
QUOTAS: Mapping[str, str] = {"p": "L-417A185B", "g": "L-DB2E81BA", "vt": "L-DB2E81BA", "trn": "L-2C3B7624", "inf": "L-1945791B"}
"""Service Quotas codes of "Running On-Demand ... instances", in virtual CPUs, by the letters that a type's name begins with."""
OTHER_QUOTA = "L-1216C47A"
SCALER_TAG = "k8s.io/cluster-autoscaler/enabled"
KARPENTER_TAG = "karpenter.sh/nodepool"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. `quotas` by code, in virtual CPUs, and `promised`, what reservations take of them; `denied`: what a dry run
    was refused with; `groups` are security groups, `scaling` Auto Scaling groups of the cluster, `strangers` instances of the
    pool's types in it that Karpenter launched. `unread` holds what couldn't be read, in words, by what it was for.
    """

    template: Template
    wanted_subnets: tuple[str, ...]
    subnets: tuple[Subnet, ...]
    types: tuple[InstanceType, ...]
    held: tuple[Held, ...]
    on_demand: bool
    unpriced: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    quotas: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, int] = field(default_factory=dict)
    scaling: tuple[Mapping[str, Any], ...] = ()
    strangers: tuple[str, ...] = ()
    denied: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)


def checks(facts: Facts) -> tuple[Check, ...]:
    """One of each kind, in the order in which a person would look."""
    return (
        _template(facts),
        _subnets(facts),
        _security_groups(facts),
        _permissions(facts),
        _reservations(facts),
        _quota(facts),
        _prices(facts),
        _scalers(facts),
        _rebalance(facts),
    )


def quota_code(instance_type: str) -> str:
    """The code of the quota that counts a type's virtual CPUs."""
    family = instance_type.partition(".")[0]
    letters = family[: next((place for place, sign in enumerate(family) if sign.isdigit()), len(family))]
    return QUOTAS.get(letters, OTHER_QUOTA)


def promised(held: Iterable[Held], types: Iterable[InstanceType], owner: str) -> dict[str, int]:
    """Virtual CPUs by quota code that reservations of these types take, used or not; blocks, and those that other accounts share
    with `owner`, take none (EC2 User Guide, "Capacity Reservations", limits)."""
    cpus, taken = {each.name: each.cpus for each in types}, Counter[str]()
    for each in held:
        if each.kind == "reserved" and each.state == ACTIVE and (not owner or each.owner in ("", owner)):
            taken[quota_code(each.shape)] += cpus.get(each.shape, 0) * each.total
    return taken


def _check(type_: str, reason: str, problems: Sequence[str], fine: str, *, blocks: bool = False) -> Check:
    if problems:
        return Check(type_, ok=False, reason=reason, message="; ".join(problems), blocks=blocks)
    return Check(type_, ok=True, reason="Checked", message=fine)


def _template(facts: Facts) -> Check:
    template, found = facts.template, []
    if why := userdata.problem(template.user_data):
        found.append(f"{why}, so its nodes would register without Corral's marks")
    if not template.image:
        found.append("it names no ImageId")
    if template.tells_tags:  # cloud-provider-aws 762, karpenter-provider-aws 4199
        found.append("it enables InstanceMetadataTags, with which EC2 refuses every tag with a '/': disable it")
    if template.market or template.targets_reservation:
        found.append("it sets InstanceMarketOptions or a capacity reservation itself: take that out, each launch says its own")
    if template.outside and any(efas(kind) for kind in facts.types):
        found.append(
            "EFA needs its security groups in NetworkInterfaces, DeviceIndex 0, not beside them: EC2 refuses both at once"
        )
    outside = [each.id for each in facts.held if not each.why and each.placement_group != template.placement_group]
    if template.placement_group and outside:
        group = template.placement_group
        found.append(f"its placement group {group} isn't that of {', '.join(outside)}, which then has no capacity: take it out")
    name = f"provider.aws.launchTemplate {template.id} version {template.version}"
    told = [f"{name}: {each}" for each in found]
    return _check("LaunchTemplateUnfit", "Unfit", told, "it can be launched with", blocks=True)


def _subnets(facts: Facts) -> Check:
    there = {each.id for each in facts.subnets}
    found = [f"{name} isn't there: correct provider.aws.subnetIDs" for name in facts.wanted_subnets if name not in there]
    found += [f"{each.id} is {each.state}" for each in facts.subnets if each.state != "available"]
    for held in facts.held:
        near = in_zone(facts.subnets, held.zone)
        if not held.why and not near:
            found.append(f"none is in {held.zone} ({held.zone_id}), the zone of {held.id}: add one to provider.aws.subnetIDs")
        elif not held.why and (free := sum(each.free for each in near)) < held.available:
            found.append(f"{free} addresses are free in {held.zone}, {held.id} has {held.available} instances to launch")
    return _check("SubnetsUnfit", "Unfit", found, "each reservation has a subnet with room in its zone", blocks=not facts.subnets)


def _security_groups(facts: Facts) -> Check:
    type_, fine = "SecurityGroupUnfit", "no shape needs EFA, or a group lets its members reach each other"
    if not any(efas(kind) for kind in facts.types):
        return _check(type_, "", (), fine)
    if why := facts.unread.get("security groups"):
        return _check(type_, "", (), f"could not be checked: {why}")
    if any(_reaches_itself(group) for group in facts.groups):
        return _check(type_, "", (), fine)
    named = ", ".join(each.get("GroupId", "") for each in facts.groups) or "none"
    words = f"EFA needs a group that allows all traffic from and to itself; the launch template's groups ({named}) don't"
    return _check(type_, "NoSelfRule", [words], fine, blocks=True)


def _reaches_itself(group: Group) -> bool:
    """All protocols, from and to the group itself (EC2 User Guide, "Get started with EFA", step 1)."""
    return all(_all_to(group.get(side) or (), group.get("GroupId", "")) for side in ("IpPermissions", "IpPermissionsEgress"))


def _all_to(permissions: Iterable[Mapping[str, Any]], name: str) -> bool:
    return any(
        each.get("IpProtocol") == "-1" and any(pair.get("GroupId") == name for pair in each.get("UserIdGroupPairs") or ())
        for each in permissions
    )


def _permissions(facts: Facts) -> Check:
    found = [facts.denied] if facts.denied else []
    return _check("PermissionMissing", "Denied", found, "a dry run of a launch was allowed", blocks=True)


def _reservations(facts: Facts) -> Check:
    found = [f"{each.id} can't be used: {each.why}" for each in facts.held if each.why]
    open_ = [each.id for each in facts.held if not each.why and each.match == "open" and each.kind == "reserved"]
    note = f"; open to any instance of its type in the account: {', '.join(open_)}" if open_ else ""
    return _check("ReservationsUnusable", "Unusable", found, f"each can be launched into when its time comes{note}")


def _quota(facts: Facts) -> Check:
    """Of no concern to reservations: they hold their quota already."""
    found = []
    for kind in facts.types if facts.on_demand else ():
        code = quota_code(kind.name)
        held = facts.promised.get(code, 0)
        if code in facts.quotas and facts.quotas[code] - held < kind.cpus:
            words = f"quota {code} is {facts.quotas[code]} vCPUs, of which reservations hold {held}"
            found.append(f"{words}; one {kind.name} needs {kind.cpus}: ask AWS for more")
    why = facts.unread.get("quotas", "")
    return _check("QuotaShort", "QuotaShort", found, f"could not be read: {why}" if why else "it has room for an instance")


def _prices(facts: Facts) -> Check:
    found = [f"no on-demand price is known of {', '.join(facts.unpriced)}: set provider.aws.prices"] if facts.unpriced else []
    return _check("PriceUnknown", "NotListed", found, "each shape that may be bought on demand has a price")


def _scalers(facts: Facts) -> Check:
    found = []
    for group in _involved(facts):
        scaled = any(tag.get("Key") == SCALER_TAG for tag in group.get("Tags") or ())
        words = "Cluster Autoscaler scales it" if scaled else "it replaces what we terminate"
        found.append(
            f"Auto Scaling group {group.get('AutoScalingGroupName')} launches from the same template or of the same types"
        )
        found[-1] += f": {words}; its nodes can be adopted only"
    if facts.strangers:
        names = ", ".join(sorted(facts.strangers)[:5])
        found.append(f"Karpenter launches the pool's types here, too ({names}): keep its NodePools off them")
    return _check("OtherScaler", "SameMachines", found, "nobody else launches the pool's types in this cluster")


def _rebalance(facts: Facts) -> Check:
    found = []
    for group in _involved(facts):
        stopped = {each.get("ProcessName") for each in group.get("SuspendedProcesses") or ()}
        if len(group.get("AvailabilityZones") or ()) > 1 and "AZRebalance" not in stopped:
            found.append(
                f"{group.get('AutoScalingGroupName')} may terminate instances to even out its zones: suspend AZRebalance"
            )
    return _check("AZRebalance", "Active", found, "no Auto Scaling group of the pool's types evens out its zones")


def _involved(facts: Facts) -> Iterable[Mapping[str, Any]]:
    names = {kind.name for kind in facts.types}
    for group in facts.scaling:
        types = {each.get("InstanceType") for each in group.get("Instances") or ()}
        if facts.template.id in _templates(group) or types & names:
            yield group


def _templates(group: Mapping[str, Any]) -> set[str]:
    mixed = ((group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}).get("LaunchTemplateSpecification") or {}
    return {each.get("LaunchTemplateId", "") for each in (group.get("LaunchTemplate") or {}, mixed)}
