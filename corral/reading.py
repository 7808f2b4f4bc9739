"""Reads the cluster's objects with the user's own rights, which often end at a namespace."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from kube.kueue import Workload
from kube.meta import Record, decode
from kube.resources import WORKLOADS, Kind
from runtime.client import Client, Resource
from runtime.errors import Forbidden, NotFound

R = TypeVar("R", bound=Record)


class Reader:
    """What the user may not read is left out: `hidden` are the kinds (plural) that were refused."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hidden: set[str] = set()

    async def get(self, kind: Kind, type_: type[R], name: str, namespace: str = "") -> R | None:
        """None where there is no such object, or no right to read it."""
        try:
            return decode(await self._client.get(Resource(*kind), name, namespace), type_)
        except NotFound:
            return None
        except Forbidden:
            self.hidden.add(kind.plural)
            return None

    async def list(self, kind: Kind, namespace: str = "", **narrow: str) -> list[dict[str, Any]]:
        """Of all namespaces where none is named; `narrow` are the client's selectors."""
        try:
            return await self._client.list(Resource(*kind), namespace, **narrow)
        except Forbidden:
            self.hidden.add(kind.plural)
            return []

    async def all(self, kind: Kind, type_: type[R], namespace: str = "", **narrow: str) -> tuple[R, ...]:
        """As views."""
        return tuple([decode(item, type_) for item in await self.list(kind, namespace, **narrow)])

    async def workloads(self, namespace: str) -> tuple[Workload, ...]:
        """Raises Forbidden: without them there is no answer."""
        return tuple([decode(item, Workload) for item in await self._client.list(Resource(*WORKLOADS), namespace)])


def left_out(hidden: Iterable[str]) -> Iterator[str]:
    """A line on the kinds that the user may not read."""
    if names := ", ".join(hidden):
        yield f"  left out, for you have no right to read them: {names} (ClusterRole corral-viewer has it)"
