"""The scenes that are played under faults: a cloud, a pool, the gangs that come, and what befalls them besides the faults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from provisioner.clouds.simulated.config import Config
from tests.faults.gangs import Order

if TYPE_CHECKING:
    from tests.faults.stage import Stage

Event = tuple[float, Callable[["Stage"], None]]
"""Seconds from the start, and what happens then."""


@dataclass(frozen=True)
class Scene:
    """`adopted`: nodes that are there already. `spoilt`: faults of the cloud's machines from the start. `ends`: how gangs end."""

    gangs: tuple[Order, ...]
    reserved: int = 0
    on_demand: int = 0
    adopted: int = 0
    readiness: str = "40s"
    never: bool = False  # prepaid machines stay for ever
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
        stock = [{"shape": "h100", "count": self.on_demand}] if self.on_demand else []
        held = [{"id": "cr-1", "shape": "h100", "zone": "east", "count": self.reserved}] if self.reserved else []
        delays = {"launch": "2s", "join": "2s", "devices": "1s", "terminate": "2s"}
        raw = {"shapes": [shape], "zones": [{"name": "east", "onDemand": stock}], "reservations": held, "delays": delays}
        return msgspec.convert(raw, Config)

    def pool(self) -> dict[str, Any]:
        stays = {"policy": "Never"} if self.never else {"policy": "WhenIdle", "after": "10s"}
        reserved = {"name": "res", "capacityType": "reserved", "reservationIDs": ["cr-1"], "scaleIn": stays}
        on_demand = {"name": "od", "capacityType": "on-demand", "scaleIn": {"policy": "WhenIdle", "after": "0s"}}
        sources = [*([reserved] if self.reserved else []), *([on_demand] if self.on_demand else [])]
        spec = {
            "mode": "Active",
            "provider": {"simulated": {"endpoint": "http://cloud"}},
            "shapes": ["h100"],
            "nodeSelector": {"matchLabels": {"team": "train"}},
            "topologyKeys": ["topology.kubernetes.io/zone"],
            "sources": sources,
            "readiness": {"timeout": self.readiness},
        }
        return {"metadata": {"name": "p"}, "spec": spec}


def _lose_one(stage: "Stage") -> None:
    """A machine of the gang dies."""
    machines = stage.cloud.alive()
    if machines:
        stage.lost = True
        stage.cloud.lose(machines[0].id)


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
}
