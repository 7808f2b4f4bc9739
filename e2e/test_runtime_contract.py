"""What runtime takes for granted about a real API server: streaming lists, 410, bookmarks, server-side apply, conflicts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from e2e.conftest import Kubectl
from e2e.controlplane.cluster import ControlPlane
from kube.core import Pod
from runtime import client as client_module
from runtime.client import Client, Resource
from runtime.conditions import timestamp
from runtime.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from runtime.events import EVENTS, Recorder
from runtime.reflector import Reflector
from runtime.settings import ClientSettings

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PODS = Resource("", "v1", "pods", "Pod")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = {}


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    made = await Client.connect(ClientSettings(kubeconfig=str(kubeconfig)))
    yield made
    await made.close()


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


@asynccontextmanager
async def reflecting(reflector: Reflector[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(20):
        await reflector.store.synced.wait()
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 the condition changes in another task
            await asyncio.sleep(0.02)


def names(reflector: Reflector[Any]) -> list[str]:
    return sorted(each.metadata.name for each in reflector.store.values())


# --- lists and watches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [pytest.param(True, id="streaming"), pytest.param(False, id="in pages")])
async def test_a_reflector_lists_then_follows(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 5)
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(namespace, f"c{at}")) for at in range(12)))
    reflector = Reflector(
        client, CONFIG_MAPS, Thing, namespace=namespace, field_selector="metadata.name!=c0", streaming=streaming
    )
    async with reflecting(reflector):
        assert {"c1", "c11"} <= set(names(reflector))
        assert "c0" not in names(reflector)
        await client.create(CONFIG_MAPS, config_map(namespace, "new", a="1"))
        await until(lambda: "new" in names(reflector))
        await client.patch(CONFIG_MAPS, "new", {"data": {"a": "2"}}, namespace)
        await until(lambda: any(each.data.get("a") == "2" for each in reflector.store.values()))
        await client.delete(CONFIG_MAPS, "c1", namespace)
        await until(lambda: "c1" not in names(reflector))
        assert reflector.relists == 1
        assert reflector.streaming is streaming  # the server didn't refuse


async def test_custom_resources_are_streamed_too(client: Client) -> None:
    reflector = Reflector(client, FLAVORS, Thing)
    async with reflecting(reflector):
        assert reflector.streaming
        assert reflector.store.synced.is_set()


async def test_the_typed_views_decode_what_the_server_sends(client: Client, namespace: str) -> None:
    pod = {"containers": [{"name": "c", "image": "x"}], "schedulerName": "nobody"}
    await client.create(PODS, {"metadata": {"name": "p", "namespace": namespace}, "spec": pod})
    reflector = Reflector(client, PODS, Pod, namespace=namespace)
    async with reflecting(reflector):
        found = reflector.store.get((namespace, "p"))
        assert found
        assert found.metadata.uid
        assert reflector.undecodable == 0


async def test_a_forgotten_version_is_410_and_the_reflector_lists_again(
    client: Client, namespace: str, controlplane: ControlPlane
) -> None:
    """Events aren't kept in the API server's watch cache, so what etcd has compacted away is gone for them."""
    recorder = Recorder(client, "corral.dev/test", lambda: datetime.now(UTC))
    about = await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    await recorder.event(about, "Normal", "Kept", "m")
    await compact(controlplane, int(about["metadata"]["resourceVersion"]))

    async with aclosing(client.watch(EVENTS, namespace, {"resourceVersion": "1", "timeoutSeconds": "5"})) as chunks:
        first = msgspec.json.decode((await anext(chunks)).split(b"\n")[0])
    assert (first["type"], first["object"]["code"], first["object"]["reason"]) == ("ERROR", 410, "Expired")

    reflector = Reflector(client, EVENTS, Thing, namespace=namespace)
    reflector._version = "1"  # noqa: SLF001 as if it had been cut off for long
    async with reflecting(reflector):
        assert len(reflector.store) == 1


async def compact(controlplane: ControlPlane, revision: int) -> None:
    url = f"http://127.0.0.1:{controlplane.layout.ports.etcd}/v3/kv/compaction"
    async with aiohttp.ClientSession() as session, session.post(url, json={"revision": str(revision)}) as response:
        assert response.status == 200, await response.text()


async def test_a_watch_that_is_left_ends_its_connection_at_once(client: Client, namespace: str) -> None:
    """A polite end of TLS waits for the server's: sockets outlived the loop when the server was slow."""
    await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    before = sockets()
    async with aclosing(client.watch(CONFIG_MAPS, namespace, {"timeoutSeconds": "20"})) as chunks:
        await anext(chunks)
        assert sockets() == before + 1
    await asyncio.sleep(0)
    assert sockets() == before


def sockets() -> int:
    """Those that this process has open."""
    return sum("socket:" in str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())


async def test_bookmarks_move_the_version_past_what_the_selector_hides(client: Client, namespace: str) -> None:
    """Otherwise a narrow watch would be cut off by compaction while the rest of the kind is busy."""
    first = await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    at = first["metadata"]["resourceVersion"]
    query = {"resourceVersion": at, "allowWatchBookmarks": "true", "timeoutSeconds": "8", "labelSelector": "no=such"}

    async def watched() -> bytes:
        async with aclosing(client.watch(CONFIG_MAPS, namespace, query)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    watching = asyncio.create_task(watched())
    await asyncio.sleep(1)
    hidden = await client.create(CONFIG_MAPS, config_map(namespace, "hidden"))
    events = [msgspec.json.decode(line) for line in (await watching).splitlines()]
    assert {each["type"] for each in events} == {"BOOKMARK"}
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= int(hidden["metadata"]["resourceVersion"])


async def test_a_server_without_the_feature_answers_as_the_fallback_expects(client: Client, namespace: str) -> None:
    """sendInitialEvents without resourceVersionMatch is refused by the same validation that a switched-off gate ends in."""
    with pytest.raises(Invalid) as caught:
        [chunk async for chunk in client.watch(CONFIG_MAPS, namespace, {"sendInitialEvents": "true"})]
    assert caught.value.status in (400, 422)


# --- writes ---------------------------------------------------------------------------------------------------------------


async def stale_replace(client: Client, old: dict[str, Any]) -> None:
    await client.replace(CONFIG_MAPS, {**old, "data": {"a": "3"}})


async def stale_merge(client: Client, old: dict[str, Any]) -> None:
    meta = old["metadata"]
    body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": {"a": "3"}}
    await client.patch(CONFIG_MAPS, meta["name"], body, meta["namespace"])


async def stale_apply(client: Client, old: dict[str, Any]) -> None:
    meta = {key: old["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    await client.apply(CONFIG_MAPS, {"metadata": meta, "data": {"a": "3"}}, manager="test")


async def unforced_apply(client: Client, old: dict[str, Any]) -> None:
    meta = {key: old["metadata"][key] for key in ("name", "namespace")}
    await client.apply(CONFIG_MAPS, {"metadata": meta, "data": {"a": "3"}}, manager="test", force=False)


async def delete_another(client: Client, old: dict[str, Any]) -> None:
    meta = old["metadata"]
    await client.delete(CONFIG_MAPS, meta["name"], meta["namespace"], uid="00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("write", [stale_replace, stale_merge, stale_apply, unforced_apply, delete_another])
async def test_a_stale_or_foreign_write_is_a_conflict(
    client: Client, namespace: str, write: Callable[[Client, dict[str, Any]], Awaitable[None]]
) -> None:
    old = await client.create(CONFIG_MAPS, config_map(namespace, "a", a="1"))
    await client.patch(CONFIG_MAPS, "a", {"data": {"a": "2"}}, namespace, manager="other")
    with pytest.raises(Conflict):
        await write(client, old)
    assert (await client.get(CONFIG_MAPS, "a", namespace))["data"] == {"a": "2"}


async def test_refusals_come_as_their_errors(client: Client, namespace: str, kubeconfig: Path, tmp_path: Path) -> None:
    await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "b", namespace)
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, "b", namespace)
    with pytest.raises(Invalid):
        await client.create(CONFIG_MAPS, config_map(namespace, "NOT A NAME"))


async def test_an_unknown_token_is_unauthorized(kubectl: Kubectl, controlplane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(controlplane.kubeconfig.read_bytes())
    kubectl("--kubeconfig", str(path), "config", "set-credentials", "nobody", "--token=wrong")
    kubectl("--kubeconfig", str(path), "config", "set-context", "--current", "--user=nobody")
    client = await Client.connect(ClientSettings(kubeconfig=str(path)))
    try:
        with pytest.raises(Unauthorized):
            await client.get(CONFIG_MAPS, "a", "default")
    finally:
        await client.close()


async def test_dry_run_writes_nothing(client: Client, namespace: str) -> None:
    assert (await client.create(CONFIG_MAPS, config_map(namespace, "a"), dry_run=True))["metadata"]["uid"]
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_apply_owns_what_it_names_and_takes_away_what_it_no_longer_names(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, config_map(namespace, "a", x="1", y="1"), manager="one")
    await client.apply(CONFIG_MAPS, config_map(namespace, "a", z="1"), manager="two")
    after = await client.apply(CONFIG_MAPS, config_map(namespace, "a", x="2"), manager="one")
    assert after["data"] == {"x": "2", "z": "1"}


async def test_an_apply_that_changes_nothing_makes_no_new_version(client: Client, namespace: str) -> None:
    first = await client.apply(CONFIG_MAPS, config_map(namespace, "a", x="1"), manager="one")
    again = await client.apply(CONFIG_MAPS, config_map(namespace, "a", x="1"), manager="one")
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_list_reads_all_pages_of_one_moment(client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGE", 4)
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(namespace, f"c{at}")) for at in range(10)))
    items = await client.list(CONFIG_MAPS, namespace)
    assert {f"c{at}" for at in range(10)} <= {each["metadata"]["name"] for each in items}
    assert {each["kind"] for each in items} == {"ConfigMap"}


async def test_a_store_reaches_the_version_of_our_own_write(client: Client, namespace: str) -> None:
    reflector = Reflector(client, CONFIG_MAPS, Thing, namespace=namespace)
    async with reflecting(reflector):
        answer = await client.create(CONFIG_MAPS, config_map(namespace, "a"))

        def caught_up() -> bool:
            found = reflector.store.get((namespace, "a"))
            return found is not None and found.metadata.resource_version == answer["metadata"]["resourceVersion"]

        await until(caught_up, 4)


async def test_events_are_taken(client: Client, namespace: str) -> None:
    recorder = Recorder(client, "corral.dev/test", lambda: datetime.now(UTC))
    about = await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    await recorder.event(about, "Warning", "TopologyUnsatisfied", "needs 56 nodes in one block " + "ü" * 2000)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{namespace}", "uid": "u"}}
    await recorder.event(node, "Normal", "Booked", "m")
    (found,) = await client.list(EVENTS, namespace, field_selector="reason=TopologyUnsatisfied")
    assert (found["type"], found["regarding"]["name"], found["regarding"]["uid"]) == ("Warning", "a", about["metadata"]["uid"])
    assert any(each["regarding"]["name"] == f"n-{namespace}" for each in await client.list(EVENTS, "default"))


# --- the entry of an admission check on a Workload, of which Kueue writes the whole list ----------------------------------


async def co_owned(client: Client, namespace: str) -> dict[str, Any]:
    """A Workload whose check Kueue has applied as a whole after us, as its core does: it co-owns each field that we set."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "none", "podSets": [{"name": "main", "count": 1, "template": template}]}
    await client.create(WORKLOADS, {"metadata": {"name": "w", "namespace": namespace}, "spec": spec})
    ready = check(namespace, state="Ready", message="8 nodes", podSetUpdates=[{"name": "main", "nodeSelector": {"a": "b"}}])
    for manager in ("corral-admission", "kueue-admission"):
        answer = await applied(client, ready, manager)
    return answer


def check(namespace: str, **fields: Any) -> dict[str, Any]:
    entry = {"name": "capacity", "lastTransitionTime": timestamp(datetime.now(UTC)), **fields}
    return {"metadata": {"name": "w", "namespace": namespace}, "status": {"admissionChecks": [entry]}}


async def applied(client: Client, body: dict[str, Any], manager: str) -> dict[str, Any]:
    return await persistently(lambda: client.apply(WORKLOADS, body, manager=manager, subresource="status"))


async def persistently(write: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Kueue may write the Workload at any time: what is refused as a conflict is tried again."""
    for _ in range(5):
        try:
            return await write()
        except Conflict:
            await asyncio.sleep(0.1)
    raise AssertionError("the Workload was never still")


async def test_a_field_that_we_leave_out_of_our_apply_stays(client: Client, namespace: str) -> None:
    """The trap: what Kueue co-owns isn't taken away by leaving it out."""
    await co_owned(client, namespace)
    after = await applied(client, check(namespace, state="Retry", message="block lost"), "corral-admission")
    (entry,) = after["status"]["admissionChecks"]
    assert (entry["state"], entry["podSetUpdates"]) == ("Retry", [{"name": "main", "nodeSelector": {"a": "b"}}])


async def test_a_field_that_we_apply_empty_is_emptied(client: Client, namespace: str) -> None:
    await co_owned(client, namespace)
    after = await applied(client, check(namespace, state="Retry", message="", podSetUpdates=[]), "corral-admission")
    (entry,) = after["status"]["admissionChecks"]
    assert (entry["state"], entry["message"], entry["podSetUpdates"]) == ("Retry", "", [])


async def test_pod_set_updates_of_a_ready_check_can_not_be_changed(client: Client, namespace: str) -> None:
    """Kueue's webhook: from Ready there is no way to other updates but through another state."""
    await co_owned(client, namespace)
    updates = [{"name": "main", "nodeSelector": {"c": "d"}}]
    with pytest.raises(Forbidden, match="field is immutable"):
        await applied(client, check(namespace, state="Ready", message="", podSetUpdates=updates), "corral-admission")
    await applied(client, check(namespace, state="Pending", message="", podSetUpdates=[]), "corral-admission")
    after = await applied(client, check(namespace, state="Ready", message="", podSetUpdates=updates), "corral-admission")
    assert after["status"]["admissionChecks"][0]["podSetUpdates"] == updates


async def test_a_merge_patch_of_the_whole_list_takes_away_too(client: Client, namespace: str) -> None:
    await co_owned(client, namespace)
    body = check(namespace, state="Retry", message="block lost")

    async def patched() -> dict[str, Any]:
        before = await client.get(WORKLOADS, "w", namespace)
        body["metadata"] = {"resourceVersion": before["metadata"]["resourceVersion"]}
        return await client.patch(WORKLOADS, "w", body, namespace, subresource="status", manager="corral-admission")

    (entry,) = (await persistently(patched))["status"]["admissionChecks"]
    assert entry["state"] == "Retry"
    assert "podSetUpdates" not in entry
