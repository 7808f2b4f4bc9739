"""What happens to a gang around the provisioner: Kueue, the admission service and the scheduler, in their shortest form."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kube.times import stamp
from tests.faults.objects import Body, Objects

TEAM = "team"
CHECK = "capacity"
NOTICE = 2
"""Seconds that admission, Kueue and the scheduler take for each of their steps."""
OVER = ("done", "cancelled", "gave up")


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for and when, in seconds from the start. `cancel`: its owner stops it then, or even has its Workload
    deleted; None: it runs for `run` seconds. `linger`: seconds for which another check keeps its first
    attempt from being admitted.
    """

    name: str
    count: int
    at: float = 0.0
    run: float = 30.0
    cancel: float | None = None
    tries: int = 6
    delete: bool = False
    priority: int = 0
    linger: float = 0.0


class Gang:
    """One workload. `state`: new, asked, ready, admitted, running, waiting (between two attempts), or one of OVER.

    Pods that run and are lost come back on other nodes of its booking, and all of them begin anew then.
    """

    def __init__(self, order: Order, objects: Objects, now: Callable[[], datetime]) -> None:
        self.order, self.objects, self._now = order, objects, now
        self.state, self.since, self.attempt = "new", 0.0, 0
        self.ran, self.began = 0, 0.0
        self.quota_lost: float | None = 0.0
        """Since when its quota is gone, in seconds from the start; None while it has some."""
        self.problems: list[str] = []

    @property
    def request(self) -> str:
        return f"{self.order.name}-{self.attempt}"

    @property
    def holds(self) -> bool:
        """Whether its pods may be there at any moment: nothing may be taken from it."""
        return self.state in ("admitted", "running")

    def step(self, at: float) -> None:
        """Once a second; `at` is in seconds from the start."""
        order = self.order
        self._disturb(at)
        waited = at - self.since
        match self.state:
            case "new" if at >= order.at:
                self._ask(at)
            case "waiting" if waited >= NOTICE * 2:
                self._ask(at)
            case "asked":
                self._look(at)
            case "ready" if self._ended_early():
                self._evict(at)
            case "ready" if waited >= NOTICE + (order.linger if self.attempt == 1 else 0):
                self._set_workload(Admitted="True")
                self._move("admitted", at)
            case "admitted" if waited >= NOTICE:
                self._bind(at)
            case "running" if len(self.pods()) < order.count:
                self._restart(at)
            case "running" if waited >= order.run:
                self.ran += 1
                self._end("done", at)

    def _disturb(self, at: float) -> None:
        """Its owner, or Kueue when capacity is revoked, ends what goes on."""
        order = self.order
        if order.cancel is not None and at >= order.cancel and self.state not in OVER:
            self._end("cancelled", at)
            if order.delete:
                self.objects.remove("workloads", (TEAM, order.name))
        if self.holds and self.conditions().get("CapacityRevoked") == "True":
            self._evict(at)

    def conditions(self) -> dict[str, str]:
        """Of its present request: status by type."""
        found = self.objects.get("provisioningrequests", self.request, TEAM) or {}
        return {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}

    def _move(self, state: str, at: float) -> None:
        self.state, self.since = state, at

    def _ask(self, at: float) -> None:
        self.attempt += 1
        spec = {"podSets": [{"name": "main", "count": self.order.count, "template": template()}], "priority": self.order.priority}
        if self.attempt == 1:
            meta = {"name": self.order.name, "namespace": TEAM}
            self.objects.put("workloads", {"metadata": meta, "spec": spec, "status": {}})
        self._set_workload(QuotaReserved="True", Admitted="False", Evicted="False")
        self.quota_lost = None
        uid = self.objects.get("workloads", self.order.name, TEAM)["metadata"]["uid"]  # type: ignore[index]
        self.objects.put("podtemplates", pod_template(self.request, self.order.name, uid))
        tpl = self.objects.get("podtemplates", self.request, TEAM)["metadata"]["uid"]  # type: ignore[index]
        self.objects.put("provisioningrequests", request(self.request, self.order, uid, tpl))
        self._move("asked", at)

    def _look(self, at: float) -> None:
        said = self.conditions()
        if self._ended_early():
            self._evict(at)
        elif said.get("Provisioned") == "True":
            self._move("ready", at)

    def _ended_early(self) -> bool:
        """Whether its request ended before Kueue let its pods go."""
        said = self.conditions()
        return any(said.get(each) == "True" for each in ("Failed", "BookingExpired", "CapacityRevoked"))

    def _evict(self, at: float) -> None:
        """Quota is lost; Kueue tries again later."""
        self._give_back(Evicted="True", QuotaReserved="False", Admitted="False")
        self.quota_lost = at
        self._move("waiting" if self.attempt < self.order.tries else "gave up", at)

    def _end(self, state: str, at: float) -> None:
        if self.state != "new":
            self._give_back(**({"Finished": "True"} if state == "done" else {"QuotaReserved": "False", "Admitted": "False"}))
            self.quota_lost = at
        self._move(state, at)

    def _give_back(self, **conditions: str) -> None:
        for pod in self.pods():
            self.objects.remove("pods", (TEAM, pod["metadata"]["name"]))
        self._set_workload(**conditions)
        for plural in ("provisioningrequests", "podtemplates"):
            if self.objects.get(plural, self.request, TEAM):
                self.objects.remove(plural, (TEAM, self.request))

    def _bind(self, at: float) -> None:
        """The scheduler finds room for each pod, one after the other, or the promise was broken."""
        free = self._free()
        if len(free) < self.order.count:
            self.problems.append(f"{self.order.name} was admitted, but {len(free)} of {self.order.count} pods can be bound")
        self._place(free)
        self.began = at
        self._move("running", at)

    def _free(self) -> list[str]:
        names = [each["metadata"]["name"] for each in self.nodes() if _fits(each)]
        return [name for name in names if not self._taken(name)]

    def _place(self, nodes: list[str]) -> None:
        """Binds the pods that are missing, as far as these nodes go."""
        there = {each["metadata"]["name"] for each in self.pods()}
        missing = [name for number in range(self.order.count) if (name := f"{self.request}-{number}") not in there]
        for name, node in zip(missing, nodes, strict=False):
            self.objects.put("pods", pod(name, node, {self.key(): "true"}))

    def _restart(self, at: float) -> None:
        self._place(self._free())
        self.since = at

    @property
    def booking(self) -> str:
        """The name of its booking, as its request tells it."""
        found = self.objects.get("provisioningrequests", self.request, TEAM) or {}
        return str(found.get("status", {}).get("provisioningClassDetails", {}).get("Booking", "none"))

    def key(self) -> str:
        """The label key of its booking."""
        return f"{self.booking}.booking.corral.dev/main"

    def nodes(self) -> list[Body]:
        key = self.key()
        return [each for each in self.objects.bodies("nodes") if key in each["metadata"].get("labels", {})]

    def pods(self) -> list[Body]:
        return [each for each in self.objects.bodies("pods") if each["metadata"]["name"].startswith(f"{self.order.name}-")]

    def _taken(self, node: str) -> bool:
        return any(each["spec"].get("nodeName") == node for each in self.objects.bodies("pods"))

    def _set_workload(self, **conditions: str) -> None:
        body = self.objects.get("workloads", self.order.name, TEAM)
        assert body is not None
        now = stamp(self._now())
        known = {each["type"]: each for each in body.get("status", {}).get("conditions", ())}
        for name, value in conditions.items():
            if name not in known or known[name]["status"] != value:
                known[name] = {"type": name, "status": value, "reason": name, "message": "", "lastTransitionTime": now}
        checks = [{"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": now}]
        status = {**body.get("status", {}), "conditions": list(known.values()), "admissionChecks": checks}
        self.objects.put("workloads", {**body, "status": status})


def _fits(node: Body) -> bool:
    """A pod of the gang takes a whole node, and tolerates the booked taint alone."""
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    whole = node["status"].get("allocatable", {}).get("nvidia.com/gpu") == "8"
    others = [
        each
        for each in node["spec"].get("taints", ())
        if each["key"] != "corral.dev/booked" and each["effect"] != "PreferNoSchedule"
    ]
    return ready and whole and not others and not node["spec"].get("unschedulable")


# --- objects ---------------------------------------------------------------------------------------------------------------


def template() -> Body:
    container = {"name": "worker", "image": "train", "resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "8"}}}
    return {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def pod_template(name: str, workload: str, uid: str) -> Body:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": workload, "uid": uid, "controller": True}
    meta = {"name": name, "namespace": TEAM, "labels": {"corral.dev/pod-set": "main"}, "ownerReferences": [owner]}
    return {"metadata": meta, "template": template()}


def request(name: str, order: Order, workload_uid: str, template_uid: str) -> Body:
    owner = {"apiVersion": "v1", "kind": "PodTemplate", "name": name, "uid": template_uid}
    meta = {
        "name": name,
        "namespace": TEAM,
        "labels": {"corral.dev/workload-uid": workload_uid},
        "annotations": {"corral.dev/workload": order.name, "corral.dev/admission-check": CHECK},
        "ownerReferences": [owner],
    }
    refs = [{"podTemplateRef": {"name": name}, "count": order.count}]
    return {"metadata": meta, "spec": {"provisioningClassName": "gang.corral.dev", "podSets": refs, "parameters": {}}}


def pod(name: str, node: str, selector: dict[str, Any]) -> Body:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid"}
    spec = {**template()["spec"], "nodeName": node, "nodeSelector": selector}
    meta = {"name": name, "namespace": TEAM, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}
