"""A small world for the lifecycle: a cloud that loses replies, late or bad nodes, pods, a clock that only steps move."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from kube.meta import ObjectKey, ObjectMeta
from kube.ours import BookedNode, BookedPodSet, BookedPurchase, Booking, BookingSpec, BookingStatus
from kube.times import stamp
from provisioner import lifecycle, steps
from provisioner.buying import launches
from provisioner.clouds.base import CloudError, ErrorKind, Instance, InstanceState, Order
from provisioner.steps import Observed, Owner, SeenNode, Terms, Verdict

START = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
LABEL = "b.booking.corral.dev/main"


def purchase(name: str = "od", count: int = 2, capacity_type: str = "on-demand", pool: str = "p") -> BookedPurchase:
    return BookedPurchase(
        name=name,
        pool=pool,
        source=name,
        offering=f"{pool}/{name}",
        shape="h100",
        zone="z1",
        capacity_type=capacity_type,
        count=count,
        pods={"main": 1},
        reservation_id="" if capacity_type == "on-demand" else "cr-1",
    )


def taken(name: str) -> BookedNode:
    return BookedNode(name=name, pool="p", pods={"main": 1}, provider_id=f"sim://{name}")


def booking(
    *,
    nodes: tuple[str, ...] = (),
    former: tuple[str, ...] = (),
    since: str = "",
    purchases: tuple[BookedPurchase, ...] = (),
    status: BookingStatus | None = None,
    deadline: int = 2400,
    deleted: bool = False,
) -> Booking:
    """A booking made at START with one pod a node; `deadline` in seconds from then; its nodes stand in `since` then."""
    count = len(nodes) + sum(each.count for each in purchases)
    spec = BookingSpec(
        request=ObjectKey(namespace="team", name="job", uid="11111111-1111-1111-1111-111111111111"),
        attempt=1,
        installation="here",
        policy="training",
        pod_sets=(BookedPodSet(name="main", count=count, label=LABEL, requests={"pods": 1, "nvidia.com/gpu": 8}),),
        provision_deadline=stamp(START + timedelta(seconds=deadline)),
        booking_seconds=900,
        workload=ObjectKey(namespace="team", name="job", uid="22222222-2222-2222-2222-222222222222"),
        nodes=tuple(replace(taken(name), since=since) for name in nodes),
        former=tuple(map(taken, former)),
        purchases=purchases,
    )
    gone = stamp(START) if deleted else None
    meta = ObjectMeta(name="b", uid="b-uid", generation=1, creation_timestamp=stamp(START), deletion_timestamp=gone)
    return Booking(metadata=meta, spec=spec, status=status or BookingStatus())


@dataclass
class Machine:
    """One machine and its node. `fate`: sound, never (joins), short (of devices), wrong (domain), sick, dies (after joining)."""

    instance: Instance
    visible: datetime
    joins: datetime
    fate: str
    ended: datetime | None = None


@dataclass
class FakeNode:
    provider_id: str
    launched: bool
    marked: bool = False
    touched: bool = False
    quarantined: bool = False
    idle: bool = False
    busy: bool = False
    closed: bool = False


@dataclass
class World:
    """`step` takes one step of the booking under random faults; `calm` switches them off."""

    booking: Booking
    random: random.Random
    terms: Terms = field(default_factory=Terms)
    now: datetime = START
    calm: bool = False
    harsh: float = 1.0
    owner: Owner = Owner.WAITING
    request: bool = True
    keep: bool = True
    dropped: bool = False
    trace: list[str] = field(default_factory=list)
    machines: dict[str, Machine] = field(default_factory=dict)
    tokens: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, FakeNode] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.booking.spec.nodes:
            self.nodes[each.name] = FakeNode(each.provider_id, launched=False)

    def chance(self, part: float) -> bool:
        return not self.calm and self.random.random() < part * self.harsh

    # --- what is seen

    def observed(self) -> Observed:
        self._join()
        return Observed(
            owner=Owner.UNKNOWN if self.chance(0.1) else self.owner,
            words="the workload finished",
            request=None if self.chance(0.1) else self.request,
            instances=None if self.chance(0.1) else dict(self._listed()),
            nodes={name: self._seen(name, node) for name, node in self.nodes.items()},
            gone=frozenset(each.name for each in self.booking.spec.nodes if each.name not in self.nodes),
            consumers=dict(self.pods),
            readiness={"p": 300},
            keep=frozenset(each.name for each in self.booking.spec.purchases) if self.keep else frozenset(),
        )

    def _listed(self) -> Iterator[tuple[str, Instance]]:
        for id_, machine in self.machines.items():
            forgotten = machine.ended and (self.now - machine.ended).total_seconds() > 600
            if machine.visible <= self.now and not forgotten and not self.chance(0.05):
                yield id_, machine.instance

    def _join(self) -> None:
        for id_, machine in self.machines.items():
            alive = machine.instance.state is InstanceState.RUNNING
            if alive and machine.fate == "dies" and machine.joins + timedelta(seconds=30) <= self.now and not self.pods:
                self._end(id_)
            elif alive and machine.fate != "never" and machine.joins <= self.now and f"n-{id_}" not in self.nodes:
                self.nodes[f"n-{id_}"] = FakeNode(machine.instance.provider_id, launched=True, marked=True, touched=True)

    def _seen(self, name: str, node: FakeNode) -> SeenNode:
        verdict, words = self._verdict(name)
        return SeenNode(
            name=name,
            provider_id=node.provider_id,
            touched=node.touched,
            marked=node.marked,
            quarantined=node.quarantined,
            launched=node.launched,
            busy=node.busy,
            closed=node.closed,
            verdict=verdict,
            words=words,
        )

    def _verdict(self, name: str) -> tuple[Verdict, str]:
        machine = self.machines.get(name.removeprefix("n-"))
        if machine and machine.fate == "short":
            return Verdict.SHORT, "7 of 8 nvidia.com/gpu"
        if machine and machine.fate == "wrong":
            return Verdict.WRONG, "zone is z2, not z1"
        if machine and machine.fate == "sick":
            return Verdict.SICK, "KernelDeadlock=True"
        return (Verdict.WAITING, "not Ready") if self.chance(0.1) else (Verdict.SOUND, "")

    # --- what is done

    def step(self) -> lifecycle.Decision:
        """One turn of the reconciler; a crash may hit between an action and the write of its result."""
        decision = lifecycle.next_step(self.booking, self.observed(), self.now, self.terms)
        self.trace.append(f"{self.now:%H:%M:%S} {self.booking.status.phase} {decision.rule}")
        self._do(decision.step)
        self.now += timedelta(milliseconds=200)
        return decision

    def _do(self, step: steps.Step) -> None:
        match step:
            case steps.Write(status):
                self._write(status)
            case steps.Buy(token):
                self._buy(token)
            case steps.Terminate(ids):
                self._terminate(ids)
            case steps.Mark(names):
                self._on_nodes(names, marked=True, touched=True, idle=False)
            case steps.Unmark(names):
                self._unmark(names)
            case steps.Quarantine(names):
                self._on_nodes(names, quarantined=True, closed=True)
            case steps.Drain(names):
                self._on_nodes(names, closed=True)
                self._on_nodes(tuple(name for name in names if not self.chance(0.3)), busy=False)  # else: a budget holds them
                self.now += timedelta(seconds=self.terms.poll)
            case steps.Wait(seconds):
                self.now += timedelta(seconds=max(seconds, 0.1))
            case steps.Drop():
                self.dropped = True

    def _write(self, status: BookingStatus) -> None:
        if not self.chance(0.1):  # else: lost, refused or crashed before it
            self.booking = replace(self.booking, status=status)

    def _on_nodes(self, names: tuple[str, ...], **values: bool) -> None:
        for name in names:
            if name in self.nodes and not self.chance(0.1):
                for key, value in values.items():
                    setattr(self.nodes[name], key, value)

    def _unmark(self, names: tuple[str, ...]) -> None:
        for name in names:
            assert not self.pods.get(name), "unmarked under consumer pods"
            kept = self.nodes[name].quarantined
            self._on_nodes((name,), marked=False, touched=False, idle=self.nodes[name].launched and not kept)

    def _buy(self, token: str) -> None:
        launch = next(each for each in self.booking.status.launches if each.token == token)
        assert launch.state == "Pending"
        try:
            found = self.launch(launches.order(self.booking, launch))
        except CloudError as error:
            self.now += timedelta(seconds=self.terms.poll)
            if error.kind not in launches.REPEATABLE:
                self._write(launches.refused(self.booking.status, launch, error, self.now))
            return
        self._write(launches.answered(self.booking.status, launch, found, self.now))

    def launch(self, order: Order) -> tuple[Instance, ...]:
        if order.token not in self.tokens:
            if self.chance(0.1):
                raise CloudError(ErrorKind.THROTTLED, "slow down")
            if self.chance(0.1):
                raise CloudError(self.random.choice([ErrorKind.CAPACITY, ErrorKind.CONFIG]), "no machines")
            if self.chance(0.1):
                raise CloudError(ErrorKind.UNKNOWN, "timed out before it began")
            count = self.random.randrange(1, order.count + 1) if self.chance(0.1) else order.count
            self.tokens[order.token] = [self._new(order) for _ in range(count)]
        if self.chance(0.2):
            raise CloudError(ErrorKind.UNKNOWN, "the reply was lost")
        return tuple(self.machines[id_].instance for id_ in self.tokens[order.token])

    def _new(self, order: Order) -> str:
        id_ = f"i{len(self.machines)}"
        fate = self.random.choice(["never", "short", "wrong", "sick", "dies"]) if self.chance(0.4) else "sound"
        late = self.random.choice([0, 0, 10, 60]) if not self.calm else 0
        instance = Instance(
            id_, f"sim://{id_}", InstanceState.RUNNING, order.shape, order.zone, order.token, order.reservation, tags=order.tags
        )
        seconds = self.random.randrange(5, 200)
        self.machines[id_] = Machine(instance, self.now + timedelta(seconds=late), self.now + timedelta(seconds=seconds), fate)
        return id_

    def _terminate(self, ids: tuple[str, ...]) -> None:
        for id_ in ids:
            assert not self.pods.get(f"n-{id_}"), "terminated under consumer pods"
            node = self.nodes.get(f"n-{id_}")
            assert node is None or not node.busy, "terminated under a stranger's pods"
            if not self.chance(0.2):
                self._end(id_)

    def _end(self, id_: str) -> None:
        machine = self.machines[id_]
        old = machine.instance
        machine.instance = Instance(
            old.id, old.provider_id, InstanceState.TERMINATED, old.shape, old.zone, old.token, old.reservation, tags=old.tags
        )
        machine.ended = machine.ended or self.now
        self.nodes.pop(f"n-{id_}", None)

    def running(self, capacity_type: str = "") -> list[str]:
        kinds = {each.name: each.capacity_type for each in self.booking.spec.purchases}
        found = []
        for id_, machine in self.machines.items():
            kind = kinds[machine.instance.tags["corral.dev/purchase"]]
            if machine.instance.state is InstanceState.RUNNING and capacity_type in ("", kind):
                found.append(id_)
        return found
