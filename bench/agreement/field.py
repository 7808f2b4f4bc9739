"""Where cases meet the real scheduler: pods are created, and what became of each is told once the scheduler has nothing left to
consider.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.agreement.api import MERGE, Api, RefusedError, path
from bench.agreement.cases import Case, Json
from e2e.controlplane.layout import Layout

_LONGEST = 90.0
_LOOK = 0.15

Key = tuple[str, str]  # namespace and name of a pod


@dataclass
class Fate:
    """What became of a pod: the node that it is bound to, or why it isn't ("" while that is open)."""

    node: str = ""
    reason: str = ""
    message: str = ""
    over: bool = False

    @property
    def known(self) -> bool:
        return bool(self.node or self.reason)


@dataclass
class Field:
    """One control plane. `refused` counts objects that the API server didn't take, with its words: a generator's mistake."""

    api: Api
    fates: dict[Key, Fate] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    held: list[Key] = field(default_factory=list)
    last_event: float = 0.0

    @classmethod
    @asynccontextmanager
    async def open(cls, layout: Layout) -> AsyncIterator["Field"]:
        async with Api.open(layout) as api:
            here = cls(api)
            watching = asyncio.create_task(here._watch())
            try:
                await here.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
                yield here
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching

    async def stand(self, cases: Iterable[Case]) -> None:
        """Create all that is there before any pod of a gang comes, and wait until the scheduler knows of it."""
        cases = list(cases)
        await asyncio.gather(*(self._stand(case) for case in cases))
        await self._until_cached()

    async def run(self, pods: Mapping[str, Sequence[Json]]) -> dict[str, dict[str, Fate]]:
        """Create each case's pods in the order given, wait until all is decided, delete them again.

        Returns case id -> pod name -> fate. A case of which a pod is refused is left out and counted.
        """
        await asyncio.gather(*(self._create_in_order(case, items) for case, items in pods.items()))
        wanted = {case: [_key(item) for item in items] for case, items in pods.items() if case not in self.refused}
        await self._settle([key for keys in wanted.values() for key in keys])
        found = {case: {key[1]: self.fates.get(key, Fate()) for key in keys} for case, keys in wanted.items()}
        await asyncio.gather(*(self.api.delete_pod(*_key(item)) for items in pods.values() for item in items))
        await self._until_gone([_key(item) for items in pods.values() for item in items])
        return found

    async def add_nodes(self, nodes: Iterable[Json], pods: Iterable[Json] = ()) -> None:
        await asyncio.gather(*(self.api.create(node) for node in nodes))
        await asyncio.gather(*(self.api.create(pod) for pod in pods))
        await self._until_cached()

    async def patch_nodes(self, changes: Mapping[str, Json]) -> None:
        """Merge patches by node name; a moment later the scheduler has seen them."""
        await asyncio.gather(*(self.api.patch("Node", name, change) for name, change in changes.items()))
        await asyncio.sleep(0.3)

    async def clear(self, cases: Iterable[Case]) -> None:
        """Remove nodes and running pods; the rest stands in nobody's way."""
        namespaces = sorted({key[0] for key in self.fates} | {case.id for case in cases})
        await asyncio.gather(*(self.api.release_pod(*key) for key in self.held))
        self.held.clear()
        body = {"gracePeriodSeconds": 0}
        await asyncio.gather(*(self.api.call("DELETE", path("Pod", namespace), body) for namespace in namespaces))
        await self.api.call("DELETE", path("Node"))
        await self._until(lambda: not self.fates, "pods go away")
        await self._until_cached()

    async def _stand(self, case: Case) -> None:
        try:
            await self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.id}})
            for item in (*case.others, *case.nodes):
                await self.api.create(item)
            for pod in case.pods:
                await self._run_already(pod)
        except RefusedError as error:
            self.refused[case.id] = str(error)

    async def _run_already(self, pod: Json) -> None:
        """A pod that runs; if its metadata or status says so, it is over, or being deleted."""
        await self.api.create(pod)
        if "status" in pod:
            target = path("Pod", *_key(pod))
            await self.api.call("PATCH", f"{target}/status", {"status": pod["status"]}, content_type=MERGE)
        if "finalizers" in pod["metadata"]:
            self.held.append(_key(pod))
        if "deletionTimestamp" in pod["metadata"]:
            await self.api.delete_pod(*_key(pod))

    async def _create_in_order(self, case: str, items: Sequence[Json]) -> None:
        for item in items:
            try:
                await self.api.create(item)
            except RefusedError as error:
                self.refused[case] = str(error)
                return
            self.fates.setdefault(_key(item), Fate())

    async def _settle(self, keys: Sequence[Key]) -> None:
        """All decided means: each pod has a fate, and the scheduler's queues of pods to try were empty twice, with no news."""
        idle = 0
        end = time.monotonic() + _LONGEST
        while idle < 2 and time.monotonic() < end:
            await asyncio.sleep(_LOOK)
            known = all(key in self.fates and self.fates[key].known for key in keys)
            gauges = await self.api.gauges() if known else {}
            quiet = known and not gauges["active"] and not gauges["backoff"] and time.monotonic() - self.last_event > _LOOK
            idle = idle + 1 if quiet else 0

    async def _until_gone(self, keys: Sequence[Key]) -> None:
        await self._until(lambda: not any(key in self.fates for key in keys), "pods go away")

    async def _until(self, done: object, what: str) -> None:
        assert callable(done)
        end = time.monotonic() + _LONGEST
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {_LONGEST:.0f} s")
            await asyncio.sleep(0.02)

    async def _until_cached(self) -> None:
        """The scheduler's cache holds as many nodes and bound pods as the API server; its gauges are a second late at most."""
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end:
            nodes = len((await self.api.call("GET", path("Node")))["items"])
            pods = sum(1 for fate in self.fates.values() if fate.node and not fate.over)
            gauges = await self.api.gauges()
            if (gauges["nodes"], gauges["pods"]) == (nodes, pods):
                return
            await asyncio.sleep(_LOOK)
        raise TimeoutError(f"the scheduler knows {gauges}, there are {nodes} nodes and {pods} pods")

    async def _watch(self) -> None:
        since = str((await self.api.call("GET", "/api/v1/pods"))["metadata"]["resourceVersion"])
        while True:
            async for event in self.api.watch("/api/v1/pods", since):
                since = event["object"]["metadata"]["resourceVersion"]
                self._note(event)

    def _note(self, event: Json) -> None:
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        self.last_event = time.monotonic()
        pod = event["object"]
        if event["type"] == "DELETED":
            self.fates.pop(_key(pod), None)
        elif pod["spec"].get("nodeName"):
            over = pod["status"].get("phase") in ("Succeeded", "Failed")
            self.fates[_key(pod)] = Fate(node=pod["spec"]["nodeName"], over=over)
        else:
            self.fates[_key(pod)] = _waiting(pod)


def _waiting(pod: Json) -> Fate:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Fate(reason=condition["reason"], message=condition.get("message", ""))
    return Fate()


def _key(pod: Json) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
