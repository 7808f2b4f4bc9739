"""The planner's answers as text, as tables and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from capacity.describe import describe
from capacity.model import Considered, Outcome, Plan, RuledOut, Shortfall, Undecidable
from capacity.quantity import dollars

Answer = tuple[str, Outcome]  # the gang's name, and what the planner says of it
OUTPUTS = ("text", "wide", "json")


def show(answers: Sequence[Answer], output: str) -> None:
    """Prints them in one of `OUTPUTS`; `wide` adds to each shortfall a table of all that was considered."""
    if output == "json":
        print(json.dumps([_json(*answer) for answer in answers], indent=2))
        return
    for number, (name, outcome) in enumerate(answers):
        print(("\n" if number else "") + _text(name, outcome, places=output == "text"))
        if output == "wide" and isinstance(outcome, Shortfall):
            from corral.tables import tabulate  # rich takes longer to load than most plans take to make

            tabulate(outcome.considered)


def _text(name: str, outcome: Outcome, *, places: bool) -> str:
    match outcome:
        case Plan():
            return f"FITS {describe(outcome)}"
        case Shortfall():
            return f"{'IMPOSSIBLE' if outcome.hopeless else 'WAITS'} {name}: {describe(outcome, places=places)}"
        case Undecidable():
            return "\n".join([f"UNDECIDABLE {name}:", *(f"  {reason}" for reason in outcome.reasons)])


def _json(name: str, outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Plan():
            nodes = [{"node": use.node.name, "pods": dict(use.pods)} for use in outcome.uses]
            bought = [{"offering": p.offering.name, "count": p.count, "podsPerNode": dict(p.pods)} for p in outcome.purchases]
            cost, gap = dollars(outcome.cost), dollars(outcome.gap)
            return {"gang": name, "fits": True, "costPerHour": cost, "gap": gap, "nodes": nodes, "purchases": bought}
        case Shortfall():
            return {"gang": name, "fits": False} | _shortfall(outcome)
        case Undecidable():
            return {"gang": name, "fits": None, "undecidable": list(outcome.reasons)}


def _shortfall(outcome: Shortfall) -> dict[str, Any]:
    return {
        "reason": outcome.reason.value,
        "message": outcome.message,
        "hopeless": outcome.hopeless,
        "wouldFit": [{"change": one.change.value, "text": one.text} for one in outcome.relaxations],
        "considered": [_considered(tree) for tree in outcome.considered],
        "findings": [{"subject": one.subject, "detail": one.detail, "pods": one.pods} for one in outcome.findings],
    }


def _considered(place: Considered) -> dict[str, Any]:
    told: dict[str, Any] = {
        "subject": place.subject,
        "nodes": place.nodes,
        "pods": place.pods,
        "ruledOut": [_ruled_out(one) for one in place.ruled_out],
        "usable": {"nodes": place.usable_nodes, "pods": place.usable_pods},
    }
    if place.inside:
        told["inside"] = [_considered(one) for one in place.inside]
    if place.domains:
        told |= {"level": place.level, "domains": [_considered(one) for one in place.domains]}
    return told


def _ruled_out(one: RuledOut) -> dict[str, Any]:
    return {"constraint": one.constraint.value, "nodes": one.nodes, "pods": one.pods, "detail": one.detail}
