"""Whether what became of each gang is right. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from e2e.chaos.lives import GangLife, Ledger, PodLife
from e2e.chaos.schedule import ABLE, Gang

SPREAD = 120.0
"""Seconds that may pass between the binding of a gang's first pod and its last: outages and a busy machine included."""


@dataclass(frozen=True)
class Verdict:
    """`able` are gangs that could run, `excused` why a gang isn't judged on what became of it after a restore. `wrong` has a line
    for each thing that is.
    """

    gangs: int
    able: int
    admitted_once: int
    harmed: int
    wrong: tuple[str, ...]
    excused: Mapping[str, str] = field(default_factory=dict)


def judged(ledger: Ledger) -> Verdict:
    """Of all that was seen, what restores have undone included."""
    wrong, once, harmed, able = list[str](), 0, 0, 0
    excuses = {name: words for name in ledger.gangs if (words := ledger.excuse(name))}
    for name, gang in ledger.gangs.items():
        could = gang.fate in ABLE and name not in excuses
        lives = ledger.answerable(name)
        lost = list(dict.fromkeys(words for life in lives for words in _harm(ledger, life)))
        faults = (words for life in lives for words in (*life.short, *_faults(ledger, gang, life, could)))
        found = list(dict.fromkeys([*lost, *faults, *(_open(lives[-1]) if could else ())]))
        able, harmed = able + could, harmed + len(lost)
        once += could and lives[-1].finished is not None and not found
        wrong += [f"{name} ({gang.kind} of {gang.nodes}, {gang.queue}, {gang.fate}): {each}" for each in found]
    return Verdict(len(ledger.gangs), able, once, harmed, tuple(wrong), excuses)


def _harm(ledger: Ledger, life: GangLife) -> Iterator[str]:
    for pod in life.pods.values():
        if pod.lost is not None and pod.node not in ledger.killed and not _by_right(life, pod):
            yield f"pod {pod.name} on {pod.node} lost at {pod.lost:.0f} s: {pod.words}"


def _by_right(life: GangLife, pod: PodLife) -> bool:
    """Whether it went when its gang was over, or its user had ended it."""
    assert pod.lost is not None
    over = life.finished is not None and life.finished <= pod.lost and not life.failed
    return over or (life.ended is not None and life.ended <= pod.lost + 1)


def _faults(ledger: Ledger, gang: Gang, life: GangLife, could: bool) -> Iterator[str]:
    count, at = len(life.admissions), ", ".join(f"{at:.0f}" for at in life.admissions.values())
    if gang.fate == "impossible" and (count or life.pods):
        yield f"admitted {count} times though no rack has room for it"
    elif count > 1:
        yield f"admitted {count} times, at {at} s"
    if could and (apart := _spread(ledger, life, gang.nodes)) > SPREAD:
        yield f"pods bound over {apart:.0f} s"


def _open(life: GangLife) -> Iterator[str]:
    if life.submitted is not None and (life.finished is None or life.failed):
        yield f"not completed: {life.failed or life.said or 'no Workload seen'}"


def _spread(ledger: Ledger, life: GangLife, nodes: int) -> float:
    """Seconds between the binding of its first pods, no restore in between."""
    bound = sorted(pod.bound for pod in life.pods.values())[:nodes]
    if not bound or any(bound[0] < each.healed and each.taken < bound[-1] for each in ledger.restores):
        return 0.0
    return bound[-1] - bound[0]
