"""`corral plan`: the planner on files alone. What a live cluster knows is read from the status of its pools.

`kubectl get cpool,cpolicy -o yaml > pools.yaml` and `kubectl get nodes -o yaml > nodes.yaml` give the files.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capacity import model
from capacity.model import Labels, Offering, Plan, Shape, Snapshot
from capacity.plan import plan
from capacity.quantity import money
from capacity.snapshot import book
from corral.files import InputError, Object, load, named, of_kind
from corral.known import known
from corral.manifests import gangs
from corral.report import Answer, show
from corral.strict import unknown
from kube import core, nodes, ours, podrules, podspec
from kube.meta import ObjectMeta, Record
from kube.pools import selects
from kube.times import instant
from provisioner.asking.parameters import ParameterError, Terms, poolless, terms
from provisioner.telling.outcomes import bound, by_policy


def run(files: Sequence[Path], output: str = "text") -> int:
    """Plans each workload of the files in turn, each on what the ones before left. Prints the plans or why there is none, as
    `output` (one of report.OUTPUTS) says.

    Returns 0 when all fit, else 1. Raises InputError.
    """
    items = load(files)
    there = known(items)
    wanted = gangs(items, there)
    if not wanted:
        raise InputError("no workload in the files: give a Job, JobSet, Workload or pod group with -f")
    _strict(items)
    agreed = _agreed(of_kind(items, "CapacityPolicy", ours.CapacityPolicy))
    pools = _pools(of_kind(items, "CapacityPool", ours.CapacityPool), agreed)
    machines, pods = of_kind(items, "Node", core.Node), of_kind(items, "Pod", core.Pod)
    here = snapshot(pools, machines, pods, namespaces=there.namespaces, now=int(time.time()))
    outcomes: list[Answer] = []
    for gang in (replace(gang, run_duration=agreed.run_duration) for gang in wanted):
        asked = bound(gang, agreed, here)
        outcome = by_policy(plan(asked, here, agreed.preferences), gang, asked)
        outcomes.append((gang.name, outcome))
        if isinstance(outcome, Plan):
            here = book(here, outcome, gang.name)
    show(outcomes, output)
    return 0 if all(isinstance(outcome, Plan) for _, outcome in outcomes) else 1


def _strict(items: Iterable[Object]) -> None:
    """What pools and policies ask for must be what they can be asked for."""
    kinds: Mapping[str, type[Record]] = {"CapacityPool": ours.CapacityPoolSpec, "CapacityPolicy": ours.CapacityPolicySpec}
    for item in items:
        if item["kind"] in kinds and (field := unknown(item.get("spec"), kinds[item["kind"]])):
            raise InputError(f"{named(item)}: there is no field {field}: correct or remove it")


def _pools(pools: Sequence[ours.CapacityPool], agreed: Terms) -> Sequence[ours.CapacityPool]:
    if not pools:
        raise InputError("no CapacityPool in the files: kubectl get cpool -o yaml gives those of a cluster, status included")
    names = [pool.metadata.name for pool in pools]
    if reason := poolless(agreed, names):
        raise InputError(reason)
    return [pool for pool in pools if not agreed.pools or pool.metadata.name in agreed.pools]


def snapshot(
    pools: Sequence[ours.CapacityPool],
    machines: Sequence[core.Node],
    pods: Iterable[core.Pod],
    *,
    now: int,
    namespaces: Mapping[str, Labels] = podrules.NO_NAMESPACES,
) -> Snapshot:
    """What the files know: offerings and reservations from the pools' status, nodes and the pods on them as they are; a node of
    no pool stands by.
    """
    there: dict[str, list[core.Pod]] = {}
    for pod in pods:
        there.setdefault(pod.spec.node_name, []).append(pod)
    pool_of = {each.metadata.name: _pool(pools, each) for each in machines}
    keys = dict.fromkeys(key for pool in pools for key in pool.spec.topology_keys)
    on = [(each, there.get(each.metadata.name, []), pool_of[each.metadata.name]) for each in machines]
    return Snapshot(
        now=now,
        nodes=tuple(_node(machine, pods_there, pool, namespaces) for machine, pods_there, pool in on if pool),
        offerings=tuple(offering for pool in pools for offering in _offerings(pool)),
        topology_keys=tuple(keys),
        reservations=tuple(_use(r) for pool in pools for r in pool.status.reservations),
        bystanders=tuple(nodes.bystander(machine, pods_there, namespaces) for machine, pods_there, pool in on if not pool),
    )


def _pool(pools: Sequence[ours.CapacityPool], machine: core.Node) -> str:
    return next((pool.metadata.name for pool in pools if selects(pool, machine.metadata.labels)), "")


def _node(machine: core.Node, pods: Sequence[core.Pod], pool: str, namespaces: Mapping[str, Labels]) -> model.Node:
    try:
        return nodes.node(machine, pods, pool=pool, namespaces=namespaces)
    except ValueError as error:
        raise InputError(f"Node {machine.metadata.name}, with its pods: {error}") from None


def _offerings(pool: ours.CapacityPool) -> Iterable[Offering]:
    name = pool.metadata.name
    if not pool.spec.provider.adopted and not pool.status.shapes:
        raise InputError(
            f"CapacityPool {name}: status.shapes is empty: take the pool from a cluster where Corral has discovered it "
            "(kubectl get cpool -o yaml), or write status.shapes and status.offerings by hand"
        )
    shapes = {shape.name: _shape(pool, shape) for shape in pool.status.shapes}
    for item in pool.status.offerings:
        if item.shape not in shapes:
            raise InputError(f"CapacityPool {name}: status.offerings {item.name}: shape {item.shape} is not in status.shapes")
        try:
            yield _offering(name, item, shapes[item.shape])
        except ValueError as error:
            raise InputError(f"CapacityPool {name}: status.offerings {item.name}: {error}") from None


def _shape(pool: ours.CapacityPool, item: ours.ShapeStatus) -> Shape:
    try:
        amounts = nodes.amounts(dict(item.allocatable))
    except ValueError as error:
        raise InputError(f"CapacityPool {pool.metadata.name}: status.shapes {item.name}: allocatable {error}") from None
    return Shape(name=item.name, allocatable=amounts, labels=item.labels, taints=podspec.taints(item.taints))


def _offering(pool: str, item: ours.OfferingStatus, shape: Shape) -> Offering:
    if min(item.available, item.total) < 0:
        raise ValueError(f"available is {item.available} and total {item.total}: write 0 or more")
    return Offering(
        name=item.name,
        pool=pool,
        source=item.source,
        shape=shape,
        capacity_type=model.CapacityType(item.capacity_type),
        available=item.available,
        total=item.total,
        price=money(item.price_per_hour),
        domain={model.ZONE: item.zone, **item.domain},
        reservation=item.reservation_id or None,
        starts=_epoch(item.starts),
        ends=_epoch(item.ends),
        unavailable=item.unavailable,
    )


def _epoch(text: str | None) -> int | None:
    return int(instant(text).timestamp()) if text else None


def _use(r: ours.ReservationStatus) -> model.ReservationUse:
    return model.ReservationUse(r.id, r.shape, r.zone, r.total, r.booked, r.outside, r.quarantined, r.spare, r.free)


def _agreed(policies: Sequence[ours.CapacityPolicy]) -> Terms:
    """The terms of the one policy in the files, else of a policy in which nothing is set."""
    if len(policies) > 1:
        names = ", ".join(policy.metadata.name for policy in policies)
        raise InputError(f"{len(policies)} CapacityPolicies in the files ({names}): leave only the one to plan by")
    policy = policies[0] if policies else ours.CapacityPolicy(metadata=ObjectMeta(name="default"))
    try:
        return terms({"policy": policy.metadata.name}, lambda _: policy)
    except ParameterError as error:
        raise InputError(str(error)) from None
