"""Who counts as a pod of others on a node."""

from typing import Any

import pytest

from kube import core
from kube.meta import decode
from provisioner.ending.disruption import is_stranger
from provisioner.nodes import checkups

HOME = "corral-system"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": checkups.name("b", "n1"), "uid": "u", "controller": True}


def pod(namespace: str = HOME, node: str = "n1", label: str = "corral.dev/health-check", **owner: Any) -> core.Pod:
    meta = {"name": "x", "namespace": namespace, "labels": {label: "true"}, "ownerReferences": [{**JOB, **owner}]}
    return decode({"metadata": meta, "spec": {"nodeName": node}}, core.Pod)


@pytest.mark.parametrize(
    ("found", "checkup"),
    [
        pytest.param(pod(), True, id="of the node's own Job"),
        pytest.param(pod(namespace="team"), False, id="in a user's namespace"),
        pytest.param(pod(label="app"), False, id="without the label"),
        pytest.param(pod(node="n2"), False, id="on another node than the Job's"),
        pytest.param(pod(name="mine"), False, id="of another Job"),
        pytest.param(pod(kind="ReplicaSet", apiVersion="apps/v1"), False, id="of no Job"),
        pytest.param(pod(apiVersion="batch.acme.com/v1"), False, id="of a Job of another group"),
        pytest.param(pod(controller=False), False, id="not controlled by it"),
        pytest.param(
            decode({"metadata": {"name": "x", "namespace": HOME, "labels": {"corral.dev/health-check": "true"}}}, core.Pod),
            False,
            id="bare",
        ),
    ],
)
def test_the_label_alone_makes_no_health_check(found: core.Pod, checkup: bool) -> None:
    assert checkups.is_checkup(found, HOME) is checkup
    assert is_stranger(found, home=HOME) is not checkup
