"""Why there is no plan: one reason of the closed set, the numbers behind it, and changes that were planned again and do fit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capacity.common import quick
from capacity.model import Gang, Preferences, Reason, ReservationUse, Shortfall, Snapshot
from capacity.programme.milp import SearchLimitError
from capacity.programme.question import question as ask
from capacity.programme.search import by_luck, search
from capacity.quantity import dollars
from capacity.why.changes import broken
from capacity.why.considered import considered
from capacity.why.findings import findings, held, prepaid_misfits
from capacity.why.loosen import Question, at_its_kindest, scattered, unbound, unlimited, unwished
from capacity.why.lots import Survey
from capacity.why.placement import asks
from capacity.why.relax import cheapest, fits, most_pods, relaxations
from capacity.why.rooms import at_best, enough, enough_scattered
from capacity.why.survey import survey

Told = tuple[Reason, str]


def explain(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Shortfall:
    """The shortfall of a gang for which `search` has found nothing.

    A level that no domain could meet even if everything were free is told by what there is in all: that reason must not
    change with what others hold at the moment.
    """
    question = (gang, snapshot, preferences)
    seen = survey(*question)
    found = most_pods(question, seen)
    kindest = at_its_kindest(question)
    hopeless = not enough(seen, at_best) or _hopeless(kindest)
    told = _unmet(kindest if hopeless else question, question, seen) or _reason(question, found, seen)
    return Shortfall(
        reason=told[0],
        message="; ".join((told[1], *_reservations(snapshot, seen, told[0]))),
        findings=tuple(findings(seen)),
        hopeless=hopeless,
        competes=seen.usable,
        relaxations=relaxations(question, seen, found, waiting_helps=not hopeless),
        considered=considered(seen),
    )


def _hopeless(kindest: Question) -> bool:
    """Not even a lucky order would do if everything were free; when that can't be told, there is hope."""
    gang, empty, preferences = kindest
    if (possible := quick.possible(*unwished(kindest))) is not None:
        return not possible
    if ask(gang, empty, preferences).couplings.loose:
        return False
    try:
        return search(gang, empty, preferences) is None and not by_luck(gang, empty, preferences)
    except SearchLimitError:
        return False


def _unmet(question: Question, asked: Question, seen: Survey) -> Told | None:
    """The gang would fit if only no level were required, or no rule held among pods. `question` is the one that was `asked`, of
    which `seen` is the survey, or the kindest if not even that has an answer: then it is told by what there is in all.
    """
    if scattered(question) == question:
        return None
    seen = seen if question is asked else survey(*question)
    bound, loose = unbound(question), scattered(question)
    if not enough_scattered(seen) or not _fits(loose):
        return None
    free = bound != question and (bound == loose or _fits(bound))
    return Reason.TOPOLOGY_UNSATISFIED, "; ".join(asks(seen, question[1], levels_alone=free))


def _fits(question: Question) -> bool:
    possible = quick.possible(*unwished(question))
    return fits(question) if possible is None else possible


def _reason(question: Question, found: dict[str, int], seen: Survey) -> Told:
    gang, _, _ = question
    total, now = sum(pod_set.count for pod_set in gang.pod_sets), sum(found.values())
    misfits = prepaid_misfits(seen, total - now)
    if misfits:
        return Reason.RESERVATION_MISMATCH, f"{now} of {total} pods fit now; {misfits}"
    had = f"{now} of {total} pods can be had"
    return Reason.GANG_INCOMPLETE, _dear(question, had) or f"{had} now{_missing(gang, found)}{_limits(question)}"


def _dear(question: Question, had: str) -> str:
    """That the price ceiling alone is in the way, with the price that is needed."""
    gang, snapshot, preferences = question
    if (
        preferences.price_ceiling is None
        or (plan := cheapest((gang, snapshot, replace(preferences, price_ceiling=None)))) is None
    ):
        return ""
    least, ceiling = dollars(plan.cost), dollars(preferences.price_ceiling)
    return f"{had} under the price ceiling of ${ceiling}/h; all would cost ${least}/h"


def _limits(question: Question) -> str:
    """The limits that alone are in the way."""
    asked = unlimited(question)
    plan = cheapest(asked) if asked != question else None
    return "".join(f"; LimitExceeded: {text}" for text in broken(plan, question[1])) if plan else ""


def _missing(gang: Gang, found: dict[str, int]) -> str:
    missing = [f"{one.count - found[one.name]} of {one.name}" for one in gang.pod_sets if found.get(one.name, 0) < one.count]
    return f"; missing {', '.join(missing)}" if len(gang.pod_sets) > 1 and missing else ""


def _reservations(snapshot: Snapshot, seen: Survey, reason: Reason) -> Iterator[str]:
    """How the reservations that matter are used up: those that the gang could use, now or once others give them back, or all
    where they don't suit it.
    """
    keys = snapshot.topology_keys
    mine = {lot.subject.reservation for lot in seen.lots if lot.usable or (lot.subject.reservation and held(seen, lot, keys))}
    wanted = [use for use in snapshot.reservations if use.name in mine or reason is Reason.RESERVATION_MISMATCH]
    yield from (account(use) for use in _first(wanted, 3))


def _first(uses: Sequence[ReservationUse], most: int) -> list[ReservationUse]:
    return sorted(uses, key=lambda use: (-use.free, use.name))[:most]


def account(use: ReservationUse) -> str:
    """One line that adds up: `cr-0abc: 200 = 128 booked + 8 outside + 4 quarantined + 60 free, 4 kept spare`."""
    parts = ((use.booked, "booked"), (use.outside, "outside"), (use.quarantined, "quarantined"))
    shown = [f"{count} {name}" for count, name in parts if count] + [f"{use.free} free"]
    return f"{use.name}: {use.total} = {' + '.join(shown)}" + (f", {use.spare} kept spare" if use.spare else "")
