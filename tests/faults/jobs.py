"""The Job controller and the kubelets, as far as a pool's health check needs them."""

from typing import Any

from kube.times import stamp
from tests.faults.objects import Body, Objects

HOME = "corral-system"
"""The provisioner's own namespace."""
CHECKUP = "nccl"


class JobControl:
    """Each Job's pod runs for a second; then the Job is complete, but of the first `sick` Jobs, which fail."""

    def __init__(self, objects: Objects, sick: int) -> None:
        self._objects, self._sick = objects, sick

    def step(self) -> None:
        """Once a second."""
        for job in list(self._objects.bodies("jobs")):
            name = job["metadata"]["name"]
            if job.get("status", {}).get("conditions"):
                continue
            if self._objects.get("pods", name, HOME):
                self._objects.remove("pods", (HOME, name))
                self._end(job)
            elif self._objects.get("nodes", job["spec"]["template"]["spec"]["nodeName"]):
                self._objects.put("pods", _pod(job))

    def _end(self, job: Body) -> None:
        type_, count = ("Failed", "failed") if self._sick > 0 else ("Complete", "succeeded")
        self._sick -= 1
        condition = {"type": type_, "status": "True", "reason": type_, "lastTransitionTime": stamp(self._objects.now())}
        self._objects.put("jobs", {**job, "status": {"conditions": [condition], count: 1}})


def _pod(job: Body) -> Body:
    meta, template = job["metadata"], job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    head = {**template["metadata"], "name": meta["name"], "namespace": HOME, "ownerReferences": [owner]}
    return {"metadata": head, "spec": template["spec"], "status": {"phase": "Running"}}


def pod_template() -> dict[str, Any]:
    """What a health check runs."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "nccl", "image": "nccl-tests"}]}
    return {"metadata": {"name": CHECKUP, "namespace": HOME}, "template": {"metadata": {}, "spec": spec}}
