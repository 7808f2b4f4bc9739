"""A plan and a shortfall as text of several lines, for people."""

from collections.abc import Iterator, Mapping

from capacity.model import Considered, Plan, Purchase, Shortfall, Use
from capacity.quantity import dollars


def describe(outcome: Plan | Shortfall, *, places: bool = True) -> str:
    """Several lines without a final line break; of a shortfall those on the `places` that were looked at only if asked for."""
    if isinstance(outcome, Plan):
        return "\n".join(_plan(outcome))
    return "\n".join((*_shortfall(outcome), *(_places(outcome) if places else ())))


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
    return lines


def _places(shortfall: Shortfall) -> Iterator[str]:
    for tree in shortfall.considered:
        yield f"  looked at for {tree.subject}:"
        yield from (f"    {_line(place)}" for place in tree.inside)
        if tree.domains:
            yield f"    by {tree.level}:"
            yield from (f"      {_line(place)}" for place in tree.domains)


def _line(place: Considered) -> str:
    """One line that adds up: `nodes of pool a: 12 nodes = 8 (booked) + 4 usable, with room for 4 pods`."""
    parts = [f"{one.nodes} ({one.detail})" for one in place.ruled_out if one.nodes]
    if place.usable_nodes or not parts:
        parts.append(f"{place.usable_nodes} usable, with room for {_count(place.usable_pods, 'pod')}")
    return f"{place.subject}: {_count(place.nodes, 'node')} = {' + '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
