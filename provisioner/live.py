"""The world as the API server tells it at this moment: stores may lag, so it is asked before what can't be undone."""

from collections.abc import Callable, Mapping
from typing import Any

from kube import core
from kube.meta import ObjectKey, decode
from kube.resources import NODES, PODS, Kind
from provisioner.state import MANAGER
from runtime.client import Client, Resource
from runtime.errors import ApiError, Conflict, NotFound, TransportError
from runtime.logging import get_logger

_NODE, _POD = Resource(*NODES), Resource(*PODS)
_log = get_logger("live")


async def still_there(client: Client, kind: Kind, wanted: ObjectKey) -> bool | None:
    """A live look: whether this incarnation exists, None when there is no certain answer.

    A 404 counts only if it names the object: a server that doesn't serve the kind at all answers 404 too.
    """
    try:
        found = await client.get(Resource(*kind), wanted.name, wanted.namespace)
    except NotFound as error:
        return False if f'"{wanted.name}"' in error.message else None
    except (ApiError, TransportError):
        return None
    return not wanted.uid or found["metadata"].get("uid") == wanted.uid


async def node(client: Client, name: str) -> core.Node:
    """Raises NotFound, ApiError and TransportError."""
    return decode(await client.get(_NODE, name), core.Node)


async def pods_on(client: Client, name: str) -> list[core.Pod]:
    """The pods of the node of this name. Raises ApiError and TransportError."""
    return [decode(each, core.Pod) for each in await client.list(_POD, field_selector=f"spec.nodeName={name}")]


async def patch_node(client: Client, name: str, patch: Mapping[str, Any]) -> None:
    """A node that went away needs nothing, one that changed since it was read is seen to in the next turn. Raises ApiError and
    TransportError.
    """
    try:
        await client.patch(_NODE, name, patch, manager=MANAGER)
    except (NotFound, Conflict) as error:
        _log.info("node not patched", node=name, error=str(error))


async def change_node(client: Client, name: str, change: Callable[[core.Node], Mapping[str, Any]]) -> None:
    """Patches it by what it is now, as `patch_node` does; not at all if `change` makes nothing of it."""
    try:
        there = await node(client, name)
    except NotFound as error:
        _log.info("node not patched", node=name, error=str(error))
        return
    if patch := change(there):
        await patch_node(client, name, patch)
