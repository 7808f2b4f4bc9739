"""Each call of the main scenes struck once, its faults by turns; `make faults` plays all faults at all calls, and combined."""

import itertools

import pytest

from tests.faults.branches import walk
from tests.faults.explore import combinations, moving
from tests.faults.kinds import Fault, Script, kinds
from tests.faults.report import Report
from tests.faults.stage import Outcome, play

MAIN = ("reserved", "remainder", "adopted", "bad-node", "cancelled", "node-lost")


def by_turns(scene: str) -> list[tuple[Fault, ...]]:
    """Every call in its middle occurrence; from scene to scene, and from call to call, the next of its faults."""
    turn = itertools.count(MAIN.index(scene))
    return [
        (Fault(call, 1 + count // 2, kinds(call)[next(turn) % len(kinds(call))]),)
        for call, count in sorted(moving(scene).items())
    ]


@pytest.mark.parametrize("scene", MAIN)
def test_no_single_fault_breaks_anything(scene: str) -> None:
    assert not play(scene).broken, "without any fault"
    assert not [outcome for outcome in walk(scene, by_turns(scene)) if outcome.broken]


def test_the_same_play_ends_the_same_way() -> None:
    faults = [Fault("cloud launch", 1, "crash-after"), Fault("api watch nodes", 1, "lag")]
    first, second = play("mixed", faults), play("mixed", faults)
    assert (first.counts, first.seconds, first.broken) == (second.counts, second.seconds, second.broken)


def test_a_call_that_is_not_listed_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"provisioner/calls\.py"):
        Script().strikes("api delete nodes")


def test_a_run_that_shares_its_beginning_ends_as_if_played_alone() -> None:
    plays = [faults for scene, faults in combinations(200, 2) if scene == "mixed"]
    assert list(walk("mixed", plays)) == [play("mixed", faults) for faults in plays]
    assert plays


def test_the_report_counts_what_struck_and_what_broke() -> None:
    one, two = Fault("cloud launch", 1, "slow"), Fault("api get nodes", 1, "500")
    report = Report()
    for each in (Outcome("a", (one,), struck=[one]), Outcome("a", (one, two), broken=["it leaks"], struck=[one, two])):
        report.add(each)
    assert str(report) == "calls=2 faults=3 runs=2 broken=1"
    assert (report.singles, report.combinations) == (1, 1)
    assert Report.load(report.figures({}, whole=False)) == report, "a sweep that was stopped goes on with what it had found"
