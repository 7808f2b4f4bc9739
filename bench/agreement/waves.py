"""Waves: up to a hundred cases stand in one cluster at a time, and each question is put to the scheduler for all at once."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from bench.agreement import questions
from bench.agreement.cases import Case, Json, renamed
from bench.agreement.field import Fate, Field
from bench.agreement.levels import broken
from bench.agreement.planner import answer, probe
from bench.agreement.results import FIT, NO_FIT, UNDECIDABLE, ProbeResult, Result, kind, marking
from capacity.model import Outcome, Plan, Shortfall, Undecidable
from capacity.verdict import Answer

CASES, NODES = 100, 400
_REFUSAL_RUNS = 2

_KINDS = {Answer.FIT: FIT, Answer.NO_FIT: NO_FIT, Answer.UNDECIDABLE: UNDECIDABLE}

Planner = Callable[[Case], Outcome]


@dataclass
class _Standing:
    """A case as it stands in the cluster, under an id of its own."""

    original: Case
    case: Case
    result: Result
    outcome: Outcome
    new: list[Json] = field(default_factory=list)
    marked: dict[str, list[str]] = field(default_factory=dict)


def waves(cases: Sequence[Case]) -> list[list[Case]]:
    """Cut so that no wave has too many cases or nodes, those to be bought included."""
    found: list[list[Case]] = [[]]
    nodes = 0
    for case in cases:
        more = len(case.nodes) + sum(offering.limit for offering in case.offerings)
        if len(found[-1]) == CASES or nodes + more > NODES:
            found.append([])
            nodes = 0
        found[-1].append(case)
        nodes += more
    return found


class Wave:
    """Puts all questions about its cases to one cluster."""

    _count = 0

    def __init__(
        self,
        here: Field,
        cases: Sequence[Case],
        *,
        planners: Sequence[Planner] | None = None,
        probes: bool = True,
        gangs: bool = True,
    ) -> None:
        """`planners` are asked for the plan of the case of the same place, instead of the real one."""
        Wave._count += 1
        self._here, self._probes, self._gangs = here, probes, gangs
        pairs = zip(cases, planners or [answer] * len(cases), strict=True)
        self._standing = [self._start(case, f"k{Wave._count}x{number}", planner) for number, (case, planner) in enumerate(pairs)]

    async def run(self) -> list[Result]:
        """The results in the order of the cases. The cluster is empty again afterwards."""
        await self._here.stand(each.case for each in self._standing)
        try:
            if self._probes:
                await self._ask_probes()
            if self._gangs:
                await self._ask_gangs()
        finally:
            await self._here.clear(each.case for each in self._standing)
        for each in self._standing:
            each.result.refused = self._here.refused.get(each.case.id, "")
        return [each.result for each in self._standing]

    def _start(self, original: Case, id_: str, planner: Planner) -> _Standing:
        case = renamed(original, id_)
        result = Result(original, standing=id_)
        outcome: Outcome = Undecidable(())
        try:
            outcome = planner(case) if self._gangs else outcome
            result.probes = [ask_planner(case, number) for number in range(len(case.probes) if self._probes else 0)]
        except Exception as error:
            result.error = f"{type(error).__name__}: {error}"
        result.outcome, result.reasons, result.marking = kind(outcome), _reasons(outcome), marking(outcome, id_)
        return _Standing(original, case, result, outcome)

    def _alive(self) -> list[_Standing]:
        return [each for each in self._standing if each.case.id not in self._here.refused]

    async def _ask_probes(self) -> None:
        for number in range(max((len(each.case.probes) for each in self._standing), default=0)):
            asked = {each.case.id: each for each in self._alive() if number < len(each.result.probes)}
            fates = await self._here.run({id_: [questions.probe_pod(each.case, number)] for id_, each in asked.items()})
            for id_, found in fates.items():
                (fate,) = found.values()
                result = asked[id_].result.probes[number]
                result.node, result.message = fate.node, fate.message

    async def _ask_gangs(self) -> None:
        await self._prepare()
        first = {each.case.id: questions.gang_pods(each.case, _rng(each, 0), steered=True) for each in self._with(FIT)}
        refused = self._with(NO_FIT)
        first |= {each.case.id: questions.gang_pods(each.case, _rng(each, 0), steered=False) for each in refused}
        self._record(await self._here.run(first), "steered")
        await self._here.patch_nodes(self._merged(questions.unmarks))
        again = [*self._with(FIT), *refused]
        for run in range(1, _REFUSAL_RUNS):
            pods = {each.case.id: questions.gang_pods(each.case, _rng(each, run), steered=False) for each in again}
            self._record(await self._here.run(pods), "unsteered")
            again = refused

    async def _prepare(self) -> None:
        """Buy what the plan buys and mark its nodes; where nothing fits, buy all that can be had."""
        daemons: list[Json] = []
        closed: dict[str, Json] = {}
        for each in self._alive():
            if isinstance(each.outcome, Plan):
                each.new, each.marked = questions.bought(each.case, each.outcome)
            elif isinstance(each.outcome, Shortfall):
                each.new = questions.all_machines(each.case)
            daemons += questions.daemons(each.case, each.new)
            closed |= questions.closed(each.case)
        await self._here.add_nodes((node for each in self._alive() for node in each.new), daemons)
        await self._here.patch_nodes(closed)
        await self._here.patch_nodes(self._merged(questions.marks))

    def _merged(self, make: Callable[[Case, list[Json], Mapping[str, list[str]]], dict[str, Json]]) -> dict[str, Json]:
        changes: dict[str, Json] = {}
        for each in self._alive():
            changes |= make(each.case, each.new, each.marked)
        return changes

    def _with(self, outcome: str) -> list[_Standing]:
        return [each for each in self._alive() if each.result.outcome == outcome]

    def _record(self, fates: Mapping[str, Mapping[str, Fate]], question: str) -> None:
        by_id = {each.case.id: each for each in self._standing}
        for id_, found in fates.items():
            each = by_id[id_]
            trouble = _trouble(each, found)
            if each.result.outcome == NO_FIT:
                each.result.refusals.append(trouble)
            else:
                setattr(each.result, question, trouble)


def _trouble(each: _Standing, fates: Mapping[str, Fate]) -> str:
    """Why the gang isn't bound as it should, "" when it is."""
    waiting = [f"{name}: {fate.message or 'no answer'}" for name, fate in sorted(fates.items()) if not fate.node]
    if waiting:
        where = {name: fate.node for name, fate in sorted(fates.items()) if fate.node}
        return f"{len(waiting)} of {len(fates)} pods wait, {waiting[0]}; bound: {where}; marked: {each.marked}"
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in (*each.case.nodes, *each.new)}
    places = defaultdict(list)
    for name, fate in fates.items():
        places[name.rpartition("-")[0]].append(labels[fate.node])
    return "; ".join(broken(each.case, places))


def ask_planner(case: Case, number: int) -> ProbeResult:
    """The planner's verdicts on one probe; what the scheduler does with it is still open."""
    asked = case.probes[number]
    nodes = [asked.node] if asked.node else [node["metadata"]["name"] for node in case.nodes]
    template = questions.probe_template(case, asked)
    verdicts = {node: probe(case, asked.pod_set, template, node) for node in nodes}
    fits = {node: _KINDS[verdict.answer] for node, verdict in verdicts.items()}
    return ProbeResult(fits, {node: verdict.reason for node, verdict in verdicts.items()})


def _reasons(outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome, Undecidable):
        return outcome.reasons
    return (outcome.message,) if isinstance(outcome, Shortfall) else ()


def _rng(each: _Standing, run: int) -> Random:
    return Random(f"{each.original.seed}/{run}")


async def run_all(here: Field, cases: Sequence[Case], tell: Callable[[int], None] = lambda _: None) -> list[Result]:
    """All cases in waves, one after the other; `tell` gets the number of cases done."""
    results: list[Result] = []
    for part in waves(cases):
        wave = await asyncio.to_thread(Wave, here, part)
        results += await wave.run()
        tell(len(results))
    return results
