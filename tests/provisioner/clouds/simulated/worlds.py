"""A world for tests without clock, disk or network."""

from datetime import UTC, datetime, timedelta
from typing import Any

from provisioner.clouds.simulated.config import parse
from provisioner.clouds.simulated.faults import FaultRequest
from provisioner.clouds.simulated.records import Machine, Memory
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World
from tests.provisioner.clouds.conftest import RAW

START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
H100 = "p5.48xlarge"
BLOCK, RACK = "topology.corral.dev/block", "topology.corral.dev/rack"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def world(memory: Memory | None = None, at: datetime = START, **fields: Any) -> World:
    """Twelve H100 machines in racks r1 and r2 (block b1) and r3 (b2) of zone z1; reservation `cr` holds three of r1, one of
    them used by others, and two of r2; z2 sells two on demand. All delays are a second."""
    delays = dict.fromkeys(("launch", "join", "devices", "terminate"), "1s")
    made = World(parse({**RAW, "delays": delays, **fields}), memory or Memory())
    made.seed(at, fresh=memory is None)
    return made


def on_demand(token: str = "t", count: int = 1, **fields: Any) -> LaunchRequest:
    order = {"shape": H100, "zone": "z1", "capacity_type": "on-demand", **fields}
    return LaunchRequest(token=token, count=count, **order)


def reserved(token: str = "t", count: int = 1, **fields: Any) -> LaunchRequest:
    return on_demand(token, count, **{"capacity_type": "reserved", "reservation": "cr", **fields})


def add(there: World, kind: str, at: datetime = START, **fields: Any) -> str:
    """Adds a fault and returns its id."""
    identity = f"f{len(there.memory.faults)}"
    there.add_fault(FaultRequest(kind=kind, **fields), identity, at)  # type: ignore[arg-type]
    return identity


def racks(machines: tuple[Machine, ...]) -> list[str]:
    return sorted(machine.rack for machine in machines)
