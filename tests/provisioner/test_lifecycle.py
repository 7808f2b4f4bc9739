"""One row a rule: a booking, what is seen, and the one step that follows."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kube.meta import Condition
from kube.ours import AbsentNode, BookedInstance, BookingStatus, Launch
from kube.times import stamp
from provisioner import lifecycle
from provisioner.clouds.base import Instance, InstanceState
from provisioner.repairing.slots import Slot, Sought, StandIn
from provisioner.steps import (
    Buy,
    CheckUp,
    Drain,
    Drop,
    Mark,
    Notice,
    Observed,
    Owner,
    Quarantine,
    Reopen,
    SeenNode,
    Terminate,
    Terms,
    Unmark,
    Verdict,
    Wait,
    Write,
)
from tests.provisioner.world import START, booking, purchase

AT = stamp(START)
TOKEN = "t1"


def launch(state: str = "Pending", *, token: str = TOKEN, name: str = "od", count: int = 2, at: str = AT, **more: str) -> Launch:
    return Launch(purchase=name, token=token, count=count, state=state, at=at, **more)  # type: ignore[arg-type]


def full(after: int) -> Launch:
    """The order of a replacement, refused by a full reservation so many seconds after the start."""
    at = stamp(START + timedelta(seconds=after))
    return launch("Failed", token="t2", count=1, at=at, reason="ReservationCapacityExceeded")


def machine(id_: str = "i1", state: str = "Launched", *, name: str = "od", token: str = TOKEN, **more: str) -> BookedInstance:
    more = {"since": AT, "launched_at": AT, **more}
    return BookedInstance(id=id_, purchase=name, state=state, provider_id=f"sim://{id_}", token=token, **more)  # type: ignore[arg-type]


def instance(id_: str = "i1", state: InstanceState = InstanceState.RUNNING, token: str = TOKEN) -> Instance:
    return Instance(id_, f"sim://{id_}", state, "h100", "z1", token, tags={"corral.dev/purchase": "od"})


def node(name: str, provider: str = "", **more: Any) -> SeenNode:
    given: dict[str, Any] = {"touched": True, "marked": True, "verdict": Verdict.SOUND, **more}
    return SeenNode(name=name, provider_id=f"sim://{provider or name}", **given)


def seen(*nodes: SeenNode, instances: tuple[Instance, ...] | None = (), **more: Any) -> Observed:
    given: dict[str, Any] = {"owner": Owner.WAITING, "request": True, "readiness": {"p": 300}, **more}
    listed = None if instances is None else {each.id: each for each in instances}
    return Observed(nodes={each.name: each for each in nodes}, instances=listed, **given)


def status(phase: str, **more: Any) -> BookingStatus:
    more.setdefault("phase_since", AT)
    return BookingStatus(phase=phase, **more)  # type: ignore[arg-type]


def refused_beside_a_gone_one(after: int) -> BookingStatus:
    """Its one machine is gone since 95 s after the start."""
    return status(
        "Joining",
        launches=(launch("Answered", count=1), full(after)),
        instances=(machine("i1", "Gone", since=stamp(START + timedelta(seconds=95))),),
        message="0 of 1 nodes ready",
    )


TAKEN = {"nodes": ("a",)}
OD = {"purchases": (purchase("od", 2),)}
ONE = {"purchases": (purchase("od", 1),)}
RESERVED = {"purchases": (purchase("od", 1, "reserved"),)}
BOTH_READY = (machine("i1", "Ready", node="n1", verdict="Sound"), machine("i2", "Ready", node="n2", verdict="Sound"))
TWO = (instance("i1"), instance("i2"))
READY = machine("i1", "Ready", node="n1", verdict="Sound")
BAD = machine("i1", "Bad", node="n1", message="7 of 8 nvidia.com/gpu")
PROVISIONED = {"provisioned_at": AT, "launches": (launch("Answered", count=1),), "instances": (READY,)}
REPLACING = Condition(
    type="NodeLost",
    status="True",
    reason="Replacing",
    message="1 of 2 h100 are lost",
    last_transition_time=AT,
    observed_generation=1,
)
LOST = {
    "provisioned_at": AT,
    "first_pod_at": AT,
    "launches": (launch("Answered"),),
    "instances": (READY, machine("i2", "Gone")),
    "conditions": (REPLACING,),
}
A_MINUTE_LATER = stamp(START + timedelta(seconds=60))
TO_COME_OF_TWO = structs.replace(REPLACING, message="1 of 2 nodes are still to come in place of lost ones")
WAITED_FOR = structs.replace(TO_COME_OF_TWO, reason="NodeLost")
UNANSWERED = {**LOST, "launches": (launch("Answered"), launch(token="t2", count=1)), "conditions": (TO_COME_OF_TWO,)}
GIVEN_UP = launch("Failed", token="t2", count=1, reason="Unknown", message="no answer, and not all of its machines came")
ABSENT = AbsentNode(name="a", since=AT, message="is gone")
TAKEN_LOST = structs.replace(REPLACING, message="node a is gone")
TO_COME = structs.replace(REPLACING, message="1 of 1 nodes are still to come in place of lost ones")
LATER_ON = stamp(START + timedelta(seconds=30))
FORMER = {"nodes": ("b",), "former": ("a",)}
STANDING_IN = {"nodes": ("b",), "since": AT}
LEFT_LOST = structs.replace(TAKEN_LOST, reason="NodeLost")
ALL_LOST = structs.replace(REPLACING, message="1 of 1 h100 are lost")
LEFT_ALONE = {**LOST, "conditions": (structs.replace(REPLACING, reason="NodeLost"),)}
SPOT = Notice("SpotInterruption", "spot interruption at 10:02Z", START, START + timedelta(seconds=120))
LEAVING = Condition(
    type="NodesEnding",
    status="True",
    reason="SpotInterruption",
    message="node n1: spot interruption at 10:02Z",
    last_transition_time=AT,
    observed_generation=1,
)

SHUT = {"od": "pool p is Paused"}
# id: (what is booked, its status, what is seen, seconds since START, rule, the step or the phase that it leads to)
ROWS: dict[str, tuple[dict[str, Any], BookingStatus, Observed, float, str, Any]] = {
    # from one gang to the next
    "a node that its former booking has not let go of yet": (
        TAKEN,
        status("Marking"),
        seen(node("a", marked=False, giver="old")),
        1,
        "take-over",
        Wait(5),
    ),
    "a machine that the next gang takes over": (
        ONE,
        status("Releasing", **PROVISIONED),
        seen(node("n1", "i1"), instances=(instance(),), claimed=frozenset({"n1"}), wanted=True),
        1,
        "pass-on",
        {"states": ["Transferred"]},
    ),
    "a moment for those who wait": (
        ONE,
        status("Releasing", **PROVISIONED),
        seen(node("n1", "i1"), instances=(instance(),), wanted=True),
        1,
        "offer",
        Wait(2),
    ),
    "nobody took it": (
        ONE,
        status("Releasing", **PROVISIONED),
        seen(node("n1", "i1"), instances=(instance(),), wanted=True),
        3,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "nothing is left to be taken": (
        ONE,
        status("Releasing", **PROVISIONED | {"instances": (structs.replace(READY, state="Terminating"),)}),
        seen(node("n1", "i1"), instances=(instance(),), wanted=True),
        1,
        "terminate",
        Terminate(("i1",)),
    ),
    # a pool is closed meanwhile
    "nothing is bought from a pool that was closed": (
        OD,
        status("Marking"),
        seen(closed=SHUT),
        1,
        "shut-out",
        "Failing/PoolClosed",
    ),
    "a call without an answer is not repeated in a closed pool": (
        OD,
        status("Launching", launches=(launch(),)),
        seen(closed=SHUT),
        1,
        "shut-out",
        "Failing/PoolClosed",
    ),
    "what was bought before goes on": (
        OD,
        status("Launching", launches=(launch("Answered"),), instances=(machine("i1"), machine("i2"))),
        seen(instances=TWO, closed=SHUT),
        1,
        "begin-joining",
        "Joining/",
    ),
    "nothing is replaced from a closed pool": (
        ONE,
        status(
            "Joining", message="0 of 1 nodes ready", launches=(launch("Answered", count=1),), instances=(machine("i1", "Gone"),)
        ),
        seen(closed=SHUT),
        1,
        "wait-for-nodes",
        Wait(5),
    ),
    # free nodes are held first
    "unmarked nodes are marked": (TAKEN, status("Marking"), seen(node("a", marked=False)), 0, "mark", Mark(("a",))),
    "marks are noted": (
        TAKEN,
        status("Marking"),
        seen(node("a")),
        1,
        "note-marks",
        {"marked_at": stamp(START + timedelta(seconds=1))},
    ),
    "a node not seen and not known gone is waited for": (TAKEN, status("Marking"), seen(), 1, "settle", Wait(3.0)),
    "bindings settle": (TAKEN, status("Marking", marked_at=AT), seen(node("a")), 1, "settle", Wait(2.0)),
    "a full node is not given up before it settled": (
        TAKEN,
        status("Marking", marked_at=AT),
        seen(node("a", holds=False)),
        1,
        "settle",
        Wait(2.0),
    ),
    "a node that a pod slipped onto is given up": (
        TAKEN,
        status("Marking", marked_at=AT),
        seen(node("a", holds=False)),
        3,
        "lose-node",
        "Failing/NodeTaken",
    ),
    "a node that is gone is given up": (
        TAKEN,
        status("Marking"),
        seen(gone=frozenset({"a"})),
        0,
        "lose-node",
        "Failing/NodeTaken",
    ),
    "a node of another incarnation is given up": (
        TAKEN,
        status("Marking"),
        seen(node("a", "other")),
        0,
        "lose-node",
        "Failing/NodeTaken",
    ),
    "a node of another booking is given up": (
        TAKEN,
        status("Marking"),
        seen(node("a", others=("c",))),
        0,
        "lose-node",
        "Failing/NodeTaken",
    ),
    "held nodes let the buying begin": (TAKEN, status("Marking", marked_at=AT), seen(node("a")), 3, "begin-buying", "Launching/"),
    "without nodes the buying begins at once": (OD, status("Marking"), seen(), 0, "begin-buying", "Launching/"),
    # giving up
    "a deleted request cancels": (OD, status("Marking"), seen(request=False), 0, "cancel", "Failing/Cancelled"),
    "an unknown request does not": (OD, status("Marking"), seen(request=None), 0, "begin-buying", "Launching/"),
    "an owner that is done cancels": (OD, status("Launching"), seen(owner=Owner.DONE), 0, "cancel", "Failing/Cancelled"),
    "an unknown owner does not": (
        TAKEN,
        status("Launching"),
        seen(node("a"), owner=Owner.UNKNOWN),
        0,
        "begin-joining",
        "Joining/",
    ),
    "a deleted booking cancels": (
        {**OD, "deleted": True},
        status("Joining", message="0 of 2 nodes ready"),
        seen(),
        0,
        "cancel",
        "Failing/Cancelled",
    ),
    "the deadline ends it": (
        OD,
        status("Joining", message="0 of 2 nodes ready"),
        seen(),
        2400,
        "time-out",
        "Failing/ProvisionTimeout",
    ),
    # buying
    "a call that is answered by tag is not made": (
        OD,
        status("Launching", launches=(launch(),)),
        seen(instances=TWO),
        9,
        "record",
        {
            "launches": (launch("Answered"),),
            "instances": tuple(machine(i, since=stamp(START + timedelta(seconds=9))) for i in ("i1", "i2")),
        },
    ),
    "a pending call is made after the look": (OD, status("Launching", launches=(launch(),)), seen(), 9, "buy", Buy(TOKEN)),
    "without a look nothing is bought": (OD, status("Launching", launches=(launch(),)), seen(instances=None), 9, "buy", Wait(5)),
    "a refusal ends the attempt": (
        OD,
        status("Launching", launches=(launch("Failed", reason="InsufficientCapacity", message="no p5"),)),
        seen(),
        9,
        "fall-short",
        "Failing/InsufficientCapacity",
    ),
    "all answered: wait for nodes": (
        OD,
        status("Launching", launches=(launch("Answered"),), instances=BOTH_READY),
        seen(node("n1", "i1"), node("n2", "i2"), instances=TWO),
        9,
        "begin-joining",
        "Joining/",
    ),
    # joining
    "all sound: provisioned": (
        OD,
        status("Joining", launches=(launch("Answered"),), instances=BOTH_READY, message="2 of 2 nodes ready"),
        seen(node("n1", "i1"), node("n2", "i2"), instances=TWO),
        9,
        "prove",
        "Provisioned/",
    ),
    "no answer of the cloud proves nothing": (
        OD,
        status("Joining", launches=(launch("Answered"),), instances=BOTH_READY, message="2 of 2 nodes ready"),
        seen(node("n1", "i1"), node("n2", "i2"), instances=None),
        9,
        "wait-for-nodes",
        Wait(5),
    ),
    "a taken node that is not Ready keeps it waiting": (
        TAKEN,
        status("Joining", message="0 of 1 nodes ready"),
        seen(node("a", verdict=Verdict.WAITING, words="not Ready")),
        9,
        "wait-for-nodes",
        Wait(5),
    ),
    "a joined node without marks gets them": (
        ONE,
        status(
            "Joining",
            launches=(launch("Answered", count=1),),
            message="0 of 1 nodes ready",
            instances=(machine("i1", "Joined", node="n1", verdict="Sound"),),
        ),
        seen(node("n1", "i1", marked=False), instances=TWO[:1]),
        9,
        "mark-joined",
        Mark(("n1",)),
    ),
    "a bad node is quarantined": (
        ONE,
        status("Joining", launches=(launch("Answered", count=1),), instances=(BAD,), message="0 of 1 nodes ready"),
        seen(node("n1", "i1"), instances=TWO[:1]),
        99,
        "quarantine",
        Quarantine(("n1",)),
    ),
    "one too many is closed before it is ended: the gang's pods could land there": (
        ONE,
        status(
            "Provisioned",
            launches=(launch("Answered"),),
            instances=(machine("i1", "Terminating", node="n1"), BOTH_READY[1]),
        ),
        seen(node("n1", "i1"), node("n2", "i2"), instances=TWO, owner=Owner.ADMITTED),
        0,
        "quarantine",
        Quarantine(("n1",)),
    ),
    "then replaced": (
        ONE,
        status("Joining", launches=(launch("Answered", count=1),), instances=(BAD,), message="0 of 1 nodes ready"),
        seen(node("n1", "i1", quarantined=True), instances=TWO[:1]),
        99,
        "replace-bad",
        {"launches": 2},
    ),
    "then ended, for it costs extra": (
        ONE,
        status(
            "Joining",
            launches=(launch("Answered", count=1), launch(token="t2", count=1, at=stamp(START))),
            message="0 of 1 nodes ready",
            instances=(BAD, machine("i2", token="t2")),
        ),
        seen(node("n1", "i1", quarantined=True), instances=(instance(), instance("i2", token="t2"))),
        99,
        "record",
        {"launches": 2},
    ),
    "a bad reserved one stays quarantined": (
        RESERVED,
        status(
            "Joining",
            launches=(
                launch("Answered", count=1),
                launch("Failed", token="t2", count=1, at=stamp(START + timedelta(seconds=90))),
            ),
            instances=(BAD,),
            message="0 of 1 nodes ready",
        ),
        seen(node("n1", "i1", quarantined=True), instances=TWO[:1]),
        99,
        "wait-for-nodes",
        Wait(5),
    ),
    "without another slot it is given back first": (
        RESERVED,
        status(
            "Joining",
            launches=(
                launch("Answered", count=1),
                full(90),
            ),
            instances=(BAD,),
            message="0 of 1 nodes ready",
        ),
        seen(node("n1", "i1", quarantined=True), instances=TWO[:1]),
        99,
        "discard",
        {"states": ["Terminating"]},
    ),
    "once it is gone the order is repeated at once": (
        RESERVED,
        refused_beside_a_gone_one(90),
        seen(),
        99,
        "replace-bad",
        {"launches": 3},
    ),
    "the slot may follow minutes later": (
        RESERVED,
        refused_beside_a_gone_one(97),
        seen(),
        99,
        "wait-for-nodes",
        Wait(5),
    ),
    "a node that is sound otherwise is checked": (
        ONE,
        status(
            "Joining",
            launches=(launch("Answered", count=1),),
            message="0 of 1 nodes ready",
            instances=(machine("i1", "Joined", node="n1", verdict="Waiting", message="its health check has not begun"),),
        ),
        seen(
            node("n1", "i1", verdict=Verdict.WAITING, words="its health check has not begun", unchecked=True), instances=TWO[:1]
        ),
        9,
        "check-up",
        CheckUp(("n1",)),
    ),
    "a sick node is bad at once": (
        ONE,
        status(
            "Joining",
            launches=(launch("Answered", count=1),),
            message="0 of 1 nodes ready",
            instances=(machine("i1", "Joined", node="n1", verdict="Waiting"),),
        ),
        seen(node("n1", "i1", verdict=Verdict.SICK, words="KernelDeadlock=True"), instances=TWO[:1]),
        9,
        "record",
        {"states": ["Bad"]},
    ),
    "a taken node that falls sick is given up": (
        TAKEN,
        status("Joining", message="0 of 1 nodes ready"),
        seen(node("a", verdict=Verdict.SICK, words="KernelDeadlock=True")),
        9,
        "lose-node",
        "Failing/NodeTaken",
    ),
    "the launch deadline ends it": (
        OD,
        status("Launching", launches=(launch(),)),
        seen(),
        600,
        "time-out",
        "Failing/LaunchTimeout",
    ),
    # after the first pod
    "a machine that is gone is replaced under a running gang": (
        OD,
        status("Provisioned", **LOST),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1}),
        9,
        "replace-bad",
        {"launches": 2},
    ),
    "a call without an answer is repeated": (
        OD,
        status("Provisioned", **UNANSWERED),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1}),
        59,
        "buy",
        Buy("t2"),
    ),
    "that is noted once a minute": (
        OD,
        status("Provisioned", **UNANSWERED),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1}),
        60,
        "repeat",
        {"launches": (launch("Answered"), launch(token="t2", count=1, at=A_MINUTE_LATER))},
    ),
    "not where it is not repeated: the policy says Leave by now": (
        OD,
        status("Provisioned", **UNANSWERED),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1}, on_node_loss="Leave"),
        60,
        "note-losses",
        {"launches": (launch("Answered"), launch(token="t2", count=1))},
    ),
    "nor before the machines can be looked for": (
        OD,
        status("Provisioned", **UNANSWERED),
        seen(node("n1", "i1"), instances=None, owner=Owner.ADMITTED, consumers={"n1": 1}),
        60,
        "buy",
        Wait(5),
    ),
    "it may have been repeated up to a minute later: not given up yet": (
        OD,
        status("Provisioned", **{**UNANSWERED, "conditions": (WAITED_FOR,)}),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE, consumers={"n1": 1}),
        179,
        "keep-watch",
        Wait(60),
    ),
    "it is when that can't have an effect any more": (
        OD,
        status("Provisioned", **{**UNANSWERED, "conditions": (WAITED_FOR,)}),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE, consumers={"n1": 1}),
        180,
        "settle-calls",
        {"launches": (launch("Answered"), GIVEN_UP)},
    ),
    "not if the policy says Leave": (
        OD,
        status("Provisioned", **LEFT_ALONE),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1}, on_node_loss="Leave"),
        9,
        "keep-watch",
        Wait(60),
    ),
    "nor for a workload that is over": (
        OD,
        status("Provisioned", **LEFT_ALONE),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE, consumers={"n1": 1}),
        9,
        "keep-watch",
        Wait(60),
    ),
    "a sick node under its pods is quarantined, no more": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(
            node("n1", "i1", verdict=Verdict.SICK, words="Xid 79"),
            instances=TWO[:1],
            owner=Owner.ADMITTED,
            consumers={"n1": 1},
        ),
        9,
        "record",
        {"states": ["Joined"]},
    ),
    "pods are asked to leave before anything is bought instead: a call may take long": (
        ONE,
        status(
            "Provisioned",
            provisioned_at=AT,
            launches=(launch("Answered", count=1), launch(token="t2", count=1)),
            instances=(BAD,),
            first_pod_at=AT,
            conditions=(LEAVING,),
        ),
        seen(
            node("n1", "i1", notice=SPOT, quarantined=True, closed=True),
            instances=TWO[:1],
            owner=Owner.ADMITTED,
            consumers={"n1": 1},
        ),
        9,
        "begin-drain",
        Drain(("n1",), everyone=True),
    ),
    "a node that is about to end is emptied until nobody is left": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT, conditions=(LEAVING,)),
        seen(
            node("n1", "i1", notice=SPOT, closed=True, draining=True),
            instances=TWO[:1],
            owner=Owner.ADMITTED,
            consumers={"n1": 1},
            on_node_loss="Leave",
        ),
        9,
        "drain",
        Drain(("n1",), everyone=True),
    ),
    "not before its time": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT, conditions=(LEAVING,)),
        seen(
            node("n1", "i1", notice=replace(SPOT, drain=START + timedelta(seconds=60))),
            instances=TWO[:1],
            owner=Owner.ADMITTED,
            consumers={"n1": 1},
            on_node_loss="Leave",
        ),
        9,
        "keep-watch",
        Wait(51),
    ),
    "a node whose end was called off is opened again": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1", closed=True, draining=True, staying=True), instances=TWO[:1], owner=Owner.ADMITTED),
        9,
        "reopen",
        Reopen(("n1",)),
    ),
    "not while a list lacks its machine": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1", closed=True, draining=True), instances=TWO[:1], owner=Owner.ADMITTED),
        9,
        "keep-watch",
        Wait(60),
    ),
    "not one that somebody else closed": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1", closed=True), instances=TWO[:1], owner=Owner.ADMITTED),
        9,
        "keep-watch",
        Wait(60),
    ),
    "nor a quarantined one": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(
            node("n1", "i1", closed=True, draining=True, quarantined=True, staying=True), instances=TWO[:1], owner=Owner.ADMITTED
        ),
        9,
        "keep-watch",
        Wait(60),
    ),
    "strangers leave a machine that is to go by eviction": (
        ONE,
        status("Failing", instances=(machine("i1", "Terminating"),)),
        seen(node("n1", "i1", busy=True), instances=TWO[:1]),
        9,
        "drain",
        Drain(("n1",), everyone=False),
    ),
    "giving back that takes too long is told": (
        ONE,
        status("Failing", instances=(machine("i1", "Terminating"),)),
        seen(node("n1", "i1"), instances=TWO[:1]),
        1800,
        "warn-late",
        {
            "conditions": (
                Condition(
                    type="ReleaseOverdue",
                    status="True",
                    reason="ReleaseOverdue",
                    message="1 machines are not given back after 30m: i1",
                    last_transition_time=stamp(START + timedelta(seconds=1800)),
                    observed_generation=1,
                ),
            )
        },
    ),
    # provisioned
    "the first pod is noted": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1], consumers={"n1": 1}),
        9,
        "first-pod",
        {"first_pod_at": stamp(START + timedelta(seconds=9))},
    ),
    "done without pods: release": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE),
        9,
        "finish",
        "Releasing/OwnerDone",
    ),
    "done with pods: hold": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE, consumers={"n1": 1}),
        9,
        "keep-watch",
        Wait(60),
    ),
    "a deleted request changes nothing": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, request=False),
        9,
        "keep-watch",
        Wait(60),
    ),
    "an unknown owner changes nothing": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.UNKNOWN),
        901,
        "keep-watch",
        Wait(60),
    ),
    "no pod in time: expired": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1]),
        900,
        "expire",
        "Releasing/BookingExpired",
    ),
    "an admitted workload doesn't expire": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED),
        900,
        "keep-watch",
        Wait(60),
    ),
    "a pod on its way stops the clock": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1], consumers={"": 1}),
        900,
        "first-pod",
        {"first_pod_at": stamp(START + timedelta(seconds=900))},
    ),
    "a deleted booking without pods is withdrawn": (
        {**ONE, "deleted": True},
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1]),
        9,
        "withdraw",
        "Releasing/Cancelled",
    ),
    "a deleted booking with pods stays": (
        {**ONE, "deleted": True},
        status("Provisioned", **PROVISIONED, first_pod_at=AT),
        seen(node("n1", "i1"), instances=TWO[:1], consumers={"n1": 1}),
        9,
        "keep-watch",
        Wait(60),
    ),
    "revoked before its pods were let go, its request gone": (
        ONE,
        status("Provisioned", **PROVISIONED, reason="CapacityRevoked"),
        seen(node("n1", "i1"), instances=TWO[:1], request=False),
        9,
        "forsake",
        "Releasing/CapacityRevoked",
    ),
    "revoked, and who asked can't be looked up": (
        ONE,
        status("Provisioned", **PROVISIONED, reason="CapacityRevoked"),
        seen(node("n1", "i1"), instances=TWO[:1], request=None),
        9,
        "keep-watch",
        Wait(60),
    ),
    "revoked, its request gone, but its pods were let go": (
        ONE,
        status("Provisioned", **PROVISIONED, reason="CapacityRevoked"),
        seen(node("n1", "i1"), instances=TWO[:1], request=False, owner=Owner.ADMITTED),
        9,
        "keep-watch",
        Wait(60),
    ),
    "revoked, its request gone, but a pod is there": (
        ONE,
        status("Provisioned", **PROVISIONED, reason="CapacityRevoked", first_pod_at=AT),
        seen(node("n1", "i1"), instances=TWO[:1], request=False, consumers={"n1": 1}),
        9,
        "keep-watch",
        Wait(60),
    ),
    "not revoked, its request gone before its pods were let go": (
        ONE,
        status("Provisioned", **PROVISIONED),
        seen(node("n1", "i1"), instances=TWO[:1], request=False),
        9,
        "keep-watch",
        Wait(60),
    ),
    "a bare request is over when its pods stay away": (
        ONE,
        status("Provisioned", **PROVISIONED, first_pod_at=AT, idle_since=AT),
        seen(node("n1", "i1"), instances=TWO[:1], bare=True),
        900,
        "expire",
        "Releasing/BookingExpired",
    ),
    "a taken node that is gone may come back": (
        TAKEN,
        status("Provisioned", provisioned_at=AT),
        seen(gone=frozenset({"a"})),
        9,
        "note-losses",
        {"reason": "", "conditions": (), "absent": (structs.replace(ABSENT, since=stamp(START + timedelta(seconds=9))),)},
    ),
    "a lost taken node is looked for another of": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), sought=Sought(due=True)),
        130,
        "stand-in",
        StandIn((Slot({"main": 1}, node="a"),)),
    ),
    "before the gang is admitted what is lost is looked for, though the policy says Leave": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), on_node_loss="Leave", sought=Sought(due=True)),
        130,
        "stand-in",
        StandIn((Slot({"main": 1}, node="a"),)),
    ),
    "or Revoke": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), on_node_loss="Revoke", sought=Sought(due=True)),
        130,
        "stand-in",
        StandIn((Slot({"main": 1}, node="a"),)),
    ),
    "a machine is bought again": (
        ONE,
        status("Provisioned", **{**PROVISIONED, "instances": (machine("i1", "Gone"),)}, conditions=(ALL_LOST,)),
        seen(on_node_loss="Revoke"),
        9,
        "replace-bad",
        {"launches": 2, "reason": ""},
    ),
    "behind a bare request the policy holds from the first pod on": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, absent=(ABSENT,), conditions=(LEFT_LOST,)),
        seen(gone=frozenset({"a"}), bare=True, on_node_loss="Leave", sought=Sought(due=True), consumers={"": 1}),
        130,
        "keep-watch",
        Wait(30),
    ),
    "nothing is revoked while it is not known whether the gang was admitted": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(LEFT_LOST,)),
        seen(gone=frozenset({"a"}), owner=Owner.UNKNOWN, on_node_loss="Revoke"),
        130,
        "keep-watch",
        Wait(30),
    ),
    "a gang that was not admitted is asked for anew where nothing stands in": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), sought=Sought(seconds=600)),
        600,
        "ask-anew",
        "Releasing/BookingExpired",
    ),
    "but not once it was told that it is revoked": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, reason="CapacityRevoked", absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), sought=Sought(seconds=600)),
        600,
        "keep-watch",
        Wait(30),
    ),
    "a lost taken node that nothing stands in for before the first pod revokes": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), owner=Owner.ADMITTED, sought=Sought(unfound="no room")),
        2400,
        "note-losses",
        {"reason": "CapacityRevoked", "message": "node a is gone; nothing took its place within 40m: no room"},
    ),
    "but not after the first pod": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, absent=(ABSENT,), conditions=(TAKEN_LOST,)),
        seen(gone=frozenset({"a"}), owner=Owner.ADMITTED),
        9999,
        "keep-watch",
        Wait(30),
    ),
    "nor if the policy says Leave": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, absent=(ABSENT,), conditions=(LEFT_LOST,)),
        seen(gone=frozenset({"a"}), owner=Owner.ADMITTED, on_node_loss="Leave", sought=Sought(due=True)),
        9999,
        "keep-watch",
        Wait(30),
    ),
    "a node that was given up and is well again is set free": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a"), node("b"), owner=Owner.ADMITTED),
        60,
        "let-go",
        Unmark(("a",)),
    ),
    "not under a pod": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a"), node("b"), owner=Owner.ADMITTED, consumers={"a": 1}),
        60,
        "keep-watch",
        Wait(60),
    ),
    "one that is not Ready is kept out": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a", ready=False, verdict=Verdict.WAITING), node("b"), owner=Owner.ADMITTED),
        60,
        "quarantine",
        Quarantine(("a",), frozenset(("a",))),
    ),
    "another machine of a taken node's name is not marked": (
        {"nodes": ("a",)},
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, absent=(ABSENT,)),
        seen(node("a", "new", marked=False, touched=False), owner=Owner.ADMITTED),
        60,
        "keep-watch",
        Wait(30),
    ),
    "nor is one that another booking holds by now: it is lost": (
        {"nodes": ("a",)},
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a", marked=False, touched=False, others=("other",)), owner=Owner.ADMITTED),
        60,
        "note-losses",
        {"absent": (AbsentNode(name="a", since=stamp(START + timedelta(seconds=60)), message="belongs to booking other"),)},
    ),
    "and not marked after that": (
        {"nodes": ("a",)},
        status(
            "Provisioned",
            provisioned_at=AT,
            first_pod_at=AT,
            absent=(AbsentNode(name="a", since=AT, message="belongs to booking other"),),
            conditions=(structs.replace(REPLACING, message="node a belongs to booking other"),),
        ),
        seen(node("a", marked=False, touched=False, others=("other",)), owner=Owner.ADMITTED),
        60,
        "keep-watch",
        Wait(30),
    ),
    "in doubt it stays as it is": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a", ready=False, verdict=Verdict.DOUBTED, doubted=True), node("b"), owner=Owner.ADMITTED),
        60,
        "keep-watch",
        Wait(60),
    ),
    "once it is, nothing but pods holds it: it is its pool's to end": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a", ready=False, verdict=Verdict.WAITING, quarantined=True), node("b"), owner=Owner.ADMITTED),
        60,
        "let-go",
        Unmark(("a",)),
    ),
    "but pods do": (
        FORMER,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("a", ready=False, quarantined=True), node("b"), owner=Owner.ADMITTED, consumers={"a": 1}),
        60,
        "keep-watch",
        Wait(60),
    ),
    "a node that stands in and was filled before it was marked is given up": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("b", holds=False), owner=Owner.ADMITTED),
        60,
        "note-losses",
        {"absent": 1, "conditions": 1},
    ),
    "not while pods that were being bound there may still show": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("b", holds=False), owner=Owner.ADMITTED),
        2,
        "keep-watch",
        Wait(60),
    ),
    "so is one that another booking marked": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("b", others=("other",)), owner=Owner.ADMITTED),
        60,
        "note-losses",
        {"absent": 1, "conditions": 1},
    ),
    "unless its pods are there": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT),
        seen(node("b", holds=False), owner=Owner.ADMITTED, consumers={"b": 1}),
        60,
        "keep-watch",
        Wait(60),
    ),
    "it is not all there before what stands in is ready": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, conditions=(TO_COME,)),
        seen(node("b", verdict=Verdict.WAITING), owner=Owner.ADMITTED),
        60,
        "keep-watch",
        Wait(60),
    ),
    "nor before pods that were being bound there would be seen": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, conditions=(TO_COME,)),
        seen(node("b"), owner=Owner.ADMITTED),
        2,
        "keep-watch",
        Wait(60),
    ),
    "it is, then": (
        STANDING_IN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, conditions=(TO_COME,)),
        seen(node("b"), owner=Owner.ADMITTED),
        3,
        "note-losses",
        {"conditions": 1},
    ),
    "nor before a machine is that replaces one": (
        ONE,
        status(
            "Provisioned",
            **{**PROVISIONED, "instances": (machine("i2", "Launched", launched_at=LATER_ON),)},
            conditions=(TO_COME,),
        ),
        seen(instances=(instance("i2"),), owner=Owner.ADMITTED),
        60,
        "keep-watch",
        Wait(60),
    ),
    "a lost taken node after the first pod is told": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, absent=(ABSENT,)),
        seen(gone=frozenset({"a"})),
        120,
        "note-losses",
        {
            "reason": "",
            "conditions": (
                Condition(
                    type="NodeLost",
                    status="True",
                    reason="Replacing",
                    message="node a is gone",
                    last_transition_time=stamp(START + timedelta(seconds=120)),
                    observed_generation=1,
                ),
            ),
        },
    ),
    "unless the policy says Revoke": (
        TAKEN,
        status("Provisioned", provisioned_at=AT, first_pod_at=AT, absent=(ABSENT,)),
        seen(gone=frozenset({"a"}), on_node_loss="Revoke"),
        120,
        "note-losses",
        {"reason": "CapacityRevoked"},
    ),
    # giving back
    "pods hold it": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], consumers={"n1": 1}),
        9,
        "hold-for-pods",
        Wait(60),
    ),
    "pods hold it, but their node is about to end": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1", notice=SPOT), instances=TWO[:1], consumers={"n1": 1}),
        9,
        "hold-for-pods",
        Drain(("n1",), everyone=True),
    ),
    "Kueue may not have seen yet that it expired": (
        ONE,
        status("Releasing", reason="BookingExpired", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1]),
        119,
        "hold-for-kueue",
        Wait(5),
    ),
    "Kueue let the pods go all the same": (
        ONE,
        status("Releasing", reason="BookingExpired", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED),
        999,
        "hold-for-kueue",
        Wait(5),
    ),
    "Kueue has taken the quota of what expired": (
        ONE,
        status("Releasing", reason="BookingExpired", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.DONE),
        9,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "Kueue has had time to see that it expired": (
        ONE,
        status("Releasing", reason="BookingExpired", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1]),
        120,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "what expired was asked for by nobody's workload": (
        ONE,
        status("Releasing", reason="BookingExpired", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], bare=True),
        9,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "what won't stay is on its way out": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1]),
        9,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "what goes is terminated": (
        ONE,
        status("Releasing", instances=(machine("i1", "Terminating"),)),
        seen(node("n1", "i1"), instances=TWO[:1]),
        9,
        "terminate",
        Terminate(("i1",)),
    ),
    "what stays is unmarked": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], keep=frozenset({"od"})),
        9,
        "unmark",
        Unmark(("n1",)),
    ),
    "then handed over": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1", marked=False, touched=False), instances=TWO[:1], keep=frozenset({"od"})),
        9,
        "hand-over",
        {"states": ["Transferred"]},
    ),
    "an empty machine with foreign pods stays": (
        ONE,
        status("Releasing", instances=(READY,)),
        seen(node("n1", "i1", busy=True), instances=TWO[:1]),
        9,
        "unmark",
        Unmark(("n1",)),
    ),
    "on-demand machines of a failed attempt go, sound or not": (
        ONE,
        status("Failing", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], keep=frozenset({"od"})),
        9,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "prepaid ones that are sound stay": (
        RESERVED,
        status("Failing", instances=(READY,)),
        seen(node("n1", "i1"), instances=TWO[:1], keep=frozenset({"od"})),
        9,
        "unmark",
        Unmark(("n1",)),
    ),
    "prepaid ones that never joined go": (
        RESERVED,
        status("Failing", instances=(machine(),)),
        seen(instances=TWO[:1], keep=frozenset({"od"})),
        9,
        "sort-out",
        {"states": ["Terminating"]},
    ),
    "a call without an answer keeps it open": (
        ONE,
        status("Failing", launches=(launch(count=1),)),
        seen(),
        119,
        "poll",
        Wait(5),
    ),
    "until it can't have an effect": (
        ONE,
        status("Failing", launches=(launch(count=1),)),
        seen(),
        120,
        "settle-calls",
        {"launches": 1},
    ),
    "a cloud without an answer keeps it open": (
        ONE,
        status("Failing", instances=(machine("i1", "Terminating"),)),
        seen(instances=None),
        999,
        "poll",
        Wait(5),
    ),
    "all gone: released": (ONE, status("Releasing", instances=(machine("i1", "Gone"),)), seen(), 9, "released", "Released/"),
    "all gone: failed": (ONE, status("Failing", instances=(machine("i1", "Gone"),)), seen(), 9, "failed", "Failed/"),
    "a latecomer is ended": (
        ONE,
        status("Failed", launches=(launch("Failed", count=1),)),
        seen(instances=TWO[:1]),
        9,
        "record",
        {"states": ["Terminating"]},
    ),
    "it is kept to be read": (ONE, status("Failed"), seen(), 9, "drop", Wait(51.0)),
    "then dropped": (ONE, status("Released"), seen(), 60, "drop", Drop()),
    "at once if somebody deleted it": ({**ONE, "deleted": True}, status("Failed"), seen(), 9, "drop", Drop()),
}


@pytest.mark.parametrize(("booked", "state", "world", "after", "rule", "step"), ROWS.values(), ids=ROWS.keys())
def test_next_step(booked: dict[str, Any], state: BookingStatus, world: Observed, after: float, rule: str, step: Any) -> None:
    now = START + timedelta(seconds=after)

    decision = lifecycle.next_step(booking(status=state, **booked), world, now, Terms())

    assert decision.rule == rule
    if isinstance(step, str):
        assert isinstance(decision.step, Write)
        phase, reason = step.split("/")
        assert (decision.step.status.phase, decision.step.status.reason) == (phase, reason)
        assert decision.step.status.phase_since == stamp(now)
    elif isinstance(step, dict):
        assert isinstance(decision.step, Write)
        check(decision.step.status, step)
    else:
        assert decision.step == step


def check(written: BookingStatus, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if name == "states":
            assert [each.state for each in written.instances] == value
        elif isinstance(value, int):
            assert len(getattr(written, name)) == value
        else:
            assert getattr(written, name) == value


def test_every_rule_has_a_row() -> None:
    assert {row[4] for row in ROWS.values()} | {"order", "discard", "watch-idle"} == {rule.name for rule in lifecycle.RULES}


def test_scarce_capacity_is_ordered_first() -> None:
    booked = booking(
        purchases=(purchase("a", 1), purchase("b", 1, "capacity-block"), purchase("c", 1, "reserved")), status=status("Launching")
    )
    order = []
    for _ in range(3):
        decision = lifecycle.next_step(booked, seen(), START)
        assert decision.rule == "order"
        assert isinstance(decision.step, Write)
        newest = decision.step.status.launches[-1]
        order.append(newest.purchase)
        answered = (*booked.status.launches, launch("Answered", name=newest.purchase, token=newest.token))
        booked = booking(purchases=booked.spec.purchases, status=status("Launching", launches=answered))

    assert order == ["c", "b", "a"]


def test_a_bad_on_demand_machine_is_ended_once_its_replacement_is_ordered() -> None:
    replaced = (launch("Answered", count=1), launch("Answered", token="t2", count=1))
    state = status("Joining", launches=replaced, instances=(BAD, machine("i2", token="t2")), message="0 of 1 nodes ready")
    world = seen(node("n1", "i1", quarantined=True), instances=(instance(), instance("i2", token="t2")))

    decision = lifecycle.next_step(booking(status=state, **ONE), world, START + timedelta(seconds=99))

    assert decision.rule == "discard"
    assert isinstance(decision.step, Write)
    assert [each.state for each in decision.step.status.instances] == ["Terminating", "Launched"]


def test_a_call_that_was_repeated_for_long_keeps_its_booking_open_from_the_last_time_on() -> None:
    """Every few seconds for five minutes; then its workload is over, but for a pod."""
    booked = booking(status=status("Provisioned", **UNANSWERED), **OD)
    wanted = seen(node("n1", "i1"), instances=TWO[:1], owner=Owner.ADMITTED, consumers={"n1": 1})
    made = []
    for after in [each for each in range(0, 301, 5) for _ in range(2)]:
        decision = lifecycle.next_step(booked, wanted, START + timedelta(seconds=after))
        made.append(decision.rule)
        if isinstance(decision.step, Write):
            booked = structs.replace(booked, status=decision.step.status)
    assert (set(made), made.count("repeat")) == ({"buy", "repeat"}, 5)

    over, after = replace(wanted, owner=Owner.DONE), 300
    while booked.status.launches[-1].state == "Pending":
        after += 1
        decision = lifecycle.next_step(booked, over, START + timedelta(seconds=after))
        if isinstance(decision.step, Write):
            booked = structs.replace(booked, status=decision.step.status)

    assert after >= 300 + Terms().lost_call


def test_a_bare_request_without_pods_is_noted_idle() -> None:
    state = status("Provisioned", **PROVISIONED, first_pod_at=AT)

    decision = lifecycle.next_step(booking(status=state, **ONE), seen(node("n1", "i1"), instances=TWO[:1], bare=True), START)

    assert decision.rule == "watch-idle"


def test_the_page_is_as_the_table_says() -> None:
    assert Path("docs/lifecycle.md").read_text(encoding="utf-8") == lifecycle.page(), "run python -m provisioner.lifecycle"
