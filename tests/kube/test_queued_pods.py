"""What pods say of their place, by the pod set that Kueue counts them in."""

from typing import Any

import pytest

from kube.core import TemplateMeta
from kube.meta import decode
from kube.queued_pods import Pods, PodsDifferError, PodsMissingError, QueuedPod

RACK, ZONE = {"corral.dev/required-topology": "rack"}, {"corral.dev/required-topology": "zone"}
GROUP, ROLE = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/role-hash"


def pod(name: str, notes: dict[str, str], *, role: str = "", **more: Any) -> QueuedPod:
    """With a role it is one of a group."""
    labels = {"app": "train", "number": name} | ({GROUP: "gang"} if role else {})
    meta = {"name": name, "labels": labels, "annotations": {ROLE: role or "ffffffff", **notes}, **more}
    return decode({"metadata": meta}, QueuedPod)


def test_a_pod_by_itself_is_its_workload_s_only_pod_set() -> None:
    """Its role hash is there, but does not name the pod set."""
    notes = {"corral.dev/do-not-disrupt": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}", **RACK}
    said = Pods((pod("a", notes),)).said("main")
    assert said == TemplateMeta(labels={"app": "train", "number": "a"}, annotations=RACK)


def test_each_role_of_a_group_says_its_own() -> None:
    """Labels that differ between the pods of a role are not the role's."""
    pods = Pods((pod("a", RACK, role="11111111"), pod("b", RACK, role="11111111"), pod("c", ZONE, role="22222222")))
    assert pods.said("11111111") == TemplateMeta(labels={"app": "train", GROUP: "gang"}, annotations=RACK)
    assert pods.said("22222222") == TemplateMeta(labels={"app": "train", "number": "c", GROUP: "gang"}, annotations=ZONE)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="none"),
        pytest.param([pod("a", RACK, role="22222222")], id="only another role's"),
        pytest.param([pod("a", RACK, role="11111111", deletionTimestamp="2026-09-01T12:00:00Z")], id="it goes away"),
    ],
)
def test_a_pod_set_of_which_no_pod_is_seen_is_waited_for(seen: list[QueuedPod]) -> None:
    with pytest.raises(PodsMissingError, match=r'^no pod of pod set "11111111" is there \(yet\)$'):
        Pods(tuple(seen)).said("11111111")


@pytest.mark.parametrize(
    ("other", "values"),
    [
        pytest.param(ZONE, 'is "rack" on pod "a" but "zone" on pod "b"', id="another value"),
        pytest.param({}, 'is "rack" on pod "a" but not set on pod "b"', id="not there"),
    ],
)
def test_pods_of_one_role_that_differ_are_refused_not_chosen_from(other: dict[str, str], values: str) -> None:
    pods = Pods((pod("b", other, role="11111111"), pod("a", RACK, role="11111111")))
    with pytest.raises(PodsDifferError) as told:
        pods.said("11111111")
    assert str(told.value) == (
        f'pod set "11111111": annotation corral.dev/required-topology {values}, and Kueue counts both as one role: give all '
        "of them the same, or make two roles of them by different requests, node selectors or tolerations"
    )


def test_a_label_by_which_pods_are_selected_must_be_the_role_s() -> None:
    pods = Pods((pod("a", {}, role="r"), pod("b", {}, role="r")), frozenset({"app", "number"}))
    with pytest.raises(PodsDifferError, match=r'^pod set "r": label number is "a" on pod "a" but "b" on pod "b", and Kueue'):
        pods.said("r")


def test_what_does_not_say_a_place_may_differ() -> None:
    pods = Pods((pod("a", RACK | {"corral.dev/do-not-disrupt": "true"}, role="r"), pod("b", RACK | {"note": "b"}, role="r")))
    assert pods.said("r").annotations == RACK


def test_a_pod_that_goes_away_has_no_say() -> None:
    gone = pod("a", ZONE, role="r", deletionTimestamp="2026-09-01T12:00:00Z")
    assert Pods((gone, pod("b", RACK, role="r"))).said("r").annotations == RACK
