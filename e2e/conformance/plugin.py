"""Plugin of pytest (`-p e2e.conformance.plugin`): keeps the tests that claim a row, and writes down what became of them.

Only tests with the marker `row` are run. The outcome goes to the file of `--outcomes`, one `Outcome` a test; with
`--collect-only` what the tests are, all of outcome "".
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest


class Outcome(msgspec.Struct, kw_only=True):
    """One test. `fixtures` are all that it uses; `evidence` is what Kueue was seen to write to Workloads.

    `before` is what it came to at first, if it was run a second time.
    """

    test: str
    file: str
    rows: list[str]
    fixtures: list[str]
    outcome: str = ""  # passed | failed | skipped
    evidence: list[str] = []
    seconds: float = 0.0
    before: str = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True, help="file to write the outcomes of the rows' tests to")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Outcomes(config.getoption("--outcomes")))


class _Outcomes:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Outcome] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [each for each in items if each.get_closest_marker("row")]
        config.hook.pytest_deselected(items=[each for each in items if each not in kept])
        items[:] = kept
        self._found = {each.nodeid: _planned(each) for each in kept}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = self._found[report.nodeid]
        found.seconds += report.duration
        if report.when == "call" or report.outcome != "passed":
            found.outcome = report.outcome
        if report.when == "teardown":
            found.evidence = [value for name, value in report.user_properties if name == "evidence" and isinstance(value, str)]

    def pytest_sessionfinish(self) -> None:
        self._path.write_bytes(msgspec.json.encode(list(self._found.values())))


def _planned(item: pytest.Item) -> Outcome:
    names = sorted(set(getattr(item, "fixturenames", ())))
    return Outcome(test=item.nodeid, file=item.nodeid.partition("::")[0], rows=list(claimed(item)), fixtures=names)


def claimed(item: pytest.Item) -> Iterator[str]:
    """The ids of the rows that a test claims, each once."""
    yield from dict.fromkeys(id_ for mark in item.iter_markers("row") for id_ in mark.args)
