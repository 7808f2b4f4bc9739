"""How many of the seeded mistakes the recorded answers of the real scheduler expose, and the cluster for plans that differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.agreement import oracle
from bench.agreement.cases import Case, without_cordoned
from bench.agreement.field import Field
from bench.agreement.mutations import MUTATIONS, Mutation
from bench.agreement.planner import answer
from bench.agreement.results import FIT, NO_FIT, Result, kind, marking
from bench.agreement.waves import Planner, Wave, ask_planner
from capacity.model import Outcome

_CASES = 150
_EFFORT = 20_000
_PUT = 12
"""For a mutation: how many cases are looked at, how many states of each by the oracle, how many plans are put to the cluster."""


@dataclass
class Caught:
    """`by` says what exposed the mutation, "" if nothing did."""

    mutation: str
    by: str = ""


@dataclass
class _Doubt:
    """A plan that the faulty planner makes where the sound one makes another or none."""

    mutation: Mutation
    case: Case
    planner: Planner


async def caught(here: Field, results: Sequence[Result]) -> list[Caught]:
    """One entry a mutation, in their order."""
    found = {mutation.name: Caught(mutation.name) for mutation in MUTATIONS}
    doubts: list[_Doubt] = []
    for mutation in MUTATIONS:
        shown = [result for result in results if set(mutation.features) & set(result.case.features) and not result.refused][
            :_CASES
        ]
        found[mutation.name].by = _by_record(mutation, shown)
        if not found[mutation.name].by:
            doubts += _doubts(mutation, shown)
    if doubts:
        wave = Wave(here, [each.case for each in doubts], planners=[each.planner for each in doubts], probes=False)
        for doubt, result in zip(doubts, await wave.run(), strict=True):
            if result.steered and not found[doubt.mutation.name].by:
                found[doubt.mutation.name].by = f"{doubt.case.seed}: its plan, put to the scheduler: {result.steered}"
    return list(found.values())


def _by_record(mutation: Mutation, results: Sequence[Result]) -> str:
    with mutation.apply():
        for result in results:
            try:
                text = _contradiction(result)
            except Exception as error:
                text = f"the planner raises {error!r}"
            if text:
                return f"{result.case.seed}: {text}"
    return ""


def _contradiction(result: Result) -> str:
    """What the faulty planner says that the scheduler, or the oracle, has refuted already."""
    for number, known in enumerate(result.probes):
        probe = ask_planner(result.case, number)
        probe.node, probe.message = known.node.replace(result.standing, result.case.id), known.message
        if wrong := probe.disagreement():
            return f"{wrong.question} {wrong.what}: {wrong.detail}"
    faulty = answer(result.case)
    said = kind(faulty)
    if said == NO_FIT and result.steered == "":
        return "Q2 false no-fit: the sound plan was bound"
    if said == FIT and result.outcome == NO_FIT and result.oracle is False:
        return "Q2 false fit: the oracle finds no way"
    marked = marking(faulty, result.case.id)
    if (
        said == FIT
        and marked != result.marking
        and oracle.survives(without_cordoned(result.case), marked, limit=_EFFORT) is False
    ):
        return f"Q2 false fit: the oracle finds an order that spoils the plan {marked}"
    return ""


def _doubts(mutation: Mutation, results: Sequence[Result]) -> list[_Doubt]:
    found = []
    for result in results:
        with mutation.apply():
            faulty = answer(result.case)
        if kind(faulty) == FIT and _text(faulty) != _text(answer(result.case)):
            found.append(_Doubt(mutation, result.case, _under(mutation)))
    return found[:_PUT]


def _under(mutation: Mutation) -> Planner:
    def planner(case: Case) -> Outcome:
        with mutation.apply():
            return answer(case)

    return planner


def _text(outcome: Outcome) -> str:
    return repr(outcome)
