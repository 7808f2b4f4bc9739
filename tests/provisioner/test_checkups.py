"""A pool's health check decides whether a node that is sound otherwise counts."""

from typing import Any

import pytest

from kube import core, ours
from kube.meta import decode
from provisioner import checkups
from provisioner.bookings import BookingReconciler
from provisioner.state import State
from runtime.store import Store
from tests.provisioner import fake_api
from tests.provisioner.fake_api import Api, Clock, FakeCloud
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
    assert pod["metadata"]["labels"] == {"app": "nccl", "corral.dev/health-check": "true"}
    assert pod["spec"] == {"containers": [{"name": "c", "image": "nccl"}], "restartPolicy": "Never", "nodeName": "n1"}


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
    assert checkups.result(decode({"metadata": {"name": "j"}, "status": {"conditions": conditions}}, core.Job)) == expected


class _Jobs(Api):
    """Keeps Jobs apart from events."""

    async def create(self, resource: Any, body: Any) -> dict[str, Any]:
        if resource.plural != "jobs":
            return await super().create(resource, body)
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
    await _turns(reconciler, api, clock)
    assert [each.state for each in api.of("bookings", "b").status.instances][:2] == ["Ready", "Gone"]
    assert cloud.terminated == ["i1"]
    _end(api, state, "n-i2", "Complete")
    await _turns(reconciler, api, clock)
    assert api.of("bookings", "b").status.phase == "Provisioned"


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


def _end(api: _Jobs, state: Any, node: str, how: str) -> None:
    name = api.jobs()[node]
    conditions = [{"type": how, "status": "True"}]
    state.jobs.put(("default", name), decode({"metadata": {"name": name}, "status": {"conditions": conditions}}, core.Job))
