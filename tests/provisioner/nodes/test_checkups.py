"""A pool's health check decides whether a node that is sound otherwise counts."""

from typing import Any

import pytest

from kube import core, ours
from kube.meta import decode
from provisioner.bookings import BookingReconciler
from provisioner.nodes import checkups
from provisioner.state import State
from provisioner.telling.progress import Waiting, booked
from runtime.errors import Conflict, Forbidden, Invalid, NotFound, ServerError, TransportError
from runtime.store import Store
from tests.provisioner import fake_api
from tests.provisioner.fake_api import START, Api, Clock, FakeCloud
from tests.provisioner.world import booking, purchase

CHECK = {"podTemplateRef": {"name": "nccl"}, "timeout": "3m"}
TEMPLATE = {
    "metadata": {"name": "nccl", "namespace": "default"},
    "template": {"metadata": {"labels": {"app": "nccl"}}, "spec": {"containers": [{"name": "c", "image": "nccl"}]}},
}


def test_the_job_runs_the_template_on_one_node_for_so_long() -> None:
    made = checkups.job("b", "n1", decode(CHECK, ours.HealthCheck), decode(TEMPLATE, core.PodTemplate))
    pod = made["spec"]["template"]
    assert made["metadata"]["name"] == checkups.name("b", "n1") != checkups.name("b", "n2")
    assert (made["metadata"]["namespace"], made["metadata"]["labels"]["corral.dev/booking"]) == ("default", "b")
    assert (made["spec"]["activeDeadlineSeconds"], made["spec"]["backoffLimit"]) == (180, 0)
    assert made["spec"]["ttlSecondsAfterFinished"] == 86_400  # a day
    assert pod["metadata"]["labels"] == {"app": "nccl", "corral.dev/health-check": "true"}
    assert pod["spec"] == {
        "containers": [{"name": "c", "image": "nccl"}],
        "tolerations": [],
        "restartPolicy": "Never",
        "nodeName": "n1",
    }


def test_an_evicted_pod_is_no_failed_check() -> None:
    """Each disruption sets the condition DisruptionTarget (docs of Kubernetes, "Pod disruption conditions")."""
    made = checkups.job("b", "n1", decode(CHECK, ours.HealthCheck), decode(TEMPLATE, core.PodTemplate))
    assert made["spec"]["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]


def test_the_pod_stays_under_the_taints_of_its_node_and_is_placed_by_name_alone() -> None:
    spec = {
        "containers": [],
        "nodeSelector": {"no": "node"},
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "schedulingGates": [{"name": "acme.com/held"}],
        "tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}],
    }
    taints = [
        core.Taint(key="acme.com/gpu", effect="NoExecute", value="yes"),
        core.Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),
        core.Taint(key="corral.dev/booked", effect="NoSchedule"),
    ]
    template = decode({**TEMPLATE, "template": {"spec": spec}}, core.PodTemplate)
    pod = checkups.job("b", "n1", decode(CHECK, ours.HealthCheck), template, taints)["spec"]["template"]["spec"]
    assert pod.keys() == {"containers", "tolerations", "restartPolicy", "nodeName"}
    assert pod["tolerations"] == [
        {"operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": "acme.com/gpu", "operator": "Exists", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], (None, "its health check runs"), id="runs"),
        pytest.param([{"type": "Complete", "status": "True"}], (True, ""), id="passed"),
        pytest.param([{"type": "Complete", "status": "False"}], (None, "its health check runs"), id="not yet"),
        pytest.param(
            [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}],
            (False, "its health check failed: DeadlineExceeded: too long"),
            id="failed",
        ),
    ],
)
def test_result(conditions: list[dict[str, str]], expected: tuple[bool | None, str]) -> None:
    found = decode({"metadata": {"name": "j"}, "status": {"conditions": conditions, "failed": 1}}, core.Job)
    assert checkups.result(found, "default") == expected


def test_a_job_that_never_had_a_pod_says_nothing_of_the_node() -> None:
    """A quota or a rule of the namespace may refuse pods of a Job that was taken."""
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
    passed, words = checkups.result(decode({"metadata": {"name": "j"}, "status": failed}, core.Job), "default")
    assert (passed, "look at the events of Job default/j" in words) == (None, True)


def test_a_job_that_was_suspended_never_ends() -> None:
    passed, words = checkups.result(decode({"metadata": {"name": "j"}, "spec": {"suspend": True}}, core.Job), "default")
    assert (passed, "keep Kueue off Jobs of namespace default" in words) == (None, True)


class _Jobs(Api):
    """Keeps Jobs apart from events."""

    refuse: Exception | None = None
    asked = 0

    async def create(self, resource: Any, body: Any) -> dict[str, Any]:
        if resource.plural != "jobs":
            return await super().create(resource, body)
        self.asked += 1
        if self.refuse:
            raise self.refuse
        self.objects["jobs", "default", body["metadata"]["name"]] = body
        self.stores["jobs"].put(("default", body["metadata"]["name"]), decode(body, core.Job))
        return dict(body)

    def jobs(self) -> dict[str, str]:
        """Job by its node."""
        found = {key[2]: body for key, body in self.objects.items() if key[0] == "jobs"}
        return {body["spec"]["template"]["spec"]["nodeName"]: name for name, body in found.items()}


def _booked(machines: int, *, template: bool = True) -> tuple[_Jobs, Clock, State, FakeCloud, BookingReconciler]:
    """A booking that buys so many machines from a pool with a health check; `template`: whether its PodTemplate is there."""
    api, clock = _Jobs(), Clock()
    cloud = FakeCloud(api)
    state = fake_api.state(api, cloud)
    state.templates, state.jobs = Store(), api.stores.setdefault("jobs", Store())
    if template:
        state.templates.put(("default", "nccl"), decode(TEMPLATE, core.PodTemplate))
    pool = fake_api.pool()
    pool["spec"]["readiness"] = {"healthCheck": CHECK}
    for plural, body in (
        ("capacitypools", pool),
        ("provisioningrequests", fake_api.request()),
        ("workloads", fake_api.workload("QuotaReserved")),
        ("bookings", booking(purchases=(purchase("od", machines),), deadline=7200).to_json()),
    ):
        api.put(plural, body)
    reconciler = BookingReconciler(state, api, fake_api.recorder(api, clock), clock)  # type: ignore[arg-type]
    return api, clock, state, cloud, reconciler


async def _turns(reconciler: BookingReconciler, api: Api, clock: Clock) -> None:
    """Until it is Provisioned, or for a while."""
    for _ in range(25):
        result = await reconciler.reconcile("b")
        clock.pass_by(max(0.1, result.requeue_after or 0.0))
        if api.of("bookings", "b").status.phase == "Provisioned":
            return


@pytest.mark.parametrize("template", [True, False], ids=["template", "none"])
async def test_a_node_counts_once_its_check_is_passed_and_is_replaced_when_it_fails(template: bool) -> None:
    api, clock, state, cloud, reconciler = _booked(2, template=template)
    await _turns(reconciler, api, clock)

    there = api.of("bookings", "b")
    assert there.status.phase == "Joining"
    if not template:
        assert api.jobs() == {}
        assert {each.message for each in there.status.instances} == {
            "there is no PodTemplate default/nccl for its health check",
        }
        return
    assert api.jobs() == {each: checkups.name("b", each) for each in ("n-i0", "n-i1")}

    _end(api, state, "n-i0", "Complete")
    _end(api, state, "n-i1", "Failed")
    await reconciler.reconcile("b")
    assert "wait: " not in api.of("bookings", "b").status.message
    await _turns(reconciler, api, clock)
    assert [each.state for each in api.of("bookings", "b").status.instances][:2] == ["Ready", "Gone"]
    assert cloud.terminated == ["i1"]
    _end(api, state, "n-i2", "Complete")
    await _turns(reconciler, api, clock)
    assert api.of("bookings", "b").status.phase == "Provisioned"


async def test_the_taints_are_those_that_the_node_has_when_it_begins() -> None:
    api, clock, state, _, _ = _booked(1)
    tainted = [{"key": "acme.com/burn-in", "effect": "NoExecute"}]
    state.nodes.put(("", "tainted"), decode(fake_api.node("tainted", taints=tainted), core.Node))
    await checkups.begin(api, state, "b", [("tainted", "p"), ("gone since", "p")], clock())  # type: ignore[arg-type]
    found = {node: api.objects["jobs", "default", name]["spec"]["template"]["spec"] for node, name in api.jobs().items()}
    assert {node: spec["tolerations"] for node, spec in found.items()} == {
        "tainted": [{"key": "acme.com/burn-in", "operator": "Exists", "effect": "NoExecute"}],
        "gone since": [],
    }


@pytest.mark.parametrize(
    ("spec", "conditions", "words"),
    [
        pytest.param({"suspend": True}, [], "its health check is suspended", id="suspended"),
        pytest.param(
            {}, [{"type": "Failed", "status": "True"}], "no pod of its health check came to an end", id="never had a pod"
        ),
        pytest.param({}, [{"type": "Failed", "status": "False"}], "", id="runs"),
        pytest.param({}, [{"type": "SuccessCriteriaMet", "status": "True"}], "", id="about to pass"),
    ],
)
async def test_a_check_that_can_tell_nothing_is_told_and_costs_no_machine(
    spec: dict[str, Any], conditions: list[dict[str, str]], words: str
) -> None:
    api, clock, state, cloud, reconciler = _booked(1)
    await _turns(reconciler, api, clock)
    name = api.jobs()["n-i0"]
    there = {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}}
    state.jobs.put(("default", name), decode(there, core.Job))
    clock.pass_by(1800)  # longer than the pool's readiness.timeout
    await _turns(reconciler, api, clock)
    assert cloud.terminated == []
    assert [each.state for each in api.of("bookings", "b").status.instances] == ["Joined"]
    assert ("; 1 wait: " in _said(api)) is bool(words)
    assert words in _said(api)


async def test_a_gang_that_runs_shares_no_node_with_a_check() -> None:
    api, clock, state, _, reconciler = _booked(1)
    await _turns(reconciler, api, clock)
    _end(api, state, "n-i0", "Complete")
    await _turns(reconciler, api, clock)
    assert api.of("bookings", "b").status.phase == "Provisioned"
    api.put("pods", fake_api.pod("w", "n-i0", selector={"b.booking.corral.dev/main": "true"}))

    state.jobs.put(("default", api.jobs()["n-i0"]), None)  # a day later its time to be read is over
    del api.objects["jobs", "default", api.jobs()["n-i0"]]
    for ready in ("False", "True"):
        node = api.objects["nodes", "", "n-i0"]
        api.put("nodes", {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": ready}]}})
        for _ in range(4):
            clock.pass_by(max(0.1, (await reconciler.reconcile("b")).requeue_after or 0.0))
    assert api.jobs() == {}
    assert [each.state for each in api.of("bookings", "b").status.instances] == ["Ready"]


INVALID = Invalid('Job.batch "b-1" is invalid: spec.template.spec.containers: Required value')
WAITS = "its health check can't begin: "


@pytest.mark.parametrize(
    ("refusal", "reason", "remedy"),
    [
        pytest.param(INVALID, "Invalid", "correct the PodTemplate's template.spec", id="422"),
        pytest.param(Forbidden("exceeded quota: jobs"), "Forbidden", "allow it: a quota", id="403"),
        pytest.param(NotFound('namespaces "default" not found'), "NotFound", "at the namespace", id="404"),
        pytest.param(ServerError('failed calling webhook "jobs"'), "ServerError", "admission webhooks", id="500"),
        pytest.param(Conflict("quota: the object has been modified"), "", "", id="409"),
        pytest.param(TransportError("timeout"), "", "", id="no answer"),
    ],
)
async def test_a_refused_check_is_told_and_is_no_fault_of_a_machine(refusal: Exception, reason: str, remedy: str) -> None:
    api, clock, state, cloud, reconciler = _booked(2)
    api.refuse = refusal
    told: list[str] = []
    state.refusals.changed = told.append
    await _turns(reconciler, api, clock)
    clock.pass_by(1800)  # longer than the pool's readiness.timeout
    await _turns(reconciler, api, clock)

    there = api.of("bookings", "b").status
    assert [(each.state, each.verdict) for each in there.instances] == [("Joined", "Checking")] * 2
    assert cloud.terminated == []
    assert f"0 of 2 nodes ready; 2 wait: {WAITS}" in there.message
    assert f"; 2 wait: {WAITS}" in _said(api)
    found = checkups.trouble(state, _pool(state))
    assert (found is None) is not bool(reason)
    if found:
        assert (found[0], told) == (reason, ["p"])
        assert "PodTemplate default/nccl is refused: " in found[1]
        assert remedy in found[1]

    api.refuse = None
    clock.pass_by(300)
    await _turns(reconciler, api, clock)
    assert len(api.jobs()) == 2
    assert checkups.trouble(state, _pool(state)) is None
    for node in api.jobs():
        _end(api, state, node, "Complete")
    await _turns(reconciler, api, clock)
    assert api.of("bookings", "b").status.phase == "Provisioned"


def _said(api: _Jobs) -> str:
    """The message of the request."""
    said = booked(False, api.of("bookings", "b"), START)
    assert isinstance(said, Waiting)
    return said.message


def _pool(state: State) -> ours.CapacityPool:
    found = state.pool("p")
    assert found
    return found


async def test_a_refused_check_is_tried_ever_less_often_and_at_once_when_its_template_changes() -> None:
    api, clock, state, _, reconciler = _booked(1)
    api.refuse = INVALID
    for _ in range(400):
        result = await reconciler.reconcile("b")
        clock.pass_by(max(0.1, result.requeue_after or 0.0))
        if (clock() - START).total_seconds() > 1000:
            break
    assert api.asked == 8  # after 10, 30, 70, 150, 310, 610, 910 s
    template = {**TEMPLATE, "metadata": {"name": "nccl", "namespace": "default", "resourceVersion": "2"}}
    state.templates.put(("default", "nccl"), decode(template, core.PodTemplate))
    assert checkups.trouble(state, _pool(state)) is None
    await _turns(reconciler, api, clock)
    assert api.asked > 8


async def test_a_refused_check_keeps_nothing_else_from_being_done() -> None:
    """A machine too many is ended, a sick one quarantined, though the others can't be checked."""
    api, clock, _, cloud, reconciler = _booked(2)
    api.refuse = INVALID
    await _turns(reconciler, api, clock)
    node = api.objects["nodes", "", "n-i0"]
    sick = [*node["status"]["conditions"], {"type": "KernelDeadlock", "status": "True"}]
    api.put("nodes", {**node, "status": {**node["status"], "conditions": sick}})
    await _turns(reconciler, api, clock)
    assert cloud.terminated == ["i0"]
    assert [each.state for each in api.of("bookings", "b").status.instances] == ["Gone", "Joined", "Joined"]


def test_a_missing_template_is_told_before_anybody_waits() -> None:
    _, _, state, _, _ = _booked(1, template=False)
    words = "spec.readiness.healthCheck.podTemplateRef: there is no PodTemplate default/nccl: make it or correct the name"
    assert checkups.trouble(state, _pool(state)) == (
        "PodTemplateMissing",
        f"{words}; gangs wait with their new nodes until then",
    )


def _end(api: _Jobs, state: Any, node: str, how: str) -> None:
    name = api.jobs()[node]
    conditions = [{"type": how, "status": "True"}]
    state.jobs.put(
        ("default", name), decode({"metadata": {"name": name}, "status": {"conditions": conditions, "failed": 1}}, core.Job)
    )
