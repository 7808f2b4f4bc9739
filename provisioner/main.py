"""The provisioner service: `python -m provisioner.main --config FILE`, or `corral provisioner --config FILE`."""

import argparse
import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from kube import autoscaling, core, kueue, ours, resources, storage
from provisioner import bookings, waking
from provisioner.buying.backoff import Backoffs
from provisioner.clouds.registry import Clouds
from provisioner.ending.pace import Pace
from provisioner.ending.reaper import Reaper
from provisioner.ending.scalein import ScaleInLoop
from provisioner.nodes.checkups import CHECKUP
from provisioner.pools import PoolReconciler
from provisioner.requests import ALL, Planner
from provisioner.settings import ProvisionerSettings
from provisioner.state import MANAGER, State
from provisioner.telling.policies import PolicyReconciler
from provisioner.telling.savings import Meter
from runtime import logging, metrics
from runtime.client import Client, Resource
from runtime.controller import Controller
from runtime.errors import ApiError, TransportError
from runtime.events import Recorder
from runtime.manager import Manager
from runtime.settings import load

REPORTER = "corral.dev/provisioner"
POOL_DEBOUNCE = 1.0
"""Seconds: a pool's status follows changes of nodes and bookings this much later, all of them at once."""
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"


async def run(config_path: str | Path) -> None:
    """Until SIGTERM. Raises SettingsError for a file that can't be used, the API's errors, what Manager.run raises."""
    settings = load(config_path, ProvisionerSettings)
    logging.setup(settings.logging.level, settings.logging.format)
    client = await Client.connect(settings.client_connection)
    try:
        cluster = await _cluster_uid(client)
    except (ApiError, TransportError):
        await client.close()
        raise
    clouds = Clouds()
    try:
        await build(settings, client, cluster, clouds).run()
    finally:
        await clouds.close()


async def _cluster_uid(client: Client) -> str:
    """The uid of namespace kube-system: it is as old as the cluster, and no other has it."""
    found = await client.get(Resource(*resources.NAMESPACES), "kube-system")
    return str(found["metadata"]["uid"])


def build(settings: ProvisionerSettings, client: Client, cluster: str, clouds: Clouds) -> Manager:
    """The manager with everything registered. `cluster` is the uid of namespace kube-system."""
    manager = Manager(settings, client, MANAGER, clouds.fence)
    client = manager.client
    state = _state(manager, settings, cluster)
    state.bookings.on_change(lambda old, new: state.ledger.settle(old, _now()) if old and new is None else None)
    recorder = Recorder(client, REPORTER, _now)

    planner = Planner(state, client, recorder, _now)
    planning = Controller("planner", planner.reconcile, timeout=600.0, backoff_base=0.5)
    wake_planner = _debounced(planning, ALL, settings.debounce_seconds)
    planning.watch(state.requests, lambda _: [ALL])
    waking.wake_planner(state, wake_planner, lambda: planner.leaning)
    metrics.gauge("corral_requests_waiting", "Requests that wait, by reason", lambda: _waiting(planner))

    pace = Pace(settings.terminations_per_minute)
    keeping = bookings.controller(bookings.BookingReconciler(state, client, recorder, _now, pace, planner.accepted), state)

    def changed() -> None:
        wake_planner()
        for name in waking.announced(state):
            keeping.enqueue(name)

    looking = Controller("pools", PoolReconciler(state, client, recorder, clouds, _now, changed).reconcile, workers=4)
    looking.watch(state.pools, lambda pool: [pool.metadata.name])
    waking.wake_pools(state, lambda pool: looking.enqueue(pool, after=POOL_DEBOUNCE))
    state.backoffs.changed = state.refusals.changed = looking.enqueue

    judging = Controller("policies", PolicyReconciler(state, client, recorder, _now).reconcile)
    judging.watch(state.policies, lambda policy: [policy.metadata.name])
    judging.watch(state.pools, lambda _: [policy.metadata.name for policy in state.policies.values()])

    for controller in (planning, looking, judging, keeping):
        manager.controller(controller)
    manager.background("scale-in", ScaleInLoop(state, client, _now, pace).run)
    manager.background("savings", Meter(state, _now).run)
    manager.background("reaper", Reaper(state, client, _now, pace).run)
    return manager


def _state(manager: Manager, settings: ProvisionerSettings, cluster: str) -> State:
    return State(
        settings=settings,
        installation=settings.installation or cluster,
        cluster=cluster,
        nodes=manager.reflector(Resource(*resources.NODES), core.Node),
        pods=manager.reflector(Resource(*resources.PODS), core.Pod, field_selector=LIVE_PODS),
        daemon_sets=manager.reflector(Resource(*resources.DAEMON_SETS), core.DaemonSet),
        requests=manager.reflector(Resource(*resources.PROVISIONING_REQUESTS), autoscaling.ProvisioningRequest),
        templates=manager.reflector(Resource(*resources.POD_TEMPLATES), core.PodTemplate),
        workloads=manager.reflector(Resource(*resources.WORKLOADS), kueue.Workload),
        checks=manager.reflector(Resource(*resources.ADMISSION_CHECKS), kueue.AdmissionCheck),
        flavors=manager.reflector(Resource(*resources.RESOURCE_FLAVORS), kueue.ResourceFlavor),
        topologies=manager.reflector(Resource(*resources.TOPOLOGIES), kueue.Topology, optional=True),
        cluster_queues=manager.reflector(Resource(*resources.CLUSTER_QUEUES), kueue.ClusterQueue),
        configs=manager.reflector(Resource(*resources.PROVISIONING_REQUEST_CONFIGS), kueue.ProvisioningRequestConfig),
        pools=manager.reflector(Resource(*resources.CAPACITY_POOLS), ours.CapacityPool),
        policies=manager.reflector(Resource(*resources.CAPACITY_POLICIES), ours.CapacityPolicy),
        bookings=manager.reflector(Resource(*resources.BOOKINGS), ours.Booking),
        runtime_classes=manager.reflector(Resource(*resources.RUNTIME_CLASSES), core.RuntimeClass),
        namespaces=manager.reflector(Resource(*resources.NAMESPACES), core.Namespace),
        device_classes=manager.reflector(Resource(*resources.DEVICE_CLASSES), core.DeviceClass, optional=True),
        claims=manager.reflector(Resource(*resources.PERSISTENT_VOLUME_CLAIMS), storage.PersistentVolumeClaim),
        volumes=manager.reflector(Resource(*resources.PERSISTENT_VOLUMES), storage.PersistentVolume),
        storage_classes=manager.reflector(Resource(*resources.STORAGE_CLASSES), storage.StorageClass),
        csi_drivers=manager.reflector(Resource(*resources.CSI_DRIVERS), storage.CSIDriver),
        jobs=manager.reflector(
            Resource(*resources.JOBS), core.Job, label_selector=CHECKUP, namespace=settings.leader_election.namespace
        ),
        csi_nodes=manager.reflector(Resource(*resources.CSI_NODES), storage.CSINode),
        backoffs=Backoffs(installation=settings.installation or cluster),
    )


def _debounced(controller: Controller[str], key: str, after: float) -> Callable[[], None]:
    return lambda: controller.enqueue(key, after=after)


def _waiting(planner: Planner) -> Iterable[tuple[float, dict[str, str]]]:
    return [(count, {"reason": reason}) for reason, count in planner.waiting.items()]


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--config", required=True, help="path of the Configuration file")
    asyncio.run(run(arguments.parse_args().config))
