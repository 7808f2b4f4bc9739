"""What the API server refuses of our own kinds, and in which words: tables against the real one."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.api import Answer, Api
from kube.ours import OVERRIDES
from kube.resources import BOOKINGS, CAPACITY_POLICIES, CAPACITY_POOLS, Kind

Json = dict[str, Any]

HANDED = {"policy": "p", "names": ["a"]}
SIMULATED = {"simulated": {"endpoint": "http://127.0.0.1:8090"}}
ADOPTED: Json = {"provider": {"adopted": {}}, "nodeSelector": {"matchLabels": {"team": "train"}}}


def path(kind: Kind, *rest: str) -> str:
    return "/".join(("/apis", kind.group, kind.version, kind.plural, *rest))


def whole(kind: Kind, spec: Any, name: str = "trial") -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def create(api: Api, kind: Kind, spec: Any) -> Answer:
    return api.call("POST", path(kind), whole(kind, spec), dryRun="All")


def put(api: Api, target: str, subresource: str = "", *, spec: Json, status: Json | None = None, **query: str) -> Answer:
    """Changes what is there at the moment; a provisioner that runs beside these tests may write in between."""
    for _ in range(20):
        current = api.call("GET", target).body
        changed = {**current, "spec": {**current["spec"], **spec}, "status": status or current.get("status", {})}
        answer = api.call("PUT", target + subresource, changed, **query)
        if answer.status != 409:
            break
    return answer


def source(**changes: Any) -> Json:
    return {"name": "a", "capacityType": "on-demand", **changes}


def pool(*sources: Json, **changes: Any) -> Json:
    return {"provider": SIMULATED, "sources": list(sources), **changes}


RESERVED = {"capacityType": "reserved", "reservationIDs": ["cr-1"]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pool(), id="nothing to buy yet"),
        pytest.param(pool(source(), source(name="b", **RESERVED)), id="two sources"),
        pytest.param(pool(source(name="b", **RESERVED, maxNodes=4, spareNodes=4)), id="all spare"),
        pytest.param(ADOPTED, id="adopted"),
        pytest.param(pool(source(), nodeLabels={"team": "train", "acme.com/tier": ""}), id="labels for its nodes"),
    ],
)
def test_pools_accepted(api: Api, spec: Json) -> None:
    answer = create(api, CAPACITY_POOLS, spec)
    assert answer.accepted, answer.body
    assert answer.body["spec"]["mode"] == "Observe"
    assert answer.body["spec"]["readiness"] == {
        "timeout": "20m",
        "unhealthyConditions": [
            {"type": "KernelDeadlock", "status": "True"},
            {"type": "ReadonlyFilesystem", "status": "True"},
            {"type": "AcceleratedHardwareReady", "status": "False"},
            {"type": "GPUMissing", "status": "True"},
            {"type": "NVLinkStatusInactive", "status": "True"},
            {"type": "SysLogsXIDError", "status": "True"},
            {"type": "SysLogsGPUFallenOff", "status": "True"},
        ],
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(pool(provider={}), "name exactly one provider", id="no provider"),
        pytest.param(pool(provider={**SIMULATED, "adopted": {}}), "name exactly one provider", id="two providers"),
        pytest.param(pool(provider={"simulated": {"endpoint": "x"}}), "endpoint", id="endpoint that is none"),
        pytest.param({"provider": {"adopted": {}}}, "an adopted pool needs nodeSelector", id="adopted, unselected"),
        pytest.param({**ADOPTED, "nodeSelector": {}}, "an adopted pool needs nodeSelector", id="adopted, empty selector"),
        pytest.param({**ADOPTED, "sources": [source()]}, "an adopted pool has no sources", id="adopted with source"),
        pytest.param({**ADOPTED, "nodeLabels": {"a": "b"}}, "an adopted pool has no nodeLabels", id="adopted with labels"),
        pytest.param(pool(nodeLabels={"no key": "b"}), "each key must be a label key", id="label key that is none"),
        pytest.param(pool(nodeLabels={"a": "no value"}), "nodeLabels.a", id="label value that is none"),
        pytest.param(pool(nodeLabels={"node.kubernetes.io/a": "b"}), "are not the pool's to give", id="Kubernetes' label"),
        pytest.param(pool(nodeLabels={"corral.dev/pool": "b"}), "are not the pool's to give", id="our label"),
        pytest.param(pool(source(capacityType="reserved")), "need reservationIDs", id="reserved without ids"),
        pytest.param(pool(source(capacityType="capacity-block", reservationIDs=[])), "need reservationIDs", id="empty ids"),
        pytest.param(pool(source(reservationIDs=["cr-1"])), "reservationIDs go with", id="on-demand with ids"),
        pytest.param(pool(source(**RESERVED | {"reservationIDs": ["a", "a"]})), "Duplicate value", id="an id twice"),
        pytest.param(pool(source(**RESERVED), source(name="b", **RESERVED)), "in one source only", id="an id in two sources"),
        pytest.param(pool(source(), source()), "Duplicate value", id="a name twice"),
        pytest.param(pool(source(name="A b")), "sources[0].name", id="name that is no label"),
        pytest.param(pool(source(maxNodes=1, spareNodes=2)), "spareNodes must not exceed maxNodes", id="more spares than nodes"),
        pytest.param(pool(source(maxNodes=-1)), "greater than or equal to 0", id="negative"),
        pytest.param(pool(source(capacityType="queued")), "Unsupported value", id="capacity type that nobody sells"),
        pytest.param(pool(source(capacityType="spot")), "Unsupported value", id="unknown capacity type"),
        pytest.param(pool(source(scaleIn={"after": "10 minutes"})), "scaleIn.after", id="no duration"),
        pytest.param(pool(mode="active"), "Unsupported value", id="unknown mode"),
        pytest.param(pool(topologyKeys=["zone", "zone"]), "each value may be given once", id="a level twice"),
        pytest.param(pool(limits={"onDemandSpendPerDay": "$5"}), "onDemandSpendPerDay", id="no money"),
        pytest.param(pool(readiness={"timeout": "0s"}), "timeout must be longer than zero", id="no time"),
        pytest.param(pool(readiness={"requiredDaemonSets": ["plugin"]}), "requiredDaemonSets", id="DaemonSet without namespace"),
    ],
)
def test_pools_refused(api: Api, spec: Json, words: str) -> None:
    answer = create(api, CAPACITY_POOLS, spec)
    assert answer.status == 422, answer.body
    assert words in answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({}, "", id="all defaults"),
        pytest.param({"runDuration": {"default": "2h"}}, "", id="run time"),
        pytest.param({"runDuration": {"default": "long"}}, "runDuration.default", id="run time that is none"),
        pytest.param({"capacityOrder": ["reserved", "reserved"]}, "each value may be given once", id="a type twice"),
        pytest.param({"capacityOrder": []}, "capacityOrder", id="no type"),
        pytest.param({"userOverrides": ["topology.preferred"]}, "", id="override"),
        pytest.param({"userOverrides": sorted(OVERRIDES.values())}, "", id="each override"),
        pytest.param({"userOverrides": ["timeouts.booking"]}, "Unsupported value", id="what can't be overridden"),
        pytest.param({"byPriorityClass": [HANDED, {**HANDED, "policy": "q"}]}, "in one entry only", id="a class handed on twice"),
        pytest.param(
            {"byPriorityClass": [HANDED, {**HANDED, "names": ["b"]}]}, "Duplicate value", id="handed to one policy twice"
        ),
        pytest.param({"byPriorityClass": [{**HANDED, "names": []}]}, "names", id="no class handed on"),
        pytest.param({"byPriorityClass": [HANDED, {"policy": "q", "names": ["b"]}]}, "", id="classes handed on"),
        pytest.param({"retry": {"backoff": "2h"}}, "backoff must not be longer than maxBackoff", id="backoff beyond its maximum"),
        pytest.param({"retry": {"limit": -1}}, "retry.limit", id="negative limit"),
        pytest.param({"timeouts": {"queued": "0s"}}, "queued must be longer than zero", id="no time to queue"),
        pytest.param({"onNodeLoss": "Ignore"}, "Unsupported value", id="unknown reaction"),
        pytest.param({"crossZone": {"policy": "Allow"}}, "", id="zones crossed"),
        pytest.param({"pools": ["a", "a"]}, "Duplicate value", id="a pool twice"),
    ],
)
def test_policies(api: Api, spec: Json, words: str) -> None:
    answer = create(api, CAPACITY_POLICIES, spec)
    assert answer.accepted is not bool(words), answer.body
    assert words in answer.body.get("message", "")


def test_policy_defaults_are_shown(api: Api) -> None:
    spec = create(api, CAPACITY_POLICIES, {}).body["spec"]
    assert spec["timeouts"] == {"queued": "24h", "launch": "10m", "provision": "40m", "booking": "15m", "release": "30m"}
    assert spec["capacityOrder"] == ["reserved", "capacity-block", "on-demand"]


BOOKING: Json = {
    "request": {"namespace": "a", "name": "b", "uid": "c"},
    "attempt": 1,
    "installation": "i",
    "policy": "training",
    "podSets": [{"name": "main", "count": 2, "label": "b-1.booking.corral.dev/main"}],
    "provisionDeadline": "2026-01-01T00:00:00Z",
    "bookingSeconds": 900,
    "nodes": [{"name": "n1", "pool": "p", "pods": {"main": 2}}],
}


@pytest.fixture(scope="module")
def booking(api: Api) -> Iterator[str]:
    name = "crd-rules"
    api.call("DELETE", path(BOOKINGS, name))
    made = api.call("POST", path(BOOKINGS), whole(BOOKINGS, BOOKING, name))
    assert made.accepted, made.body
    yield name
    api.call("DELETE", path(BOOKINGS, name))


OTHERS = {
    "nodes": [{"name": "n2", "pool": "p", "pods": {"main": 2}, "since": "2026-01-01T00:00:00Z"}],
    "former": BOOKING["nodes"],
    "costPerHour": "3.00",
    "nodeCount": 1,
}


@pytest.mark.parametrize(
    ("phase", "change", "words"),
    [
        pytest.param("Marking", {}, "", id="the same"),
        pytest.param("Provisioned", {}, "", id="the same later"),
        pytest.param("Provisioned", OTHERS, "", id="other nodes in place of lost ones"),
        pytest.param("Marking", OTHERS, "changes only while it is Provisioned", id="not before"),
        pytest.param("Releasing", OTHERS, "changes only while it is Provisioned", id="nor after it"),
        pytest.param("Provisioned", {"attempt": 2}, "only the nodes change", id="a value"),
        pytest.param("Provisioned", {"traceparent": "00-1"}, "only the nodes change", id="a field more"),
        pytest.param("Provisioned", {"bookingSeconds": 1, **OTHERS}, "only the nodes change", id="a value beside other nodes"),
    ],
)
def test_of_the_plan_of_a_booking_only_the_nodes_change(api: Api, booking: str, phase: str, change: Json, words: str) -> None:
    for _ in range(5):  # a provisioner that runs beside may move it on in between
        stood = put(api, path(BOOKINGS, booking), "/status", spec={}, status={"phase": phase})
        assert stood.accepted, stood.body
        answer = put(api, path(BOOKINGS, booking), spec=change, dryRun="All")
        if answer.accepted is not bool(words):
            break
    assert answer.accepted is not bool(words), answer.body
    assert words in answer.body.get("message", "")


def test_status_is_a_subresource_of_its_own(api: Api, booking: str) -> None:
    answer = put(api, path(BOOKINGS, booking), "/status", spec={"attempt": 9}, status={"phase": "Joining"}, dryRun="All")
    assert answer.accepted, answer.body
    assert (answer.body["spec"]["attempt"], answer.body["status"]["phase"]) == (1, "Joining")


def test_the_kind_of_provider_never_changes(api: Api) -> None:
    name = "crd-rules"
    api.call("DELETE", path(CAPACITY_POOLS, name))
    api.call("POST", path(CAPACITY_POOLS), whole(CAPACITY_POOLS, pool(nodeSelector=ADOPTED["nodeSelector"]), name))
    other = put(api, path(CAPACITY_POOLS, name), spec={**ADOPTED, "sources": []})
    assert "the kind of provider can't change" in other.body["message"]
    moved = {"simulated": {"endpoint": "http://127.0.0.1:9999"}}
    assert put(api, path(CAPACITY_POOLS, name), spec={"provider": moved}).accepted
    api.call("DELETE", path(CAPACITY_POOLS, name))


def test_columns(kubectl: Callable[..., str], booking: str) -> None:
    assert kubectl("get", "bk").split("\n")[0].split() == [
        "NAME", "NAMESPACE", "REQUEST", "PHASE", "NODES", "COST/H", "REASON", "AGE",
    ]  # fmt: skip
    rows = json.loads(kubectl("get", "--raw", path(BOOKINGS, booking)))
    assert rows["spec"]["costPerHour"] == "0"


def test_everything_is_explained(kubectl: Callable[..., str]) -> None:
    text = kubectl("explain", "cpool.spec.sources.spareNodes")
    assert "as spares for replacement" in " ".join(text.split())
