"""Who is charged with time that was spent in libraries."""

from bench.planner.profiles import ROOT, Stats, charged

PLAN, EMPTY = (f"{ROOT}/capacity/common/quick.py", 9, "_plan"), (f"{ROOT}/capacity/snapshot.py", 5, "<lambda>")
REPLACE, SUM = ("/usr/lib/python3/dataclasses.py", 7, "replace"), ("~", 0, "<built-in method builtins.sum>")
NUMPY = (f"{ROOT}/.venv/lib/numpy/core.py", 3, "take")


def test_libraries_are_charged_to_whoever_called_them() -> None:
    """sum takes 4 s, a quarter of it for _plan, the rest for replace, which the lambda calls; numpy.take is called by _plan."""
    stats: Stats = {
        PLAN: (1, 1, 3.0, 9.0, {}),
        EMPTY: (1, 1, 1.0, 6.0, {PLAN: (1, 1, 1.0, 6.0)}),
        REPLACE: (2, 2, 2.0, 5.0, {EMPTY: (2, 2, 2.0, 5.0)}),
        SUM: (4, 4, 4.0, 4.0, {PLAN: (1, 1, 1.0, 1.0), REPLACE: (3, 3, 3.0, 3.0)}),
        NUMPY: (1, 1, 0.5, 0.5, {PLAN: (1, 1, 0.5, 0.5)}),
    }
    assert charged(stats) == {"quick": 3 + 1 + 0.5, "snapshot": 1 + 2 + 3}


def test_what_nobody_calls_keeps_its_name() -> None:
    assert charged({SUM: (1, 1, 2.0, 2.0, {})}) == {"<built-in method builtins.sum>": 2}
