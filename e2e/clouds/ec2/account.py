"""The account: everything that its calls read and change."""

import hashlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from e2e.clouds.ec2 import defaults
from e2e.clouds.ec2.errors import AwsError
from e2e.clouds.ec2.instances import KEPT, Instance
from e2e.clouds.ec2.objects import (
    AutoScalingGroup,
    Change,
    LaunchTemplate,
    PlacementGroup,
    Quota,
    Reservation,
    SecurityGroup,
    Settings,
    Stock,
    Subnet,
    Zone,
)

Params = dict[str, Any]
Operation = Callable[["Account", Params, datetime], dict[str, Any]]
BLOCK_END = ("Server.ScheduledStop", "Server.ScheduledStop: the Capacity Block ends")


@dataclass(frozen=True, slots=True)
class Use:
    """What a token was used for. `fingerprint` of the parameters; `ids` of the instances; the whole answer of a fleet."""

    fingerprint: str
    ids: tuple[str, ...]
    answer: dict[str, Any]


class Account:
    """Mutable, and changed between two awaits only; every instance's state follows from the time asked for.

    `salt` makes its ids different from those of other accounts, as EC2's never repeat.
    """

    def __init__(self, start: Change | None = None, salt: str = "") -> None:
        self.settings = Settings()
        self.zones: dict[str, Zone] = {}
        self.subnets: dict[str, Subnet] = {}
        self.security_groups: dict[str, SecurityGroup] = {}
        self.launch_templates: dict[str, LaunchTemplate] = {}
        self.stock: dict[str, Stock] = {}
        self.reservations: dict[str, Reservation] = {}
        self.placement_groups: dict[str, PlacementGroup] = {}
        self.auto_scaling_groups: dict[str, AutoScalingGroup] = {}
        self.quotas: dict[str, Quota] = {}
        self.buckets = dict(defaults.BUCKETS)
        self.instances: dict[str, Instance] = {}
        self.fleets: dict[str, dict[str, Any]] = {}
        self.tokens: dict[tuple[str, str, str], Use] = {}
        self._salt, self._numbers = salt, itertools.count(1)
        self.change(defaults.STATE)
        self.change(start or Change())

    def change(self, change: Change) -> None:
        """Adds objects and replaces those of the same key. Raises msgspec.ValidationError for a bad setting."""
        self.settings = msgspec.convert({**self.settings.to_json(), **change.settings}, Settings)
        self.zones.update({each.name: each for each in change.zones})
        self.subnets.update({each.id: each for each in change.subnets})
        self.security_groups.update({each.id: each for each in change.security_groups})
        self.launch_templates.update({each.id: each for each in change.launch_templates})
        self.stock.update({each.key: each for each in change.stock})
        self.reservations.update({each.id: each for each in change.reservations})
        self.placement_groups.update({each.name: each for each in change.placement_groups})
        self.auto_scaling_groups.update({each.name: each for each in change.auto_scaling_groups})
        self.quotas.update({each.code: each for each in change.quotas})
        self.buckets.update(change.buckets)

    def advance(self, now: datetime) -> None:
        """Does what time alone does: blocks end with their instances, reservations end without theirs."""
        for reservation in self.reservations.values():
            if reservation.end is None:
                continue
            if reservation.kind == "capacity-block":
                self._end_block(reservation, now)
            elif reservation.end <= now:
                self._end_reservation(reservation)
        gone = [each.id for each in self.instances.values() if each.terminated is not None and each.terminated + KEPT <= now]
        for identity in gone:
            if self.instances[identity].removed or not self.instances[identity].joined:
                del self.instances[identity]

    def stop(self, instance: Instance, now: datetime, reason: tuple[str, str]) -> None:
        block = self.reservations.get(instance.source)
        slow = block is not None and block.kind == "capacity-block"
        settings = self.settings
        instance.stop(now, settings.terminating, settings.block_releasing if slow else settings.releasing, reason)

    def new_id(self, prefix: str) -> str:
        """An id of EC2's form."""
        return f"{prefix}-{hashlib.sha256(f'{self._salt}{prefix}{next(self._numbers)}'.encode()).hexdigest()[:17]}"

    def new_address(self) -> str:
        number = next(self._numbers)
        return f"10.{number // 62_500 % 250}.{number // 250 % 250}.{number % 250 + 4}"

    def node_hash(self, name: str) -> str:
        """A network node as this account sees it (cloud.md 1.6)."""
        return f"nn-{hashlib.sha256(f'{self.settings.account}/{name}'.encode()).hexdigest()[:17]}"

    def arn(self, kind: str, name: str, owner: str = "") -> str:
        return f"arn:aws:ec2:{self.settings.region}:{owner or self.settings.account}:{kind}/{name}"

    def taken(self, source: str, now: datetime) -> list[Instance]:
        """Instances that hold slots of a stock or a reservation."""
        return [each for each in self.instances.values() if each.source == source and each.holds(now)]

    def zone_of(self, name: str = "", identity: str = "") -> Zone:
        """The zone by its alias or its id. Raises InvalidParameterValue."""
        for zone in self.zones.values():
            if zone.name == name or (identity and zone.id == identity):
                return zone
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{name or identity}]")

    def free_addresses(self, subnet: Subnet, now: datetime) -> int:
        used = sum(each.spec.addresses for each in self.instances.values() if each.spec.subnet == subnet.id and each.holds(now))
        return subnet.addresses - used

    def shown(self, ids: Iterable[str], now: datetime) -> list[Instance]:
        """Instances of these ids. Raises InvalidInstanceID.NotFound, also for those too new to be known (cloud.md 1.9)."""
        wanted = list(dict.fromkeys(ids))
        unknown = [each for each in wanted if each not in self.instances or not self.instances[each].shows(now)]
        if unknown:
            words = f"IDs '{', '.join(unknown)}' do" if len(unknown) > 1 else f"ID '{unknown[0]}' does"
            raise AwsError("InvalidInstanceID.NotFound", f"The instance {words} not exist")
        return [self.instances[each] for each in wanted]

    def _end_block(self, block: Reservation, now: datetime) -> None:
        """Instances are killed half an hour before the end, an hour before in an UltraServer (cloud.md 1.2)."""
        assert block.end is not None
        at = block.end - timedelta(minutes=60 if block.ultraserver else 30)
        if at <= now:
            for instance in self.taken(block.id, now):
                self.stop(instance, max(at, instance.launched), BLOCK_END)

    def _end_reservation(self, reservation: Reservation) -> None:
        """Its instances run on, on demand: nothing dies, the price changes (cloud.md 1.1)."""
        moved = [each for each in self.instances.values() if each.source == reservation.id]
        stock = Stock(type=reservation.type, zone=reservation.zone)
        key = stock.key
        for instance in moved:
            instance.source, instance.reservation = key, ""
        if moved:
            stock = self.stock.get(key, stock)
            self.stock[key] = msgspec.structs.replace(stock, count=stock.count + len(moved))
