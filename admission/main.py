"""The admission service: `python -m admission.main --config FILE`, or `corral admission --config FILE`."""

import argparse
import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from admission import journeys
from admission.checks import Checks
from admission.settings import AdmissionSettings
from admission.terms import CONTROLLER
from admission.view import BY_MAKER, BY_WORKLOAD, Stores, is_own, maker_uid, workload_uid
from admission.workloads import Workloads
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.kueue import AdmissionCheck, ClusterQueue, ProvisioningRequestConfig, ResourceFlavor, Workload
from kube.makers import JobSet, LeaderWorkerSet, StatefulSet
from kube.ours import CapacityPolicy
from kube.queued_pods import MANAGED_BY_KUEUE, UNFINISHED, QueuedPod
from kube.request_marks import MANAGED, WORKLOAD, WORKLOAD_UID
from runtime import logging
from runtime.client import Client, Resource
from runtime.controller import Controller
from runtime.events import Outbox
from runtime.manager import Manager
from runtime.settings import load
from runtime.store import Key, Object, key_of

NAME = "corral-admission"
ANSWERED = 1
"""Priority of workloads whose request has news, over those that only begin: what is secured costs money until they run."""


async def run(config_path: str) -> None:
    """Until SIGTERM. Raises SettingsError for a file that can't be used, and what Manager.run raises."""
    settings = load(config_path, AdmissionSettings)
    logging.setup(settings.logging.level, settings.logging.format)
    client = await Client.connect(settings.client_connection)
    await build(settings, client).run()


def build(settings: AdmissionSettings, client: Client) -> Manager:
    """The manager with everything registered."""
    manager = Manager(settings, client, NAME)
    client = manager.client
    stores = _stores(manager)
    recorder, now = Outbox(client, CONTROLLER, _now), _now
    manager.background("events", recorder.run)
    reconciler = Workloads(client, stores, recorder, now, settings.tracing.annotation)
    manager.controller(_workloads(reconciler, stores, settings.workers))
    manager.controller(_checks(Checks(client, stores, recorder, now), stores))
    journeys.publish_waiting(stores)
    return manager


def _stores(manager: Manager) -> Stores:
    requests = manager.reflector(
        Resource(*resources.PROVISIONING_REQUESTS), ProvisioningRequest, label_selector=f"{MANAGED}=true,{WORKLOAD_UID}"
    )
    requests.add_index(BY_WORKLOAD, workload_uid)
    workloads = manager.reflector(Resource(*resources.WORKLOADS), Workload)
    workloads.add_index(BY_MAKER, maker_uid)
    return Stores(
        workloads=workloads,
        requests=requests,
        checks=manager.reflector(Resource(*resources.ADMISSION_CHECKS), AdmissionCheck),
        policies=manager.reflector(Resource(*resources.CAPACITY_POLICIES), CapacityPolicy),
        configs=manager.reflector(Resource(*resources.PROVISIONING_REQUEST_CONFIGS), ProvisioningRequestConfig),
        queues=manager.reflector(Resource(*resources.CLUSTER_QUEUES), ClusterQueue),
        flavors=manager.reflector(Resource(*resources.RESOURCE_FLAVORS), ResourceFlavor),
        job_sets=manager.reflector(Resource(*resources.JOB_SETS), JobSet, optional=True),
        leader_worker_sets=manager.reflector(Resource(*resources.LEADER_WORKER_SETS), LeaderWorkerSet, optional=True),
        stateful_sets=manager.reflector(Resource(*resources.STATEFUL_SETS), StatefulSet),
        pods=manager.reflector(Resource(*resources.PODS), QueuedPod, label_selector=MANAGED_BY_KUEUE, field_selector=UNFINISHED),
    )


def _workloads(reconciler: Workloads, stores: Stores, workers: int) -> Controller[Key]:
    """Queues are not watched for this: their status changes with every workload, and no attempt depends on them."""
    controller = Controller("workloads", reconciler.reconcile, workers=workers)

    def begins(workload: Workload) -> bool:
        return bool(workload.status.admission_checks) and workload.quota_reserved and not workload.admitted

    def unadmitted(_: Object) -> Iterator[Key]:
        """All workloads whose attempt may begin only now; those under way don't depend on settings."""
        return (key_of(each) for each in stores.workloads.values() if begins(each))

    def made(maker: JobSet | LeaderWorkerSet | StatefulSet | QueuedPod) -> Iterator[Key]:
        """A workload may be seen before the JobSet or the pods that it is of."""
        return (key_of(each) for each in stores.workloads.by(BY_MAKER, maker.metadata.uid) if begins(each))

    controller.watch(stores.workloads, lambda each: [key_of(each)] if each.status.admission_checks else [])
    controller.watch(stores.requests, _workload_of, priority=ANSWERED)
    controller.watch(stores.checks, unadmitted)
    controller.watch(stores.policies, unadmitted)
    controller.watch(stores.configs, unadmitted)
    controller.watch(stores.flavors, unadmitted)
    controller.watch(stores.job_sets, made)
    controller.watch(stores.leader_worker_sets, made)
    controller.watch(stores.stateful_sets, made)
    controller.watch(stores.pods, made)
    return controller


def _workload_of(request: ProvisioningRequest) -> Iterator[Key]:
    if name := request.metadata.annotations.get(WORKLOAD):
        yield request.metadata.namespace, name


def _checks(reconciler: Checks, stores: Stores) -> Controller[Key]:
    controller = Controller("admissionchecks", reconciler.reconcile)

    def own(_: Object) -> Iterator[Key]:
        yield from (key_of(each) for each in stores.checks.values() if is_own(each))

    controller.watch(stores.checks, lambda each: [key_of(each)])
    controller.watch(stores.policies, own)
    controller.watch(stores.configs, own)
    return controller


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--config", required=True, help="path of the Configuration file")
    asyncio.run(run(arguments.parse_args().config))
