"""Requests of a job that grew: its template selects the nodes of booking `old`, which Workload `first` of job `j` made."""

from collections import Counter
from typing import Any

import pytest
from msgspec import structs

from capacity.model import Running
from kube import kueue, ours
from kube.meta import ObjectKey, decode
from provisioner.asking.acceptance import Accepted, Desk, Judgement, NotYet, Refused, judge
from provisioner.asking.authority import Look
from provisioner.planning.arrivals import plans
from provisioner.planning.company import left_of
from tests.conftest import WallClock
from tests.provisioner import fake_api
from tests.provisioner.make import NOW, RACK, booking, check, policy, request, template, view, workload
from tests.provisioner.test_bookings import Setting
from tests.provisioner.test_requests import Planning
from tests.provisioner.world import purchase
from tests.provisioner.world_of_requests import World

OWN = "b.booking.corral.dev/main"
KEY = "old.booking.corral.dev/main"
ZONE = "topology.kubernetes.io/zone"


def of_job(made: kueue.Workload, job: str = "j", replaces: str = "", evicted: str = "") -> kueue.Workload:
    raw = made.to_json()
    raw["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "x", "uid": job, "controller": True}]
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": f"team/{replaces}"} if replaces else {}
    if evicted:
        raw["status"]["conditions"] = [*raw["status"]["conditions"], {"type": "Evicted", "status": evicted}]
    return decode(raw, kueue.Workload)


def first(job: str = "j", uid: str = "first-uid") -> kueue.Workload:
    return of_job(workload("first", uid=uid, conditions={"QuotaReserved": "True", "Admitted": "True", "Finished": "True"}), job)


SECOND = of_job(workload(), replaces="first")


def old(phase: Any = "Provisioned", **domains: str) -> ours.Booking:
    made = booking("old", phase=phase)
    key = ObjectKey(namespace="team", name="first", uid="first-uid")
    return structs.replace(made, spec=structs.replace(made.spec, workload=key, domains=domains))


def outcome(*there: kueue.Workload, held: ours.Booking | None, bare: bool = False, **more: Any) -> Judgement:
    selector = more.pop("selector", {KEY: "true"})
    notes = more.pop("notes", {})
    raw = template(spec={"nodeSelector": selector}).to_json()
    raw["template"]["metadata"] = {"annotations": notes}
    asked = decode(raw, type(template()))
    look = Look(
        {("team", each.metadata.name): each for each in there}.get,
        lambda _: check(),
        {},
        booking=lambda name: held if held and name == held.metadata.name else None,
    )
    desk = Desk({("team", "tpl"): asked}.get, lambda _: policy(**more), look, ["p"])
    return judge(request(bare=bare), desk, NOW)


def accepted(*there: kueue.Workload, **more: Any) -> Accepted:
    found = outcome(*there, **more)
    assert isinstance(found, Accepted), found
    return found


def test_the_older_bookings_key_is_a_mark_to_set_and_no_demand_on_nodes() -> None:
    found = accepted(SECOND, first(), held=old(), selector={KEY: "true", "disk": "ssd"})
    assert found.inherited == {"main": (KEY,)}
    assert found.gang.pod_sets[0].node_selector == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("there", "held", "bare"),
    [
        pytest.param([SECOND, first(job="k")], old(), False, id="another job's"),
        pytest.param([SECOND], old(), False, id="its Workload is gone"),
        pytest.param([SECOND, first(uid="new")], old(), False, id="its Workload was made anew"),
        pytest.param([workload(), first()], old(), False, id="the Workload is nobody's"),
        pytest.param([], old("Joining"), True, id="a bare request"),
    ],
)
def test_anothers_booking(there: list[kueue.Workload], held: ours.Booking, *, bare: bool) -> None:
    spec = {"bareRequests": {"namespaces": ["team"]}}
    found = outcome(*there, held=held, bare=bare, **spec)
    assert isinstance(found, NotYet)
    assert found.reason == "ForeignBooking"
    why = f"nodeSelector {KEY} is a mark of booking old, which is not this job's: remove it"
    assert found.message == f"{why}; refused at 2026-09-02 09:59Z (1d left)"
    late = outcome(*there, held=held, bare=bare, timeouts={"queued": "1s"}, **spec)
    assert isinstance(late, Refused)


@pytest.mark.parametrize("held", [None, old("Released"), old("Failed")], ids=["gone", "released", "failed"])
def test_the_key_of_a_booking_that_is_over_is_nobodys(held: ours.Booking | None) -> None:
    """A job that was stopped comes again with it: Kueue restores its template from the slice."""
    assert accepted(SECOND, held=held).inherited == {"main": (KEY,)}


def test_a_workload_that_is_not_seen_yet_is_waited_for() -> None:
    found = outcome(first(), held=old())
    assert isinstance(found, NotYet)
    assert found.reason == "NoQuota"


RACKED = {"corral.dev/required-topology": RACK}


@pytest.mark.parametrize(
    ("there", "domains", "more", "pinned"),
    [
        pytest.param(SECOND, {RACK: "a"}, {"notes": RACKED}, {RACK: "a"}, id="the rack of the rest"),
        pytest.param(SECOND, {RACK: "a"}, {}, {}, id="a level that the others required alone"),
        pytest.param(SECOND, {ZONE: "east"}, {}, {ZONE: "east"}, id="one zone by the policy"),
        pytest.param(SECOND, {ZONE: "east"}, {"crossZone": {"policy": "Allow"}}, {}, id="any zone by the policy"),
        pytest.param(SECOND, {}, {"notes": RACKED}, {}, id="no domain was chosen"),
        pytest.param(of_job(workload(), replaces="first", evicted="False"), {ZONE: "east"}, {}, {}, id="stopped since"),
        pytest.param(of_job(workload()), {ZONE: "east"}, {}, {}, id="no growth"),
    ],
)
def test_what_is_added_stays_with_the_rest(
    there: kueue.Workload, domains: dict[str, str], more: dict[str, Any], pinned: dict[str, str]
) -> None:
    found = accepted(there, first(), held=old(**domains), **more)
    assert found.gang.pod_sets[0].node_selector == pinned


# --- the booking ------------------------------------------------------------------------------------------------------------


class Later(Setting):
    """Booking `b` of one free node and one machine, made for pods that a job was grown by: they select the key of `old`."""

    def __init__(self) -> None:
        super().__init__(nodes=("a",), purchases=(purchase("od", 1),))
        body = self.api.objects["bookings", "", "b"]
        body["spec"]["podSets"][0]["inherited"] = [KEY]
        self.api.put("bookings", body)

    def run(self, name: str, on: str) -> None:
        made = fake_api.pod(name, on, selector={KEY: "true"})
        made["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]
        self.api.put("pods", made)

    def labels(self, node: str) -> set[str]:
        return set(self.api.of("nodes", node).metadata.labels)


@pytest.mark.looptime
async def test_its_nodes_bear_both_keys_and_lose_both_when_all_is_over() -> None:
    here = Later()
    await here.until("Joining", "Provisioned")
    here.run("early", "n-i0")  # an older pod of the job that came anew: the nodes bear its key before all of them are there
    await here.until("Provisioned")
    assert all(here.labels(name) >= {KEY, OWN} for name in ("a", "n-i0"))
    assert {KEY, OWN} <= here.cloud.orders[0].labels.keys()

    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    for _ in range(3):
        await here.turn()
    assert here.status.phase == "Provisioned", "a pod that selects the older key runs there"
    assert here.status.first_pod_at

    here.api.remove("pods", "early", "team")
    await here.until("Released")
    assert here.cloud.terminated == ["i0"]
    assert not here.labels("a") & {KEY, OWN}
    assert not here.api.of("nodes", "a").spec.taints


@pytest.mark.looptime
async def test_pods_on_the_older_bookings_nodes_do_not_hold_it() -> None:
    here = Later()
    here.api.put("nodes", fake_api.node("older", labels={KEY: "true"}))
    here.run("w", "older")
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    await here.until("Released")
    assert KEY in here.labels("older")


@pytest.mark.looptime
async def test_a_machine_with_an_older_pod_of_the_job_is_never_ended_for_what_the_stores_lack() -> None:
    here = Later()
    await here.until("Provisioned")
    here.api.lag.add("pods")
    here.run("w", "n-i0")
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    for _ in range(20):
        await here.turn()
    assert here.cloud.terminated == []


@pytest.mark.looptime
async def test_a_booking_is_held_by_pods_that_can_run_on_its_nodes_alone() -> None:
    """Those of a job that was stopped and comes again select the old key and a new one, which the old nodes don't bear."""
    here = Setting()
    await here.until("Provisioned")
    both = {OWN: "true", "new.booking.corral.dev/main": "true"}
    here.api.put("pods", fake_api.pod("w", "elsewhere", selector=both))
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    await here.until("Released")


@pytest.mark.looptime
async def test_the_first_booking_lives_on_with_the_slice_that_replaces_its_workload() -> None:
    here = Setting()
    await here.until("Provisioned")
    replaced = fake_api.workload("QuotaReserved", "Admitted", "Finished")
    newer = fake_api.workload("QuotaReserved")
    owners = [{"kind": "Job", "name": "x", "uid": "j", "controller": True}]
    replaced["metadata"]["ownerReferences"] = owners
    notes = {"kueue.x-k8s.io/workload-slice-replacement-for": "team/job"}
    newer["metadata"] |= {"name": "newer", "uid": "newer-uid", "ownerReferences": owners, "annotations": notes}
    here.api.put("workloads", newer)
    here.api.put("workloads", replaced)
    here.api.remove("provisioningrequests", "job", "team")
    here.clock.pass_by(3600)
    for _ in range(5):
        await here.turn()
    assert here.status.phase == "Provisioned"

    newer["status"]["conditions"] = fake_api.workload("QuotaReserved", "Finished")["status"]["conditions"]
    here.api.put("workloads", newer)
    await here.until("Released")


@pytest.mark.looptime
async def test_a_change_of_a_slice_wakes_the_bookings_of_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Setting()
    newer = fake_api.workload("QuotaReserved")
    notes = {"kueue.x-k8s.io/workload-slice-replacement-for": "team/job"}
    newer["metadata"] |= {"name": "newer", "uid": "newer-uid", "annotations": notes}
    woken: list[str] = []
    monkeypatch.setattr(here.controller, "_running", True)
    monkeypatch.setattr(here.controller, "enqueue", lambda key, **_: woken.append(key))
    here.api.put("workloads", newer)
    assert woken == ["b"]


def test_what_runs_is_counted_once_by_any_of_its_keys() -> None:
    made = booking("b", nodes=("n", "m"))
    pods = structs.replace(made.spec.pod_sets[0], inherited=(KEY,))
    made = structs.replace(made, spec=structs.replace(made.spec, pod_sets=(pods,)))
    coming = Running("team", {"app": "y"})
    for there, missing in [({KEY: 1}, 1), ({OWN: 1, KEY: 1}, 1), ({}, 2)]:
        found = plans(view(bookings=(made,), pods_of=lambda _: {"main": coming}), lambda _: Counter())["b"]
        assert found.at({"main": 2}, Counter(there)) == (coming,) * missing


# --- both ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.looptime
async def test_the_keys_are_in_the_booking_before_anything_is_marked_or_bought(clock: WallClock) -> None:
    world = Planning(clock)
    for each in (SECOND, first(), old(), template(spec={"nodeSelector": {KEY: "true"}})):
        world.add(each)
    world.ask("more", count=2)
    await world.turn()
    (made,) = world.bookings()
    assert [(ps.count, ps.inherited) for ps in made.spec.pod_sets] == [(2, (KEY,))]


@pytest.mark.looptime
async def test_nothing_is_booked_on_anothers_key(clock: WallClock) -> None:
    world = Planning(clock)
    for each in (SECOND, first(job="k"), old(), template(spec={"nodeSelector": {KEY: "true"}})):
        world.add(each)
    world.ask("more", count=2)
    await world.turn()
    assert world.bookings() == []
    assert world.said("more")["Accepted"] == ("False", "ForeignBooking")


def test_pods_of_a_replaced_slice_are_not_over() -> None:
    """Four are still wanted; those of a slice that is over for good are none."""
    world = World(lambda: NOW)
    world.add(first())
    assert left_of(old(), world.state) == {"main": 0}
    world.add(SECOND)
    assert left_of(old(), world.state) == {"main": 2}
