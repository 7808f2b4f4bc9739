"""A plan and a shortfall as text of several lines, for people."""

from collections.abc import Mapping

from capacity.model import Plan, Purchase, Shortfall, Use
from capacity.quantity import dollars


def describe(outcome: Plan | Shortfall) -> str:
    """Several lines without a final line break."""
    return "\n".join(_plan(outcome) if isinstance(outcome, Plan) else _shortfall(outcome))


def _plan(plan: Plan) -> list[str]:
    pods = sum(pod_set.count for pod_set in plan.gang.pod_sets)
    nodes = len(plan.uses) + sum(purchase.count for purchase in plan.purchases)
    where = "".join(f", {key} {value}" for key, value in sorted(plan.domains.items()))
    return [
        f"{plan.gang.name}: {pods} pods on {nodes} nodes, ${dollars(plan.cost)}/h more{where}",
        *(_purchase(purchase) for purchase in plan.purchases),
        *_uses(plan.uses),
    ]


def _purchase(purchase: Purchase) -> str:
    offering = purchase.offering
    price = f"${dollars(offering.price)}/h each" if offering.price else "prepaid" if offering.capacity_type.prepaid else "free"
    source = f"{offering.name} ({offering.capacity_type}, {price})"
    return f"  buy {purchase.count} of {offering.shape.name} from {source}: {_pods(purchase.pods)}"


def _uses(uses: tuple[Use, ...]) -> list[str]:
    """Nodes that hold the same share a line; long lists are cut."""
    alike: dict[tuple[str, str], list[str]] = {}
    for use in uses:
        alike.setdefault((use.node.pool, _pods(use.pods)), []).append(use.node.name)
    return [f"  use {len(names)} of {pool} ({_names(names)}): {pods}" for (pool, pods), names in sorted(alike.items())]


def _names(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _pods(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(pods.items())) + " each"


def _shortfall(shortfall: Shortfall) -> list[str]:
    lines = [f"{shortfall.reason}: {shortfall.message}"]
    if shortfall.hopeless:
        lines.append("  waiting can't help: it would not fit even if everything were free")
    if shortfall.relaxations:
        lines.append(f"  would fit: {' | '.join(one.text for one in shortfall.relaxations)}")
    return lines + [f"  {finding.subject}: {finding.detail}" for finding in shortfall.findings]
