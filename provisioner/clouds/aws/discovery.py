"""Reads of one pool's account, each kept as long as it stays true: from seconds for reservations to hours for instance types."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kube.providers import AwsProvider
from provisioner.clouds.aws import account, reservations, shapes, topology
from provisioner.clouds.aws.account import Subnet, Template
from provisioner.clouds.aws.caching import Cached
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.reservations import Held
from provisioner.clouds.aws.shapes import InstanceType
from provisioner.clouds.base import CloudError, ErrorKind, Wanted

HOURS, MINUTES = 6 * 3600.0, 300.0
SECONDS = 5.0
AT_ONCE = 10
"""Reservations that one call for topology takes (EC2 API Reference, DescribeCapacityReservationTopology)."""


@dataclass(frozen=True, slots=True)
class Places:
    """Of reservations by id: the labels that all of each one's machines have, and which of them are UltraServers."""

    labels: Mapping[str, Mapping[str, str]]
    ultraservers: frozenset[str]


class Discovery:
    """What launches of one provider rest on. All methods raise CloudError."""

    def __init__(self, calls: Calls, provider: AwsProvider) -> None:
        self._calls, self._provider = calls, provider
        self.subnets = Cached(self._subnets, 60.0)
        self.template = Cached(self._template, MINUTES)
        self._types: dict[tuple[str, ...], Cached[Mapping[str, InstanceType]]] = {}
        self.reservations = Cached(self._reservations, SECONDS)
        self._places: dict[tuple[tuple[str, ...], bool], Cached[Places]] = {}
        self.last: dict[str, Held] = {}

    async def types(self, names: Iterable[str]) -> Mapping[str, InstanceType]:
        """Those that exist, by name."""
        key = tuple(sorted(names))
        return await self._types.setdefault(key, Cached(lambda: self._read_types(key), HOURS)).get() if key else {}

    async def held(self, wanted: Wanted) -> tuple[Held, ...]:
        """The reservations that are wanted and there, usable or not."""
        if not wanted.reservations:
            return ()
        return tuple(each for each in await self.reservations.get() if each.id in wanted.reservations)

    async def places(self, held: Sequence[Held]) -> Places:
        """Those that are still to start have no place yet, and a call that names one of them may be refused."""
        ids = tuple(sorted(each.id for each in held if each.state == reservations.ACTIVE and not each.why))
        blocks = any(each.block for each in held)
        return await self._places.setdefault((ids, blocks), Cached(lambda: self._read_places(ids, blocks), MINUTES)).get()

    # --- the calls ------------------------------------------------------------------------------------------------------

    async def _read_types(self, names: tuple[str, ...]) -> Mapping[str, InstanceType]:
        """By a filter: one unknown name would fail a call for names."""
        found = await self._calls.pages(
            Op.INSTANCE_TYPES, "InstanceTypes", Filters=_filter("instance-type", names), MaxResults=100
        )
        return {kind.name: kind for kind in map(shapes.parse, found)}

    async def _reservations(self) -> tuple[Held, ...]:
        """All of the account: a call for ids fails whole for one that isn't there any more."""
        found = await self._calls.pages(Op.RESERVATIONS, "CapacityReservations", MaxResults=1000)
        subnets = await self.subnets.get()
        held = tuple(
            replace(each, zone=account.zone_name(subnets, each.zone, each.zone_id)) for each in map(reservations.parse, found)
        )
        self.last |= {each.id: each for each in held}
        return held

    async def _read_places(self, ids: tuple[str, ...], blocks: bool) -> Places:
        """Without topology where EC2 has none to tell."""
        ultraservers = await self._ultraservers() if blocks else {}
        labels = {identity: {topology.ULTRASERVER: block} for identity, block in ultraservers.items()}
        for start in range(0, len(ids), AT_ONCE):
            for each in await self._topology(ids[start : start + AT_ONCE]):
                name = each.get("CapacityReservationId", "")
                labels[name] = {**topology.of_item(each), **labels.get(name, {})}
        return Places(labels, frozenset(ultraservers))

    async def _ultraservers(self) -> Mapping[str, str]:
        """Reservation -> block, of the blocks that are UltraServers."""
        blocks = await self._calls.pages(Op.BLOCKS, "CapacityBlocks", MaxResults=1000)
        there = [each for each in blocks if each.get("UltraserverType")]
        return {name: each["CapacityBlockId"] for each in there for name in each.get("CapacityReservationIds") or ()}

    async def _topology(self, ids: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        try:
            return await self._calls.pages(Op.RESERVATION_TOPOLOGY, "CapacityReservations", CapacityReservationIds=list(ids))
        except CloudError as error:
            if error.kind is ErrorKind.CONFIG:  # a type or region without topology, or no permission: it isn't needed to launch
                return ()
            raise

    async def _subnets(self) -> tuple[Subnet, ...]:
        """Those of the provider's list that are there."""
        wanted = self._provider.subnet_ids
        found = await self._calls.pages(Op.SUBNETS, "Subnets", Filters=_filter("subnet-id", wanted))
        return tuple(account.subnet(each) for each in found)

    async def _template(self) -> Template:
        pinned = self._provider.launch_template
        found = await self._calls.pages(
            Op.TEMPLATES, "LaunchTemplateVersions", LaunchTemplateId=pinned.id, Versions=[pinned.version]
        )
        if not found:
            raise CloudError(ErrorKind.CONFIG, f"provider.aws.launchTemplate: {pinned.id} has no version {pinned.version}")
        return account.template(found[0])


def _filter(name: str, values: Iterable[str]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": list(values)}]
