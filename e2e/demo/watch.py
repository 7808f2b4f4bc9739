"""What the demo sees: one sample a second of the cluster and the cloud, and the live table made of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from corral.answer import answer
from corral.facts import Facts
from e2e.demo.scene import GANGS
from e2e.stack import Stack
from kube.autoscaling import ProvisioningRequest
from kube.core import Node, Pod
from kube.kueue import ClusterQueue, Workload
from kube.meta import decode
from kube.ours import Booking

KINDS = "workloads.kueue.x-k8s.io,provreq,bookings.corral.dev,clusterqueues.kueue.x-k8s.io,pods,nodes,events"
WORKLOAD_UID = "corral.dev/workload-uid"
OVER = ("Released", "Failed")


@dataclass(frozen=True)
class Sample:
    """Everything at one moment. `machines` are the cloud's own records of its instances (JSON)."""

    at: datetime
    workloads: Mapping[str, Workload]
    requests: tuple[ProvisioningRequest, ...]
    bookings: tuple[Booking, ...]
    queue: ClusterQueue | None
    pods: tuple[Pod, ...]
    nodes: Mapping[str, Node]
    machines: tuple[Mapping[str, Any], ...]
    rejections: Mapping[str, str]  # Workload UID -> the words of the event

    def request(self, gang: str) -> ProvisioningRequest | None:
        """The gang's newest request."""
        mine = self.requests_of(gang)
        return max(mine, key=lambda r: (r.metadata.creation_timestamp or "", r.metadata.name), default=None)

    def requests_of(self, gang: str) -> list[ProvisioningRequest]:
        workload = self.workloads.get(gang)
        uid = workload.metadata.uid if workload else None
        return [r for r in self.requests if r.metadata.labels.get(WORKLOAD_UID) == uid]

    def booking(self, gang: str) -> Booking | None:
        """The gang's newest booking."""
        workload = self.workloads.get(gang)
        mine = [b for b in self.bookings if workload and b.spec.workload and b.spec.workload.uid == workload.metadata.uid]
        return max(mine, key=lambda booking: booking.metadata.creation_timestamp or "", default=None)

    def pods_of(self, gang: str) -> list[Pod]:
        keys = ("batch.kubernetes.io/job-name", "kueue.x-k8s.io/pod-group-name")
        return [pod for pod in self.pods if gang in (pod.metadata.labels.get(key) for key in keys)]

    def alive(self) -> list[Mapping[str, Any]]:
        return [machine for machine in self.machines if machine["state"] != "terminated"]


def look(stack: Stack) -> Sample:
    """One sample. Raises ControlPlaneError when the API server can't be read."""
    items = json.loads(stack.plane.kubectl("get", KINDS, "--all-namespaces", "--output=json"))["items"]
    by_kind: dict[str, list[Any]] = {}
    for item in items:
        by_kind.setdefault(item["kind"], []).append(item)
    pods = tuple(decode(item, Pod) for item in by_kind.get("Pod", []))
    workloads = [decode(item, Workload) for item in by_kind.get("Workload", [])]
    queues = [decode(item, ClusterQueue) for item in by_kind.get("ClusterQueue", [])]
    nodes = [decode(item, Node) for item in by_kind.get("Node", [])]
    return Sample(
        at=datetime.now(UTC),
        workloads={_gang(workload): workload for workload in workloads},
        requests=tuple(decode(item, ProvisioningRequest) for item in by_kind.get("ProvisioningRequest", [])),
        bookings=tuple(decode(item, Booking) for item in by_kind.get("Booking", [])),
        queue=queues[0] if queues else None,
        pods=pods,
        nodes={node.metadata.name: node for node in nodes},
        machines=tuple(stack.cloud.machines().values()),
        rejections={e["involvedObject"]["uid"]: e["message"] for e in by_kind.get("Event", []) if _rejects(e)},
    )


def said(sample: Sample, gang: str) -> str:
    """What `corral why` says of the gang."""
    workload = sample.workloads.get(gang)
    if workload is None:
        return f"UNKNOWN {gang}: Kueue has no Workload for it"
    request, booking = sample.request(gang), sample.booking(gang)
    return answer(
        Facts(
            now=sample.at,
            workload=workload,
            queue=sample.queue,
            requests=(request,) if request else (),
            bookings={request.metadata.uid: booking} if request and booking else {},
            checks=frozenset({"capacity"}),
            rejection=sample.rejections.get(workload.metadata.uid, ""),
        )
    )


def last(history: Sequence[Sample], gang: str) -> Sample:
    """The last sample in which the gang's Workload was there: Kueue drops that of a pod group once its pods are gone."""
    return next((sample for sample in reversed(history) if gang in sample.workloads), history[-1])


def table(history: Sequence[Sample]) -> Table:
    """Workload, state, reason, nodes and cost an hour."""
    sample = history[-1]
    shown = Table(title=f"Corral demo  {sample.at:%H:%M:%S}Z", expand=True)
    for column, ratio in (("workload", 1), ("state", 1), ("why", 6), ("nodes", 2), ("$/h", 1)):
        shown.add_column(column, ratio=ratio, overflow="fold")
    for gang in GANGS:
        first = said(last(history, gang), gang).splitlines()[0]
        state, _, why = first.partition(" ")
        booking = sample.booking(gang)
        held = booking if booking and booking.status.phase not in OVER else None
        shown.add_row(gang, state, why, _nodes(sample, gang, held), held.spec.cost_per_hour if held else "0")
    return shown


def _nodes(sample: Sample, gang: str, booking: Booking | None) -> str:
    bound = {pod.spec.node_name for pod in sample.pods_of(gang) if pod.spec.node_name and not pod.terminal}
    if bound:
        return f"{len(bound)} with its pods"
    if booking is None:
        return "none"
    instances = booking.status.instances
    ready = sum(i.state == "Ready" for i in instances) + len(booking.spec.nodes)
    return f"{ready} of {sum(p.count for p in booking.spec.purchases) + len(booking.spec.nodes)} ready"


def _gang(workload: Workload) -> str:
    owners = [owner.name for owner in workload.metadata.owner_references if owner.kind == "Job"]
    return owners[0] if owners else workload.metadata.name


def _rejects(event: Mapping[str, Any]) -> bool:
    return event.get("reason") == "AdmissionCheckUpdated" and "to Rejected" in event.get("message", "")
