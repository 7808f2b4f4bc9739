"""What speaks against a node: its own health conditions. Pure."""

from kube import core, ours


def ailment(node: core.Node, pool: ours.CapacityPool | None) -> str:
    """The first of its pool's `readiness.unhealthyConditions` that the node reports, in words; "" when none does."""
    unhealthy = {each.type: each.status for each in (pool.spec.readiness if pool else ours.Readiness()).unhealthy_conditions}
    for condition in sorted(node.status.conditions, key=lambda each: each.type):
        if unhealthy.get(condition.type) == condition.status:
            why = ": ".join(filter(None, (condition.reason, condition.message)))
            return f"{condition.type}={condition.status}{f' ({why})' if why else ''}"[:256]
    return ""
