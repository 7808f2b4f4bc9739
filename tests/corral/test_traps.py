"""What keeps a workload from ever starting, as its author is told it."""

from typing import Any

import pytest

from tests.corral.cluster import Json, check, condition, entry, meta, owner, request, told, waits, workload

pytestmark = pytest.mark.looptime

LLM = owner("Job", "llm", "batch/v1")
TAS = "ResourceFlavor f has a topologyName: with a check of corral.dev/capacity Kueue reserves quota only on nodes that are there"
TAINT = "ResourceFlavor f neither tolerates nor names taint a:NoSchedule"
OTHER = "ResourceFlavor f2 has a topologyName"


def pool(*conditions: Json) -> Json:
    spec = {"provider": {"simulated": {"endpoint": "http://cloud"}}}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"conditions": list(conditions)}}


def cluster(topology: Json | None = None, *, flavor: Json | None = None, **more: Any) -> dict[str, list[Json]]:
    """A workload without quota in a queue of one flavor `f`."""
    pods = {"name": "main", "count": 2, "template": {}, **({"topologyRequest": topology} if topology else {})}
    no_quota = condition("QuotaReserved", "False", reason="Pending", message="couldn't assign flavors")
    return {
        "workloads": [{**workload("job-llm", LLM, conditions=[no_quota]), "spec": {"queueName": "q", "podSets": [pods]}}],
        "admissionchecks": [check()],
        "localqueues": [{"metadata": meta("q"), "spec": {"clusterQueue": "cq"}}],
        "clusterqueues": [
            {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f"}]}]}}
        ],
        "resourceflavors": [
            {"metadata": {"name": "f"}, "spec": flavor or {}},
            {"metadata": {"name": "f2"}, "spec": {"topologyName": "t"}},
        ],
        **more,
    }


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
async def test_kueues_topology_annotation_on_flavors_without_topology(topology: Json, annotation: str, instead: str) -> None:
    first, trap, remedy = await told(cluster(topology, flavor={"nodeLabels": {"a": "b"}}), "job/llm")
    assert first.endswith("couldn't assign flavors")
    named = f"kueue.x-k8s.io/podset-{annotation}-topology of pod set main"
    assert trap.strip() == f"trap: {named} needs a flavor with topologyName, and the queue has none"
    assert remedy.strip() == instead


@pytest.mark.parametrize(
    ("conditions", "sentences"),
    [
        pytest.param([condition("FlavorsUnfit", message=TAS)], [TAS], id="where a pool could buy"),
        pytest.param([condition("FlavorsUnfit", message=f"{OTHER}; {TAINT}")], [TAINT], id="of the queue's flavors alone"),
        pytest.param(
            [condition("LabelsMissing", message="ResourceFlavor f asks for a=b"), condition("FlavorsUnfit", message=TAINT)],
            ["ResourceFlavor f asks for a=b", TAINT],
            id="all of them",
        ),
        pytest.param(
            [condition("FlavorsUnfit", "False", message="each ResourceFlavor fits")], [], id="none where nodes are adopted"
        ),
    ],
)
async def test_what_a_pool_says_of_a_flavor_is_said_of_its_workloads(conditions: list[Json], sentences: list[str]) -> None:
    """One judgement for both: a flavor with a topologyName is served on adopted nodes, which nobody has to buy."""
    told_ = await told(cluster(flavor={"topologyName": "t"}, capacitypools=[pool(*conditions)]), "job/llm")
    assert [line for line in told_ if "trap" in line] == [f"  trap: pool p: {sentence}" for sentence in sentences]


async def test_a_workload_with_quota_is_told_of_the_flavors_that_it_got() -> None:
    assigned = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}}]}
    waiting = cluster(
        capacitypools=[pool(condition("FlavorsUnfit", message=f"{OTHER}; {TAINT}"))],
        workloads=[workload("job-llm", LLM, checks=(entry(),), admission=assigned)],
        provisioningrequests=[request("llm-1", waits("GangIncomplete", "0 of 2"), of="job-llm")],
    )
    assert [line for line in await told(waiting, "job/llm") if "trap" in line] == [f"  trap: pool p: {TAINT}"]


@pytest.mark.parametrize(
    ("topology", "flavor"),
    [
        pytest.param(None, {}, id="no topology at all"),
        pytest.param({"podIndexLabel": "batch.kubernetes.io/job-completion-index"}, {}, id="what Kueue adds to every job"),
        pytest.param({"required": "rack"}, {"topologyName": "t"}, id="a flavor with a topology"),
    ],
)
async def test_no_trap(topology: Json | None, flavor: Json) -> None:
    assert not [line for line in await told(cluster(topology, flavor=flavor), "job/llm") if "trap" in line]
