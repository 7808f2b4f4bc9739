"""The reconcilers of admission on a small stand-in for the API server; Kueue's part is played by hand."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from admission.checks import Checks
from admission.journeys import waiting
from admission.model import Change, RetryRule, State
from admission.requests import Attempt
from admission.view import BY_WORKLOAD, Stores, prospect, terms_of, view, workload_uid
from admission.workloads import OBSTRUCTED, STALE, Workloads
from admission.writer import entry_body, make_request
from kube.kueue import Workload
from kube.makers import JobSet
from kube.meta import OwnerReference, decode
from kube.queued_pods import QueuedPod
from runtime.controller import DONE, Result
from runtime.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from runtime.store import Store, key_of
from tests.admission.objects import assignment, check, condition, entry, flavor, pod_set, policy, queue, stored, workload

pytestmark = pytest.mark.looptime

Json = dict[str, Any]
KEY = ("team", "job-llm-12345")
ADMITTED = [condition("QuotaReserved"), condition("Admitted")]
EVICTED = [condition("QuotaReserved"), condition("Evicted")]


@dataclass
class FakeClient:
    """Keeps what is created, by plural and name; `fail` may raise in place of a verb."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    applied: list[Json] = field(default_factory=list)
    managers: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    fail: Callable[[str, str], None] = lambda verb, plural: None

    def _call(self, verb: str, resource: Any, name: str) -> tuple[str, str]:
        self.calls.append(f"{verb} {resource.plural}")
        self.fail(verb, resource.plural)
        return resource.plural, name

    async def create(self, resource: Any, body: Json) -> Json:
        key = self._call("create", resource, body["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists
        self.objects[key] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{len(self.calls)}", "resourceVersion": "1"}}
        return self.objects[key]

    async def get(self, resource: Any, name: str, namespace: str) -> Json:
        key = self._call("get", resource, name)
        if key not in self.objects:
            raise NotFound
        return self.objects[key]

    async def replace(self, resource: Any, body: Json) -> Json:
        key = self._call("replace", resource, body["metadata"]["name"])
        self.objects[key] = {**body, "metadata": {**body["metadata"], "uid": self.objects[key]["metadata"]["uid"]}}
        return self.objects[key]

    async def apply(self, resource: Any, body: Json, *, manager: str, subresource: str) -> Json:
        assert (manager.startswith("corral-admission"), subresource) == (True, "status")
        self.managers.append(manager)
        self._call("apply", resource, body["metadata"]["name"])
        self.applied.append(body)
        return body

    async def delete(self, resource: Any, name: str, namespace: str, *, uid: str | None = None) -> None:
        key = self._call("delete", resource, name)
        if key not in self.objects:
            raise NotFound
        if uid not in (None, self.objects[key]["metadata"]["uid"]):
            raise Conflict
        del self.objects[key]

    @property
    def writes(self) -> list[str]:
        return [each for each in self.calls if not each.startswith("get ")]

    @property
    def entries(self) -> list[Json]:
        """Of the last write."""
        found: list[Json] = self.applied[-1]["status"]["admissionChecks"]
        return found


class FakeRecorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def event(self, regarding: Json, type: str, reason: str, message: str) -> None:  # noqa: A002
        assert regarding["metadata"]["name"] in (KEY[1], "capacity")
        self.told.append((reason, message))


class World:
    def __init__(self) -> None:
        self.client, self.recorder = FakeClient(), FakeRecorder()
        self.now = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
        self.stores = Stores(Store(), Store(), Store(), Store(), Store(), Store(), Store())
        self.stores.requests.add_index(BY_WORKLOAD, workload_uid)
        for store, item in [
            (self.stores.checks, check()),
            (self.stores.policies, policy(limit=1, backoff="10s")),
            (self.stores.queues, queue()),
            (self.stores.flavors, flavor()),
        ]:
            self.put(store, item)
        self.reconciler = Workloads(self.client, self.stores, self.recorder, lambda: self.now)  # type: ignore[arg-type]

    def put(self, store: Store[Any], item: Any) -> None:
        store.put(key_of(item), item)

    async def turn(self, given: Workload | None = None) -> Result:
        if given is not None:
            self.put(self.stores.workloads, given)
        return await self.reconciler.reconcile(KEY)

    def attempt(self, given: Workload) -> Attempt:
        [own] = [each for each in given.status.admission_checks if each.name == "capacity"]
        found = prospect(self.stores, given, own, terms_of(self.stores, check()), {}).attempt
        assert found is not None
        return found

    async def requested(self, given: Workload, **status: Any) -> str:
        """The workload's request, written and seen, with this status; its name."""
        await self.turn(given)
        [name] = [name for plural, name in self.client.objects if plural == "provisioningrequests"]
        found = self.client.objects["provisioningrequests", name]
        self.put(self.stores.requests, stored(found, uid=found["metadata"]["uid"], **status))
        self.client.calls.clear()
        return name


@pytest.fixture
def world() -> World:
    return World()


PROVISIONED = {"conditions": [condition("Accepted"), condition("Provisioned")], "provisioningClassDetails": {"Booking": "bk"}}


async def test_templates_come_before_the_request(world: World) -> None:
    """The other way round an autoscaler fails a request whose template isn't there yet (kueue#3957)."""
    await world.turn(workload(pod_set("a"), pod_set("b")))
    assert world.client.calls == ["create podtemplates", "create podtemplates", "create provisioningrequests"]
    [made] = [each for (plural, _), each in world.client.objects.items() if plural == "provisioningrequests"]
    first = world.client.objects["podtemplates", made["spec"]["podSets"][0]["podTemplateRef"]["name"]]
    assert made["metadata"]["ownerReferences"][0]["uid"] == first["metadata"]["uid"]
    assert made["metadata"]["annotations"]["tracing.k8s.io/traceparent"].startswith("00-5f0c3c5e58a44f0e9a3b0d6f2f7f9c11-")
    assert [reason for reason, _ in world.recorder.told] == ["ProvisioningRequestCreated"]


@pytest.mark.parametrize("pod_sets", [1, 8])
async def test_a_request_that_is_answered_at_once_costs_n_plus_2_writes(world: World, pod_sets: int) -> None:
    """n templates, the request, the entry that says Ready. Kueue's own check makes 2 + 2n (v0.17.0)."""
    given = workload(*(pod_set(f"s{number}") for number in range(pod_sets)))
    await world.turn(given)
    written = len(world.client.writes)
    name = next(name for plural, name in world.client.objects if plural == "provisioningrequests")
    made = world.client.objects["provisioningrequests", name]
    for status in ({}, PROVISIONED):
        world.put(world.stores.requests, stored(made, uid=made["metadata"]["uid"], **status))
        written += len(await _written(world))
    assert written == pod_sets + 2


async def _written(world: World) -> list[str]:
    world.client.calls.clear()
    await world.turn()
    return world.client.writes


@pytest.mark.row("3.1-48", "3.1-52")
@pytest.mark.parametrize("dies_at", ["create podtemplates", "create provisioningrequests"])
async def test_an_interrupted_creation_is_completed(world: World, dies_at: str) -> None:
    def die(verb: str, plural: str) -> None:
        if f"{verb} {plural}" == dies_at:
            raise ConnectionError

    given = workload()
    world.client.fail = die
    with pytest.raises(ConnectionError):
        await world.turn(given)
    world.client.fail = lambda verb, plural: None
    assert await world.turn(given) == DONE
    assert await world.turn(given) == DONE, "a store that lags behind our own creation does no harm"
    assert len(world.client.objects) == 2


async def test_what_exists_under_a_template_s_name_is_made_ours(world: World) -> None:
    given = workload()
    attempt = world.attempt(given)
    planted = {
        "metadata": {"name": f"{attempt.name}-0", "uid": "planted", "resourceVersion": "1"},
        "template": {"spec": {"small": 1}},
    }
    world.client.objects["podtemplates", f"{attempt.name}-0"] = planted
    await world.turn(given)
    written = world.client.objects["podtemplates", f"{attempt.name}-0"]
    assert written["template"] == attempt.members[0].template
    assert written["metadata"]["ownerReferences"][0]["kind"] == "Workload"


async def test_a_strange_request_under_our_name_is_removed_first(world: World) -> None:
    given = workload()
    attempt = world.attempt(given)
    planted = {"metadata": {"name": attempt.name, "uid": "planted"}, "spec": {}}
    world.client.objects["provisioningrequests", attempt.name] = planted
    assert await world.turn(given) == Result(OBSTRUCTED)
    assert ("provisioningrequests", attempt.name) not in world.client.objects
    assert await world.turn(given) == DONE
    assert world.client.objects["provisioningrequests", attempt.name]["metadata"]["uid"] != "planted"


async def test_ready_carries_updates_and_nothing_of_kueue_s(world: World) -> None:
    given = workload()
    await world.requested(given, **PROVISIONED)
    await world.turn()
    body = world.client.applied[-1]
    assert body["metadata"] == {"name": KEY[1], "namespace": "team", "uid": given.metadata.uid, "resourceVersion": "7"}
    assert world.client.entries == [
        {
            "name": "capacity",
            "state": "Ready",
            "message": "",
            "lastTransitionTime": "2026-09-01T12:00:00Z",
            "podSetUpdates": [
                {
                    "name": "main",
                    "nodeSelector": {"bk.booking.corral.dev/main": "true"},
                    "tolerations": [{"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}],
                }
            ],
        }
    ]
    assert world.recorder.told[-1] == ("AdmissionCheckUpdated", "Admission check capacity updated state from Pending to Ready")


async def test_transition_time_moves_with_the_state_alone(world: World) -> None:
    """Kueue counts requeueAfterSeconds from it; its own controller leaves the old time, and so has no backoff (reference W1)."""
    given = workload()
    name = await world.requested(given)
    world.now += timedelta(minutes=5)
    raw = world.client.objects["provisioningrequests", name]
    world.put(world.stores.requests, stored(raw, conditions=[condition("Accepted")]))
    await world.turn()
    assert world.client.entries[0]["message"] == "Capacity is being planned"
    assert world.client.entries[0]["lastTransitionTime"] == "2026-09-01T11:59:00Z"
    assert world.recorder.told[1:] == [], "a message alone is no event"
    failed = {**condition("Failed"), "reason": "NoQuota"}
    world.put(world.stores.requests, stored(raw, conditions=[failed]))
    await world.turn()
    assert world.client.entries[0]["state"] == "Retry"
    assert world.client.entries[0]["lastTransitionTime"] == "2026-09-01T12:05:00Z"
    assert world.client.entries[0]["requeueAfterSeconds"] == 10


async def test_a_backoff_without_quota(world: World) -> None:
    """Kueue has noted when to requeue: the eviction and the entry with its count in one write, then the request goes."""
    retry = entry(state="Retry", requeueAfterSeconds=30, retryCount=1) | {"message": "Attempt 2 of 3 failed: x"}
    due, foreign = {"requeueAt": "2026-09-01T12:01:00Z"}, entry("foreign", "Ready", podSetUpdates=[{"name": "main"}])
    await world.requested(workload(checks=[entry(retryCount=1)]))
    await world.turn(with_requeue(workload(checks=[retry, foreign]), due))
    assert world.client.writes == ["apply workloads"]
    assert world.client.managers == ["corral-admission-eviction"]
    assert world.client.applied[-1]["metadata"]["resourceVersion"] == "7"
    status = world.client.applied[-1]["status"]
    assert [(c["type"], c["status"], c["reason"], c["lastTransitionTime"]) for c in status["conditions"]] == [
        ("Evicted", "True", "AdmissionCheck", "2026-09-01T12:00:00Z")
    ]
    reset, now = "Reset to Pending after eviction. Previously: Ready", "2026-09-01T12:00:00Z"
    words = "Attempt 2 of 3 failed: x; next try at 2026-09-01T12:01:00Z, no quota is held until then"
    assert status["admissionChecks"] == [
        entry(retryCount=2, podSetUpdates=[]) | {"message": words, "lastTransitionTime": now},
        entry("foreign", podSetUpdates=[]) | {"message": reset, "lastTransitionTime": now},
    ]
    assert world.recorder.told[-1] == ("EvictedForBackoff", "Attempt 2 of 3 failed: x; no quota is held until the next try")

    await world.turn(with_requeue(workload(checks=status["admissionChecks"], conditions=EVICTED), due))
    assert world.client.writes[1:] == ["delete provisioningrequests", "delete podtemplates"]


def with_requeue(given: Workload, state: Json) -> Workload:
    raw = given.to_json()
    return decode({**raw, "status": {**raw["status"], "requeueState": state}}, Workload)


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        pytest.param("Pending", 2, id="what we leave out and nobody else owns would vanish"),
        pytest.param("Retry", 2, id="so that the limit is reached"),
        pytest.param("Ready", 0, id="success ends the count"),
        pytest.param("Rejected", 0, id="so does the end of attempts"),
    ],
)
def test_the_count_is_said_while_attempts_fail(state: str, kept: int) -> None:
    """Left out it would stay where Kueue's own check is beside ours: its controller owns a copy of all entries."""
    [seen] = workload(checks=[entry(state=state, retryCount=2)]).status.admission_checks
    now = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
    assert entry_body(seen, None, now).get("retryCount") == kept
    [before] = workload(checks=[entry(state="Pending", retryCount=2)]).status.admission_checks
    assert entry_body(before, Change(State(state), "new"), now).get("retryCount") == kept


def test_no_count_is_made_of_none() -> None:
    [seen] = workload(checks=[entry()]).status.admission_checks
    for state in State:
        assert "retryCount" not in entry_body(seen, Change(state, "new"), datetime(2026, 9, 1, 12, 0, tzinfo=UTC))


async def test_a_ready_that_kueue_wrote_over_is_restored_for_any_attempt(world: World) -> None:
    await world.requested(workload(checks=[entry(retryCount=2)]), **PROVISIONED)
    await world.turn(workload(checks=[entry(retryCount=0)], conditions=ADMITTED))
    [written] = world.client.entries
    assert (written["state"], len(written["podSetUpdates"])) == ("Ready", 1)


def test_since_when_a_workload_holds_quota(world: World) -> None:
    [own] = workload().status.admission_checks
    for given, since in ((workload(), "2026-09-01T11:59:00+00:00"), (workload(conditions=[]), None)):
        found = view(given, own, prospect(world.stores, given, own, terms_of(world.stores, check()), {}), RetryRule(1, 1, 1), [])
        assert (found.reserved_at and found.reserved_at.isoformat()) == since


async def test_a_ready_entry_without_a_count_keeps_its_request(world: World) -> None:
    """The count goes with Ready: attempt 3 must not be taken for another one because of that."""
    name = await world.requested(workload(checks=[entry(retryCount=2)]), **PROVISIONED)
    await world.turn(workload(checks=[entry(state="Ready")]))
    assert world.client.writes == []
    raw = world.client.objects["provisioningrequests", name]
    assert raw["metadata"]["annotations"]["corral.dev/attempt"] == "3"
    expired = {**PROVISIONED, "conditions": [*PROVISIONED["conditions"], condition("BookingExpired")]}
    world.put(world.stores.requests, stored(raw, uid=raw["metadata"]["uid"], **expired))
    world.put(world.stores.policies, policy(limit=3, backoff="10s"))
    await world.turn()
    [written] = world.client.entries
    assert (written["state"], written["retryCount"], written["message"][:15]) == ("Retry", 2, "Attempt 3 of 4 ")


async def test_all_our_entries_go_in_one_write(world: World) -> None:
    """Under one field manager an entry left out would lose its podSetUpdates."""
    updates = [{"name": "main", "nodeSelector": {"k": "true"}, "tolerations": [{"key": "t", "operator": "Exists"}]}]
    ready = entry("second", "Ready", podSetUpdates=updates, message="fine")
    foreign = entry("foreign", "Ready")
    given = workload(checks=[entry(), foreign, ready])
    world.put(world.stores.checks, check("second"))
    world.put(world.stores.checks, check("foreign", "kueue.x-k8s.io/multikueue"))
    world.put(world.stores.queues, queue(on_flavors=("none",), checks=("capacity", "second")))
    await world.turn(given)
    written = {each["name"]: each for each in world.client.entries}
    assert written.keys() == {"capacity", "second"}
    assert written["capacity"]["state"] == "Ready"
    assert json.loads(json.dumps(written["second"])) == ready


async def test_conflict_ends_the_turn_and_comes_back(world: World) -> None:
    def refuse(verb: str, plural: str) -> None:
        if verb == "apply":
            raise Conflict

    await world.requested(workload(), **PROVISIONED)
    world.client.fail = refuse
    told = len(world.recorder.told)
    assert await world.turn() == Result(STALE)
    assert len(world.recorder.told) == told, "no event for a state that wasn't written (reference W21)"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"conditions": EVICTED}, id="evicted"),
        pytest.param({"conditions": []}, id="quota lost"),
        pytest.param({"conditions": [*ADMITTED, condition("Finished")]}, id="finished"),
        pytest.param({"checks": []}, id="check taken off"),
    ],
)
async def test_capacity_is_given_back(world: World, after: Json) -> None:
    await world.requested(workload(), **PROVISIONED)
    await world.turn(workload(**after))
    assert world.client.writes == ["delete provisioningrequests", "delete podtemplates"]
    assert world.client.objects == {}
    assert await world.turn() == DONE, "a store that lags behind the deletion does no harm"


@pytest.mark.parametrize("checks", [[entry(state="Ready")], [entry(state="Pending")], []], ids=["ready", "new", "taken off"])
async def test_nothing_is_deleted_under_a_running_job(world: World, checks: list[Json]) -> None:
    other = workload(assignments=[assignment(count=3)], checks=checks, conditions=ADMITTED)
    await world.requested(workload(), **PROVISIONED)
    world.stores.policies.put(("", "training"), None)
    await world.turn(other)
    assert world.client.writes == (["apply workloads"] if checks == [entry()] else [])
    assert len(world.client.objects) == 2


async def test_a_check_that_is_not_known_now_keeps_its_request(world: World) -> None:
    """Unknown isn't absent: the entry is still on the workload."""
    await world.requested(workload(), **PROVISIONED)
    world.stores.checks.put(("", "capacity"), None)
    await world.turn()
    assert world.client.writes == []


async def test_a_check_that_is_anothers_by_now_leaves_no_request_behind(world: World) -> None:
    """Whoever moves back to Kueue's own controller makes a check of the same name for it."""
    await world.requested(workload(), **PROVISIONED)
    world.put(world.stores.checks, check(controller="kueue.x-k8s.io/provisioning-request"))
    await world.turn(workload(conditions=ADMITTED))
    assert world.client.writes == [], "what runs is left alone"
    await world.turn(workload())
    assert world.client.writes == ["delete provisioningrequests", "delete podtemplates"]


async def test_another_reservation_gets_another_request(world: World) -> None:
    old = await world.requested(workload(), **PROVISIONED)
    again = workload(conditions=[condition("QuotaReserved", since="2026-09-01T12:30:00Z")])
    await world.turn(again)
    names = [name for plural, name in world.client.objects if plural == "provisioningrequests"]
    assert len(names) == 1
    assert names != [old]
    assert not world.client.applied, "the old request, Provisioned as it is, makes nothing Ready"


async def test_another_incarnation_keeps_its_templates(world: World) -> None:
    """The store still shows a request that was deleted and made anew under the same name."""
    name = await world.requested(workload(), **PROVISIONED)
    world.client.objects["provisioningrequests", name]["metadata"]["uid"] = "new"
    await world.turn(workload(conditions=EVICTED))
    assert len(world.client.objects) == 2


async def test_a_spoofed_request_of_another_namespace_doesn_t_count(world: World) -> None:
    name = await world.requested(workload(), **PROVISIONED)
    raw = world.client.objects["provisioningrequests", name]
    world.stores.requests.put(KEY, None)
    for key in [key_of(each) for each in world.stores.requests.values()]:
        world.stores.requests.put(key, None)
    foreign = {**raw, "metadata": {**raw["metadata"], "namespace": "mallory"}}
    world.put(world.stores.requests, stored(foreign, **PROVISIONED))
    await world.turn()
    assert not world.client.applied


async def test_refused_creation_is_told_once_and_retried(world: World) -> None:
    def refuse(verb: str, plural: str) -> None:
        if verb == "create":
            raise Forbidden("exceeded quota")

    world.client.fail = refuse
    assert await world.turn(workload()) == Result(30.0)
    [written] = world.client.entries
    assert (written["state"], written["message"].partition('": ')[2]) == ("Pending", "exceeded quota")
    assert world.recorder.told[0][0] == "FailedCreate"
    world.client.applied.clear()
    told = len(world.recorder.told)
    assert await world.turn(workload(checks=[entry() | {"message": written["message"]}])) == Result(30.0)
    assert not world.client.applied
    assert len(world.recorder.told) == told


@pytest.mark.parametrize(
    ("refusal", "state"),
    [
        pytest.param('PodTemplate "x" is invalid: template.spec.containers: Required value', "Rejected", id="a mistake"),
        pytest.param('podtemplates "x" is forbidden: policy denied request', "Pending", id="a policy of the cluster's"),
    ],
)
async def test_a_template_that_no_api_server_takes_is_the_users_mistake(world: World, refusal: str, state: str) -> None:
    def refuse(verb: str, plural: str) -> None:
        if (verb, plural) == ("create", "podtemplates"):
            raise Invalid(refusal)

    world.client.fail = refuse
    await world.turn(workload())
    [written] = world.client.entries
    assert written["state"] == state
    assert refusal in written["message"]
    assert ('pod set "main": ' in written["message"]) is (state == "Rejected")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        pytest.param("policies", 'AdmissionCheck "capacity" is not active: CapacityPolicy "training" is not there', id="policy"),
        pytest.param("queues", 'ClusterQueue "cq" is not there', id="queue"),
        pytest.param("flavors", 'ResourceFlavor "h100" of pod set "main" is not there', id="flavor"),
    ],
)
async def test_what_is_missing_is_named(world: World, missing: str, words: str) -> None:
    store: Store[Any] = getattr(world.stores, missing)
    for key in [key_of(each) for each in store.values()]:
        store.put(key, None)
    result = await world.turn(workload())
    assert result == Result(30.0)
    assert world.client.entries[0]["message"].startswith(words)
    assert world.client.writes == ["apply workloads"]


def made_by(api_version: str, kind: str) -> Workload:
    given = workload()
    owner = OwnerReference(api_version=api_version, kind=kind, name="llm", uid="js-uid", controller=True)
    return structs.replace(given, metadata=structs.replace(given.metadata, owner_references=(owner,)))


def of_job_set() -> Workload:
    return made_by("jobset.x-k8s.io/v1alpha2", "JobSet")


def job_set(uid: str) -> JobSet:
    notes = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    return decode({"metadata": {"namespace": "team", "name": "llm", "uid": uid, "annotations": notes}}, JobSet)


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([], id="the first one of the cluster is not seen yet"),
        pytest.param([job_set("old-uid")], id="one of the same name before it"),
    ],
)
async def test_the_job_set_behind_a_workload_is_waited_for(world: World, there: list[JobSet]) -> None:
    for each in there:
        world.put(world.stores.job_sets, each)
    await world.turn(of_job_set())
    assert world.client.entries[0]["message"] == 'JobSet "llm" of the workload is not there (yet)'
    assert world.client.writes == ["apply workloads"]
    world.put(world.stores.job_sets, job_set("js-uid"))
    notes = world.attempt(of_job_set()).members[0].template["metadata"]["annotations"]
    assert notes["alpha.jobset.sigs.k8s.io/exclusive-topology"] == "rack"


async def test_a_stateful_set_of_another_group_is_not_waited_for(world: World) -> None:
    await world.turn(made_by("apps.kruise.io/v1beta1", "StatefulSet"))
    assert world.client.calls[-1] == "create provisioningrequests"


async def test_a_stateful_set_is_waited_for(world: World) -> None:
    await world.turn(made_by("apps/v1", "StatefulSet"))
    assert world.client.entries[0]["message"] == 'StatefulSet "llm" of the workload is not there (yet)'


UNLABELLED = {"kueue.x-k8s.io/pod-group-name": "gang"}


def of_pods(*names: str, pod_sets: tuple[Json, ...] = ()) -> Workload:
    given = workload(*pod_sets)
    owners = tuple(OwnerReference(api_version="v1", kind="Pod", name=name, uid=f"{name}-uid") for name in names)
    return structs.replace(given, metadata=structs.replace(given.metadata, owner_references=owners))


def queued_pod(name: str, level: str, uid: str = "") -> QueuedPod:
    """Of a group of which the one role is called as the pod set is."""
    labels = {"kueue.x-k8s.io/pod-group-name": "gang", "app": "train"}
    notes = {"kueue.x-k8s.io/role-hash": "main", "corral.dev/required-topology": level}
    meta = {"namespace": "team", "name": name, "uid": uid or f"{name}-uid", "labels": labels, "annotations": notes}
    return decode({"metadata": meta}, QueuedPod)


async def test_what_pods_say_is_asked_for_as_soon_as_one_is_seen(world: World) -> None:
    world.put(world.stores.pods, queued_pod("a", "zone", uid="one of that name before it"))
    world.put(world.stores.pods, queued_pod("stranger", "zone"))
    await world.turn(of_pods("a", "b"))
    assert world.client.entries[0]["message"] == 'no pod of pod set "main" is there (yet)'
    assert world.client.writes == ["apply workloads"]
    world.put(world.stores.pods, queued_pod("b", "rack"))
    metadata = world.attempt(of_pods("a", "b")).members[0].template["metadata"]
    assert metadata["annotations"] == {"corral.dev/required-topology": "rack"}
    assert metadata["labels"] == {"kueue.x-k8s.io/pod-group-name": "gang", "app": "train"}


async def test_pods_of_one_role_that_differ_are_the_user_s_mistake(world: World) -> None:
    world.put(world.stores.pods, queued_pod("a", "rack"))
    world.put(world.stores.pods, queued_pod("b", "zone"))
    await world.turn(of_pods("a", "b"))
    [written] = world.client.entries
    assert written["state"] == "Rejected"
    assert (
        'pod set "main": annotation corral.dev/required-topology is "rack" on pod "a" but "zone" on pod "b"' in written["message"]
    )
    assert world.client.writes == ["apply workloads"]


async def test_labels_of_pods_that_another_pod_set_selects_must_be_alike(world: World) -> None:
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "train"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    driver = pod_set("driver", template={"spec": {"containers": [container], "affinity": affinity}})
    other = queued_pod("b", "rack")
    for each in (queued_pod("a", "rack"), structs.replace(other, metadata=structs.replace(other.metadata, labels=UNLABELLED))):
        world.put(world.stores.pods, each)
    await world.turn(of_pods("a", "b", pod_sets=(pod_set(), driver)))
    [written] = world.client.entries
    assert (written["state"], 'label app is "train" on pod "a" but not set on pod "b"' in written["message"]) == (
        "Rejected",
        True,
    )


async def test_a_stateful_set_speaks_for_its_pods(world: World) -> None:
    """Kueue notes the pods, too, as owners of its Workload."""
    made, pods = made_by("apps/v1", "StatefulSet"), of_pods("a")
    owners = (*pods.metadata.owner_references, *made.metadata.owner_references)
    await world.turn(structs.replace(made, metadata=structs.replace(made.metadata, owner_references=owners)))
    assert world.client.entries[0]["message"] == 'StatefulSet "llm" of the workload is not there (yet)'


async def test_gone_workload_and_foreign_checks_are_nobody_s_business(world: World) -> None:
    assert await world.turn() == DONE
    world.put(world.stores.checks, check(controller="kueue.x-k8s.io/provisioning-request"))
    assert await world.turn(workload()) == DONE
    assert world.client.calls == []


async def test_the_request_s_own_writer_is_idempotent(world: World) -> None:
    attempt = world.attempt(workload())
    for _ in range(3):
        await make_request(world.client, attempt)  # type: ignore[arg-type]
    assert len(world.client.objects) == 2


def test_workloads_waiting_by_reason(world: World) -> None:
    for number, given in enumerate(
        [
            workload(conditions=[]),
            workload(checks=[entry() | {"message": "TopologyUnsatisfied: needs one rack"}]),
            workload(checks=[entry() | {"message": "Capacity is being planned"}]),
            workload(checks=[entry(state="Ready")], conditions=ADMITTED),
            workload(checks=[entry("foreign")]),
            with_requeue(
                workload(conditions=[], checks=[entry() | {"message": "Attempt 1 of 2 failed: GangIncomplete: 3 of 4"}]),
                {"requeueAt": "2026-09-01T12:01:00Z"},
            ),
        ]
    ):
        world.stores.workloads.put(("team", str(number)), given)
    found = {labels["reason"]: value for value, labels in waiting(world.stores)}
    assert found == {
        "QuotaInsufficient": 1,
        "TopologyUnsatisfied": 1,
        "Planning": 1,
        "CapacityProvisioning": 0,
        "ReservationMismatch": 0,
        "GangIncomplete": 1,
    }


GOOD = {
    "type": "Active",
    "status": "True",
    "reason": "Active",
    "message": "The admission check is active",
    "observedGeneration": 3,
}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param(check(), ("True", "Active", "The admission check is active"), id="config found"),
        pytest.param(check(conditions=[GOOD]), None, id="said already"),
        pytest.param(
            check(conditions=[GOOD | {"observedGeneration": 2}]), ("True", "Active", GOOD["message"]), id="about an older spec"
        ),
        pytest.param(check(conditions=[GOOD | {"message": "stale"}]), ("True", "Active", GOOD["message"]), id="stale message"),
        pytest.param(check(controller="other/one"), None, id="unrelated check"),
        pytest.param(
            check(parameters={}),
            ("False", "BadParametersRef", "missing parameters: set spec.parameters to a CapacityPolicy (apiGroup corral.dev)"),
            id="no parameters specified",
        ),
    ],
)
async def test_a_check_is_active_or_says_why_not(world: World, given: Any, written: tuple[str, str, str] | None) -> None:
    world.put(world.stores.checks, given)
    await checks(world).reconcile(("", "capacity"))
    if written is None:
        assert not world.client.applied
        return
    [found] = world.client.applied[-1]["status"]["conditions"]
    assert (found["status"], found["reason"], found["message"], found["observedGeneration"]) == (*written, 3)
    news = GOOD not in [each.to_json() | {"observedGeneration": 3} for each in given.status.conditions]
    assert world.recorder.told == ([(written[1], written[2])] if news else [])


async def test_a_check_deleted_meanwhile_is_no_error(world: World) -> None:
    def gone(verb: str, plural: str) -> None:
        raise NotFound

    world.client.fail = gone
    assert await checks(world).reconcile(("", "capacity")) == DONE
    assert not world.recorder.told


def checks(world: World) -> Checks:
    return Checks(world.client, world.stores, world.recorder, lambda: world.now)  # type: ignore[arg-type]
