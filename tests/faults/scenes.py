"""The scenes that are played under faults: a cloud, a pool, the gangs that come, and what befalls them besides the faults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kube.times import stamp
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.records import Announcement
from tests.faults.gangs import TEAM, Order
from tests.faults.jobs import CHECKUP

if TYPE_CHECKING:
    from tests.faults.stage import Stage

START = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
HEALTH_CHECK = {"healthCheck": {"podTemplateRef": {"name": CHECKUP}, "timeout": "60s"}}
Event = tuple[float, Callable[["Stage"], None]]
"""Seconds from the start, and what happens then."""


@dataclass(frozen=True)
class Scene:
    """`adopted`: nodes that are there already. `block`: seconds until the reservation ends. `checkup`: new nodes must pass a
    health check, which `sick` of them don't. `spoilt`: faults of the cloud's machines from the start. `ends`: how gangs end.
    """

    gangs: tuple[Order, ...]
    reserved: int = 0
    on_demand: int = 0
    adopted: int = 0
    readiness: str = "40s"
    never: bool = False  # prepaid machines stay for ever
    block: int = 0
    checkup: bool = False
    sick: int = 0
    on_loss: str = "Replace"
    replicas: int = 1
    limit: int | None = None  # on-demand machines of the pool at one time
    streaming: bool = True  # whether the API server has streaming lists
    spoilt: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Event, ...] = ()
    ends: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> Config:
        shape = {
            "name": "h100",
            "allocatable": {"cpu": "96", "memory": "1000Gi", "pods": "110"},
            "devices": {"nvidia.com/gpu": 8},
            "pricePerHour": "10",
        }
        stock = [{"shape": "h100", "count": self.on_demand + 1}] if self.on_demand else []  # and one for a neighbour
        ends = {"capacityType": "capacity-block", "ends": stamp(START + timedelta(seconds=self.block))} if self.block else {}
        held = [{"id": "cr-1", "shape": "h100", "zone": "east", "count": self.reserved, **ends}] if self.reserved else []
        delays = {"launch": "2s", "join": "2s", "devices": "1s", "terminate": "2s"}
        raw = {"shapes": [shape], "zones": [{"name": "east", "onDemand": stock}], "reservations": held, "delays": delays}
        return msgspec.convert(raw, Config)

    def pool(self) -> dict[str, Any]:
        stays = {"policy": "Never"} if self.never else {"policy": "WhenIdle", "after": "10s"}
        lasts = {"capacityType": "capacity-block", "drainBeforeEnd": "60s"} if self.block else {"capacityType": "reserved"}
        reserved = {"name": "res", "reservationIDs": ["cr-1"], "scaleIn": stays, **lasts}
        on_demand = {"name": "od", "capacityType": "on-demand", "scaleIn": {"policy": "WhenIdle", "after": "0s"}}
        sources = [*([reserved] if self.reserved else []), *([on_demand] if self.on_demand else [])]
        spec = {
            "mode": "Active",
            "provider": {"simulated": {"endpoint": "http://cloud"}},
            "shapes": ["h100"],
            "nodeSelector": {"matchLabels": {"team": "train"}},
            "topologyKeys": ["topology.kubernetes.io/zone"],
            "sources": sources,
            "readiness": {"timeout": self.readiness, **(HEALTH_CHECK if self.checkup else {})},
        }
        if self.limit is not None:
            spec["limits"] = {"onDemandNodes": self.limit}
        return {"metadata": {"name": "p"}, "spec": spec}

    def policy(self) -> dict[str, Any]:
        timeouts = {"queued": "10m", "provision": "120s", "booking": "60s"}
        known = {"runDuration": {"default": "20s"}} if self.block else {}
        return {"timeouts": timeouts, "onNodeLoss": self.on_loss, **known}


def _lose_one(stage: "Stage") -> None:
    """A machine of the gang dies."""
    for machine in stage.cloud.alive()[:1]:
        stage.lost.add(machine.id)
        stage.cloud.lose(machine.id)


def _hang(stage: "Stage") -> None:
    """A kubelet under the gang is heard no more, and its pod ends."""
    for pod in stage.gangs[0].pods()[:1]:
        stage.lost.add(pod["spec"]["nodeName"])
        stage.objects.remove("pods", (TEAM, pod["metadata"]["name"]))
        _hear(stage, pod["spec"]["nodeName"], "Unknown")


def _wake(stage: "Stage") -> None:
    for node in stage.lost:
        _hear(stage, node, "True")


def _hear(stage: "Stage", node: str, ready: str) -> None:
    """What the control plane says of its kubelet."""
    body = stage.objects.get("nodes", node)
    assert body is not None
    said = {"type": "Ready", "status": ready, "reason": "Said", "message": "", "lastTransitionTime": stamp(stage.now())}
    stage.objects.change("nodes", node, status={**body["status"], "conditions": [said]})


def _announce(stage: "Stage") -> None:
    """The cloud will take a machine of the gang back in a minute."""
    for machine in stage.cloud.alive()[:1]:
        stage.lost.add(machine.id)
        told = Announcement(ids=(machine.id,), kind="SpotInterruption", after="60s", words="taken back")
        stage.cloud.world.announce(told, stage.now())


def _block_ends(stage: "Stage") -> None:
    """From now on the machines of the block are as good as gone."""
    stage.lost |= {machine.id for machine in stage.cloud.alive() if machine.order.reservation}


def _force(stage: "Stage") -> None:
    """Somebody takes the bookings away, finalizers and all."""
    for booking in list(stage.objects.bodies("bookings")):
        stage.objects.remove("bookings", ("", booking["metadata"]["name"]))


def _blink(stage: "Stage") -> None:
    """The Nodes of all machines are deleted; their kubelets will register them again."""
    for machine in stage.cloud.alive():
        if node := stage.objects.get("nodes", machine.id):
            stage.hidden.append(node)
            stage.objects.remove("nodes", ("", machine.id))


def _return(stage: "Stage") -> None:
    while stage.hidden:
        stage.objects.put("nodes", stage.hidden.pop())


def _node_goes(name: str) -> Callable[["Stage"], None]:
    """A node of that gang that was there before goes for good, and its pod with it."""

    def go(stage: "Stage") -> None:
        gang = next(each for each in stage.gangs if each.order.name == name)
        for pod in gang.pods()[:1]:
            node = pod["spec"]["nodeName"]
            stage.lost.add(node)
            stage.objects.remove("pods", (TEAM, pod["metadata"]["name"]))
            stage.objects.remove("nodes", ("", node))

    return go


def _unregister(stage: "Stage") -> None:
    """The Node of a machine of the last gang is deleted, and its pods with it."""
    for name in sorted(each["metadata"]["name"] for each in stage.gangs[-1].nodes())[:1]:
        stage.lost.add(name)
        stage.objects.remove("nodes", ("", name))
        for pod in list(stage.objects.bodies("pods")):
            if pod["spec"].get("nodeName") == name:
                stage.objects.remove("pods", (pod["metadata"]["namespace"], pod["metadata"]["name"]))


def _register(stage: "Stage") -> None:
    """Its kubelet begins anew and registers it with what the machine was launched with: labels of the gang that bought it."""
    for name in stage.lost:
        stage.cloud.world.progress(name, joined=False, devices_published=False, plugin_at=None)


def _mode(mode: str) -> Callable[["Stage"], None]:
    def change(stage: "Stage") -> None:
        pool = stage.objects.get("capacitypools", "p")
        assert pool is not None
        stage.objects.put("capacitypools", {**pool, "spec": {**pool["spec"], "mode": mode}})

    return change


SCENES: Mapping[str, Scene] = {
    "reserved": Scene((Order("job", 2),), reserved=3, ends={"job": "done"}),
    "on-demand": Scene((Order("job", 2),), on_demand=3, ends={"job": "done"}),
    "remainder": Scene((Order("job", 3),), reserved=2, on_demand=3, ends={"job": "done"}),
    "adopted": Scene((Order("job", 2),), adopted=3, ends={"job": "done"}),
    "mixed": Scene((Order("job", 3),), adopted=1, reserved=1, on_demand=3, never=True, ends={"job": "done"}),
    "bad-node": Scene(
        (Order("job", 2),),
        on_demand=4,
        spoilt=({"kind": "fewer-devices", "devices": {"nvidia.com/gpu": 7}, "times": 1},),
        ends={"job": "done"},
    ),
    "never-joins": Scene((Order("job", 2),), reserved=4, spoilt=({"kind": "never-joins", "times": 1},), ends={"job": "done"}),
    "late": Scene(
        (Order("job", 2),),
        on_demand=4,
        readiness="90s",
        spoilt=({"kind": "late", "delay": "55s", "times": 1},),
        ends={"job": "done"},
    ),
    "cancelled": Scene((Order("job", 3, cancel=4),), reserved=2, on_demand=2, ends={"job": "cancelled"}),
    "stopped": Scene((Order("job", 2, cancel=25, run=60),), on_demand=2, ends={"job": "cancelled"}),
    "node-lost": Scene((Order("job", 2),), on_demand=4, events=((11.0, _lose_one),), ends={"job": "done"}),
    "two-gangs": Scene((Order("a", 2), Order("b", 2, at=1)), reserved=3, on_demand=0, ends={"a": "done", "b": "done"}),
    "forced": Scene(
        (Order("job", 2, run=90),),
        on_demand=2,
        events=((25.0, _force), (30.0, _blink), (44.0, _return)),
        ends={"job": "done"},
    ),
    "paused": Scene(
        (Order("job", 3),),
        reserved=2,
        on_demand=3,
        events=((3.0, _mode("Paused")), (40.0, _mode("Active"))),
        ends={"job": "done"},
    ),
    "warm": Scene((Order("a", 2), Order("b", 2, at=1)), on_demand=2, ends={"a": "done", "b": "done"}),
    "checked": Scene((Order("job", 2),), on_demand=4, readiness="60s", checkup=True, sick=1, ends={"job": "done"}),
    "replaced": Scene((Order("job", 2, run=40),), on_demand=4, events=((25.0, _lose_one),), ends={"job": "done"}),
    "revoked": Scene(
        (Order("job", 2, run=40),), on_demand=4, on_loss="Revoke", events=((25.0, _lose_one),), ends={"job": "done"}
    ),
    "notice": Scene((Order("job", 2, run=60),), on_demand=4, events=((25.0, _announce),), ends={"job": "done"}),
    "block-ends": Scene(
        (Order("job", 2, run=140),),
        reserved=2,
        on_demand=2,
        block=150,
        on_loss="Revoke",
        events=((85.0, _block_ends),),
        ends={"job": "done"},
    ),
    "deleted": Scene((Order("job", 2, cancel=25, delete=True, run=60),), on_demand=2, ends={"job": "cancelled"}),
    "paged": Scene((Order("job", 2),), on_demand=3, streaming=False, ends={"job": "done"}),
    "stand-in": Scene((Order("job", 2, run=40),), adopted=3, events=((20.0, _node_goes("job")),), ends={"job": "done"}),
    "stand-in-bought": Scene(
        (Order("job", 2, run=40),), adopted=2, on_demand=3, limit=1, events=((20.0, _node_goes("job")),), ends={"job": "done"}
    ),
    "left": Scene(
        (Order("job", 2, cancel=50, run=40),),
        on_demand=3,
        on_loss="Leave",
        events=((25.0, _lose_one),),
        ends={"job": "cancelled"},
    ),
    "hung": Scene((Order("job", 2, run=40),), adopted=5, events=((20.0, _hang), (400.0, _wake)), ends={"job": "done"}),
    "late-admitted": Scene((Order("job", 2, run=20, linger=57),), on_demand=2, ends={"job": "done"}),
    "rejoined": Scene(
        (Order("a", 2, run=20), Order("b", 2, at=45, run=60)),
        reserved=2,
        never=True,
        events=((60.0, _unregister), (65.0, _register)),
        ends={"a": "done", "b": "done"},
    ),
    "led": Scene((Order("job", 2),), on_demand=3, replicas=2, ends={"job": "done"}),
    "rivals": Scene(
        (Order("a", 2), Order("b", 2, at=1)),
        adopted=5,
        events=((20.0, _node_goes("a")), (21.0, _node_goes("b"))),
        ends={"a": "done", "b": "done"},
    ),
}
