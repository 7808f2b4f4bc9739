"""A stand-in for the API server and all stores, for the reconcilers of requests and pools."""

from collections.abc import Mapping
from typing import Any

from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import Record, decode
from kube.times import stamp
from provisioner.buying.backoff import Backoffs
from provisioner.settings import ProvisionerSettings
from provisioner.state import State
from runtime.client import Resource
from runtime.errors import AlreadyExists, NotFound
from runtime.store import Store
from tests.provisioner.make import check, known, policy, pool, request, template, workload


class World:
    """`lag`: what is written does not reach the stores. `fail` raises at the next call of that verb."""

    def __init__(self, clock: Any) -> None:
        self.clock, self.lag = clock, False
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.fail: dict[str, Exception] = {}
        self.state = State(
            settings=ProvisionerSettings(),
            installation="here",
            **{name: Store() for name in _STORES},
            backoffs=Backoffs(),
        )
        for item in (policy(), pool(), check(), workload(), template()):
            self.add(item)
        self.objects["capacitypools", "", "p"] = pool().to_json()
        self.state.known["p"] = known(at=clock())

    def add(self, item: Any) -> None:
        store = getattr(self.state, _STORES_OF[type(item).__name__])
        store.put((item.metadata.namespace, item.metadata.name), item)

    def ask(self, name: str = "req", **more: Any) -> ProvisioningRequest:
        made = request(name, created=stamp(self.clock()), **more)
        self.objects["provisioningrequests", "team", name] = made.to_json()
        self.add(made)
        return made

    def said(self, name: str = "req") -> dict[str, tuple[str, str]]:
        status = self.objects["provisioningrequests", "team", name].get("status", {})
        return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])}

    def details(self, name: str = "req") -> dict[str, str]:
        found: dict[str, str] = self.objects["provisioningrequests", "team", name]["status"]["provisioningClassDetails"]
        return found

    def bookings(self) -> list[ours.Booking]:
        return [decode(raw, ours.Booking) for key, raw in sorted(self.objects.items()) if key[0] == "bookings"]

    def move(self, name: str, **status: Any) -> ours.Booking:
        """Sets a booking's status, in Python names."""
        raw = self.objects["bookings", "", name]
        raw["status"] = ours.BookingStatus(**status).to_json()
        made = decode(raw, ours.Booking)
        self.add(made)
        return made

    # --- the client ---

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        self._call("get", resource, name)
        try:
            return self.objects[resource.plural, namespace, name]
        except KeyError:
            raise NotFound(f'{resource.plural} "{name}" not found') from None

    async def create(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
        key = (resource.plural, namespace, name)
        exists = key in self.objects
        if not exists:
            meta = {**body["metadata"], "uid": f"{name}-uid", "creationTimestamp": stamp(self.clock())}
            self.objects[key] = {**body, "metadata": meta}
            self._store(resource, self.objects[key])
        self._call("create", resource, name)
        if exists:
            raise AlreadyExists(name)
        return self.objects[key]

    async def apply(self, resource: Resource, body: Mapping[str, Any], *, manager: str, subresource: str = "") -> dict[str, Any]:
        assert (manager, subresource) == ("corral-provisioner", "status")
        meta = body["metadata"]
        self._call("apply", resource, meta["name"])
        raw = self.objects.setdefault((resource.plural, meta.get("namespace", ""), meta["name"]), {})
        raw["status"] = body["status"]
        self._store(resource, raw)
        return raw

    async def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, manager: str = "") -> dict[str, Any]:
        """Of finalizers alone; a deleted object without any is gone."""
        assert manager == "corral-provisioner"
        self._call("patch", resource, name)
        raw = self.objects[resource.plural, "", name]
        raw["metadata"]["finalizers"] = body["metadata"]["finalizers"]
        if raw["metadata"].get("deletionTimestamp") and not raw["metadata"]["finalizers"]:
            del self.objects[resource.plural, "", name]
            self.state.pools.put(("", name), None)
        else:
            self._store(resource, raw)
        return raw

    def _call(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append((verb, resource.plural, name))
        if verb in self.fail:
            raise self.fail.pop(verb)

    def _store(self, resource: Resource, raw: Mapping[str, Any]) -> None:
        types: dict[str, type[Record]] = {
            "bookings": ours.Booking,
            "provisioningrequests": ProvisioningRequest,
            "capacitypools": ours.CapacityPool,
        }
        if not self.lag and resource.plural in types and "spec" in raw:
            self.add(decode(raw, types[resource.plural]))


_STORES = (
    *("nodes", "pods", "daemon_sets", "requests", "templates", "workloads", "checks", "flavors"),
    *("pools", "policies", "bookings", "runtime_classes", "cluster_queues"),
)
_STORES_OF = {
    "Node": "nodes",
    "DaemonSet": "daemon_sets",
    "ProvisioningRequest": "requests",
    "PodTemplate": "templates",
    "Workload": "workloads",
    "AdmissionCheck": "checks",
    "CapacityPool": "pools",
    "CapacityPolicy": "policies",
    "Booking": "bookings",
    "RuntimeClass": "runtime_classes",
    "DeviceClass": "device_classes",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "StorageClass": "storage_classes",
    "CSIDriver": "csi_drivers",
    "CSINode": "csi_nodes",
}


class Events:
    """Records what would be told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def event(self, regarding: Mapping[str, Any], type: str, reason: str, message: str) -> None:  # noqa: A002
        self.told.append((type, reason))
