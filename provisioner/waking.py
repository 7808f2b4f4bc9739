"""What wakes what: the changes of stored objects that planning passes and pools' statuses rest on, and none other."""

from collections.abc import Callable, Iterable

from kube import core, kueue, ours, storage
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.slices import before
from kube.volumes import limited
from provisioner.asking.leaning import Leaning
from provisioner.nodes import marks
from provisioner.state import BOOKINGS_BY_GIVER, BOOKINGS_BY_REQUEST, BOOKINGS_BY_WORKLOAD, TAG_BOOKING, State
from runtime.controller import Controller
from runtime.store import Object, Store

Wake = Callable[[], None]


def wake_planner(state: State, wake: Wake, leaning: Callable[[], Leaning]) -> None:
    """A pass for all that a plan rests on. Changes that no plan depends on wake nobody: heartbeats, statuses of our own, claims
    that no waiting gang names. `leaning` tells what the waiting gangs lean on beside their templates.
    """
    state.nodes.on_change(lambda old, new: wake() if _node_facts(old) != _node_facts(new) else None)
    state.pods.on_change(lambda old, new: wake() if _pod_facts(old) != _pod_facts(new) else None)
    state.namespaces.on_change(lambda old, new: wake() if _labels(old) != _labels(new) else None)
    state.workloads.on_change(lambda old, new: wake() if _quota_facts(old) != _quota_facts(new) else None)
    state.pools.on_change(lambda old, new: wake() if _spec(old) != _spec(new) else None)
    state.policies.on_change(lambda old, new: wake() if _spec(old) != _spec(new) else None)
    quiet: Iterable[Store[core.PodTemplate] | Store[ours.Booking] | Store[core.DaemonSet]]
    quiet = (state.templates, state.bookings, state.daemon_sets)
    for store in quiet:
        store.on_change(lambda _old, _new: wake())
    state.checks.on_change(lambda _old, _new: wake())
    state.configs.on_change(lambda _old, _new: wake())
    state.topologies.on_change(lambda _old, _new: wake())
    state.device_classes.on_change(lambda old, new: wake() if _served(old) != _served(new) else None)
    _wake_on_what_pods_name(state, wake, leaning)


def _wake_on_what_pods_name(state: State, wake: Wake, leaning: Callable[[], Leaning]) -> None:
    def if_leant_on(_old: Object | None, _new: Object | None) -> None:
        if leaning().any:
            wake()

    def claim(old: storage.PersistentVolumeClaim | None, new: storage.PersistentVolumeClaim | None) -> None:
        there = new or old
        named = there and (there.metadata.namespace, there.metadata.name) in leaning().claims
        if named and _claim_facts(old) != _claim_facts(new):
            wake()

    def volume(old: storage.PersistentVolume | None, new: storage.PersistentVolume | None) -> None:
        held = {(ref.namespace, ref.name) for each in (old, new) if each and (ref := each.spec.claim_ref)}
        if held & leaning().claims and _volume_facts(old) != _volume_facts(new):
            wake()

    state.claims.on_change(claim)
    state.volumes.on_change(volume)
    state.storage_classes.on_change(if_leant_on)
    state.csi_drivers.on_change(if_leant_on)
    state.runtime_classes.on_change(if_leant_on)
    state.csi_nodes.on_change(lambda old, new: if_leant_on(old, new) if _limits(old) != _limits(new) else None)


def wake_pools(state: State, enqueue: Callable[[str], None]) -> None:
    """Pool statuses count nodes and bookings, and name DaemonSets, flavors and PodTemplates. `enqueue` takes a pool's name."""

    def all_pools(_old: Object | None, _new: Object | None) -> None:
        for pool in state.pools.values():
            enqueue(pool.metadata.name)

    state.nodes.on_change(lambda old, new: all_pools(old, new) if _node_facts(old) != _node_facts(new) else None)
    state.bookings.on_change(all_pools)
    state.daemon_sets.on_change(lambda old, new: all_pools(old, new) if _template(old) != _template(new) else None)
    state.flavors.on_change(all_pools)
    state.topologies.on_change(all_pools)
    state.templates.on_change(lambda old, new: all_pools(old, new) if _at_home(state, new or old) else None)


# --- what counts of each --------------------------------------------------------------------------------------------------


def announced(state: State) -> list[str]:
    """Names of the bookings that hold machines of which their cloud says that they will end: a notice may be minutes long."""
    ending = {each.id for known in state.known.values() for each in known.inventory.reservations if each.ends is not None}
    machines = (machine for known in state.known.values() for machine in known.instances)
    leaving = {each.provider_id for each in machines if each.announced or each.reservation in ending}
    return [booking.metadata.name for booking in state.bookings.values() if leaving & _machines(booking)]


def _machines(booking: ours.Booking) -> set[str]:
    """providerIDs."""
    return {each.provider_id for each in booking.spec.nodes} | {each.provider_id for each in booking.status.instances}


def _node_facts(node: core.Node | None) -> object:
    return node and (node.metadata.labels, node.spec, node.status.allocatable, node.ready, node.metadata.deletion_timestamp)


def _pod_facts(pod: core.Pod | None) -> object:
    return pod and (pod.spec.node_name, pod.terminal, pod.metadata.labels, pod.metadata.deletion_timestamp)


def _labels(item: core.Namespace | None) -> object:
    return item and item.metadata.labels


def _quota_facts(workload: kueue.Workload | None) -> object:
    if workload is None:
        return None
    status = workload.status
    checks = [state.name for state in status.admission_checks]
    holds = workload.quota_reserved, workload.evicted, workload.finished
    return workload.metadata.uid, workload.spec.active, holds, checks, status.reclaimable_pods


def _spec(item: ours.CapacityPool | ours.CapacityPolicy | None) -> object:
    return item and (item.metadata.uid, item.spec)


def _at_home(state: State, template: core.PodTemplate | None) -> bool:
    """Whether health checks may be made of it."""
    return template is not None and template.metadata.namespace == state.home


def _template(daemon_set: core.DaemonSet | None) -> object:
    return daemon_set and daemon_set.spec


def _served(item: core.DeviceClass | None) -> str:
    return item.spec.extended_resource_name if item else ""


def _claim_facts(item: storage.PersistentVolumeClaim | None) -> object:
    return item and (item.metadata.annotations, item.metadata.deletion_timestamp, item.spec, item.status)


def _volume_facts(item: storage.PersistentVolume | None) -> object:
    return item and (item.metadata.labels, item.spec)


def _limits(item: storage.CSINode | None) -> frozenset[str]:
    return limited([item] if item else [])


def wake_bookings(state: State, controller: Controller[str]) -> None:
    """By changes of bookings, and of all that they rest on."""

    def named(found: Iterable[ours.Booking]) -> list[str]:
        return [each.metadata.name for each in found]

    def of_request(request: ProvisioningRequest) -> list[str]:
        return named(state.bookings.by(BOOKINGS_BY_REQUEST, request.metadata.uid))

    def of_workload(workload: Workload) -> list[str]:
        whose = (workload, *before(workload, state.workloads.get))
        return [name for each in whose for name in named(state.bookings.by(BOOKINGS_BY_WORKLOAD, each.metadata.uid))]

    def of_node(node: core.Node) -> Iterable[str]:
        return marks.bookings_on(node.metadata.labels)

    def of_pod(pod: core.Pod) -> Iterable[str]:
        node = state.nodes.get(("", pod.spec.node_name)) if pod.spec.node_name else None
        return marks.bookings_on(pod.spec.node_selector) | (marks.bookings_on(node.metadata.labels) if node else set())

    def of_booking(booking: ours.Booking) -> Iterable[str]:
        """Itself, those that give it nodes, and those that it gives nodes to."""
        givers = {each.taken_over for each in booking.spec.nodes} - {""}
        return {booking.metadata.name, *givers, *named(state.bookings.by(BOOKINGS_BY_GIVER, booking.metadata.name))}

    controller.watch(state.bookings, of_booking)
    controller.watch(state.requests, of_request)
    controller.watch(state.workloads, of_workload)
    controller.watch(state.nodes, of_node)
    controller.watch(state.pods, of_pod)
    controller.watch(state.jobs, lambda job: filter(None, [job.metadata.labels.get(TAG_BOOKING)]))
