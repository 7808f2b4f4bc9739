"""Nodes that have been silent for so long that pods which were told to end count as ended there.

Where a kubelet hangs, Kubernetes tells the pods to end and waits for the kubelet to say that they have: the objects stay until
the Node goes (docs of Kubernetes 1.36, "Nodes" and "Node Shutdowns"). Such pods keep neither a machine nor its booking. How long
is long, and how many are too many to be believed, are Karpenter's figures for the repair of nodes (`RepairPolicies` of its AWS
provider, `allowedUnhealthyPercent` of its controller node.health, 1.8). A pod that nobody told to end always counts.
While too many are not Ready, of those that were once, no node is given up for that alone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum, auto

from kube import core
from kube.pools import selects
from kube.times import instant, length
from provisioner import live
from provisioner.ending.disruption import is_stranger
from provisioner.state import State
from provisioner.steps import LOST
from provisioner.view import selecting
from runtime import metrics
from runtime.client import Client
from runtime.errors import NotFound

LONG = 1800
"""Seconds that a node must be not Ready without interruption."""
JOINING = 60
"""Seconds from the Node's creation: one that is not Ready since then never was."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an operator says that the machine is off (docs of Kubernetes 1.36, "Node Shutdowns")."""
SHARE = 5
"""More than one in SHARE of a pool's nodes not Ready, rounded up: the network or the API server is in doubt, not the nodes."""


class Use(Enum):
    """What a live look finds on a node. LEFT_BEHIND: only pods that were told to end long ago."""

    NONE = auto()
    LEFT_BEHIND = auto()
    PODS = auto()


def silent(node: core.Node, now: datetime, seconds: int = LONG) -> bool:
    """Whether it has not been Ready for so long. No known beginning means no."""
    since = _unready_since(node)
    return since is not None and (now - since).total_seconds() >= seconds


def doubted(state: State, node: core.Node) -> bool:
    """Whether it was Ready and is not, as too many of its pools: then it may well run. Not if its cloud or an operator says that
    it doesn't.
    """
    off = any(each.key == OUT_OF_SERVICE for each in node.spec.taints) or _ended(state, node)
    return not (node.ready or _never_came(node) or off) and _doubted(state, node)


def too_many(unready: int, nodes: int) -> bool:
    return unready > math.ceil(nodes / SHARE)


def counting(state: State, pods: Sequence[core.Pod], now: datetime, fresh: core.Node | None = None) -> list[core.Pod]:
    """Those that count where they are bound. `fresh` is a node that was just read, in place of the stored one."""
    late = {pod.spec.node_name for pod in pods if _told(pod, now)}
    nodes = {name: fresh if fresh and fresh.metadata.name == name else state.nodes.get(("", name)) for name in late}
    dead = {name for name, node in nodes.items() if node and silent(node, now) and not _doubted(state, node)}
    return [pod for pod in pods if pod.spec.node_name not in dead or not _told(pod, now)]


def strangers(state: State, pods: Iterable[core.Pod], now: datetime, fresh: core.Node | None = None) -> list[core.Pod]:
    """Those that count and that neither a DaemonSet nor the node itself runs, whatever booking they belong to."""
    return counting(state, [pod for pod in pods if is_stranger(pod, home=state.home)], now, fresh)


async def use(client: Client, state: State, name: str, now: datetime) -> Use:
    """What runs on the node of this name, live. Raises ApiError and TransportError."""
    pods = [pod for pod in await live.pods_on(client, name) if is_stranger(pod, home=state.home)]
    if not pods or not all(_told(pod, now) for pod in pods):
        return Use.PODS if pods else Use.NONE
    try:
        node = await live.node(client, name)
    except NotFound:
        return Use.PODS
    return Use.PODS if counting(state, pods, now, node) else Use.LEFT_BEHIND


def alarm(state: State, pool: str, now: datetime) -> str:
    """Why nothing is concluded from the silence of nodes of this pool, "" if there is no doubt or none is silent."""
    chosen = state.pool(pool)
    there = (node for node in state.nodes.values() if chosen and selects(chosen, node.metadata.labels))
    nodes = [node for node in there if not _never_came(node)]
    unready = sorted(node.metadata.name for node in nodes if not node.ready)
    if not too_many(len(unready), len(nodes)) or not any(silent(node, now, LOST) for node in nodes):
        return ""
    return (
        f"{len(unready)} of {len(nodes)} nodes are not Ready, such as {', '.join(unready[:3])}: none is given up for that, and "
        f"pods there that were told to end keep their machines even after {length(LONG)}; check the network, then the nodes"
    )


def silent_nodes(state: State, now: datetime) -> metrics.Series:
    """How many nodes of each pool are silent."""
    nodes = [node for node in state.nodes.values() if silent(node, now)]
    found = Counter(pool for node in nodes for pool in selecting(node, state.pools.values()))
    return [(found[pool.metadata.name], {"pool": pool.metadata.name}) for pool in state.pools.values()]


def _never_came(node: core.Node) -> bool:
    """Whether it has not been Ready since it is there: one that boots says nothing of the network."""
    created, since = node.metadata.creation_timestamp, _unready_since(node)
    return bool(created and since and (since - instant(created)).total_seconds() < JOINING)


def _unready_since(node: core.Node) -> datetime | None:
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status == "True" or not ready.last_transition_time:
        return None
    return instant(ready.last_transition_time)


def _ended(state: State, node: core.Node) -> bool:
    machines = (known.machine(node.spec.provider_id) for known in state.known.values())
    return any(each and each.state.ending for each in machines)


def _told(pod: core.Pod, now: datetime) -> bool:
    """Whether it was told to end and had the time for it: its deletionTimestamp includes the grace period."""
    end = pod.metadata.deletion_timestamp
    return end is not None and instant(end) <= now


def _doubted(state: State, node: core.Node) -> bool:
    """Whether so many nodes of its pools are not Ready that it is hardly the nodes. All that came are counted once, not for each
    of many that fell silent together.
    """
    if not state.tally:
        for each in (node for node in state.nodes.values() if not _never_came(node)):
            state.tally.setdefault(selecting(each, state.pools.values()), Counter())[each.ready] += 1
    found = state.tally.get(selecting(node, state.pools.values()), Counter())
    return too_many(found[False], found.total())
