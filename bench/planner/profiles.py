"""Where the time goes with a kept index: processor time, so that what else the machine does falls on no function."""

import cProfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from bench.planner.ours import gang, planned, snapshot
from bench.planner.problems import Problem
from capacity.index.fleet import stocked

ROUNDS = 200
ENOUGH = 200_000_000
"""Nanoseconds after which no further round begins."""
ROOT = Path(__file__).parents[2]
DEEPEST = 5
"""Calls through libraries that are followed up."""

Code = tuple[str, int, str]
"""(file, line, function), as cProfile has it."""
Stats = Mapping[Code, tuple[int, int, float, float, Mapping[Code, tuple[int, int, float, float]]]]
"""(calls, calls that were not recursive, seconds in it, seconds in it and below, the same by caller)."""


def profile(problem: Problem) -> str:
    """The modules of ours that take most of it, with their shares."""
    profiler = cProfile.Profile(time.thread_time_ns, 1e-9)
    start, began = stocked(snapshot(problem)), time.perf_counter_ns()
    planned(start, [gang(ask) for ask in problem.gangs])
    for more in range(1, ROUNDS + 1):
        profiler.runcall(planned, start, [gang(ask, more) for ask in problem.gangs])
        if time.perf_counter_ns() - began > ENOUGH:
            break
    profiler.create_stats()
    own = charged(profiler.stats)
    most = sorted(own.items(), key=lambda one: (-one[1], one[0]))[:5]
    return ", ".join(f"{name} {100 * seconds / (sum(own.values()) or 1):.0f} %" for name, seconds in most)


def charged(stats: Stats) -> Mapping[str, float]:
    """Seconds by module of ours; what a builtin or a library takes is charged to whoever called it."""
    own: dict[str, float] = defaultdict(float)
    for code, (_, _, took, _, _) in stats.items():
        _charge(stats, code, took, own, DEEPEST)
    return own


def _charge(stats: Stats, code: Code, took: float, own: dict[str, float], deep: int) -> None:
    callers = {caller: one[3] for caller, one in stats[code][4].items() if caller != code}
    total = sum(callers.values())
    ours = Path(code[0]).is_relative_to(ROOT) and ".venv" not in code[0]
    if ours or not total or not deep:
        own[Path(code[0]).stem if ours else code[2]] += took
        return
    for caller, share in callers.items():
        _charge(stats, caller, took * share / total, own, deep - 1)
