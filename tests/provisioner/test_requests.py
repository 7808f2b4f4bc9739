"""The planner's reconciler on a stand-in for the API server, in virtual time."""

import asyncio
import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from capacity.plan import plan
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import decode
from kube.times import stamp
from provisioner.planning.cases import case_of
from provisioner.requests import ALL, Planner
from runtime.errors import Invalid, ServerError, TransportError
from runtime.events import Recorder
from tests.conftest import WallClock
from tests.provisioner.make import RACK, check, known, machine, policy, pool, source, template, workload
from tests.provisioner.world_of_requests import Events, World

pytestmark = pytest.mark.looptime


class Planning(World):
    def __init__(self, clock: WallClock) -> None:
        super().__init__(clock)
        self.events = Events()
        self.restart()

    def restart(self) -> None:
        self.planner = Planner(self.state, self, cast("Recorder", self.events), self.clock)

    async def turn(self) -> float | None:
        return (await self.planner.reconcile(ALL)).requeue_after

    def written(self, verb: str, plural: str) -> int:
        return sum(call[:2] == (verb, plural) for call in self.calls)


@pytest.fixture
def world(clock: WallClock) -> Planning:
    return Planning(clock)


WAITS = {"Accepted": ("True", "Accepted"), "Provisioned": ("False", "CapacityProvisioning")}


async def test_a_request_gets_its_booking_before_its_status(world: Planning) -> None:
    world.ask()
    await world.turn()
    (made,) = world.bookings()
    assert made.metadata.finalizers == ("corral.dev/booking",)
    assert (made.spec.attempt, made.spec.request.uid, made.spec.installation) == (1, "req-uid", "here")
    assert [(p.offering, p.count) for p in made.spec.purchases] == [("p/res/cr-1/east/a", 4)]
    assert [call[:2] for call in world.calls] == [("create", "bookings"), ("apply", "provisioningrequests")]
    assert world.said() == WAITS
    assert world.details()["Attempt"] == "1"
    assert world.events.told == [("Normal", "CapacityProvisioning")]
    assert world.planner.waiting == {"CapacityProvisioning": 1}


async def test_a_pool_that_is_paused_while_a_plan_is_made_is_not_booked(world: Planning) -> None:
    def slowly(*asked: Any) -> Any:
        world.add(pool(mode="Paused"))
        return plan(*asked)

    world.planner = Planner(world.state, world, cast("Recorder", world.events), world.clock, slowly)
    world.ask()
    await world.turn()
    assert world.bookings() == []
    assert world.said()["Provisioned"] == ("False", "GangIncomplete")


@pytest.mark.parametrize(("replaced", "booked"), [pytest.param(0, 1, id="none"), pytest.param(1, 0, id="one")])
async def test_a_plan_is_judged_again_when_a_lost_node_was_replaced_while_it_was_made(
    world: Planning, replaced: int, booked: int
) -> None:
    def slowly(*asked: Any) -> Any:
        world.state.replaced += replaced
        world.add(pool("p", source(maxNodes=1)))
        return plan(*asked)

    world.planner = Planner(world.state, world, cast("Recorder", world.events), world.clock, slowly)
    world.ask()
    await world.turn()
    assert len(world.bookings()) == booked


async def test_a_gang_that_breaks_the_planner_holds_up_no_other(world: Planning) -> None:
    def breaking(gang: Any, *more: Any) -> Any:
        if gang.pod_sets[0].count == 3:
            raise ZeroDivisionError("by zero")
        return plan(gang, *more)

    world.planner = Planner(world.state, world, cast("Recorder", world.events), world.clock, breaking)
    world.add(policy(bareRequests={"namespaces": ["team"]}))
    world.ask("bad", count=3, uid="a", bare=True)
    world.ask("good", uid="b", bare=True)
    await world.turn()
    assert world.said("bad")["Provisioned"] == ("False", "GangIncomplete")
    assert world.said("good") == WAITS
    world.clock.advance(24 * 3600)
    await world.turn()
    assert world.said("bad")["Failed"] == ("True", "Undecidable")


async def test_a_request_that_cannot_be_judged_holds_up_no_other(world: Planning, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(request: ProvisioningRequest, *more: Any) -> Any:
        if request.metadata.name == "bad":
            raise ZeroDivisionError("by zero")
        return case_of(request, *more)

    monkeypatch.setattr("provisioner.requests.case_of", breaking)
    world.ask("bad", uid="a")
    world.ask("good", uid="b")
    await world.turn()
    assert world.said("bad") == {}
    assert world.said("good") == WAITS


async def test_nobody_waits_unanswered_for_a_slow_pass(world: Planning, monkeypatch: pytest.MonkeyPatch) -> None:
    """Admission gives the quota back after five minutes without an answer. One who comes in the midst of it is heard, too."""
    heard = threading.Event()
    monkeypatch.setattr("provisioner.requests.SLOW", 0.2)

    def slowly(*asked: Any) -> Any:
        assert heard.wait(30)
        return plan(*asked)

    world.planner = Planner(world.state, world, cast("Recorder", world.events), world.clock, slowly)
    world.add(policy(bareRequests={"namespaces": ["team"]}))
    world.ask("one", uid="one", bare=True)
    slow = asyncio.create_task(world.turn())
    await asyncio.sleep(0.1)
    world.ask("two", uid="two", bare=True)
    await asyncio.sleep(0.3)
    said = world.said("one"), world.said("two")
    heard.set()
    await slow
    assert said == ({"Accepted": ("True", "Accepted")}, {"Accepted": ("True", "Accepted")})
    assert world.said("one") == WAITS


async def test_refusals_do_not_wait_for_plans(world: Planning) -> None:
    order: list[str] = []

    def noting(*asked: Any) -> Any:
        order.extend(world.said("bad"))
        return plan(*asked)

    world.planner = Planner(world.state, world, cast("Recorder", world.events), world.clock, noting)
    world.ask("bad", uid="bad", parameters={"x": "y"})
    world.ask("good", uid="good")
    await world.turn()
    assert order == ["Failed"]


async def test_a_pass_with_nothing_new_writes_nothing(world: Planning) -> None:
    world.ask()
    await world.turn()
    world.calls.clear()
    await world.turn()
    world.restart()
    await world.turn()
    assert world.calls == []


async def test_provisioned_comes_with_its_details(world: Planning) -> None:
    world.ask()
    await world.turn()
    (made,) = world.bookings()
    ready = [machine(number, "Ready", purchase=each.name) for each in made.spec.purchases for number in range(each.count)]
    world.move(made.metadata.name, phase="Provisioned", provisioned_at="2026-11-30T12:01:00Z", instances=tuple(ready))
    await world.turn()
    assert world.said()["Provisioned"] == ("True", "Provisioned")
    assert world.details()["Booking"] == made.metadata.name
    assert world.details()["NodesByPodSet"] == '{"main": 4}'


async def test_stores_that_lag_do_not_make_it_plan_twice(world: Planning) -> None:
    world.lag = True
    world.ask("one", uid="one")
    world.ask("two", uid="two", metadata={"annotations": {"corral.dev/workload": "job", "corral.dev/admission-check": "x"}})
    await world.turn()
    world.ask("three", uid="three", bare=True)
    await world.turn()
    assert world.written("create", "bookings") == 1


async def test_one_workload_is_served_once(world: Planning) -> None:
    world.ask("one", uid="one")
    await world.turn()
    world.ask("two", uid="two")
    await world.turn()
    assert world.said("two") == {"Accepted": ("False", "NoQuota")}
    world.clock.advance(11)
    await world.turn()
    assert world.said("two")["Failed"] == ("True", "NoQuota")
    assert len(world.bookings()) == 1


async def test_two_checks_on_the_same_pods_buy_once(world: Planning) -> None:
    """And the second is refused for good: its next attempt would be no better off, and the first one's nodes be given back."""
    raw = workload().to_json()
    [entry] = raw["status"]["admissionChecks"]
    raw["status"]["admissionChecks"] = [entry, {**entry, "name": "second"}]
    world.add(decode(raw, Workload))
    world.add(check("second"))
    world.ask("one", uid="one")
    world.ask("two", uid="two", metadata={"annotations": {"corral.dev/workload": "job", "corral.dev/admission-check": "second"}})
    await world.turn()
    assert len(world.bookings()) == 1
    assert world.said("one") == WAITS
    assert world.said("two") == {"Failed": ("True", "InvalidArgument")}
    told = world.objects["provisioningrequests", "team", "two"]["status"]["conditions"][-1]["message"]
    assert told.startswith('pod set main is served for AdmissionCheck "capacity", by request one: one quota buys once; give each')


@pytest.mark.parametrize(
    ("phase", "served"),
    [
        pytest.param("Provisioned", False, id="held"),
        pytest.param("Joining", False, id="coming"),
        pytest.param("Releasing", True, id="going"),
    ],
)
async def test_a_deleted_request_does_not_free_its_quota_for_another(world: Planning, phase: str, served: bool) -> None:
    world.ask("one", uid="one")
    await world.turn()
    (made,) = world.bookings()
    world.move(made.metadata.name, phase=phase)
    world.state.requests.put(("team", "one"), None)
    world.ask("two", uid="two")
    await world.turn()
    assert (world.written("create", "bookings") == 2) is served
    if not served:
        assert world.said("two") == {"Accepted": ("False", "NoQuota")}


async def test_a_booking_under_an_earlier_reservation_of_quota_keeps_nobody_waiting(world: Planning) -> None:
    """Its pods may take long to end: the workload was evicted, and has quota for its next attempt."""
    world.ask("one", uid="one")
    await world.turn()
    (made,) = world.bookings()
    world.move(made.metadata.name, phase="Provisioned")
    world.state.requests.put(("team", "one"), None)
    raw = workload().to_json()
    raw["status"]["conditions"][0]["lastTransitionTime"] = stamp(world.clock() + timedelta(seconds=5))
    world.add(decode(raw, Workload))
    world.clock.advance(6)
    world.ask("two", uid="two")
    await world.turn()
    assert world.written("create", "bookings") == 2


async def test_a_store_that_lags_for_minutes_buys_nothing_twice(world: Planning) -> None:
    world.lag = True
    world.ask(metadata={"resourceVersion": "7"})
    for _ in range(9):
        await world.turn()
        world.clock.advance(60)
        await asyncio.sleep(60)
    assert world.written("create", "bookings") == 1
    assert world.written("apply", "provisioningrequests") == 2, "the time left is told in steps of five minutes"


async def test_an_answer_that_is_lost_counts_as_done(world: Planning) -> None:
    world.lag = True
    world.ask()
    world.fail["create"] = TransportError("reset")
    await world.turn()
    assert world.said() == WAITS
    await world.turn()
    assert world.written("create", "bookings") == 1


async def test_a_booking_of_an_earlier_run_is_taken_up(world: Planning) -> None:
    """Created, but neither answered nor seen in the store for 30 s: the next try meets it under its own name."""
    world.lag = True
    world.ask()
    await world.turn()
    world.restart()
    world.objects["provisioningrequests", "team", "req"].pop("status")
    await world.turn()
    assert world.said() == {}
    await world.turn()
    assert world.said() == WAITS
    assert len(world.bookings()) == 1


async def test_a_booking_that_is_refused_stops_nobody_else(world: Planning) -> None:
    world.add(workload("other", uid="other-uid"))
    world.add(template("other-tpl", owner="other-uid"))
    world.ask("bad")
    more = {
        "labels": {"corral.dev/workload-uid": "other-uid"},
        "annotations": {"corral.dev/workload": "other", "corral.dev/admission-check": "capacity"},
        "ownerReferences": [{"kind": "PodTemplate", "name": "other-tpl", "uid": "other-tpl-uid"}],
    }
    world.ask("other", metadata=more, templates=("other-tpl",))
    world.fail["create"] = Invalid("spec.podSets: too long")
    await world.turn()
    assert world.said("bad")["Provisioned"] == ("False", "GangIncomplete")
    assert world.said("other") == WAITS


async def test_a_workload_that_is_tried_again_keeps_its_place(world: Planning) -> None:
    """Its request is the younger one."""
    for name, born in (("second", "2026-09-01T09:00:00Z"), ("first", "2026-09-01T08:00:00Z")):
        raw = workload(name, uid=f"{name}-uid").to_json()
        raw["metadata"]["creationTimestamp"] = born
        world.add(decode(raw, Workload))
        world.add(template(f"{name}-tpl", owner=f"{name}-uid"))
        more = {
            "labels": {"corral.dev/workload-uid": f"{name}-uid"},
            "annotations": {"corral.dev/workload": name, "corral.dev/admission-check": "capacity"},
            "ownerReferences": [{"kind": "PodTemplate", "name": f"{name}-tpl", "uid": f"{name}-tpl-uid"}],
        }
        world.ask(name, metadata=more, templates=(f"{name}-tpl",))
        world.clock.advance(5)
    await world.turn()
    requests = {made.metadata.name: made.spec.request.name for made in world.bookings()}
    assert [requests[name] for verb, plural, name in world.calls if (verb, plural) == ("create", "bookings")] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize("adopts", [False, True])
async def test_a_hopeless_gang_fails_when_its_cloud_has_said_so_often_enough(world: Planning, adopts: bool) -> None:
    world.add(policy(bareRequests={"namespaces": ["team"]}, topology={"required": RACK}))
    world.add(pool(**({"nodeSelector": {"matchLabels": {"team": "train"}}} if adopts else {})))
    world.ask(count=5, bare=True)
    for anew in (True, False, True, False, True):
        assert "Failed" not in world.said()
        if anew:
            world.state.known["p"] = known(at=world.clock())
        await world.turn()
        world.clock.advance(10)
    assert world.said()["Failed"] == ("True", "TopologyUnsatisfied")
    assert world.details().get("Uncounted") == ("true" if adopts else None)


async def test_a_status_that_is_not_written_is_tried_again(world: Planning) -> None:
    world.ask()
    world.fail["apply"] = ServerError("busy")
    assert await world.turn() == 1.0
    assert world.said() == {}
    await world.turn()
    assert world.said() == WAITS


async def test_after_a_failure_it_goes_on_with_the_next_attempt(world: Planning) -> None:
    world.ask()
    await world.turn()
    (first,) = world.bookings()
    world.move(first.metadata.name, phase="Failed", reason="ReservationCapacityExceeded", message="full")
    world.clock.advance(5)
    await world.turn()
    attempts = {made.spec.attempt: made for made in world.bookings()}
    assert set(attempts) == {1, 2}
    assert attempts[2].spec.provision_deadline == attempts[1].spec.provision_deadline
    assert world.details()["Attempt"] == "2"
    assert world.details()["LastError"] == "ReservationCapacityExceeded: full"


async def test_at_the_end_of_its_time_it_fails_in_the_clouds_words(world: Planning) -> None:
    world.ask()
    await world.turn()
    (first,) = world.bookings()
    world.clock.advance(40 * 60)
    world.move(first.metadata.name, phase="Failed", reason="InsufficientCapacity", message="We have no p5 in east")
    await world.turn()
    assert world.said()["Failed"] == ("True", "GangIncomplete")
    failed = world.objects["provisioningrequests", "team", "req"]["status"]["conditions"][-1]
    assert failed["message"] == "gave up after one attempt in 40m: InsufficientCapacity: We have no p5 in east"
    assert world.events.told[-1] == ("Warning", "GangIncomplete")


async def test_foreign_and_deleted_requests_are_left_alone(world: Planning) -> None:
    raw = world.ask("foreign").to_json()
    raw["spec"]["provisioningClassName"] = "check-capacity.autoscaling.x-k8s.io"
    world.add(decode(raw, ProvisioningRequest))
    world.ask("going", metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"})
    await world.turn()
    assert world.calls == []


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        pytest.param({}, 30.0, id="looks-again-after-a-while"),
        pytest.param({"templates": ("none",)}, 30.0, id="a-grace-that-is-longer"),
        pytest.param({"count": 9}, 10.0, id="the-grace-of-the-quota"),
    ],
)
async def test_when_it_looks_again(world: Planning, asked: dict[str, Any], seconds: float) -> None:
    world.ask(**asked)
    assert await world.turn() == pytest.approx(seconds, abs=0.5)
