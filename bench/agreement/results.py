"""What came out of one case: both sides' answers to each question, and where they differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.agreement.cases import ID, Case
from capacity.model import Plan, Shortfall, Undecidable

FIT, NO_FIT, UNDECIDABLE = "fit", "nofit", "undecidable"


Marking = Sequence[tuple[str, frozenset[str]]]
"""The pod sets that each node of a plan is marked for: by name of a node, or of an offering, once for each node bought."""


def kind(outcome: object) -> str:
    return {Plan: FIT, Shortfall: NO_FIT, Undecidable: UNDECIDABLE}[type(outcome)]


def marking(outcome: object, id_: str) -> Marking:
    """Of a plan that was made under the id; empty when there is none."""
    if not isinstance(outcome, Plan):
        return ()
    used = [(use.node.name.replace(id_, ID), frozenset(use.pods)) for use in outcome.uses]
    return [*used, *((one.offering.name, frozenset(one.pods)) for one in outcome.purchases for _ in range(one.count))]


@dataclass
class Disagreement:
    """`what` is false fit, false no-fit or oracle; `question` Q1, Q2 or Q4; `detail` for people."""

    question: str
    what: str
    detail: str


@dataclass
class ProbeResult:
    """`fits` are the planner's verdicts by node (of one node when the probe is pinned); `node` is where the scheduler bound it,
    "" if nowhere.
    """

    fits: dict[str, str]
    reasons: dict[str, str]
    node: str = ""
    message: str = ""

    def disagreement(self) -> Disagreement | None:
        text = f"scheduler: {self.node or self.message}; planner: {self.fits} {self.reasons}"
        if self.node and self.fits.get(self.node) == NO_FIT:
            return Disagreement("Q1", "false no-fit", text)
        if not self.node and FIT in self.fits.values():
            return Disagreement("Q1", "false fit", text)
        return None

    @property
    def planner(self) -> str:
        verdicts = self.fits.values()
        return FIT if FIT in verdicts else UNDECIDABLE if UNDECIDABLE in verdicts else NO_FIT


@dataclass
class Result:
    """`steered` and `unsteered`: what kept the gang from being bound, "" when it was bound as it should; None when not asked.
    `refusals` are the runs of a gang that the planner says can't be bound, in the same words. `refused` is what the API server
    said about an object that it didn't take; `standing` the id under which the case stood in the cluster; `error` what the
    planner raised. `marking` is the plan's, `survives` whether by the oracle every order of scheduling binds the gang with it.
    """

    case: Case
    outcome: str = ""
    reasons: tuple[str, ...] = ()
    probes: list[ProbeResult] = field(default_factory=list)
    steered: str | None = None
    unsteered: str | None = None
    refusals: list[str] = field(default_factory=list)
    oracle: bool | None = None
    marking: Marking = ()
    survives: bool | None = None
    refused: str = ""
    standing: str = ""
    error: str = ""

    def disagreements(self) -> list[Disagreement]:
        """None of a case that never stood in the cluster: it was refused."""
        if self.refused:
            return []
        found = [each for each in (probe.disagreement() for probe in self.probes) if each]
        if self.error:
            found.append(Disagreement("plan", "error", self.error))
        if self.steered:
            found.append(Disagreement("Q2", "false fit", self.steered))
        if "" in self.refusals:
            found.append(Disagreement("Q4", "false no-fit", f"bound in spite of: {'; '.join(self.reasons)}"))
        if self.outcome == NO_FIT and self.oracle is True:
            found.append(Disagreement("Q4", "false no-fit", f"the oracle finds a way in spite of: {'; '.join(self.reasons)}"))
        if self.survives is False:
            found.append(Disagreement("Q2", "false fit", f"the oracle finds an order that spoils the plan: {self.marking}"))
        if self.outcome == FIT and self.oracle is False:
            found.append(Disagreement("Q2", "oracle", "the oracle finds no way for a gang that has a plan"))
        return found
