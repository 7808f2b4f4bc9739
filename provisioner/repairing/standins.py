"""Other nodes in place of lost ones, the pure part: what is looked for, where it must be, and the plan with what was found.

Nodes that are there and idle come first, whatever was lost. A machine is bought again by its own purchase while that can be had;
a node that was there before can't be bought again, so whatever fits in its place is, as the policy orders it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed
from datetime import datetime

from msgspec.structs import replace

from capacity.model import Gang, Labels, Plan, PodSet
from capacity.quantity import dollars, money
from kube.ours import BookedNode, BookedPurchase, BookingSpec
from kube.times import stamp
from provisioner.buying.drafts import bought
from provisioner.buying.launches import missing, refusals
from provisioner.repairing import absences
from provisioner.repairing.slots import Slot
from provisioner.steps import View

AT_ONCE = 16
"""Lost nodes of one look: the rest follows in the next."""
REMEMBERED = 64
"""Lost nodes that are not there and that a plan remembers, the last ones: they may come back with its marks."""

Place = tuple[Labels, Mapping[str, int]]
"""Labels of a node that the gang has, and the pods that it is to hold there."""


def wanted(view: View) -> tuple[Slot, ...]:
    """The slots of all that is lost and not under way."""
    slots = [Slot(each.pods, node=each.name) for each in absences.lost(view)]
    for purchase in view.spec.purchases:
        slot = Slot(purchase.pods, purchase=purchase.name, bought=_exhausted(view, purchase))
        slots += [slot] * max(0, missing(view, purchase))
    return tuple(slots[:AT_ONCE])


def _exhausted(view: View, purchase: BookedPurchase) -> bool:
    """Whether it can't be bought again where it was, and no machine that is given back will make room there."""
    refused = purchase.name in view.seen.closed or bool(refusals(view.status, purchase.name))
    going = any(each.purchase == purchase.name and each.state in ("Bad", "Terminating") for each in view.status.instances)
    return refused and not going


# --- where it must be --------------------------------------------------------------------------------------------------------


def parted(whole: Gang, pods: Mapping[str, int]) -> str:
    """Why no node can be planned for these pods alone; "" if it can: where slices or exclusive units lie over several nodes, a
    part of one is no gang that the planner knows.
    """
    for each in whole.pod_sets:
        unit = each.slices.size if each.slices else each.exclusive.size or each.count if each.exclusive else 1
        if pods.get(each.name, 0) % max(1, unit):
            parts = f"{'slices' if each.slices else 'exclusive units'} of {unit} over several nodes"
            return f"pods of {each.name} come in {parts}: only a machine of the same purchase replaces one"
    return ""


def gang_of(whole: Gang, pods: Mapping[str, int], required: str | None, places: Sequence[Place], chosen: Labels) -> Gang:
    """The gang of one slot, kept to the domains in which the others are. `required` is the level for pod sets without one of
    their own, `chosen` what the first plan chose of each level.
    """
    some = (changed(each, count=pods[each.name]) for each in whole.pod_sets if pods.get(each.name, 0) > 0)
    return changed(whole, pod_sets=tuple(_kept(each, whole, each.required_topology or required, places, chosen) for each in some))


def _kept(pods: PodSet, whole: Gang, level: str | None, places: Sequence[Place], chosen: Labels) -> PodSet:
    if level is None:
        return pods
    mates = {each.name for each in whole.pod_sets if _together(each, pods)}
    beside = (labels[level] for labels, there in places if level in labels and mates & there.keys())
    domain = next(beside, chosen.get(level))
    return changed(pods, node_selector={**pods.node_selector, level: domain}) if domain else pods


def _together(one: PodSet, other: PodSet) -> bool:
    return (one.required_topology, one.topology_group) == (other.required_topology, other.topology_group)


# --- the plan with it --------------------------------------------------------------------------------------------------------


def without(spec: BookingSpec, slots: Iterable[Slot], there: Iterable[str]) -> BookingSpec:
    """The plan less these slots. It remembers the nodes that it gives up: those that are `there` bear its marks, and those that
    vanished may come back with them.
    """
    slots, seen = [*slots], {*there}
    gone = {each.node for each in slots if each.node}
    less = [each.purchase for each in slots if each.purchase]
    former = (*spec.former, *(each for each in spec.nodes if each.name in gone))
    forgotten = [each.name for each in former if each.name not in seen][:-REMEMBERED]
    return replace(
        spec,
        nodes=tuple(each for each in spec.nodes if each.name not in gone),
        former=tuple(each for each in former if each.name not in forgotten),
        purchases=tuple(replace(each, count=each.count - less.count(each.name)) for each in spec.purchases),
    )


def with_plan(
    spec: BookingSpec, plan: Plan, now: datetime, provider_ids: Mapping[str, str], labels: Mapping[str, Labels]
) -> BookingSpec:
    """The plan and what stands in. `provider_ids` are nodes', `labels` those that each pool gives its nodes."""
    nodes = tuple(
        BookedNode(
            name=use.node.name,
            pool=use.node.pool,
            pods=dict(use.pods),
            provider_id=provider_ids.get(use.node.name, ""),
            since=stamp(now),
        )
        for use in plan.uses
    )
    names = {each.name for each in nodes}
    spec = replace(spec, nodes=(*spec.nodes, *nodes), former=tuple(each for each in spec.former if each.name not in names))
    for purchase in plan.purchases:
        new = bought(_next_name(spec), purchase, labels.get(purchase.offering.pool, {}))
        spec = replace(spec, purchases=_with_purchase(spec.purchases, new))
    return counted(spec)


def _next_name(spec: BookingSpec) -> str:
    return f"p{len(spec.purchases)}"


def _with_purchase(purchases: tuple[BookedPurchase, ...], new: BookedPurchase) -> tuple[BookedPurchase, ...]:
    """One more of the same offering is one more machine of its purchase."""
    same = next((each for each in purchases if replace(each, name=new.name, count=new.count) == new), None)
    if same is None:
        return (*purchases, new)
    return tuple(replace(each, count=each.count + new.count) if each is same else each for each in purchases)


def counted(spec: BookingSpec) -> BookingSpec:
    """With its sums for people."""
    cost = sum(money(each.price_per_hour) * each.count for each in spec.purchases)
    return replace(spec, cost_per_hour=dollars(cost), node_count=len(spec.nodes) + sum(each.count for each in spec.purchases))
