"""What speaks against a node: its own health conditions, and devices that it has lost. Pure."""

from capacity.model import Resources
from kube import core, ours


def ailment(node: core.Node, pool: ours.CapacityPool | None) -> str:
    """The first of its pool's `readiness.unhealthyConditions` that the node reports, in words; "" when none does."""
    unhealthy = {each.type: each for each in (pool.spec.readiness if pool else ours.Readiness()).unhealthy_conditions}
    for condition in sorted(node.status.conditions, key=lambda each: each.type):
        if (bad := unhealthy.get(condition.type)) and _speaks(bad, condition):
            why = ": ".join(filter(None, (condition.reason, condition.message)))
            return f"{condition.type}={condition.status}{f' ({why})' if why else ''}"[:256]
    return ""


def _speaks(bad: ours.UnhealthyCondition, condition: core.StatusCondition) -> bool:
    named = not bad.reasons or any(
        condition.reason.startswith(each[:-1]) if each.endswith("*") else condition.reason == each for each in bad.reasons
    )
    return bad.status == condition.status and named


def lost_devices(room: Resources, allocatable: Resources) -> str:
    """The devices that pods planned on the node (`room` is their sum) can't all have any more, "" when none are missing.

    A device plugin that finds a device unhealthy, for a fatal Xid as NVIDIA's does, takes it out of `allocatable` (docs of
    Kubernetes, "Device Plugins"). None at all is no sign: so it is while the plugin restarts.
    """
    left = [(name, allocatable.get(name, 0), wanted) for name, wanted in sorted(room.items()) if "/" in name]
    few = [f"{there} of {wanted} {name}" for name, there, wanted in left if 0 < there < wanted]
    return f"devices were lost: {', '.join(few)} left" if few else ""
