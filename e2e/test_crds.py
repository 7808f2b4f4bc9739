"""Our ProvisioningRequest CRD gives upstream's verdict on every object, at the real API server.

Both CRDs, upstream's file from the pinned Go module and ours, are loaded side by side under groups of their own, and the same
objects are put to both: hundreds made by chance from a fixed seed, and the edge cases known from the real system.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import yaml

from e2e.api import Answer, Api
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from kube.crds import DEFINITIONS, crd

Json = dict[str, Any]

UPSTREAM, OURS = "upstream.corral.test", "ours.corral.test"
VERSIONS = ("v1", "v1beta1")
PLURAL = "provisioningrequests"
SEED = 20260911
CASES = 400

pytestmark = pytest.mark.timeout(300)


def regrouped(definition: Json, group: str) -> Json:
    copy = deepcopy(definition)
    copy["metadata"] = {"name": f"{PLURAL}.{group}"}
    copy["spec"]["group"] = group
    copy["spec"]["names"] |= {"shortNames": [], "categories": []}
    return copy


@pytest.fixture(scope="module")
def both(controlplane: ControlPlane, api: Api) -> Iterator[None]:
    """Both CRDs in place, and for each group and version a request with parameters and one without."""
    upstream_file = build.autoscaler_apis_module() / "config/crd" / f"autoscaling.x-k8s.io_{PLURAL}.yaml"
    ours = crd(next(d for d in DEFINITIONS if d.kind.plural == PLURAL))
    definitions = [regrouped(yaml.safe_load(upstream_file.read_text()), UPSTREAM), regrouped(ours, OURS)]
    for definition in definitions:
        controlplane.kubectl("create", "-f", "-", stdin=json.dumps(definition))
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    controlplane.kubectl("wait", "--for=condition=Established", *names)
    for group in (UPSTREAM, OURS):
        for name, spec in (("with", valid()), ("without", without(valid(), "parameters"))):
            made = api.call("POST", path(group, "v1"), {**head(group, "v1", name), "spec": spec})
            assert made.accepted, made
    yield
    for name in names:
        controlplane.kubectl("delete", name, "--wait=false")


def path(group: str, version: str, *rest: str) -> str:
    return "/".join(("/apis", group, version, "namespaces/default", PLURAL, *rest))


def head(group: str, version: str, name: str) -> Json:
    return {"apiVersion": f"{group}/{version}", "kind": "ProvisioningRequest", "metadata": {"name": name}}


def pod_set(name: Any = "t", count: Any = 1) -> Json:
    return {"podTemplateRef": {"name": name}, "count": count}


def valid() -> Json:
    return {
        "provisioningClassName": "gang.corral.dev",
        "podSets": [pod_set(), pod_set("t", 3)],
        "parameters": {"policy": "training"},
    }


def without(spec: Json, *keys: str) -> Json:
    return {key: value for key, value in spec.items() if key not in keys}


def condition(**changes: Any) -> Json:
    whole = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {key: value for key, value in (whole | changes).items() if value != "absent"}


# --- objects by chance ----------------------------------------------------------------------------------------------------

NAMES = ["a", "a.b", "a-b.c-d", "x" * 253, "x" * 254, "A", "a/b", "", "-a", "a-", "a..b", "a_b", "ä", " a", "a\n", 7, None, {}]
COUNTS = [1, 2, 2**31 - 1, 2**31, 2**63 - 1, 0, -1, 1.0, 1.5, "1", True, None]
TEXTS = ["", "a", "x" * 255, "x" * 256, "é" * 255, 1, True, None, {}, []]
SPECS: list[Callable[[Random], Any]] = [
    lambda r: None,
    lambda r: [],
    lambda r: {},
    lambda r: [pod_set(r.choice(NAMES), r.choice(COUNTS)) for _ in range(r.choice([1, 1, 2, 32, 33]))],
    lambda r: [pod_set("t", r.choice(COUNTS))],
    lambda r: [pod_set(r.choice(NAMES))],
    lambda r: [without(pod_set(), r.choice(["count", "podTemplateRef"]))],
    lambda r: [{**pod_set(), "extra": 1}],
    lambda r: [{**pod_set(), "podTemplateRef": r.choice([None, {}, "t", {"name": "t", "namespace": "x"}])}],
    lambda r: [r.choice([None, 1, "a", []])],
]
PARAMETERS: list[Callable[[Random], Any]] = [
    lambda r: None,
    lambda r: {},
    lambda r: {f"k{i}": "v" for i in range(r.choice([1, 99, 100, 101]))},
    lambda r: {r.choice(["", "k", "k" * 1000, "ä/b c"]): r.choice(TEXTS)},
    lambda r: r.choice([[], "a", 1]),
]
TYPES = ["Accepted", "a.b/C", "a/b/c", "", "-", "x" * 316, "x" * 317, "Accepted ", 1, None, "absent"]
REASONS = ["Accepted", "A", "", "a,b:c_d", "with-dash", "with.dot", "x" * 1024, "x" * 1025, "1a", "a_", None, "absent"]
STATUSES = ["True", "False", "Unknown", "true", "", True, None, "absent"]
TIMES = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-01-01", "now", "", 5, None, "absent"]
MESSAGES = ["", "words", "x" * 32768, "x" * 32769, 1, None, "absent"]
GENERATIONS = [0, 1, -1, 2**63 - 1, 1.5, "1", None, "absent"]
CONDITION_FIELDS: dict[str, list[Any]] = {
    "type": TYPES,
    "reason": REASONS,
    "status": STATUSES,
    "lastTransitionTime": TIMES,
    "message": MESSAGES,
    "observedGeneration": GENERATIONS,
}
DETAILS: list[Callable[[Random], Any]] = [
    lambda r: None,
    lambda r: {f"k{i}": "v" for i in range(r.choice([1, 63, 64, 65]))},
    lambda r: {"k": r.choice(["x" * 32768, "x" * 32769, *TEXTS])},
    lambda r: r.choice([[], "a"]),
]


def any_spec(random: Random) -> Any:
    """A valid spec with up to two of its parts drawn anew, most draws being at or just beyond a limit."""
    if random.random() < 0.03:
        return random.choice([None, {}, [], "a"])
    spec = valid()
    for part in random.sample(["class", "podSets", "parameters", "unknown", "absent", "nothing"], 2):
        match part:
            case "class":
                spec["provisioningClassName"] = random.choice(NAMES)
            case "podSets":
                spec["podSets"] = random.choice(SPECS)(random)
            case "parameters":
                spec["parameters"] = random.choice(PARAMETERS)(random)
            case "unknown":
                spec["suspend"] = True
            case "absent" if random.random() < 0.3:
                spec = without(spec, random.choice(list(spec)))
    return spec


def any_condition(random: Random) -> Json:
    field = random.choice(list(CONDITION_FIELDS))
    return condition(**{field: random.choice(CONDITION_FIELDS[field])})


def any_status(random: Random) -> Any:
    if random.random() < 0.05:
        return random.choice([None, [], {}, {"other": 1}])
    status: Json = {"conditions": [any_condition(random) for _ in range(random.choice([0, 1, 1, 2]))]}
    if random.random() < 0.4:
        status["provisioningClassDetails"] = random.choice(DETAILS)(random)
    return status


# --- comparing ------------------------------------------------------------------------------------------------------------


def verdict(answer: Answer) -> Any:
    """What matters to a client: accepted with which content, or refused for what at which field."""
    if answer.accepted:
        return answer.status, answer.body["spec"], answer.body.get("status")
    return answer.status, answer.causes or answer.body["message"].replace(OURS, "").replace(UPSTREAM, "")


def create(api: Api, group: str, version: str, spec: Any, name: str = "new", **query: str) -> Answer:
    return api.call("POST", path(group, version), {**head(group, version, name), "spec": spec}, dryRun="All", **query)


def update(api: Api, group: str, version: str, name: str, change: Json, part: str = "") -> Answer:
    current = api.call("GET", path(group, version, name)).body
    target = path(group, version, name, part) if part else path(group, version, name)
    return api.call("PUT", target, {**current, **change}, dryRun="All")


def agree(call: Callable[[str], Answer], shown: Any) -> bool:
    """Assert that both groups give one verdict; whether it was to accept."""
    upstream, ours = call(UPSTREAM), call(OURS)
    assert verdict(ours) == verdict(upstream), json.dumps(shown)[:2000]
    return ours.accepted


@pytest.mark.parametrize("version", VERSIONS)
def test_chance_requests_get_the_same_verdict(both: None, api: Api, version: str) -> None:
    random = Random(SEED)
    specs = [any_spec(random) for _ in range(CASES)]
    accepted = sum(agree(lambda group, spec=spec: create(api, group, version, spec), spec) for spec in specs)  # type: ignore[misc]
    assert CASES * 0.1 < accepted < CASES * 0.9, "a test of one verdict alone proves little"


@pytest.mark.parametrize("version", VERSIONS)
def test_chance_changes_get_the_same_verdict(both: None, api: Api, version: str) -> None:
    random = Random(SEED + 1)
    accepted = 0
    for _ in range(CASES // 2):
        name, spec = random.choice(["with", "without"]), any_spec(random)
        accepted += agree(lambda group, n=name, s=spec: update(api, group, version, n, {"spec": s}), spec)  # type: ignore[misc]
    assert 0 < accepted < CASES // 2


@pytest.mark.parametrize("version", VERSIONS)
def test_chance_statuses_get_the_same_verdict(both: None, api: Api, version: str) -> None:
    random = Random(SEED + 2)
    accepted = 0
    for _ in range(CASES):
        status = any_status(random)
        accepted += agree(lambda group, s=status: update(api, group, version, "with", {"status": s}, "status"), status)  # type: ignore[misc]
    assert CASES * 0.1 < accepted < CASES * 0.9


EDGES = [
    pytest.param({"spec": {**valid(), "podSets": [pod_set()] * 32}}, True, id="32 pod sets, duplicates allowed"),
    pytest.param({"spec": {**valid(), "podSets": [pod_set()] * 33}}, False, id="33 pod sets"),
    pytest.param({"spec": {**valid(), "podSets": [pod_set("t", 2**31 - 1)]}}, True, id="the largest count"),
    pytest.param({"spec": {**valid(), "podSets": [pod_set("t", 0)]}}, False, id="count 0"),
    pytest.param({"spec": {**valid(), "podSets": []}}, False, id="no pod set"),
    pytest.param({"spec": {**valid(), "provisioningClassName": "Gang"}}, False, id="upper case class"),
    pytest.param({"spec": {**valid(), "provisioningClassName": "a/b"}}, False, id="slash in class"),
    pytest.param({"spec": {**valid(), "parameters": {"": "a", "k" * 1000: "b"}}}, True, id="empty and long keys"),
    pytest.param({"spec": {**valid(), "parameters": {"a": "x" * 256}}}, False, id="long value"),
    pytest.param({"spec": {**valid(), "parameters": {"a": 1}}}, False, id="a number as value"),
    pytest.param({"spec": {**valid(), "parameters": None}}, True, id="null parameters"),
    pytest.param({"spec": {**valid(), "parameters": {f"k{i}": "" for i in range(101)}}}, False, id="101 parameters"),
    pytest.param({}, False, id="no spec"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("body", "accepted"), EDGES)
def test_known_edges_of_creation(both: None, api: Api, version: str, body: Json, accepted: bool) -> None:
    def call(group: str) -> Answer:
        return api.call("POST", path(group, version), {**head(group, version, "edge"), **body}, dryRun="All")

    assert agree(call, body) is accepted


@pytest.mark.parametrize(
    ("name", "spec", "accepted"),
    [
        pytest.param("without", valid(), True, id="parameters may be added"),
        pytest.param("with", without(valid(), "parameters"), True, id="parameters may be removed"),
        pytest.param("with", {**valid(), "parameters": {"policy": "other"}}, False, id="but not changed"),
        pytest.param("with", {**valid(), "parameters": {}}, False, id="nor emptied"),
        pytest.param("with", {**valid(), "podSets": [pod_set("t", 3), pod_set()]}, False, id="order of pod sets counts"),
        pytest.param("with", {**valid(), "provisioningClassName": "other.dev"}, False, id="class"),
        pytest.param("with", valid(), True, id="the same again"),
    ],
)
def test_known_edges_of_change(both: None, api: Api, name: str, spec: Json, accepted: bool) -> None:
    assert agree(lambda group: update(api, group, "v1", name, {"spec": spec}), spec) is accepted


@pytest.mark.parametrize(
    ("status", "accepted"),
    [
        pytest.param({"conditions": [condition(), condition()]}, False, id="a type twice"),
        pytest.param({"conditions": [condition(), condition(type="Anything")]}, True, id="any type"),
        pytest.param({"conditions": [condition(reason="with-dash")]}, False, id="dash in a reason"),
        pytest.param({"conditions": [condition(lastTransitionTime="2026-01-01T00:00:00.5Z")]}, True, id="fraction of a second"),
        pytest.param({"provisioningClassDetails": {f"k{i}": "" for i in range(65)}}, False, id="65 details"),
        pytest.param({"conditions": None, "provisioningClassDetails": None}, True, id="nulls"),
    ],
)
def test_known_edges_of_status(both: None, api: Api, status: Json, accepted: bool) -> None:
    assert agree(lambda group: update(api, group, "v1", "with", {"status": status}, "status"), status) is accepted


def test_creation_discards_status_and_unknown_fields(both: None, api: Api) -> None:
    def call(group: str) -> Answer:
        body = {**head(group, "v1", "full"), "spec": {**valid(), "x": 1}, "status": {"conditions": [condition()]}}
        return api.call("POST", path(group, "v1"), body, dryRun="All")

    assert agree(call, "full")
    assert "status" not in call(OURS).body


def test_strict_clients_hear_of_unknown_fields(both: None, api: Api) -> None:
    spec = {**valid(), "suspend": True}
    assert not agree(lambda group: create(api, group, "v1", spec, fieldValidation="Strict"), spec)
