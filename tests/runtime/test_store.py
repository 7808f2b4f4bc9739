"""The store: replace-semantics, indexes, handlers."""

from typing import Any

import msgspec
import pytest

from runtime.store import Store


class Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = "ns"
    resource_version: str = "1"


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    node: str = ""


def pod(name: str, version: str = "1", node: str = "") -> Pod:
    return Pod(Meta(name, resource_version=version), node)


def filled(*pods: Pod) -> Store[Pod]:
    store: Store[Pod] = Store()
    store.replace({("ns", each.metadata.name): each for each in pods})
    return store


def names(pods: list[Pod]) -> list[str]:
    return sorted(each.metadata.name for each in pods)


async def test_a_complete_list_yields_the_deletes_that_were_missed_and_no_change_for_the_same_version() -> None:
    store = filled(pod("gone"), pod("same"), pod("moved"))
    seen: list[Any] = []
    store.on_change(lambda old, new: seen.append((old and old.metadata.name, new and new.metadata.resource_version)))
    store.replace({("ns", "same"): pod("same"), ("ns", "moved"): pod("moved", "2"), ("ns", "new"): pod("new", "3")})
    assert seen == [("gone", None), ("moved", "2"), (None, "3")]
    assert sorted(each.metadata.name for each in store.values()) == ["moved", "new", "same"]


async def test_synced_is_set_after_the_handlers_of_the_first_list_have_run() -> None:
    store: Store[Pod] = Store()
    at: list[bool] = []
    store.on_change(lambda old, new: at.append(store.synced.is_set()))
    store.replace({("ns", "a"): pod("a")})
    assert (at, store.synced.is_set()) == ([False], True)


async def test_an_index_follows_every_change() -> None:
    store = filled(pod("a", node="n1"), pod("b", node="n1"))
    store.add_index("node", lambda each: [each.node] if each.node else [])
    assert names(store.by("node", "n1")) == ["a", "b"]
    store.put(("ns", "a"), pod("a", "2", node="n2"))
    store.put(("ns", "b"), None)
    store.put(("ns", "c"), pod("c"))
    assert (store.by("node", "n1"), names(store.by("node", "n2"))) == ([], ["a"])


async def test_an_index_gives_the_newest_object_though_its_value_stayed() -> None:
    store = filled(pod("a", node="n1"))
    store.add_index("node", lambda each: [each.node])
    store.put(("ns", "a"), pod("a", "2", node="n1"))
    assert [each.metadata.resource_version for each in store.by("node", "n1")] == ["2"]


async def test_a_second_index_of_one_name_is_refused() -> None:
    store = filled()
    store.add_index("node", lambda each: [])
    with pytest.raises(ValueError, match="'node' exists already"):
        store.add_index("node", lambda each: [])
    with pytest.raises(KeyError):
        store.by("unknown", 1)


async def test_a_handler_that_raises_stops_neither_the_others_nor_the_store() -> None:
    store, seen = filled(), []

    def broken(old: Pod | None, new: Pod | None) -> None:
        raise RuntimeError("no")

    store.on_change(broken)
    store.on_change(lambda old, new: seen.append(new))
    store.put(("ns", "a"), pod("a"))
    assert (len(seen), len(store)) == (1, 1)


async def test_deleting_what_is_not_there_tells_nobody() -> None:
    store, seen = filled(), []
    store.on_change(lambda old, new: seen.append(old))
    store.put(("ns", "a"), None)
    assert seen == []


async def test_values_may_be_iterated_while_the_store_changes() -> None:
    store = filled(pod("a"), pod("b"))
    for each in store.values():
        store.put(("ns", each.metadata.name), None)
    assert len(store) == 0
