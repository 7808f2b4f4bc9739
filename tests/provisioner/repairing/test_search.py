"""Other nodes in place of lost ones: the reconciler with the real planner, an API server and a cloud in memory."""

import asyncio
import contextlib
import itertools
from dataclasses import replace
from typing import Any

import pytest

from capacity.model import ZONE, Exclusive, Gang, PodSet, Reason, Shortfall, Slices
from capacity.plan import plan
from capacity.requirements import LabelSelector, Toleration
from kube.pools import POOL_LABEL
from kube.times import stamp
from provisioner.asking.acceptance import Accepted
from provisioner.asking.parameters import terms
from provisioner.clouds.base import CloudError, ErrorKind, InstanceState, ZoneStock
from provisioner.ending.stray import StrayMarks
from provisioner.nodes import marks
from provisioner.repairing import search, standins
from provisioner.repairing.slots import Slot
from provisioner.state import Known
from runtime.errors import ServerError, TransportError
from tests.provisioner import fake_api
from tests.provisioner.make import inventory, policy
from tests.provisioner.test_bookings import KEY, Setting
from tests.provisioner.world import booking, purchase

pytestmark = pytest.mark.looptime
RACK = "topology.corral.dev/rack"
LOST = 400
"""Seconds from the loss of a node to the turns in which it is given up."""


class Losing(Setting):
    """Pool p adopts nodes of team train; `stock` machines can be bought in zone z1 by day; a pod takes a node."""

    def __init__(self, stock: int = 9, rack: bool = False, **booked: Any) -> None:
        super().__init__(**booked)
        pods = PodSet(
            "main",
            3,
            {"nvidia.com/gpu": 8, "pods": 1},
            tolerations=(Toleration("gpu", "Exists"),),
            required_topology=RACK if rack else None,
        )
        self.asked = Accepted(Gang("team/job", (pods,)), terms({}, lambda _: policy(topology={})), "digest")
        self.stock = stock
        self.pool()

    def pool(self, **more: Any) -> None:
        made = fake_api.pool()
        made["spec"] |= {
            "nodeSelector": {"matchLabels": {"team": "train"}},
            "topologyKeys": [ZONE, RACK],
            "shapes": ["h100"],
            **more,
        }
        self.api.put("capacitypools", made)

    def node(self, name: str, rack: str = "a", **labels: str) -> None:
        base = {"team": "train", ZONE: "z1", RACK: rack, "kubernetes.io/hostname": name}
        self.api.put("nodes", fake_api.node(name, labels=base | labels))

    async def turn(self) -> None:
        self.hear()
        began = self.clock.now
        await super().turn()
        await asyncio.sleep((self.clock.now - began).total_seconds())

    def hear(self) -> None:
        there = inventory(stock=(ZoneStock("h100", "z1", self.stock),))
        self.state.known["p"] = Known(there, tuple(self.cloud.machines.values()), self.clock.now)

    async def run(self, seconds: float) -> None:
        end = self.clock.now.timestamp() + seconds
        while self.clock.now.timestamp() < end:
            await self.turn()

    def condition(self, type_: str = "NodeLost") -> tuple[str, str]:
        found = next((each for each in self.status.conditions if each.type == type_), None)
        return (found.status, found.message) if found else ("", "")

    @property
    def taken(self) -> list[str]:
        return [each.name for each in self.api.of("bookings", "b").spec.nodes]

    @property
    def bought(self) -> dict[str, int]:
        return {each.offering: each.count for each in self.api.of("bookings", "b").spec.purchases}


async def test_an_idle_node_takes_the_place_of_one_that_was_there_before() -> None:
    here = Losing(nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.node("b")
    here.api.remove("nodes", "a")

    await here.run(60)
    assert here.taken == ["a"], "a node may come back"
    for _ in range(200):
        await here.turn()
        if here.taken != ["a"]:
            break
    assert here.taken == ["b"]
    assert here.condition()[0] == "True", "it is not marked so far"
    await here.run(120)

    assert here.api.of("nodes", "b").metadata.labels[KEY] == "true"
    assert here.condition() == ("False", "all nodes are there")
    assert (here.status.phase, here.status.reason, here.cloud.orders) == ("Provisioned", "", [])
    assert "StandIn" in here.api.events


async def test_where_none_is_idle_another_is_bought_and_the_loss_stands_until_it_is_ready() -> None:
    here = Losing(nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    joined: list[str] = []
    while not here.cloud.orders or here.condition()[0] == "True":
        await here.turn()
        if here.cloud.orders and not all(each.state == "Ready" for each in here.status.instances):
            joined.append(here.condition()[0])
    assert here.taken == []
    assert here.bought == {"p/od/h100/z1": 1}
    assert set(joined) == {"True"}
    assert here.condition() == ("False", "all nodes are there")
    assert (here.status.phase, here.status.reason) == ("Provisioned", "")


async def test_what_nothing_replaces_in_time_is_revoked_with_the_reason() -> None:
    here = Losing(stock=0, nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    here.api.remove("nodes", "a")

    await here.run(600)
    assert here.status.reason == ""
    assert here.condition()[1].startswith("node a is gone; nothing stands in so far: ")
    await here.run(2400)
    assert here.status.reason == "CapacityRevoked"
    assert here.status.message.startswith("node a is gone; nothing took its place within 40m: ")


async def test_a_node_of_another_rack_does_not_do() -> None:
    here = Losing(stock=0, rack=True, nodes=("a", "b"))
    here.node("a")
    here.node("b")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    here.node("far", "z")
    await here.run(LOST)
    assert here.taken == ["a", "b"]
    here.node("near", "a")
    await here.run(120)
    assert here.taken == ["b", "near"]


async def test_a_lost_machine_is_replaced_by_an_idle_node_before_anything_is_bought() -> None:
    here = Losing(purchases=(purchase("od", 2),))
    await here.until("Provisioned")
    here.api.put("pods", fake_api.pod("w", "n-i1", selector={KEY: "true"}))
    here.node("warm", **{POOL_LABEL: "p"})
    await here.cloud.terminate(["i0"])
    await here.run(LOST)
    assert here.taken == ["warm"]
    assert here.bought == {"p/od": 1}
    assert len(here.cloud.orders) == 1


async def test_a_node_that_hangs_is_kept_out_when_it_was_replaced_and_set_free_at_the_end() -> None:
    here = Losing(nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.put("pods", fake_api.pod("w", "a", selector={KEY: "true"}))
    await here.turn()
    raw = here.api.objects["nodes", "", "a"]
    here.api.put("nodes", {**raw, "status": {**raw["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}})
    here.node("b")
    await here.run(LOST)
    hung = here.api.of("nodes", "a")
    assert here.taken == ["b"]
    assert (hung.metadata.labels["corral.dev/quarantined"], hung.spec.unschedulable) == ("true", True)
    assert here.api.of("pods", "w", "team"), "what runs there is not touched"

    here.api.remove("pods", "w", "team")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    await here.until("Released")
    assert KEY not in here.api.of("nodes", "a").metadata.labels


async def vanished() -> tuple[Losing, dict[str, Any]]:
    """A gang whose node went, with another in its place; and the node as it was."""
    here = Losing(nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    marked = here.api.objects["nodes", "", "a"]
    here.node("b")
    here.api.remove("nodes", "a")
    await here.run(LOST)
    return here, marked


async def test_a_node_that_vanished_was_replaced_and_comes_back_with_its_marks_is_set_free() -> None:
    here, marked = await vanished()
    assert here.taken == ["b"]

    here.api.put("nodes", marked)
    assert KEY in here.api.of("nodes", "a").metadata.labels
    await here.run(120)
    back = here.api.of("nodes", "a")
    assert (KEY in back.metadata.labels, back.spec.taints) == (False, ())
    assert here.api.of("nodes", "b").metadata.labels[KEY] == "true"


async def test_one_that_comes_back_without_its_kubelet_is_kept_out() -> None:
    here, marked = await vanished()

    here.api.put("nodes", {**marked, "status": {**marked["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}})
    await here.run(120)
    back = here.api.of("nodes", "a")
    assert (KEY in back.metadata.labels, back.metadata.labels["corral.dev/quarantined"]) == (False, "true")


def test_a_plan_remembers_no_end_of_nodes_that_vanished() -> None:
    spec = booking(nodes=tuple(f"n{i}" for i in range(100))).spec
    for i in range(100):
        spec = standins.without(spec, [Slot({"main": 1}, node=f"n{i}")], ["n0"])
    assert [each.name for each in spec.former] == ["n0", *(f"n{i}" for i in range(36, 100))]


async def test_two_bookings_that_lose_a_machine_keep_to_the_limit_together() -> None:
    """Each sees room for one more, and there is room for one: the first that orders it gets it, the other waits."""
    here = Losing(purchases=(purchase("od", 1),))
    await here.until("Provisioned")
    await here.cloud.terminate(["i0"])
    raw = here.api.objects["bookings", "", "b"]
    status = {**raw["status"], "instances": [{**raw["status"]["instances"][0], "state": "Gone"}]}
    here.api.put("bookings", {**raw, "status": status})
    meta = {**raw["metadata"], "name": "c", "uid": "c-uid"}
    here.api.put("bookings", {**raw, "metadata": meta, "spec": {**raw["spec"], "attempt": 2}, "status": status})
    here.pool(limits={"onDemandNodes": 1})
    here.api.lag.add("bookings")
    here.reconciler.observer.forget("b")
    at_once = here.api.replace

    async def slowly(*asked: Any, **more: Any) -> dict[str, Any]:
        await asyncio.sleep(0.1)
        return await at_once(*asked, **more)

    here.api.replace = slowly  # type: ignore[method-assign]
    for _ in range(30):
        here.hear()
        await asyncio.gather(here.reconciler.reconcile("b"), here.reconciler.reconcile("c"))
        here.clock.pass_by(5)
        await asyncio.sleep(5)
        assert sum(each.state is InstanceState.RUNNING for each in here.cloud.machines.values()) <= 1
    assert len(here.cloud.machines) == 2, "neither was replaced"


async def test_a_node_that_another_booking_takes_while_it_is_looked_for_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Losing(stock=0, nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    here.node("b")
    raw = here.api.objects["bookings", "", "b"]

    def beaten(*asked: Any) -> Any:
        other = booking(nodes=("b",)).to_json()
        here.api.put("bookings", {**other, "metadata": {**raw["metadata"], "name": "x", "uid": "x-uid"}})
        return plan(*asked)

    monkeypatch.setattr(search, "plan", beaten)
    await here.run(LOST)
    assert here.taken == ["a"]


@pytest.mark.parametrize("error", [TransportError("reset"), ServerError("timed out")])
async def test_two_bookings_that_lose_a_node_take_not_the_same_though_an_answer_is_lost(error: Exception) -> None:
    """Each finds the one idle node; the first writes so, gets no answer, and the store lags."""
    here = Losing(stock=0, nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    raw = here.api.objects["bookings", "", "b"]
    here.node("c")
    nodes = [{**raw["spec"]["nodes"][0], "name": "c", "providerID": "sim://c"}]
    other = {**raw, "metadata": {**raw["metadata"], "name": "c", "uid": "c-uid"}, "spec": {**raw["spec"], "nodes": nodes}}
    other["spec"]["podSets"] = [{**raw["spec"]["podSets"][0], "label": "c.booking.corral.dev/main"}]
    here.api.put("bookings", other)
    await here.reconciler.reconcile("c")
    for name in ("a", "c"):
        here.api.remove("nodes", name)
    here.node("idle")
    here.api.lag.add("bookings")
    patched, lost = here.api.patch, [error]

    async def unanswered(resource: Any, *asked: Any, **more: Any) -> dict[str, Any]:
        made = await patched(resource, *asked, **more)
        if resource.plural == "bookings" and lost:
            raise lost.pop()
        return made

    here.api.patch = unanswered  # type: ignore[method-assign]
    for _ in range(80):
        here.hear()
        for name in ("b", "c"):
            with contextlib.suppress(TransportError, ServerError):
                await here.reconciler.reconcile(name)
            taken = [each.name for one in ("b", "c") for each in here.api.of("bookings", one).spec.nodes]
            assert taken.count("idle") <= 1
        if not lost:
            here.api.lag.clear()
            for name in ("b", "c"):
                here.api.put("bookings", here.api.objects["bookings", "", name])
        here.clock.pass_by(5)
        await asyncio.sleep(5)
    assert not lost, "nothing was found"


async def test_a_node_that_a_booking_which_ends_gives_away_is_left_to_it() -> None:
    """A new gang takes it over by name; what was lost can wait until it is let go of."""
    here = Losing(stock=0, nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    here.node("b", **marks.labels("x", ["x.booking.corral.dev/main"]))
    raw, other = here.api.objects["bookings", "", "b"], booking(nodes=("b",)).to_json()
    meta = {**raw["metadata"], "name": "x", "uid": "x-uid"}
    here.api.put(
        "bookings", {**other, "metadata": meta, "status": {"phase": "Releasing", "phaseSince": raw["status"]["phaseSince"]}}
    )
    await here.run(LOST)
    assert here.taken == ["a"]

    here.api.remove("bookings", "x")
    here.node("b")
    await here.run(120)
    assert here.taken == ["b"]


async def test_spares_are_for_what_was_lost() -> None:
    here = Losing(stock=0, nodes=("a",))
    spare = {"name": "res", "capacityType": "reserved", "reservationIDs": ["cr-1"], "spareNodes": 8}
    here.pool(sources=[spare])
    here.node("a")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    await here.run(LOST)
    assert [name.startswith("p/res/cr-1/east/") for name in here.bought] == [True]


async def test_a_fault_of_the_planner_keeps_nothing_else_from_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Losing(purchases=(purchase("od", 1),))
    await here.until("Provisioned")
    await here.cloud.terminate(["i0"])

    def failing(*_: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(search, "plan", failing)
    await here.run(LOST)
    assert len(here.cloud.orders) == 2
    assert here.condition() == ("False", "all nodes are there")


async def test_all_that_comes_in_place_of_lost_nodes_keeps_to_the_price_ceiling_together() -> None:
    here = Losing(nodes=("a", "b"))
    wanted = policy(topology={}, priceCeilingPerHour="15")
    assert here.asked
    here.asked = Accepted(here.asked.gang, terms({}, lambda _: wanted), "digest")
    for name in ("a", "b"):
        here.node(name)
    await here.until("Provisioned")
    for name in ("a", "b"):
        here.api.remove("nodes", name)
    await here.run(LOST)
    assert (len(here.taken), sum(here.bought.values())) == (1, 1)


class Fleet(Losing):
    """Six nodes of pool p that one gang took; `silence` takes the network from some of them, `speak` gives it back."""

    def __init__(self, loss: str = "Replace", **booked: Any) -> None:
        self.names = [f"n{i}" for i in range(6)]
        super().__init__(**(booked or {"nodes": tuple(self.names)}))
        self.api.remove("nodes", "a")
        self.state.policies.put(("", "training"), policy("training", onNodeLoss=loss))
        for name in [] if booked else self.names:
            self.node(name)

    def ready(self, status: str, *names: str) -> None:
        for name in names:
            raw = self.api.objects["nodes", "", name]
            ready = {"type": "Ready", "status": status, "lastTransitionTime": stamp(self.clock.now)}
            self.api.put("nodes", {**raw, "status": {**raw["status"], "conditions": [ready]}})

    @property
    def quarantined(self) -> list[str]:
        found = (self.api.of("nodes", name) for (kind, _, name) in self.api.objects if kind == "nodes")
        return [node.metadata.name for node in found if "corral.dev/quarantined" in node.metadata.labels]


@pytest.mark.parametrize("loss", ["Replace", "Leave", "Revoke"])
@pytest.mark.parametrize("used", [True, False], ids=["under its pods", "before its pods"])
@pytest.mark.parametrize("status", ["Unknown", "False"])
async def test_when_a_fleet_falls_silent_nothing_is_given_up(loss: str, used: bool, status: str) -> None:
    here = Fleet(loss)
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    for name in here.names if used else []:
        here.api.put("pods", fake_api.pod(f"w-{name}", name, selector={KEY: "true"}))
    await here.turn()
    here.ready(status, *here.names)
    await here.run(3600)
    assert (here.cloud.orders, here.quarantined, here.taken) == ([], [], here.names)
    assert (here.status.phase, here.status.reason) == ("Provisioned", "")
    words = "not Ready: n0, n1, n2 and 3 more, but more than one in five of a pool are not: the network is in doubt"
    assert here.condition() == ("True", f"{words}, and nothing is given up for that")
    assert next(each.reason for each in here.status.conditions if each.type == "NodeLost") == "NodesInDoubt"

    here.ready("True", *here.names[1:])
    await here.run(60)
    assert here.taken == here.names, "the last one has time to come back, too"
    here.ready("True", "n0")
    await here.run(60)
    assert here.condition() == ("False", "all nodes are there")


@pytest.mark.parametrize("used", [True, False], ids=["under its pods", "before its pods"])
async def test_bought_machines_that_fall_silent_together_are_not_given_up(used: bool) -> None:
    here = Fleet(purchases=(purchase("od", 4),))
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    names = [f"n-i{i}" for i in range(4)]
    for name in names if used else []:
        here.api.put("pods", fake_api.pod(f"w-{name}", name, selector={KEY: "true"}))
    await here.turn()
    here.clock.pass_by(1500)
    here.ready("Unknown", *names)
    await here.run(1800)
    assert (len(here.cloud.orders), here.quarantined, here.cloud.terminated) == (1, [], [])
    assert here.condition()[1].startswith("not Ready: n-i0, n-i1, n-i2 and 1 more, but more than one in five")

    here.ready("True", *names[1:])
    await here.run(120)
    assert len(here.cloud.orders) == 1, "the last one has time to come back, too"
    await here.run(LOST)
    assert len(here.cloud.orders) == 2, "now it is the node"


async def test_what_is_gone_for_sure_is_lost_whatever_else_is_in_doubt() -> None:
    here = Fleet()
    await here.until("Provisioned")
    await here.turn()
    here.ready("Unknown", *here.names)
    await here.run(LOST)
    here.api.remove("nodes", "n5")
    raw = here.api.objects["nodes", "", "n4"]
    off = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    here.api.put("nodes", {**raw, "spec": {**raw["spec"], "taints": [*raw["spec"]["taints"], off]}})
    await here.run(LOST)
    assert here.taken == here.names[:4]
    assert sum(each.count for each in here.cloud.orders) == 2
    assert here.quarantined == ["n4"]


async def test_who_was_given_up_for_silence_alone_is_opened_when_it_is_back() -> None:
    here = Fleet()
    reaper = StrayMarks(here.state, here.api, here.clock)  # type: ignore[arg-type]
    await here.until("Provisioned")
    here.ready("Unknown", "n0")
    await here.run(LOST)
    await here.run(60)
    assert (here.quarantined, "n0" in here.taken) == (["n0"], False)
    await reaper.turn()
    assert here.quarantined == ["n0"], "it is silent still"

    here.ready("True", "n0")
    await reaper.turn()
    back = here.api.of("nodes", "n0")
    assert (here.quarantined, back.spec.unschedulable, back.spec.taints) == ([], False, ())
    assert "corral.dev/silent" not in back.metadata.annotations


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({"slices": Slices(RACK, 2)}, "slices of 2", id="slices"),
        pytest.param({"exclusive": Exclusive(RACK, LabelSelector(), 2)}, "exclusive units of 2", id="exclusive units"),
        pytest.param({"exclusive": Exclusive(RACK, LabelSelector())}, "exclusive units of 4", id="one exclusive unit"),
    ],
)
async def test_where_a_slice_lies_over_several_nodes_it_is_said_that_nothing_stands_in(more: dict[str, Any], words: str) -> None:
    here = Losing(nodes=("a", "b"))
    assert here.asked
    (pods,) = here.asked.gang.pod_sets
    here.asked = replace(here.asked, gang=Gang("team/job", (replace(pods, count=4, **more),)))
    here.node("a")
    here.node("b")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    here.node("c")
    await here.run(LOST)
    why = f"pods of main come in {words} over several nodes: only a machine of the same purchase replaces one"
    assert here.condition()[1] == f"node a is gone; nothing stands in so far: {why}"


async def test_a_slice_on_one_node_is_mended() -> None:
    here = Losing(nodes=("a",))
    assert here.asked
    (pods,) = here.asked.gang.pod_sets
    here.asked = replace(here.asked, gang=Gang("team/job", (replace(pods, slices=Slices(RACK, 1)),)))
    here.node("a")
    await here.until("Provisioned")
    here.api.remove("nodes", "a")
    here.node("b")
    await here.run(LOST)
    assert here.taken == ["b"]


async def test_what_is_told_of_a_loss_changes_with_the_reason_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is a write, a Warning and a pass of the planner."""
    here, looks = Losing(stock=0, nodes=("a",)), itertools.count()
    here.node("a")
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    here.api.remove("nodes", "a")
    reason, words = [Reason.CAPACITY_PROVISIONING], ["places are free"]
    monkeypatch.setattr(search, "plan", lambda *_: Shortfall(reason[0], f"{next(looks)} of 8 {words[-1]}"))
    await here.run(LOST)
    version = here.api.of("bookings", "b").metadata.resource_version
    said = here.condition()[1]
    await here.run(600)
    assert next(looks) > 10
    assert here.condition()[1] == said
    assert here.api.of("bookings", "b").metadata.resource_version == version

    reason[0] = Reason.TOPOLOGY_UNSATISFIED
    await here.run(60)
    assert here.condition()[1] != said
    words.append("LimitExceeded: maxNodes 8")
    await here.run(60)
    assert "LimitExceeded" in here.condition()[1]


async def test_what_would_be_bought_again_where_it_was_changes_no_plan() -> None:
    here = Losing(nodes=("a",))
    here.node("a")
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    here.api.remove("nodes", "a")
    await here.run(LOST)
    assert here.bought == {"p/od/h100/z1": 1}
    patches, patch = list[str](), here.api.patch

    async def noted(resource: Any, name: str, *body: Any, **more: Any) -> Any:
        if resource.plural == "bookings":
            patches.append(name)
        return await patch(resource, name, *body, **more)

    here.api.patch = noted  # type: ignore[method-assign]
    here.cloud.errors = [CloudError(ErrorKind.CAPACITY, "none left")] * 3
    await here.cloud.terminate(["i0"])
    await here.run(900)
    assert (len(here.cloud.orders), here.cloud.errors) == (2, [])
    assert (here.bought, patches) == ({"p/od/h100/z1": 1}, [])
    assert here.state.replaced == 6, "one that stood in, and five orders"


async def test_a_look_that_takes_long_keeps_what_it_found_and_goes_on_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that the step gave up on would run on beside the next one's."""
    names = ("a", "b", "c")
    here, passed = Losing(stock=0, nodes=names), [0.0]
    for name in names:
        here.node(name)
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    for name in names:
        here.api.remove("nodes", name)
        here.node(f"{name}2")

    def slowly(*asked: Any) -> Any:
        passed[0] += search.LOOK / 2
        return plan(*asked)

    monkeypatch.setattr(search, "plan", slowly)
    monkeypatch.setattr(search, "_clock", lambda: passed[0])
    while here.taken == list(names):
        await here.turn()
    assert here.taken == ["c", "a2", "b2"]
    assert passed[0] == search.LOOK
    await here.run(120)
    assert here.taken == ["a2", "b2", "c2"]
    assert here.condition() == ("False", "all nodes are there")
