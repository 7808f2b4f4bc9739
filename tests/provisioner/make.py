"""Objects for the tests of pools, planning and requests: one zone-east reservation with racks, on-demand in two zones."""

from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from capacity.model import ZONE, Shape
from capacity.requirements import Taint
from kube import core, kueue, ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import ObjectKey, ObjectMeta, decode
from provisioner.clouds.base import CloudShape, Instance, InstanceState, Inventory, Reservation, ZoneStock
from provisioner.state import Known
from provisioner.view import View

NOW = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
RACK = "topology.corral.dev/rack"
ROOM = {"cpu": 96_000, "memory": 2**40, "nvidia.com/gpu": 8, "pods": 110}
GPU_TAINT = Taint("gpu", "NoSchedule", "yes")
H100 = CloudShape(Shape("h100", ROOM, {"node.kubernetes.io/instance-type": "h100"}, (GPU_TAINT,)), 10_000_000)
SMALL = {"cpu": 8000, "memory": 2**35, "pods": 110}
CPU = CloudShape(Shape("cpu", SMALL, {"node.kubernetes.io/instance-type": "cpu"}), 1_000_000)
GPU_TOLERATION = {"key": "gpu", "operator": "Exists"}


def reservation(used: int = 0, free: tuple[int, int] = (4, 4), **more: Any) -> Reservation:
    """cr-1: 8 h100 in zone east, 4 in each of racks a and b, of which `free` are."""
    racks = ({RACK: "a"}, {RACK: "b"})
    return Reservation(
        id="cr-1",
        shape="h100",
        zone="east",
        capacity_type="reserved",
        total=8,
        used=used,
        total_by_domain=tuple((labels, 4) for labels in racks),
        free_by_domain=tuple(zip(racks, free, strict=True)),
        **more,
    )


STOCK = (ZoneStock("h100", "east"), ZoneStock("h100", "west", 5))


def inventory(*reservations: Reservation, stock: tuple[ZoneStock, ...] = STOCK) -> Inventory:
    return Inventory((H100, CPU), reservations or (reservation(),), stock)


def known(*instances: Instance, at: datetime = NOW, error: str = "", **more: Any) -> Known:
    return Known(more.get("inventory", inventory()), instances, at, error)


def source(name: str = "res", **more: Any) -> ours.Source:
    base: dict[str, Any] = {"name": name, "capacityType": "reserved", "reservationIDs": ["cr-1"]}
    if name == "od":
        base = {"name": name, "capacityType": "on-demand"}
    return decode({**base, **more}, ours.Source)


def pool(name: str = "p", *sources: ours.Source, **more: Any) -> ours.CapacityPool:
    spec = {
        "provider": {"simulated": {"endpoint": "http://cloud"}},
        "mode": "Active",
        "topologyKeys": [ZONE, RACK],
        "shapes": ["h100"],
        **more,
    }
    made = decode({"metadata": {"name": name, "uid": f"{name}-uid", "generation": 1}, "spec": spec}, ours.CapacityPool)
    raw = made.to_json()
    raw["spec"]["sources"] = [each.to_json() for each in sources or (source(), source("od"))]
    return decode(raw, ours.CapacityPool)


def deleting(of: ours.CapacityPool) -> ours.CapacityPool:
    """The pool while its finalizer holds it."""
    meta = structs.replace(of.metadata, deletion_timestamp="2026-09-01T09:59:50Z", finalizers=("corral.dev/pool",))
    return structs.replace(of, metadata=meta)


def instance(number: int, **more: Any) -> Instance:
    base: dict[str, Any] = {"state": InstanceState.RUNNING, "shape": "h100", "zone": "east", "token": "t"}
    tags = {"corral.dev/installation": "here", "corral.dev/pool": "p", **more.pop("tags", {})}
    return Instance(id=f"i-{number}", provider_id=f"sim:///east/i-{number}", tags=tags, **{**base, **more})


def node(name: str, *, provider_id: str = "", labels: dict[str, str] | None = None, **more: Any) -> core.Node:
    """A ready h100 node that pool p adopts by label team=train."""
    marks = {"team": "train", ZONE: "east", "node.kubernetes.io/instance-type": "h100", "kubernetes.io/hostname": name}
    value = {
        "metadata": {"name": name, "labels": {**marks, **(labels or {})}, **more.pop("metadata", {})},
        "spec": {"providerID": provider_id, **more.pop("spec", {})},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **more,
        },
    }
    return decode(value, core.Node)


def pod(name: str, *, phase: str = "Running", **spec: Any) -> core.Pod:
    """A pod of namespace team with label app=x."""
    value = {"metadata": {"name": name, "namespace": "team", "labels": {"app": "x"}}, "spec": spec, "status": {"phase": phase}}
    return decode(value, core.Pod)


def purchase(name: str = "p0", count: int = 2, **more: Any) -> ours.BookedPurchase:
    base = {
        "name": name,
        "pool": "p",
        "source": "res",
        "offering": "p/res/cr-1/east/a",
        "shape": "h100",
        "zone": "east",
        "capacityType": "reserved",
        "count": count,
        "pods": {"main": 1},
        "reservationID": "cr-1",
    }
    return decode({**base, **more}, ours.BookedPurchase)


def on_demand(name: str = "p0", count: int = 2, price: str = "10", zone: str = "east") -> ours.BookedPurchase:
    offering = f"p/od/h100/{zone}"
    return purchase(
        name, count, source="od", offering=offering, zone=zone, capacityType="on-demand", reservationID="", pricePerHour=price
    )


def booking(name: str = "b", *purchases: ours.BookedPurchase, nodes: tuple[str, ...] = (), **status: Any) -> ours.Booking:
    """A booking made at 10:00; `status` in Python names."""
    spec = ours.BookingSpec(
        request=ObjectKey(namespace="team", name="req", uid="req-uid"),
        attempt=status.pop("attempt", 1),
        installation="here",
        policy="default",
        pod_sets=(ours.BookedPodSet(name="main", count=2, label=f"{name}.booking.corral.dev/main"),),
        provision_deadline="2026-09-01T10:40:00Z",
        booking_seconds=900,
        nodes=tuple(ours.BookedNode(name=each, pool="p", pods={"main": 1}) for each in nodes),
        purchases=purchases,
        cost_per_hour="20.00",
    )
    meta = ObjectMeta(name=name, uid=f"{name}-uid", creation_timestamp="2026-09-01T10:00:00Z")
    return ours.Booking(metadata=meta, spec=spec, status=ours.BookingStatus(**status))


def machine(number: int, state: Any = "Launched", **more: Any) -> ours.BookedInstance:
    return ours.BookedInstance(
        id=f"i-{number}", purchase=more.pop("purchase", "p0"), state=state, provider_id=f"sim:///east/i-{number}", **more
    )


def view(*pools: ours.CapacityPool, **more: Any) -> View:
    pools = pools or (pool(),)
    if "known" not in more:
        more["known"] = {each.metadata.name: known() for each in pools}
    return View(now=more.pop("now", NOW), pools={each.metadata.name: each for each in pools}, **more)


def daemon_set(name: str, *tolerations: dict[str, str], namespace: str = "kube-system", **spec: Any) -> core.DaemonSet:
    container = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    template = {"spec": {"containers": [container], "tolerations": list(tolerations), **spec}}
    return decode({"metadata": {"name": name, "namespace": namespace}, "spec": {"template": template}}, core.DaemonSet)


def template(name: str = "tpl", **more: Any) -> core.PodTemplate:
    """Owned by Workload job (uid wl-uid); a pod takes a whole h100 node. `pod_labels` are those of its pods."""
    requests = more.get("requests", {"cpu": "8", "nvidia.com/gpu": "8"})
    container = {"name": "worker", "resources": {"requests": requests}}
    value = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"{name}-uid",
            "labels": {"corral.dev/pod-set": more.get("pod_set", "main")},
            "ownerReferences": [{"kind": "Workload", "name": "job", "uid": more.get("owner", "wl-uid"), "controller": True}],
        },
        "template": {
            "metadata": {"labels": more.get("pod_labels", {})},
            "spec": {"containers": [container], "tolerations": [GPU_TOLERATION], **more.get("spec", {})},
        },
    }
    return decode(value, core.PodTemplate)


def workload(name: str = "job", **more: Any) -> kueue.Workload:
    """Quota reserved for 4 pods; waits for check `capacity`."""
    raw = template(requests=more.pop("requests", {"cpu": "8", "nvidia.com/gpu": "8"})).template
    conditions = more.pop("conditions", {"QuotaReserved": "True"})
    value = {
        "metadata": {"name": name, "namespace": "team", "uid": more.pop("uid", "wl-uid")},
        "spec": {"podSets": [{"name": "main", "count": 4, "template": raw}], **more},
        "status": {
            "conditions": [{"type": key, "status": status} for key, status in conditions.items()],
            "admissionChecks": [
                {"name": "capacity", "state": "Pending", "message": "", "lastTransitionTime": "2026-09-01T09:59:00Z"}
            ],
        },
    }
    return decode(value, kueue.Workload)


def check(
    name: str = "capacity", controller: str = "corral.dev/capacity", kind: str = "CapacityPolicy", parameters: str = "default"
) -> kueue.AdmissionCheck:
    """Its parameters name the object `parameters` of `kind`; none for an empty kind."""
    group = "corral.dev" if kind == "CapacityPolicy" else "kueue.x-k8s.io"
    reference = {"apiGroup": group, "kind": kind, "name": parameters} if kind else None
    return decode(
        {"metadata": {"name": name}, "spec": {"controllerName": controller, "parameters": reference}}, kueue.AdmissionCheck
    )


def config(**parameters: str) -> kueue.ProvisioningRequestConfig:
    """A ProvisioningRequestConfig `conf`, as Kueue's own provisioning check has it."""
    spec = {"provisioningClassName": "gang.corral.dev", "parameters": parameters}
    return decode({"metadata": {"name": "conf"}, "spec": spec}, kueue.ProvisioningRequestConfig)


def policy(name: str = "default", **spec: Any) -> ours.CapacityPolicy:
    return decode({"metadata": {"name": name}, "spec": spec}, ours.CapacityPolicy)


def request(name: str = "req", count: int = 4, **more: Any) -> ProvisioningRequest:
    """As admission writes it, 2 s before NOW; `bare` ones have nobody behind them."""
    bare = more.pop("bare", False)
    created = more.pop("created", "2026-09-01T09:59:58Z")
    owners = [{"kind": "PodTemplate", "name": "tpl", "uid": "tpl-uid"}]
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": more.pop("uid", f"{name}-uid"),
        "generation": 1,
        "creationTimestamp": created,
        "labels": {} if bare else {"corral.dev/workload-uid": "wl-uid"},
        "annotations": {} if bare else {"corral.dev/workload": "job", "corral.dev/admission-check": "capacity"},
        "ownerReferences": [] if bare else owners,
        **more.pop("metadata", {}),
    }
    spec = {
        "provisioningClassName": "gang.corral.dev",
        "podSets": [{"podTemplateRef": {"name": each}, "count": count} for each in more.pop("templates", ("tpl",))],
        "parameters": more.pop("parameters", {}),
    }
    return decode({"metadata": metadata, "spec": spec, **more}, ProvisioningRequest)
