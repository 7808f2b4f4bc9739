"""The configuration file of the simulated cloud: what hardware there is, how slow it is and what goes wrong.

Durations are Go duration strings ("1m30s"), instants RFC 3339 with a zone, prices decimal dollars an hour.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from capacity.model import ZONE
from capacity.quantity import amount
from kube.ours import Duration, Money
from provisioner.clouds.simulated.catalogue import SHAPES
from provisioner.clouds.simulated.faults import FaultRequest
from provisioner.clouds.simulated.wire import Count, Instant, Name, Strict, Taint

REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Shape(Strict, frozen=True, kw_only=True):
    """An instance type. `devices` are extended resources that its device plugin publishes, on top of `allocatable`."""

    name: Name
    allocatable: dict[str, str]
    devices: dict[str, Count] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()  # gone once the devices are there
    price_per_hour: Money = "0"


class Rack(Strict, frozen=True, kw_only=True):
    """A rack and how many machines of each shape stand in it."""

    name: Name
    slots: dict[Name, Count]
    block: Name | None = None


class OnDemand(Strict, frozen=True, kw_only=True):
    """On-demand stock of a shape. Without `count`, all room that is not reserved; `told` puts the number in the inventory."""

    shape: Name
    count: Count | None = None
    told: bool = False


class Zone(Strict, frozen=True, kw_only=True):
    name: Name
    racks: tuple[Rack, ...] = ()
    on_demand: tuple[OnDemand, ...] = ()


class Reservation(Strict, frozen=True, kw_only=True):
    """Prepaid room: machines by rack, or a bare `count` where the zone has no racks for the shape.

    `outside` are in use by others, by rack ("" with a bare count).
    """

    id: Name
    shape: Name
    zone: Name
    capacity_type: Literal["reserved", "capacity-block"] = "reserved"
    racks: dict[Name, Count] = {}
    count: Count | None = None
    outside: dict[str, Count] = {}
    starts: Instant | None = None
    ends: Instant | None = None

    def room(self) -> dict[str, int]:
        """Machines by rack; "" stands for no told place."""
        return dict(self.racks) if self.count is None else {"": self.count}


class Delays(Strict, frozen=True, kw_only=True):
    """`launch`: order to running; `join`: running to Node; `devices`: device plugin running to devices there;
    `visible`: until a new instance is described.
    """

    launch: Duration = "2s"
    join: Duration = "2s"
    devices: Duration = "3s"
    terminate: Duration = "2s"
    visible: Duration = "0s"


class TopologyLabels(Strict, frozen=True, kw_only=True):
    block: str = "topology.corral.dev/block"
    rack: str = "topology.corral.dev/rack"


class Throttle(Strict, frozen=True, kw_only=True):
    """A token bucket per call: `burst` calls at once, then `per_second`."""

    burst: Annotated[int, Meta(ge=1)] = 200
    per_second: Annotated[int, Meta(ge=1)] = 100


class Config(Strict, frozen=True, kw_only=True, dict=True):
    """The whole file. `quotas` limit on-demand machines by shape; the file `state` remembers everything over restarts."""

    zones: tuple[Zone, ...]
    kind: Literal["SimulatedCloud"] = "SimulatedCloud"
    name: Name = "simulated"
    region: Name = "sim-1"
    shapes: tuple[Shape, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    quotas: dict[Name, Count] = {}
    faults: tuple[FaultRequest, ...] = ()
    delays: Delays = Delays()
    throttle: Throttle = Throttle()
    topology_labels: TopologyLabels = TopologyLabels()
    device_plugin: str = "kube-system/nvidia-device-plugin"
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8090
    state: str = "simulated-cloud.db"
    kubeconfig: str | None = None  # absent: no cluster, the API alone; "": the cluster that the process runs in
    kubeconfigs: dict[str, str] = {}  # by installation, as its machines are tagged: these join the cluster of that file

    def shape(self, name: str) -> Shape | None:
        return next((shape for shape in self.shapes if shape.name == name), None)

    def zone(self, name: str) -> Zone | None:
        return next((zone for zone in self.zones if zone.name == name), None)

    def region_labels(self) -> dict[str, str]:
        return {REGION: self.region}

    def shape_labels(self, shape: Shape) -> dict[str, str]:
        """What each node of the shape carries, wherever it stands."""
        fixed = {INSTANCE_TYPE: shape.name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
        return {**shape.labels, **fixed, **self.region_labels()}

    def place_labels(self, zone: str, rack: str) -> dict[str, str]:
        """Topology labels of a place; no rack ("") is told by the zone alone, a rack of another zone by its own."""
        if rack not in self.homes:
            return {ZONE: zone}
        home, block = self.homes[rack]
        blocks = {} if block is None else {self.topology_labels.block: block}
        return {ZONE: home, **blocks, self.topology_labels.rack: rack}

    @cached_property
    def homes(self) -> dict[str, tuple[str, str | None]]:
        """Zone and block of each rack."""
        return {rack.name: (zone.name, rack.block) for zone in self.zones for rack in zone.racks}

    def slots(self, zone: str, shape: str) -> dict[str, int]:
        """Machines of the shape that stand in each rack of the zone."""
        return {rack.name: rack.slots[shape] for rack in self._racks(zone) if shape in rack.slots}

    def _racks(self, zone: str) -> tuple[Rack, ...]:
        found = self.zone(zone)
        return found.racks if found else ()


class ConfigError(Exception):
    """The configuration can't be used; the message names the field and the remedy."""


def load(path: Path) -> Config:
    """Reads and validates a configuration file. Raises ConfigError."""
    try:
        return parse(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(raw: Any) -> Config:
    """The configuration of a decoded YAML document, built-in shapes filled in. Raises ConfigError."""
    try:
        config = msgspec.convert(_with_shapes(raw), Config)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    problems = list(_problems(config))
    if problems:
        raise ConfigError("; ".join(problems))
    return config


def _with_shapes(raw: Any) -> Any:
    """Shapes of the file override the built-in ones field by field."""
    if not isinstance(raw, dict) or not isinstance(raw.get("shapes", []), list):
        return raw
    shapes = {name: {"name": name, **shape} for name, shape in SHAPES.items()}
    for entry in raw.get("shapes", []):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            return raw
        shapes[entry["name"]] = {**shapes.get(entry["name"], {}), **entry}
    return {**raw, "shapes": list(shapes.values())}


def _problems(config: Config) -> Iterable[str]:
    known = sorted(shape.name for shape in config.shapes)
    yield from _twice("zone", (zone.name for zone in config.zones))
    yield from _twice("rack", (rack.name for zone in config.zones for rack in zone.racks))
    yield from _twice("reservation", (reservation.id for reservation in config.reservations))
    for name in sorted({*_named_shapes(config)} - {*known}):
        yield f"shape {name} is not known: add it to shapes, or use one of {', '.join(known)}"
    for shape in config.shapes:
        yield from _bad_quantities(shape)
    if config.device_plugin.count("/") != 1:
        yield f"devicePlugin {config.device_plugin!r} must be namespace/name of a DaemonSet"


def _named_shapes(config: Config) -> Iterable[str]:
    yield from (reservation.shape for reservation in config.reservations)
    yield from config.quotas
    for zone in config.zones:
        yield from (stock.shape for stock in zone.on_demand)
        yield from (shape for rack in zone.racks for shape in rack.slots)


def _twice(kind: str, names: Iterable[str]) -> Iterable[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{kind} {name} is there {count} times: names must be unique in the cloud"


def _bad_quantities(shape: Shape) -> Iterable[str]:
    for resource, text in shape.allocatable.items():
        try:
            amount(resource, text)
        except ValueError as error:
            yield f"shape {shape.name}: allocatable.{resource}: {error}"
