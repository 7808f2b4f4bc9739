"""Every check of the judge is seen red: without one protection of the product the explorer says what broke.

The same play ends well with the product as it is. Where protections stand behind each other, all of them are taken out, and with
any one of them left the play ends well, too.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import pytest

from tests.faults import gangs, judge, spending
from tests.faults import taken_out as out
from tests.faults.kinds import Fault
from tests.faults.taken_out import Out, played

Call = tuple[str, int, str]
BARE: Call = ("api watch bookings", 2, "bare")
DIES_LATER: Call = ("cloud inventory", 3, "crash-before")
"""The cloud is asked every ten seconds: all is promised by then."""
ANSWER = "api apply provisioningrequests/status"


@dataclass(frozen=True)
class Row:
    """`says` are patterns of whole sentences that the judge must say; it may say more."""

    out: tuple[Out, ...]
    scene: str
    faults: tuple[Call, ...]
    says: tuple[str, ...]

    def broken(self, without: tuple[Out, ...]) -> list[str]:
        outcome = played(self.scene, tuple(Fault(*each) for each in self.faults), without)
        assert len(outcome.struck) == len(self.faults) or without == self.out, (
            "a fault no longer comes to pass: the row tests nothing"
        )
        return outcome.broken


ROWS = {
    "the write-ahead": Row(
        (out.WRITE_AHEAD,),
        "on-demand",
        (("cloud launch", 1, "crash-after"),),
        ("a launch for booking job-.* was made before it was written down",),
    ),
    "the token": Row(
        (out.TOKEN,),
        "late",
        (("cloud launch", 1, "lost-reply"), *(("cloud instances", nth, "empty") for nth in range(2, 6))),
        ("booking job-.* bought 4 machines of p0 where 2 were planned",),
    ),
    "the reaper's veto": Row(
        (out.REAPERS_VETO,),
        "late",
        (("cloud launch", 1, "crash-after"), BARE),
        ("machine .* is ended though booking job-.* counts on it",),
    ),
    "the second sighting": Row((out.SECOND_SIGHTING,), "forced", (), ("machine .* is ended under running pods",)),
    # --- buying ---
    "a token for each attempt": Row(
        (out.TOKEN_BY_ATTEMPT,),
        "on-demand",
        (("cloud launch", 1, "InsufficientCapacity"),),
        ("token .* of booking job-.* was used for two orders that differ",),
    ),
    "a live look for the booking of the attempt before": Row(
        (out.LIVE_LOOK_BEFORE_NEXT_ATTEMPT,),
        "never-joins",
        (("cloud launch", 1, "crash-after"), BARE),
        ("bookings job-.* and job-.* buy for one request at once",),
    ),
    "quota for what is asked": Row(
        (out.QUOTA, out.NO_MORE_THAN_QUOTA),
        "on-demand",
        (),
        ("booking thief-.* is made for request thief, which has no right to it",),
    ),
    "quota that is still there": Row((out.QUOTA_STILL,), "no-quota", (), ("booking job-.* is made for job, which has no quota",)),
    "no call for a booking that fails": Row(
        (out.NOTHING_FOR_FAILING,),
        "cancelled",
        (("cloud launch", 1, "no-answer"),),
        ("a launch for booking job-.* was made when it was Failing",),
    ),
    "no call to a paused pool": Row(
        (out.CLOSED_POOLS,),
        "paused",
        (("api update bookings/status", 1, "slow"), ("api update bookings/status", 2, "slow")),
        ("a launch for booking job-.* was made from a paused pool",),
    ),
    "what is left where the policy says so": Row(
        (out.LEFT,), "left", (), ("a launch for booking job-.* was made under job, whose policy leaves what it lost",)
    ),
    "the token, where a limit is just used up": Row(
        (out.TOKEN,),
        "stand-in-bought",
        (("cloud launch", 1, "lost-reply"), *(("cloud instances", nth, "empty") for nth in range(22, 34))),
        ("2 on-demand machines run where the pool allows 1",),
    ),
    "the pool's tag": Row((out.POOL_TAG,), "on-demand", (), ("a launch for booking job-.* bears tags .*",)),
    "the installation's tag": Row((out.INSTALLATION_TAG,), "on-demand", (), ("a launch for booking job-.* bears tags .*",)),
    # --- taking away ---
    "pods of others are seen": Row(
        (out.STRANGERS,),
        "forced",
        (),
        ("node .* of running job is no longer held", "machine .* is ended under running pods"),
    ),
    "only what is certainly over ends": Row(
        (out.CERTAINTY_OF_THE_END,), "on-demand", (), ("machine .* is taken from job, which is admitted",)
    ),
    "a drain begins in time": Row(
        (out.DRAIN_IN_TIME,), "block-ends", (), ("pod job-.* is evicted from .*, which nothing takes away",)
    ),
    "pods are evicted by their UIDs": Row(
        (out.UID_OF_THE_POD,),
        "notice",
        (("api create pods/eviction", 1, "runs-on"),),
        ("pod job-.* is evicted from .*, which nothing takes away",),
    ),
    "machines are looked for by their tags": Row(
        (out.OWN_MACHINES,), "on-demand", (), (r"here ends machines of others: \['.*'\]",)
    ),
    # --- promising ---
    "verification": Row(
        (out.VERIFICATION,),
        "bad-node",
        (),
        ("request job-1 was promised 2 nodes and has 0", "job was admitted, but 1 of 2 pods can be bound"),
    ),
    "an answer takes nothing back that was told since: Provisioned": Row(
        (out.VERSION_OF_ANSWERS,),
        "on-demand",
        ((ANSWER, 2, "runs-on"),),
        ("request job-1 was Provisioned and is not any more",),
    ),
    "an answer takes nothing back that was told since: Failed": Row(
        (out.VERSION_OF_ANSWERS,), "on-demand", ((ANSWER, 1, "runs-on"),), ("request thief took back Failed",)
    ),
    "what was accepted is not refused in hindsight": Row(
        (out.NO_REFUSAL_IN_HINDSIGHT,),
        "replaced",
        (DIES_LATER, ("api watch podtemplates", 2, "bare")),
        ("request job-1: it is Provisioned and was never Accepted",),
    ),
    "no failure after the promise": Row(
        (out.NO_REFUSAL_IN_HINDSIGHT, out.WHAT_WAS_TOLD),
        "replaced",
        (DIES_LATER, ("api watch workloads", 2, "bare")),
        ("request job-1 is Provisioned and Failed",),
    ),
    "conditions of the API": Row(
        (out.OUR_CONDITIONS,), "on-demand", (), ("request job-1: condition Taken is not one of the API's",)
    ),
    "transition times": Row(
        (out.TRANSITION_TIMES,),
        "on-demand",
        (),
        ("request job-1: Provisioned has another transition time and the same status",),
    ),
    "reasons": Row(
        (out.REASONS,),
        "on-demand",
        (),
        ("request job-1: Provisioned names no reason or not the generation that it is about",),
    ),
    "the generation": Row(
        (out.GENERATION,),
        "on-demand",
        (),
        ("request job-1: Provisioned names no reason or not the generation that it is about",),
    ),
    "a pass when the time has come": Row(
        (out.CLOCK,),
        "on-demand",
        (("cloud launch", 1, "InsufficientCapacity"),),
        ("job is asked and was to be done", "job waits for ever: .*"),
    ),
    # --- giving back ---
    "the finalizer goes after the booking": Row(
        (out.FINALIZER_LATER,), "on-demand", (("api delete bookings", 1, "crash-after"),), ("booking job-.* is left",)
    ),
    "a 404 that names the booking": Row(
        (out.NAME_IN_A_404,),
        "paused",
        tuple(("api get bookings", nth, "404") for nth in range(28, 36)),
        ("booking job-.* is left",),
    ),
    "a failed look is tried again": Row(
        (out.TRIED_AGAIN,),
        "on-demand",
        tuple(("cloud instances", nth, "Throttled") for nth in range(5, 9)),
        ("the process ended by itself: .*",),
    ),
    "the reaper": Row(
        (out.REAPER,), "given-up", (("cloud launch", 1, "runs-on-long"),), ("on-demand machine .* is left running",)
    ),
    "prepaid machines stay with a node alone": Row(
        (out.PREPAID_WITHOUT_NODE,),
        "given-up-prepaid-bad",
        (("cloud launch", 1, "runs-on-long"),),
        ("machine .* runs without a node",),
    ),
    "stray marks": Row(
        (out.STRAY_MARKS,),
        "given-up-prepaid",
        (("cloud launch", 1, "runs-on-long"),),
        ("node .* bears marks that nobody claims",),
    ),
    "the giver's marks go with the same patch": Row((out.GIVERS_MARKS,), "passed-on", (), ("node .* belongs to a-.*, b-.*",)),
    "what was made counts until it is seen": Row(
        (out.SEEN_AT_LAST,), "reserved", (), ("reservation cr-1 is told to be booked 2 times",)
    ),
    "a user's annotations stay": Row((out.USERS_ANNOTATIONS,), "adopted", (), ("adopted node n0 isn't as it was",)),
    "a user's taints stay": Row((out.USERS_TAINTS,), "adopted", (), ("adopted node n0 isn't as it was",)),
    # --- others ---
    "requests of our class": Row(
        (out.OUR_CLASS,), "on-demand", (), ("provisioningrequests of-another-class belongs to others and was changed",)
    ),
    "nodes that were launched": Row((out.LAUNCHED_NODES,), "on-demand", (), ("nodes foreign belongs to others and was changed",)),
    "the lease": Row((out.LEASE_OF_OTHERS,), "led", (), ("cloud .* is called by a process that doesn't lead",)),
    "the end of a lease": Row(
        (out.STEPPING_DOWN, out.FENCE, out.GUARD),
        "led",
        tuple(("api update leases", nth, "500") for nth in range(2, 14)),
        ("cloud .* is called by a process that doesn't lead",),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_judge_says_so_when_it_is_taken_out(row: Row) -> None:
    for left in row.out:
        assert not row.broken(tuple(each for each in row.out if each is not left)), f"with {left[1]} left"
    broken = row.broken(row.out)
    assert [words for words in row.says if not any(re.fullmatch(words, each) for each in broken)] == [], broken


def test_no_check_is_left_that_nobody_saw_red() -> None:
    said = [words for row in ROWS.values() for words in row.broken(row.out)]
    checks = [each for module in (judge, spending, gangs) for each in sentences(module)]
    assert [each for each in checks if not any(re.search(each, words) for words in said)] == []
    assert len(checks) > 30, "the sentences of the judge are not found any more"


def sentences(module: ModuleType) -> Iterator[str]:
    """Patterns of all that a module can say: its f-strings that have words, and what it appends to a list."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".*" for each in node.values]
            if " " in "".join(parts):
                yield "".join(parts)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            yield from (re.escape(str(each.value)) for each in node.args if isinstance(each, ast.Constant))
