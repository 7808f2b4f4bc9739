"""Topology annotations of pod templates: ours, and those of Kueue, JobSet and LeaderWorkerSet."""

import pytest

from capacity.model import Exclusive, Slices
from capacity.requirements import Expression, LabelSelector
from kube.levels import given_labels, levels
from kube.requests import PodSpecError

JOBS = LabelSelector((Expression("jobset.sigs.k8s.io/job-key", "Exists"),))
GROUPS = LabelSelector((Expression("leaderworkerset.sigs.k8s.io/group-key", "Exists"),))
KUEUE = "kueue.x-k8s.io/podset-"


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param({}, (None, None, ""), id="nothing said"),
        pytest.param({"corral.dev/required-topology": "rack"}, ("rack", None, ""), id="ours share a domain by default"),
        pytest.param({"corral.dev/topology-group": "g"}, (None, None, "g"), id="a group of ours"),
        pytest.param({f"{KUEUE}required-topology": "rack"}, ("rack", None, "worker"), id="Kueue places each by itself"),
        pytest.param({f"{KUEUE}preferred-topology": "rack"}, (None, "rack", "worker"), id="preferred by Kueue"),
        pytest.param({f"{KUEUE}required-topology": "rack", f"{KUEUE}group-name": "g"}, ("rack", None, "g"), id="Kueue's group"),
        pytest.param(
            {f"{KUEUE}required-topology": "rack", "corral.dev/required-topology": "zone"}, ("zone", None, ""), id="ours first"
        ),
        pytest.param({"corral.dev/required-topology": ""}, (None, None, ""), id="empty is nothing"),
    ],
)
def test_levels_and_group(notes: dict[str, str], expected: tuple[str | None, str | None, str]) -> None:
    found = levels("worker", notes)
    assert (found.required, found.preferred, found.group) == expected


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"corral.dev/slice-topology": "rack", "corral.dev/slice-size": "4"}, Slices("rack", 4), id="ours"),
        pytest.param({f"{KUEUE}slice-required-topology": "rack", f"{KUEUE}slice-size": "2"}, Slices("rack", 2), id="Kueue's"),
    ],
)
def test_slices(notes: dict[str, str], expected: Slices | None) -> None:
    assert levels("worker", notes).slices == expected


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}, Exclusive("rack", JOBS), id="JobSet"),
        pytest.param({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}, Exclusive("rack", GROUPS), id="LeaderWorkerSet"),
        pytest.param({"corral.dev/exclusive-topology": "rack"}, Exclusive("rack", JOBS), id="ours, for a JobSet"),
        pytest.param(
            {"corral.dev/exclusive-topology": "rack", "leaderworkerset.sigs.k8s.io/exclusive-topology": "zone"},
            Exclusive("rack", GROUPS),
            id="ours, for a LeaderWorkerSet",
        ),
        pytest.param(
            {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack", "corral.dev/exclusive-size": "4"},
            Exclusive("rack", JOBS, 4),
            id="the size of one Job",
        ),
    ],
)
def test_exclusive_domains(notes: dict[str, str], expected: Exclusive | None) -> None:
    assert levels("worker", notes).exclusive == expected


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param({}, {}, id="any pod"),
        pytest.param({"corral.dev/made-by": "JobSet"}, {"jobset.sigs.k8s.io/job-key": "?"}, id="JobSet"),
        pytest.param(
            {"corral.dev/made-by": "LeaderWorkerSet"}, {"leaderworkerset.sigs.k8s.io/group-key": "?"}, id="LeaderWorkerSet"
        ),
        pytest.param({"corral.dev/made-by": "Job"}, {}, id="Job"),
        pytest.param({"corral.dev/exclusive-topology": "rack"}, {"jobset.sigs.k8s.io/job-key": "?"}, id="exclusive"),
        pytest.param(
            {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"},
            {"leaderworkerset.sigs.k8s.io/group-key": "?"},
            id="exclusive by LeaderWorkerSet",
        ),
    ],
)
def test_labels_that_the_template_does_not_show(notes: dict[str, str], expected: dict[str, str]) -> None:
    assert given_labels(notes) == expected


def test_a_leader_worker_set_keeps_its_domains_from_its_like() -> None:
    notes = {"corral.dev/exclusive-topology": "rack", "corral.dev/made-by": "LeaderWorkerSet"}
    assert levels("worker", notes).exclusive == Exclusive("rack", GROUPS)


@pytest.mark.parametrize(("value", "pinned"), [pytest.param("true", True, id="said"), pytest.param("", False, id="empty")])
def test_placed_by_kueue(value: str, *, pinned: bool) -> None:
    assert levels("worker", {"corral.dev/placed-by-kueue": value}).placed_by_kueue is pinned


def test_what_is_said_to_hold_the_node_is_known_and_says_no_place() -> None:
    assert levels("worker", {"corral.dev/do-not-disrupt": "true"}) == levels("worker", {})


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        pytest.param({"corral.dev/slice-size": "4"}, "slice-size needs corral.dev/slice-topology beside it", id="no level"),
        pytest.param({"corral.dev/slice-topology": "r"}, "slice-topology needs corral.dev/slice-size beside it", id="no size"),
        pytest.param(
            {"corral.dev/slice-topology": "r", "corral.dev/slice-size": "0"},
            'slice-size is "0": write a whole number of 1 or more',
            id="slices of none",
        ),
        pytest.param({"corral.dev/exclusive-size": "4"}, "exclusive-size needs corral.dev/exclusive-topology", id="a size alone"),
        pytest.param(
            {"corral.dev/exclusive-topology": "r", "corral.dev/exclusive-size": "-1"},
            'exclusive-size is "-1": write a whole number of 0 or more',
            id="negative",
        ),
        pytest.param({"corral.dev/slice-topology": "r", "corral.dev/slice-size": "٣"}, "write a whole number", id="other digits"),
        pytest.param(
            {f"{KUEUE}slice-required-topology": "r", f"{KUEUE}slice-size": "x"},
            f'annotation {KUEUE}slice-size is "x": write a whole number',
            id="Kueue's",
        ),
        pytest.param(
            {f"{KUEUE}slice-size": "4"}, f"annotation {KUEUE}slice-size needs corral.dev/slice-topology", id="half of Kueue's"
        ),
        pytest.param(
            {"corral.dev/requiredtopology": "rack"},
            "annotation corral.dev/requiredtopology is not known: correct or remove it; known are corral.dev/required-topology, ",
            id="mistyped",
        ),
        pytest.param(
            {"corral.dev/required-topology": "one rack"},
            'annotation corral.dev/required-topology is "one rack": write the key of a node label, such as topology',
            id="no label key",
        ),
        pytest.param(
            {"alpha.jobset.sigs.k8s.io/exclusive-topology": "/rack"},
            'exclusive-topology is "/rack": write',
            id="no key, of JobSet",
        ),
    ],
)
def test_names_the_annotation_of_a_bad_value(notes: dict[str, str], words: str) -> None:
    with pytest.raises(PodSpecError, match=words):
        levels("worker", notes)
