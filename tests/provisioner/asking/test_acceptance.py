"""Whether a request is taken on. NOW is 10:00:00, requests are made at 9:59:58 unless said."""

from datetime import timedelta
from typing import Any

import pytest

from capacity.model import PodSet
from kube import core, kueue, ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import ObjectKey, decode
from provisioner.asking.acceptance import Accepted, Desk, Judgement, NotYet, Refused, judge, still_reserved
from provisioner.asking.authority import Look, NoQuota
from tests.provisioner.make import NOW, check, policy, request, template, workload


def desk(**more: Any) -> Desk:
    templates: list[core.PodTemplate] = more.get("templates", [template()])
    policies: list[ours.CapacityPolicy] = more.get("policies", [policy()])
    workloads: list[kueue.Workload] = more.get("workloads", [workload(priority=7)])
    by_key = {("team", each.metadata.name): each for each in templates}
    look = Look({("team", each.metadata.name): each for each in workloads}.get, lambda _: check(), {})
    found = Desk(by_key.get, {each.metadata.name: each for each in policies}.get, look, ["p"])
    return Desk(by_key.get, found.policy, look, ["p"], more["taken"]) if "taken" in more else found


def outcome(asked: ProvisioningRequest, **more: Any) -> Judgement:
    return judge(asked, desk(**more), NOW)


def test_a_request_of_a_workload_with_quota() -> None:
    found = outcome(request())
    assert isinstance(found, Accepted)
    assert (found.gang.name, found.priority, found.check) == ("team/job", 7, "capacity")
    assert found.workload == ObjectKey(namespace="team", name="job", uid="wl-uid")
    (pods,) = found.gang.pod_sets
    assert (pods.name, pods.count, pods.requests) == ("main", 4, {"cpu": 8000, "nvidia.com/gpu": 8, "pods": 1})


def test_the_policys_topology_is_for_pod_sets_without_their_own() -> None:
    notes = {"annotations": {"corral.dev/required-topology": "rack"}}
    raw = template("own", pod_set="own").to_json()
    own = decode({**raw, "template": {**raw["template"], "metadata": notes}}, core.PodTemplate)
    asked = request(bare=True, count=1, templates=("tpl", "own"))
    spec: dict[str, Any] = {"topology": {"required": "zone", "preferred": "host"}, "bareRequests": {"namespaces": ["team"]}}
    found = outcome(asked, templates=[template(), own], policies=[policy(**spec)])
    assert isinstance(found, Accepted)
    assert [(ps.required_topology, ps.preferred_topology) for ps in found.gang.pod_sets] == [("zone", "host"), ("rack", "host")]


def test_the_policys_level_holds_for_pod_sets_of_several_groups_together() -> None:
    notes = {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": "rack"}}
    raw = template("own", pod_set="own").to_json()
    own = decode({**raw, "template": {**raw["template"], "metadata": notes}}, core.PodTemplate)
    spec: dict[str, Any] = {"topology": {"required": "zone"}, "bareRequests": {"namespaces": ["team"]}}
    found = outcome(request(bare=True, count=1, templates=("tpl", "own")), templates=[template(), own], policies=[policy(**spec)])
    assert isinstance(found, Accepted)
    assert [(ps.required_topology, ps.topology_group) for ps in found.gang.pod_sets] == [("zone", ""), ("zone", "")]


def test_equal_requests_have_one_digest() -> None:
    first, second = outcome(request("a")), outcome(request("b"))
    other = outcome(request("c", count=3))
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    assert isinstance(other, Accepted)
    assert first.digest == second.digest != other.digest


NOTHING = template(requests={})


@pytest.mark.parametrize(
    ("asked", "more", "kind", "reason", "text"),
    [
        pytest.param(request(count=16_385), {}, Refused, "InvalidArgument", "ask for 1 to 16384", id="too-many-pods"),
        pytest.param(request(parameters={"x": "y"}), {}, Refused, "InvalidArgument", 'parameter "x" is unknown', id="parameter"),
        pytest.param(request(), {"policies": []}, NotYet, "NoPolicy", "CapacityPolicy", id="no-policy"),
        pytest.param(
            request(),
            {"policies": [policy(pools=["q", "r"])]},
            NotYet,
            "NoPool",
            "CapacityPolicy default: there is no CapacityPool q, r: create it or correct the name",
            id="no-pool",
        ),
        pytest.param(
            request(),
            {"policies": [policy(pools=["q"], timeouts={"queued": "2s"})]},
            Refused,
            "NoPool",
            "there is no CapacityPool q",
            id="no-pool-for-too-long",
        ),
        pytest.param(
            request(),
            {"templates": [NOTHING]},
            Refused,
            "InvalidArgument",
            'pod set main: container "worker" requests nothing',
            id="no-requests",
        ),
        pytest.param(
            request(), {"templates": [template(requests={"cpu": "much"})]}, Refused, "InvalidArgument", "worker", id="bad-amount"
        ),
        pytest.param(
            request(), {"templates": []}, NotYet, "MissingPodTemplates", "PodTemplate tpl not found", id="template-lags"
        ),
        pytest.param(
            request(created="2026-09-01T09:58:01Z"),
            {"templates": []},
            NotYet,
            "MissingPodTemplates",
            "create it",
            id="template-missing-for-119-seconds",
        ),
        pytest.param(
            request(created="2026-09-01T09:58:00Z"),
            {"templates": []},
            Refused,
            "MissingPodTemplates",
            "PodTemplate tpl not found in namespace team: create it",
            id="template-missing-for-two-minutes",
        ),
        pytest.param(request(), {"workloads": []}, NotYet, "NoQuota", "there is no Workload", id="workload-lags"),
        pytest.param(
            request(created="2026-09-01T09:59:50Z"), {"workloads": []}, Refused, "NoQuota", "there is no", id="workload-missing"
        ),
        pytest.param(
            request(parameters={"policy": "rich"}),
            {"policies": [policy(), policy("rich")]},
            NotYet,
            "NoQuota",
            'names CapacityPolicy "rich", AdmissionCheck "capacity" chooses "default"',
            id="another-policy-than-its-check",
        ),
        pytest.param(
            request(created="2026-09-01T09:59:50Z", parameters={"policy": "rich"}),
            {"policies": [policy(), policy("rich")]},
            Refused,
            "NoQuota",
            "name that one in parameter policy",
            id="another-policy-for-good",
        ),
        pytest.param(request(bare=True), {}, Refused, "NoQuota", "no Workload stands behind this", id="bare"),
        pytest.param(request(count=5), {}, NotYet, "NoQuota", "asks for 5 pods, quota is reserved for 4", id="greedy"),
        pytest.param(
            request(),
            {"taken": lambda *_: NoQuota("request first serves Workload job already")},
            NotYet,
            "NoQuota",
            "request first serves Workload job",
            id="served-already",
        ),
    ],
)
def test_what_is_not_taken_on(
    asked: ProvisioningRequest, more: dict[str, Any], kind: type[NotYet | Refused], reason: str, text: str
) -> None:
    found = outcome(asked, **more)
    assert isinstance(found, kind)
    assert found.reason == reason
    assert text in found.message


def test_a_policy_that_is_away_is_waited_for_unless_the_requests_author_chose_it() -> None:
    """A workload must not be deactivated because its check's policy was being replaced."""
    away = outcome(request(), policies=[])
    assert isinstance(away, NotYet)
    assert (away.reason, away.until) == ("NoPolicy", NOW + timedelta(seconds=118))
    late = judge(request(), desk(policies=[]), NOW + timedelta(seconds=120))
    assert isinstance(late, Refused)
    assert late.reason == "NoPolicy"
    bare = outcome(request(bare=True), policies=[])
    assert isinstance(bare, Refused)
    assert bare.reason == "InvalidArgument"


def test_a_bare_request_where_the_policy_admits_it() -> None:
    found = outcome(request(bare=True), policies=[policy(bareRequests={"namespaces": ["team"]})])
    assert isinstance(found, Accepted)
    assert (found.gang.name, found.workload) == ("team/req", None)


def test_pod_sets_may_not_share_a_name() -> None:
    asked = request(count=1, templates=("tpl", "more"))
    found = outcome(asked, templates=[template(), template("more")])
    assert isinstance(found, Refused)
    assert 'two pod sets are named "main"' in found.message


@pytest.mark.parametrize(
    ("labels", "name", "expected"),
    [
        pytest.param({"corral.dev/pod-set": "worker"}, "tpl", "worker", id="by-label"),
        pytest.param({}, "tpl", "tpl", id="by-template"),
        pytest.param({}, "t" * 64, "podset-0", id="too-long-for-a-label-key"),
    ],
)
def test_the_name_of_a_pod_set(labels: dict[str, str], name: str, expected: str) -> None:
    raw = template(name).to_json()
    raw["metadata"]["labels"] = labels
    asked = request(bare=True, count=1, templates=(name,))
    open_ = policy(bareRequests={"namespaces": ["team"]})
    found = outcome(asked, templates=[decode(raw, core.PodTemplate)], policies=[open_])
    assert isinstance(found, Accepted)
    pods: PodSet = found.gang.pod_sets[0]
    assert pods.name == expected


def test_planning_stops_when_the_quota_is_gone() -> None:
    found = outcome(request())
    assert isinstance(found, Accepted)
    assert still_reserved(found, desk().look)
    assert not still_reserved(found, desk(workloads=[workload(conditions={"QuotaReserved": "True", "Evicted": "True"})]).look)
    assert not still_reserved(found, desk(workloads=[workload(uid="another")]).look)
    assert not still_reserved(found, desk(workloads=[]).look)
