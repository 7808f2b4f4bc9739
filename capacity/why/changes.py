"""What users or the owners of a policy could change about a question, the change that gives up least first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from capacity.fit import BOOKED_TAINT
from capacity.instants import clock
from capacity.model import (
    ZONE,
    CapacityType,
    Change,
    Constraint,
    Gang,
    Holder,
    Node,
    Plan,
    PodSet,
    Purchase,
    Snapshot,
)
from capacity.quantity import dollars
from capacity.requirements import Taint, untolerated
from capacity.snapshot import taken
from capacity.topology import required_key, wider
from capacity.why import loosen
from capacity.why.loosen import INSTANCE_TYPE, Question
from capacity.why.lots import Survey
from capacity.why.rooms import but_for, enough, enough_scattered, holding_enough

MOST_ALIKE = 3
"""Changes of one kind that are tried: keys, taints, instants."""
MOST_HOLDERS = 6
MODELS = (INSTANCE_TYPE, "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A changed question, and what to tell if it has a plan, or how to tell of that. Of one `change`, the first that fits is
    enough.
    """

    change: Change
    question: Question
    tell: str | Callable[[Plan], str]


def candidates(question: Question, seen: Survey, *, waiting_helps: bool) -> Iterator[Candidate]:
    """Those that room by count alone doesn't rule out. Unless `waiting_helps`, others' ends and later starts are left out."""
    if enough_scattered(seen):
        yield from _levels(question)
        yield from _placement(question)
    if enough(seen, but_for(Constraint.NODE_SELECTOR, Constraint.NODE_AFFINITY)):
        yield from _selectors(question)
    if enough(seen, but_for(Constraint.TAINT)):
        yield from _taints(question, seen)
    if waiting_helps and enough(seen, but_for(Constraint.NOT_STARTED)):
        yield from _starts(question)
    if enough(seen, but_for(Constraint.ENDS_TOO_SOON)):
        yield from _run_times(question)
    yield from _policy(question, seen)
    if waiting_helps:
        yield from _holders(question, seen)


def keys(question: Question) -> list[str]:
    """The required levels."""
    gang, _, preferences = question
    return sorted({key for pod_set in gang.pod_sets if pod_set.count and (key := required_key(pod_set, preferences))})


def broken(plan: Plan, snapshot: Snapshot) -> list[str]:
    """The limits that a plan takes more of than is left."""
    return [budget.text for budget in snapshot.budgets if taken(budget, plan) > budget.left]


def _levels(question: Question) -> Iterator[Candidate]:
    """The next wider level, and so on, at last none."""
    for key in keys(question):
        level = wider(key, question[1].topology_keys)
        while level is not None:
            yield Candidate(
                Change.LEVEL, loosen.rebound(question, key, level), f"with {level} as the required level instead of {key}"
            )
            level = wider(level, question[1].topology_keys)
        yield Candidate(Change.LEVEL, loosen.rebound(question, key, None), f"without {key} as a required level")


def _placement(question: Question) -> Iterator[Candidate]:
    """Without one kind of rule among pods."""
    rules: tuple[tuple[str, Callable[[PodSet], object], Callable[[PodSet], PodSet]], ...] = (
        ("slices", lambda one: one.slices, lambda one: replace(one, slices=None)),
        ("topology spread", lambda one: one.spreads, lambda one: replace(one, spreads=())),
        ("exclusive domains", lambda one: one.exclusive, lambda one: replace(one, exclusive=None)),
        ("pod anti-affinity", lambda one: one.apart, lambda one: replace(one, apart=())),
        ("pod affinity", lambda one: one.near, lambda one: replace(one, near=())),
    )
    for name, rule, without in rules:
        if any(rule(pod_set) for pod_set in question[0].pod_sets):
            names = ", ".join(pod_set.name for pod_set in question[0].pod_sets if rule(pod_set))
            yield Candidate(Change.PLACEMENT, loosen.each(question, without), f"without the {name} of {names}")


def _selectors(question: Question) -> Iterator[Candidate]:
    """Without a word about one label, the ones that name a zone or a model first."""
    asked = {key for pod_set in question[0].pod_sets for key in _asked(pod_set)}
    order = [key for key in (ZONE, *MODELS) if key in asked] + sorted(asked - {ZONE, *MODELS})
    for key in order[: 2 * MOST_ALIKE]:
        change = Change.ZONE if key == ZONE else Change.MODEL if key in MODELS else Change.SELECTOR
        yield Candidate(change, loosen.unselective(question, key), _elsewhere(question[0], key))


def _asked(pod_set: PodSet) -> Iterator[str]:
    yield from pod_set.node_selector
    for term in pod_set.affinity or ():
        yield from (expression.key for expression in term.expressions)


def _elsewhere(gang: Gang, key: str) -> Callable[[Plan], str]:
    """Names what the plan uses, so that the change can be copied from the phrase."""
    old = {pod_set.node_selector[key] for pod_set in gang.pod_sets if key in pod_set.node_selector}

    def tell(plan: Plan) -> str:
        found = sorted({*(one.node.labels.get(key, "") for one in plan.uses), *(_label(one, key) for one in plan.purchases)})
        if not all(found):
            return f"without {key} in node selector and affinity"
        new = [value for value in found if value not in old][:MOST_ALIKE]
        kept = "as well as" if old & set(found) else "instead of"
        return f"with {key} {' or '.join(new)}" + (f" {kept} {' and '.join(sorted(old))}" if old else "")

    return tell


def _label(one: Purchase, key: str) -> str:
    return one.offering.domain.get(key) or one.offering.shape.labels.get(key, "")


def _taints(question: Question, seen: Survey) -> Iterator[Candidate]:
    """The taints that keep the pods from most nodes first."""
    nodes: dict[Taint, int] = {}
    for lot in seen.lots:
        taints = lot.subject.taints if isinstance(lot.subject, Node) else lot.subject.shape.taints
        for pod_set, verdict in zip(seen.pod_sets, lot.verdicts, strict=True):
            taint = untolerated((one for one in taints if one.key != BOOKED_TAINT), pod_set.tolerations)
            if verdict.constraint is Constraint.TAINT and taint:
                nodes[taint] = nodes.get(taint, 0) + lot.count
    for taint in sorted(nodes, key=lambda one: (-nodes[one], one.key, one.value, one.effect))[:MOST_ALIKE]:
        name = f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
        yield Candidate(Change.TOLERATION, loosen.tolerant(question, taint), f"with the taint {name} tolerated")


def _starts(question: Question) -> Iterator[Candidate]:
    """As of the instants at which capacity starts, the earliest first."""
    gang, snapshot, preferences = question
    later: dict[int, set[str]] = {}
    for one in snapshot.offerings:
        if one.starts is not None and one.starts > snapshot.now:
            later.setdefault(one.starts, set()).add(one.reservation or one.name)
    for start in sorted(later)[:MOST_ALIKE]:
        text = f"from {clock(start, snapshot.now)}, when {' and '.join(sorted(later[start])[:MOST_ALIKE])} starts"
        yield Candidate(Change.START, (gang, replace(snapshot, now=start), preferences), text)


def _run_times(question: Question) -> Iterator[Candidate]:
    """With a run time that is over when capacity ends, the longest first."""
    gang, snapshot, preferences = question
    ends = {*(node.ends for node in snapshot.nodes), *(offering.ends for offering in snapshot.offerings)}
    for end in sorted((end for end in ends if end is not None and end > snapshot.now), reverse=True)[:MOST_ALIKE]:
        if gang.run_duration is None or gang.run_duration > end - snapshot.now:
            shorter = replace(gang, run_duration=end - snapshot.now)
            text = f"with a declared run time that is over by {clock(end, snapshot.now)}"
            yield Candidate(Change.RUN_TIME, (shorter, snapshot, preferences), text)


def _policy(question: Question, seen: Survey) -> Iterator[Candidate]:
    """What the owners of pools and policies could change: the price ceiling, limits, kinds of capacity."""
    gang, snapshot, preferences = question
    if preferences.price_ceiling is not None and enough(seen, but_for(Constraint.PRICE_CEILING)):
        asked = (gang, snapshot, replace(preferences, price_ceiling=None))
        yield Candidate(Change.PRICE_CEILING, asked, lambda plan: f"with a price ceiling of ${dollars(plan.cost)}/h")
    asked = loosen.unlimited(question)
    if asked != question and enough(seen, but_for(Constraint.LIMIT)):
        yield Candidate(Change.LIMIT, asked, lambda plan: f"with a higher limit: {', '.join(broken(plan, snapshot))}")
    kinds = {*(node.capacity_type for node in snapshot.nodes), *(offering.capacity_type for offering in snapshot.offerings)}
    if enough(seen, but_for(Constraint.CAPACITY_ORDER)):
        for kind in sorted(kind for kind in kinds if kind and kind not in (CapacityType.QUEUED, *preferences.capacity_order)):
            order = (*preferences.capacity_order, kind)
            asked = (gang, snapshot, replace(preferences, capacity_order=order))
            yield Candidate(Change.CAPACITY_ORDER, asked, _priced(f"with {kind} in the policy's capacityOrder"))


def _priced(text: str) -> Callable[[Plan], str]:
    return lambda plan: f"{text}, at ${dollars(plan.cost)}/h" if plan.cost else text


def _holders(question: Question, seen: Survey) -> Iterator[Candidate]:
    """When one other gang ends: those that are known to end first, then those that hold fewest nodes."""
    snapshot = question[1]
    held: dict[str, int] = {}
    for lot in seen.lots:
        if isinstance(lot.subject, Node) and lot.subject.booked_by:
            held[lot.subject.booked_by] = held.get(lot.subject.booked_by, 0) + lot.count

    def order(name: str) -> tuple[bool, int, int, str]:
        ends = snapshot.holders[name].ends
        return ends is None, ends or 0, held[name], name

    known = [name for name in holding_enough(seen) if name in snapshot.holders]
    for name in sorted(known, key=order)[:MOST_HOLDERS]:
        yield Candidate(Change.HOLDER, loosen.without(question, name), _end(snapshot.holders[name], snapshot.now))


def _end(holder: Holder, instant: int) -> str:
    return f"when {holder.gang} ends" + (f" ({clock(holder.ends, instant)} at the latest)" if holder.ends is not None else "")
