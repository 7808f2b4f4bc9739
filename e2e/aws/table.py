"""A pytest plugin (`-p e2e.aws.table`): before pytest's last line, the situations played and the calls that each took."""

from collections import Counter

import pytest

ROWS: list[tuple[str, Counter[str], float]] = []
LAUNCHES = ("RunInstances", "CreateFleet")


def note(situation: str, calls: Counter[str], seconds: float) -> None:
    """Adds a row. A pool is looked at every other second here, whatever happens in it; by default every tenth."""
    ROWS.append((situation, calls, seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    terminalreporter.section("calls to EC2 by situation")
    terminalreporter.write_line(f"{'situation':<58}{'launch':>7}{'end':>5}{'reads':>7}{'in s':>6}")
    for situation, calls, seconds in ROWS:
        launches, ends = sum(calls[name] for name in LAUNCHES), calls["TerminateInstances"]
        reads = calls.total() - launches - ends
        terminalreporter.write_line(f"{situation:<58}{launches:>7}{ends:>5}{reads:>7}{seconds:>6.0f}")
