"""Plans beyond what single nodes are sure of: nodes that seem to need luck, marked so that they don't, or taken in reserve."""

from collections.abc import Iterator
from dataclasses import replace

from capacity.model import Plan
from capacity.programme.drafting import widened
from capacity.programme.milp import SearchLimitError
from capacity.programme.mixes import lucky_mixes
from capacity.programme.question import Question
from capacity.programme.search import find
from capacity.proof.prove import missing, prove

MAX_TRIES = 6


def lucky(asked: Question) -> Plan | None:
    """The best plan if pods came in the right order, None when there is none in whatever order. Raises milp.SearchLimitError."""
    return find(asked, lucky_mixes)


def without_luck(asked: Question, plan: Plan, below: int | None = None) -> Plan | None:
    """The plan, or one like it that costs less than `below` micro-dollars an hour, marked so that every order will do.

    Where a role could be left without room, slots are taken in reserve for it, as many as it lacked, and so on a few times.
    """
    for one in _tries(asked, plan):
        if below is not None and one.cost >= below:
            return None
        for marked in (one, *widened(asked, one)):
            if not prove(marked, asked.snapshot, asked.preferences):
                return replace(marked, gap=max(marked.gap, marked.cost - plan.cost + plan.gap))
    return None


def _tries(asked: Question, plan: Plan) -> Iterator[Plan]:
    reserve = (0,) * len(asked.roles)
    for _ in range(MAX_TRIES):
        yield plan
        lacking = missing(plan, asked.snapshot, asked.preferences)
        if not any(lacking):
            return
        reserve = tuple(old + new for old, new in zip(reserve, lacking, strict=True))
        try:
            again = lucky(replace(asked, reserve=reserve))
        except SearchLimitError:
            return
        if again is None:
            return
        plan = again
