"""Rows 3.9 of the API: which AdmissionChecks and entries Kueue's CRDs and webhook take, and that what we write is among them."""

from typing import Any

import pytest

from e2e.api import Answer, path
from e2e.cluster import KUEUE, Cluster, Json, eventually, made, status_of
from e2e.conformance.scene import by_hand, conditions, foreign_check, now, pod_set, say, with_checks
from kube import resources

GOOD = {"apiGroup": "ref.api.group", "kind": "RefKind", "name": "ref-name"}
LABELLED = {"name": "first", "labels": {"foo": "bar"}}


def create(cluster: Cluster, spec: Json) -> Answer:
    body = made(KUEUE, "AdmissionCheck", f"{cluster.namespace}-api", spec=spec)
    return cluster.api.call("POST", path(resources.ADMISSION_CHECKS), body, dryRun="All")


def causes(answer: Answer) -> str:
    """Fields that are at fault."""
    assert answer.status in (403, 422), answer.body
    return " ".join([field for field, _, _ in answer.causes] or [answer.body["message"]])


def without(key: str) -> Json:
    return {name: value for name, value in GOOD.items() if name != key}


def admitted(cluster: Cluster) -> None:
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.9-60", "3.9-61", "3.9-62", "3.9-63", "3.9-64", "3.9-65", "3.9-66", "3.9-67", "3.9-68")
def test_which_checks_can_be_made(cluster: Cluster) -> None:
    """Ours is one of them, and Kueue uses it."""
    controller = {"controllerName": "corral.dev/capacity"}
    assert "spec.controllerName" in causes(create(cluster, {}))
    for key in ("apiGroup", "kind", "name"):
        bad = {**controller, "parameters": {**GOOD, key: f"{GOOD[key]}/Bad"}}
        assert f"spec.parameters.{key}" in causes(create(cluster, bad))
        assert f"spec.parameters.{key}" in causes(create(cluster, {**controller, "parameters": without(key)}))
    assert create(cluster, controller).accepted
    assert create(cluster, {**controller, "parameters": GOOD}).accepted
    cluster.queue()
    admitted(cluster)


@pytest.mark.row("3.9-69", "3.9-70", "3.9-71", "3.9-72")
def test_how_a_check_can_be_changed(cluster: Cluster) -> None:
    """Parameters as one likes, and we judge them anew; the controller never."""
    cluster.queue()
    own = cluster.get(resources.ADMISSION_CHECKS, cluster.namespace)["spec"]["parameters"]

    def change(spec: Any) -> None:
        cluster.api.merge(resources.ADMISSION_CHECKS, "", cluster.namespace, {"spec": spec})

    change({"parameters": GOOD})
    eventually(lambda: 'kind "RefKind" of group "ref.api.group" is unknown here' in cluster.active().get("message", ""))
    change({"parameters": None})
    eventually(lambda: "missing parameters" in cluster.active()["message"])
    with pytest.raises(LookupError, match=r"spec\.parameters\.name"):
        change({"parameters": {**own, "name": ""}})
    with pytest.raises(LookupError, match="immutable"):
        change({"controllerName": "example.com/other"})
    change({"parameters": own})
    eventually(lambda: cluster.active()["status"] == "True")
    admitted(cluster)


@pytest.mark.row("3.9-14", "3.9-73", "3.9-74", "3.9-75", "3.9-76", "3.9-77", "3.9-78", "3.9-79", "3.9-80", "3.9-81")
def test_which_entries_are_taken(cluster: Cluster) -> None:
    """Written as another check, so that ours is there to show that its own entry is taken, and is left as it was."""
    cluster.queue()
    other = foreign_check(cluster)
    with_checks(cluster, cluster.namespace, other)
    by_hand(cluster, pod_set("first"), pod_set("second"))
    request = cluster.request()

    def refused(match: str, *updates: Json) -> None:
        with pytest.raises(LookupError, match=match):
            say(cluster, other, "Pending", podSetUpdates=list(updates))

    refused("podSetUpdates", {"name": "first"}, {"name": "third"})
    refused("@abc", {"name": "first", "labels": {"@abc": "foo"}})
    refused("@abc", {"name": "first", "labels": {"foo": "@abc"}})
    refused("@abc", {"name": "first", "nodeSelector": {"@abc": "foo"}})
    with pytest.raises(LookupError, match="lastTransitionTime"):
        say(cluster, other, "Pending", lastTransitionTime=None)
    say(cluster, other, "Pending")
    say(cluster, other, "Pending", podSetUpdates=[{"name": "second"}])
    say(cluster, other, "Ready", podSetUpdates=[LABELLED, {"name": "second"}])
    with pytest.raises(LookupError, match="immutable"):
        say(cluster, other, "Ready", podSetUpdates=[{**LABELLED, "labels": {"foo": "baz"}}, {"name": "second"}])
    say(cluster, other, "Ready", "another message", podSetUpdates=[LABELLED, {"name": "second"}], lastTransitionTime=now())
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["name"] for each in cluster.entry()["podSetUpdates"]] == ["first", "second"]
    kept = next(each for each in status_of(cluster.workload())["admissionChecks"] if each["name"] == other)
    assert kept["message"] == "another message"
    assert [each["reason"] for each in conditions(cluster, other)] == ["Test"]
