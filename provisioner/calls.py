"""Every call that leaves the provisioner, and what it is for. Its role (config/rbac) allows these, and the fault tests break
each of them; a call that isn't here fails them.
"""

from collections.abc import Mapping

from kube.resources import (
    ADMISSION_CHECKS,
    BOOKINGS,
    CAPACITY_POLICIES,
    CAPACITY_POOLS,
    CLUSTER_QUEUES,
    CSI_DRIVERS,
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    TOPOLOGIES,
    WORKLOADS,
)

WATCHED = (
    *(NODES, PODS, DAEMON_SETS, POD_TEMPLATES, NAMESPACES, RUNTIME_CLASSES, DEVICE_CLASSES),
    *(PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_DRIVERS, CSI_NODES),
    *(WORKLOADS, ADMISSION_CHECKS, RESOURCE_FLAVORS, TOPOLOGIES, CLUSTER_QUEUES, PROVISIONING_REQUEST_CONFIGS),
    *(PROVISIONING_REQUESTS, CAPACITY_POOLS, CAPACITY_POLICIES, BOOKINGS, JOBS),
)
"""Kinds that are listed and watched as long as the process runs."""

WATCH = "what everything rests on"
PAGED = "the same, where the server has no streaming lists"
API: Mapping[str, str] = {
    **{f"watch {kind.plural}": WATCH for kind in WATCHED},
    **{f"list {kind.plural}": PAGED for kind in WATCHED},
    "list pods": "a last look for pods before a machine is ended or a node freed",
    "list nodes": "a last look for the node of a machine that nobody claims",
    "get namespaces": "the installation's identity, once at the start",
    "get bookings": "the one memory of an attempt, before each step",
    "create bookings": "the plan, before anything is marked or bought",
    "update bookings/status": "each step, written before and after its action",
    "delete bookings": "an ended booking whose time to be read is over",
    "patch bookings": "its plan, where others come in place of lost nodes; its finalizer, last of all",
    "get nodes": "the node as it is, before it is patched or ended",
    "patch nodes": "marks, quarantine, closing before scale-in",
    "get provisioningrequests": "whether a request that the store lacks is gone",
    "apply provisioningrequests/status": "its conditions and class details",
    "get workloads": "whether a workload that the store lacks is gone",
    "create pods/eviction": "who runs on a node that is to go is asked to leave",
    "create jobs": "a pool's health check, on each new node",
    "patch capacitypools": "the pool's finalizer",
    "apply capacitypools/status": "what the pool has, and what keeps it from being bought from",
    "apply capacitypolicies/status": "whether the policy can be served",
    "create events": "news for people",
    "get leases": "who leads",
    "create leases": "the first leader",
    "update leases": "to lead on, or to stop",
}
"""`<verb> <plural>[/subresource]` at the API server; `update` is a PUT, `apply` a server-side apply, `patch` a merge patch."""

CLOUD: Mapping[str, str] = {
    "inventory": "what a pool can sell",
    "instances": "machines by tag: of one booking, or of the installation",
    "launch": "buys the machines of one written launch, by its token",
    "terminate": "ends machines that are written down as ending, or that nobody claims",
}
"""Methods of `provisioner.clouds.base.Cloud`, `close` apart."""


def acting() -> list[tuple[str, str]]:
    """Names and purposes of all calls but those that only fill the stores."""
    api = [(f"API server: {name}", why) for name, why in API.items() if why not in (WATCH, PAGED)]
    return [*api, *((f"cloud: {name}", why) for name, why in CLOUD.items())]
