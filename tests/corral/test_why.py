"""What `corral why` makes of the objects that the user may read."""

from collections.abc import Mapping
from typing import Any

import pytest

from corral.answer import answer
from corral.why import _facts
from runtime.errors import Forbidden, NotFound

pytestmark = pytest.mark.looptime

Json = dict[str, Any]
SINCE = "2026-09-01T10:00:00Z"
WORDS = "needs 6 pods in one rack; largest has room for 4"


def condition(kind: str, status: str = "True", **fields: str) -> Json:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": SINCE} | fields


def meta(name: str, **fields: Any) -> Json:
    return {"name": name, "namespace": "team", "uid": f"{name}-uid", **fields}


WORKLOAD: Json = {
    "metadata": meta("job-llm", ownerReferences=[{"kind": "Job", "name": "llm", "uid": "j", "apiVersion": "batch/v1"}]),
    "spec": {"queueName": "q"},
    "status": {
        "conditions": [condition("QuotaReserved")],
        "admissionChecks": [{"name": "capacity", "state": "Pending", "message": "", "lastTransitionTime": SINCE}],
    },
}
REQUEST: Json = {
    "metadata": meta("llm-1", labels={"corral.dev/workload-uid": "job-llm-uid"}, creationTimestamp=SINCE),
    "spec": {"provisioningClassName": "gang.corral.dev", "podSets": [{"podTemplateRef": {"name": "t"}, "count": 6}]},
    "status": {"conditions": [condition("Provisioned", "False", reason="TopologyUnsatisfied", message=WORDS)]},
}
CHECK: Json = {"metadata": {"name": "capacity"}, "spec": {"controllerName": "corral.dev/capacity"}}
CLUSTER = {"workloads": [WORKLOAD], "provisioningrequests": [REQUEST], "admissionchecks": [CHECK]}


class Api:
    """Answers from a table; `closed` are the plurals that the user may not read."""

    def __init__(self, objects: Mapping[str, list[Json]], *closed: str) -> None:
        self._objects, self._closed = objects, closed

    async def list(self, resource: Any, namespace: str = "", **narrow: str) -> list[Json]:
        if resource.plural in self._closed:
            raise Forbidden("no")
        return self._objects.get(resource.plural, [])

    async def get(self, resource: Any, name: str, namespace: str = "") -> Json:
        for each in await self.list(resource, namespace):
            if each["metadata"]["name"] == name:
                return each
        raise NotFound


async def told(api: Api, kind: str = "job", name: str = "llm") -> list[str]:
    return answer(await _facts(api, f"{kind}/{name}", kind, name, "team")).splitlines()  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name"), [("job", "llm"), ("workload", "job-llm"), ("provreq", "llm-1")])
async def test_every_way_to_name_it(kind: str, name: str) -> None:
    [line] = await told(Api(CLUSTER), kind, name)
    assert line.startswith("WAITING TopologyUnsatisfied ")
    assert line.endswith(WORDS)


async def test_rights_in_one_namespace_alone_give_the_reason_all_the_same() -> None:
    [first, last] = await told(Api(CLUSTER, "admissionchecks", "clusterqueues", "bookings", "events"))
    assert first.startswith("WAITING TopologyUnsatisfied ")
    assert last.startswith("  left out, for you have no right to read them: admissionchecks, bookings, events (")


async def test_no_right_to_read_workloads_is_an_error() -> None:
    with pytest.raises(Forbidden):
        await told(Api(CLUSTER, "workloads"))


async def test_a_job_that_kueue_does_not_know() -> None:
    assert (await told(Api({})))[0].startswith("UNKNOWN job/llm: Kueue has no Workload for it")


def waiting(topology: Json | None, *, flavor: Json, **rule: Any) -> Api:
    """A workload without quota in a queue of one flavor `f`, whose check is ours."""
    pods = {"name": "main", "count": 2, "template": {}, **({"topologyRequest": topology} if topology else {})}
    status = {"conditions": [condition("QuotaReserved", "False", message="couldn't assign flavors")]}
    workload = {**WORKLOAD, "spec": {"queueName": "q", "podSets": [pods]}, "status": status}
    queue = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f"}]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "capacity", **rule}]},
    }
    return Api(
        {
            "workloads": [workload],
            "admissionchecks": [CHECK],
            "localqueues": [{"metadata": meta("q"), "spec": {"clusterQueue": "cq"}}],
            "clusterqueues": [{"metadata": {"name": "cq"}, "spec": queue}],
            "resourceflavors": [
                {"metadata": {"name": "f"}, "spec": flavor},
                {"metadata": {"name": "other"}, "spec": {"topologyName": "t"}},
            ],
        }
    )


@pytest.mark.parametrize(
    ("topology", "annotation", "instead"),
    [
        pytest.param({"required": "rack"}, "required", "write corral.dev/required-topology: rack in its place", id="required"),
        pytest.param(
            {"preferred": "rack"}, "preferred", "write corral.dev/preferred-topology: rack in its place", id="preferred"
        ),
        pytest.param(
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
            "slice-required",
            "write corral.dev/slice-topology: rack in its place",
            id="slices",
        ),
        pytest.param({"unconstrained": True}, "unconstrained", "remove it: pods are placed as the policy says", id="anywhere"),
    ],
)
async def test_the_trap_of_kueues_topology_annotation(topology: Json, annotation: str, instead: str) -> None:
    first, trap, remedy = await told(waiting(topology, flavor={"nodeLabels": {"a": "b"}}))
    assert first.endswith("couldn't assign flavors")
    named = f"kueue.x-k8s.io/podset-{annotation}-topology of pod set main"
    assert trap.strip() == f"trap: {named} needs a flavor with topologyName, and the queue has none"
    assert remedy.strip() == instead


async def test_the_trap_of_a_flavor_with_topology_and_our_check() -> None:
    _, trap, remedy = await told(waiting(None, flavor={"topologyName": "t"}))
    assert trap.startswith("  trap: flavor f has topologyName t: Kueue reserves quota only on nodes that are there already")
    assert "gang.corral.dev" in remedy


@pytest.mark.parametrize(
    ("topology", "flavor", "rule"),
    [
        pytest.param(None, {}, {}, id="no topology at all"),
        pytest.param({"podIndexLabel": "batch.kubernetes.io/job-completion-index"}, {}, {}, id="what Kueue adds to every job"),
        pytest.param(
            {"required": "rack"}, {"topologyName": "t"}, {"onFlavors": ["other"]}, id="a flavor that our check leaves out"
        ),
    ],
)
async def test_no_trap(topology: Json | None, flavor: Json, rule: Json) -> None:
    assert len(await told(waiting(topology, flavor=flavor, **rule))) == 1


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        pytest.param("DeactivatedDueToAdmissionCheck", "REJECTED", id="by a check"),
        pytest.param("Deactivated", "DEACTIVATED", id="by its user"),
    ],
)
async def test_who_deactivated_it(reason: str, word: str) -> None:
    spec, status = {"queueName": "q", "active": False}, {"conditions": [condition("Evicted", reason=reason, message="why")]}
    first, *_ = await told(Api({**CLUSTER, "workloads": [{**WORKLOAD, "spec": spec, "status": status}]}))
    assert first.startswith(f"{word} ")
