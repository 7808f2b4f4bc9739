"""A pytest plugin (`-p e2e.aws.table`): before pytest's last line, the situations played and the calls that each took."""

from collections import Counter

import pytest

ROWS: list[tuple[str, Counter[str]]] = []
LAUNCHES = ("RunInstances", "CreateFleet")


def note(situation: str, calls: Counter[str]) -> None:
    """Adds a row."""
    ROWS.append((situation, calls))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    terminalreporter.section("calls to EC2 by situation")
    terminalreporter.write_line(f"{'situation':<58}{'launch':>7}{'end':>5}{'reads':>7}")
    for situation, calls in ROWS:
        launches, ends = sum(calls[name] for name in LAUNCHES), calls["TerminateInstances"]
        reads = calls.total() - launches - ends
        terminalreporter.write_line(f"{situation:<58}{launches:>7}{ends:>5}{reads:>7}")
