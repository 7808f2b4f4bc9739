"""What the provisioner relies on of an API server, as checks that run against the twin and the real one (test_contract, e2e)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any
from uuid import UUID

import msgspec
import pytest

from kube import resources
from runtime.client import Client, Resource
from runtime.errors import AlreadyExists, Conflict, Invalid, NotFound
from tests.provisioner.make import booking as made_booking
from tests.provisioner.make import purchase

BOOKINGS, NODES, PODS = Resource(*resources.BOOKINGS), Resource(*resources.NODES), Resource(*resources.PODS)
POOLS, REQUESTS = Resource(*resources.CAPACITY_POOLS), Resource(*resources.PROVISIONING_REQUESTS)
ANOTHER = str(UUID(int=7))
Check = Callable[[Client, str], Awaitable[None]]
"""A client, and a namespace that is there and whose name is good for names of cluster-scoped objects too."""
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def booking(name: str, *finalizers: str) -> dict[str, Any]:
    raw: dict[str, Any] = made_booking(name, purchase()).to_json()
    return {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": raw["spec"], "status": {"reason": "dropped"}}


def pod(name: str, namespace: str, node: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def request(name: str, namespace: str) -> dict[str, Any]:
    refs = [{"podTemplateRef": {"name": "tpl"}, "count": 2}]
    spec = {"provisioningClassName": "gang.corral.dev", "podSets": refs}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-09-01T10:00:00Z"}


def version(body: dict[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


# --- objects ---------------------------------------------------------------------------------------------------------------


@check
async def a_new_object_is_filled_in_and_has_no_status_yet(client: Client, space: str) -> None:
    made = await client.create(BOOKINGS, booking(space))
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert (made["metadata"]["generation"], made["kind"], made["apiVersion"]) == (1, "Booking", "corral.dev/v1alpha1")
    assert "reason" not in made.get("status", {})
    assert version(await client.get(BOOKINGS, space)) == version(made)
    with pytest.raises(AlreadyExists):
        await client.create(BOOKINGS, booking(space))


@check
async def a_node_registers_with_its_status(client: Client, space: str) -> None:
    await client.create(NODES, {"metadata": {"name": space}, "status": {"allocatable": {"cpu": "4"}}})
    await client.patch(NODES, space, {"status": {"allocatable": {"cpu": "8"}}, "spec": {"unschedulable": True}})
    found = await client.get(NODES, space)
    assert found["status"]["allocatable"]["cpu"] == "4", "that is changed at /status alone"
    assert found["spec"]["unschedulable"] is True
    await client.delete(NODES, space)


@check
async def an_update_of_the_status_changes_nothing_else_and_rests_on_a_version(client: Client, space: str) -> None:
    old = await client.create(BOOKINGS, booking(space))
    meta = {"name": space, "resourceVersion": old["metadata"]["resourceVersion"], "labels": {"a": "b"}}
    new = await client.replace(BOOKINGS, {"metadata": meta, "status": {"phase": "Launching"}}, subresource="status")
    assert (new["status"]["phase"], new["metadata"]["generation"]) == ("Launching", 1)
    assert new["spec"] == old["spec"]
    assert version(new) > version(old)
    with pytest.raises(Conflict):
        await client.replace(BOOKINGS, {"metadata": meta, "status": {"phase": "Joining"}}, subresource="status")
    assert (await client.get(BOOKINGS, space))["status"]["phase"] == "Launching"


@check
async def a_merge_patch_merges_maps_replaces_lists_and_leaves_the_status(client: Client, space: str) -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in "ab"]
    await client.create(NODES, {"metadata": {"name": space, "labels": {"x": "1", "y": "1"}}, "spec": {"taints": taints}})
    old = await client.get(NODES, space)
    body = {"metadata": {"labels": {"x": None, "z": "1"}}, "spec": {"taints": taints[1:], "unschedulable": None}}
    new = await client.patch(NODES, space, body, manager="test")
    labels = {key: value for key, value in new["metadata"]["labels"].items() if len(key) == 1}
    assert labels == {"y": "1", "z": "1"}
    assert [each["key"] for each in new["spec"]["taints"]] == ["b"]
    again = await client.patch(NODES, space, body, manager="test")
    assert version(again) == version(new) > version(old), "what changes nothing makes no version"
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], "labels": {"y": None}}}
    with pytest.raises(Conflict):
        await client.patch(NODES, space, stale)
    await client.delete(NODES, space)


@check
async def only_the_spec_moves_the_generation(client: Client, space: str) -> None:
    raw = {"provider": {"simulated": {"endpoint": "http://cloud"}}, "mode": "Observe"}
    await client.create(POOLS, {"metadata": {"name": space}, "spec": raw})
    labelled = await client.patch(POOLS, space, {"metadata": {"labels": {"a": "b"}}, "status": {"observedGeneration": 9}})
    assert labelled["metadata"]["generation"] == 1
    assert labelled.get("status", {}).get("observedGeneration", 0) == 0
    active = await client.patch(POOLS, space, {"spec": {"mode": "Active"}})
    assert active["metadata"]["generation"] == 2
    await client.delete(POOLS, space)


@check
async def of_a_bookings_plan_the_nodes_change_while_it_is_provisioned(client: Client, space: str) -> None:
    taken = {"name": "n1", "pool": "p", "pods": {"main": 1}}
    await client.create(BOOKINGS, booking(space))
    other = {
        "spec": {"nodes": [taken], "former": [{**taken, "name": "n0"}], "purchases": [], "costPerHour": "1.00", "nodeCount": 1}
    }
    with pytest.raises(Invalid):
        await client.patch(BOOKINGS, space, other)
    await client.patch(BOOKINGS, space, {"status": {"phase": "Provisioned"}}, subresource="status")
    mended = await client.patch(BOOKINGS, space, other)
    assert [each["name"] for key in ("nodes", "former") for each in mended["spec"][key]] == ["n1", "n0"]
    with pytest.raises(Invalid):
        await client.patch(BOOKINGS, space, {"spec": {"attempt": 2}})
    await client.delete(BOOKINGS, space)


# --- the end of objects ----------------------------------------------------------------------------------------------------


@check
async def a_finalizer_holds_a_deleted_object_until_it_is_taken_off(client: Client, space: str) -> None:
    made = await client.create(BOOKINGS, booking(space, "corral.dev/booking"))
    uid = made["metadata"]["uid"]
    await client.delete(BOOKINGS, space, uid=uid)
    await client.delete(BOOKINGS, space, uid=uid)
    held = await client.get(BOOKINGS, space)
    assert held["metadata"]["deletionTimestamp"]
    await client.patch(BOOKINGS, space, {"metadata": {"uid": uid, "finalizers": []}}, manager="test")
    with pytest.raises(NotFound):
        await client.patch(BOOKINGS, space, {"metadata": {"uid": uid, "finalizers": []}}, manager="test")


@check
async def another_incarnation_is_not_touched_but_at_its_status(client: Client, space: str) -> None:
    """The trap: of a custom resource's status the server takes the status alone, so a uid beside it protects nothing."""
    made = await client.create(REQUESTS, request("r", space))
    await client.create(BOOKINGS, booking(space))
    body = {"metadata": {"name": "r", "namespace": space, "uid": ANOTHER}, "status": {"conditions": [condition("Accepted")]}}
    after = await client.apply(REQUESTS, body, manager="test", subresource="status")
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    body["metadata"] |= {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    body["status"] = {"conditions": []}
    with pytest.raises(Conflict):
        await client.apply(REQUESTS, body, manager="test", subresource="status")
    with pytest.raises(Conflict):
        await client.delete(BOOKINGS, space, uid=ANOTHER)
    with pytest.raises(Invalid):
        await client.patch(BOOKINGS, space, {"metadata": {"uid": ANOTHER, "finalizers": []}}, manager="test")
    gone = {"metadata": {"name": "gone", "namespace": space, "uid": ANOTHER}, "status": body["status"]}
    with pytest.raises((NotFound, Conflict)):
        await client.apply(REQUESTS, gone, manager="test", subresource="status")


@check
async def what_is_not_there_is_named_and_what_is_not_served_is_not(client: Client, space: str) -> None:
    for resource, where in ((BOOKINGS, ""), (NODES, ""), (REQUESTS, space)):
        with pytest.raises(NotFound, match=f'"{space}-none"'):
            await client.get(resource, f"{space}-none", where)
    with pytest.raises(NotFound) as caught:
        await client.get(Resource("corral.dev", "v1alpha1", "nothings", "Nothing", False), space)
    assert space not in caught.value.message


# --- server-side apply -----------------------------------------------------------------------------------------------------


@check
async def an_apply_owns_what_it_names_and_takes_away_what_it_no_longer_names(client: Client, space: str) -> None:
    made = await client.create(REQUESTS, request("r", space))

    async def say(manager: str, *conditions: dict[str, Any], lock: str = "", **details: str) -> dict[str, Any]:
        meta = {"name": "r", "namespace": space, "uid": made["metadata"]["uid"]} | ({"resourceVersion": lock} if lock else {})
        status = {"conditions": list(conditions), "provisioningClassDetails": details}
        return await client.apply(REQUESTS, {"metadata": meta, "status": status}, manager=manager, subresource="status")

    await say("other", condition("Foreign"), theirs="1")
    await say("test", condition("Accepted"), condition("Provisioned", "False"), a="1", b="1")
    after = await say("test", condition("Provisioned"), a="2")
    types = {each["type"]: each["status"] for each in after["status"]["conditions"]}
    assert types == {"Foreign": "True", "Provisioned": "True"}
    assert after["status"]["provisioningClassDetails"] == {"theirs": "1", "a": "2"}
    assert version(await say("test", condition("Provisioned"), a="2")) == version(after)
    assert version(await say("test", condition("Provisioned"), a="2", lock=after["metadata"]["resourceVersion"])) == version(
        after
    )
    with pytest.raises(Conflict):
        await say("test", condition("Provisioned", "False"), lock=made["metadata"]["resourceVersion"])


# --- lists and watches -----------------------------------------------------------------------------------------------------


async def events(client: Client, resource: Resource, namespace: str, number: int, query: dict[str, str]) -> list[tuple[str, Any]]:
    """The first so many events of a watch, bookmarks that only tell the time left out."""
    found: list[tuple[str, Any]] = []
    rest = b""
    async with asyncio.timeout(20), aclosing(client.watch(resource, namespace, query)) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK" or "annotations" in event["object"]["metadata"]:
                    found.append((event["type"], event["object"]["metadata"]))
            if len(found) >= number:
                return found[:number]
    return found


@check
async def a_streaming_list_ends_with_its_bookmark_and_then_follows(client: Client, space: str) -> None:
    await client.create(REQUESTS, request("a", space))
    query = {"allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    watching = asyncio.create_task(events(client, REQUESTS, space, 5, query))
    await asyncio.sleep(1)
    made = await client.create(REQUESTS, request("b", space))
    changed = await client.patch(REQUESTS, "b", {"metadata": {"labels": {"x": "1"}}}, space)
    await client.delete(REQUESTS, "b", space)
    found = await watching
    assert [kind for kind, _ in found] == ["ADDED", "BOOKMARK", "ADDED", "MODIFIED", "DELETED"]
    assert found[1][1]["annotations"]["k8s.io/initial-events-end"] == "true"
    assert [int(meta["resourceVersion"]) for _, meta in found[2:4]] == [version(made), version(changed)]
    assert int(found[4][1]["resourceVersion"]) > version(changed), "a deletion is a version of its own"
    resumed = await events(client, REQUESTS, space, 2, {"resourceVersion": made["metadata"]["resourceVersion"]})
    assert [kind for kind, _ in resumed] == ["MODIFIED", "DELETED"]


@check
async def what_leaves_a_field_selector_is_told_as_deleted(client: Client, space: str) -> None:
    await client.create(NODES, {"metadata": {"name": space}})
    made = await client.create(PODS, pod("p", space, space))
    await client.create(PODS, pod("q", space, "elsewhere"))
    listed = await client.list(PODS, field_selector=f"spec.nodeName={space}")
    assert [each["metadata"]["name"] for each in listed] == ["p"]
    query = {
        "resourceVersion": made["metadata"]["resourceVersion"],
        "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
    }
    watching = asyncio.create_task(events(client, PODS, space, 2, query))
    await asyncio.sleep(1)
    await client.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, space, subresource="status")
    found = await watching
    assert [(kind, meta["name"]) for kind, meta in found] == [("ADDED", "q"), ("DELETED", "p")]
    for name in "pq":
        await client.delete(PODS, name, space, grace=0)
    await client.delete(NODES, space)
