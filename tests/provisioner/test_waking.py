"""Which changes of stored objects lead to a planning pass. One gang waits: it names claim team/data."""

from typing import Any

import pytest
from msgspec.structs import replace

from kube import core, storage
from kube.kueue import Workload
from kube.meta import Record, decode
from provisioner.asking.leaning import Leaning
from provisioner.clouds.base import Announcement
from provisioner.waking import announced, wake_planner, wake_pools
from tests.provisioner.make import NOW, booking, instance, known, machine, node, pool, purchase, workload
from tests.provisioner.world_of_requests import World

WAITING = Leaning(frozenset({("team", "data")}), any=True)
DATA: dict[str, Any] = {"metadata": {"name": "data", "namespace": "team"}, "spec": {"storageClassName": "fast"}}
VOLUME: dict[str, Any] = {"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "team", "name": "data", "uid": "u"}}}
NAMED = {"metadata": {"name": "x"}}
CSI_NODE = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 9}}]}}


def claim(**more: Any) -> storage.PersistentVolumeClaim:
    return decode({**DATA, **more}, storage.PersistentVolumeClaim)


def volume(**more: Any) -> storage.PersistentVolume:
    return decode({**VOLUME, **more}, storage.PersistentVolume)


def passes(*changes: Record, leaning: Leaning = WAITING) -> int:
    """How many passes the last of the changes wakes."""
    world, woken = World(lambda: NOW), [0]
    for each in changes[:-1]:
        world.add(each)
    wake_planner(world.state, lambda: woken.append(1), lambda: leaning)
    world.add(changes[-1])
    return sum(woken)


BOUND = {"metadata": {**DATA["metadata"], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
OTHERS = {"metadata": {"name": "other", "namespace": "team"}}


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        pytest.param((claim(),), 1, id="the claim came"),
        pytest.param((claim(), claim(spec={"volumeName": "pv"})), 1, id="it got its volume"),
        pytest.param((claim(), claim(**BOUND)), 1, id="it was bound"),
        pytest.param((claim(), claim(status={"phase": "Lost"})), 1, id="it was lost"),
        pytest.param((claim(), claim(metadata={**DATA["metadata"], "resourceVersion": "2"})), 0, id="it says the same again"),
        pytest.param((claim(**OTHERS),), 0, id="a claim that nobody names"),
        pytest.param((claim(metadata={"name": "data", "namespace": "else"}),), 0, id="a claim of another namespace"),
        pytest.param((volume(),), 1, id="its volume came"),
        pytest.param((volume(spec={}),), 0, id="a volume of nobody"),
        pytest.param((volume(), volume(spec={})), 1, id="its volume was taken from it"),
        pytest.param((volume(spec={"claimRef": {"namespace": "team", "name": "other"}}),), 0, id="another claim's volume"),
        pytest.param((decode(NAMED, storage.StorageClass),), 1, id="a storage class"),
        pytest.param((decode(NAMED, storage.CSIDriver),), 1, id="a driver"),
        pytest.param((decode(CSI_NODE, storage.CSINode),), 1, id="a node with a limit for a driver"),
        pytest.param((decode(NAMED, storage.CSINode),), 0, id="a node without any"),
        pytest.param((decode(NAMED, core.RuntimeClass),), 1, id="a runtime class"),
    ],
)
def test_what_gangs_name_wakes_those_that_wait(changes: tuple[Record, ...], woken: int) -> None:
    assert passes(*changes) == woken
    assert passes(*changes, leaning=Leaning()) == 0


SERVING = decode({**NAMED, "spec": {"extendedResourceName": "x.com/gpu"}}, core.DeviceClass)


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        pytest.param((SERVING,), 1, id="a device class that serves a resource"),
        pytest.param((decode(NAMED, core.DeviceClass),), 0, id="one that serves none"),
        pytest.param((node("n"),), 1, id="a node"),
        pytest.param((node("n"), node("n", metadata={"resourceVersion": "2"})), 0, id="a node's heartbeat"),
        pytest.param((node("n"), node("n", spec={"unschedulable": True})), 1, id="a cordon"),
    ],
)
def test_capacity_wakes_whoever_waits(changes: tuple[Record, ...], woken: int) -> None:
    assert passes(*changes, leaning=Leaning()) == woken


def test_pods_that_are_over_wake() -> None:
    raw = workload().to_json()
    raw["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    over = decode(raw, Workload)
    assert passes(workload(), over) == 1
    assert passes(over, replace(over, metadata=replace(over.metadata, resource_version="2"))) == 0


def test_bookings_of_machines_that_are_announced_to_end_are_woken() -> None:
    world = World(lambda: NOW)
    said = (Announcement("SpotInterruption", 2_000_000_000, "taken back"),)
    world.state.known["p"] = known(instance(1, announced=said), instance(2))
    for name, number in (("leaves", 1), ("stays", 2)):
        world.add(booking(name, purchase(), phase="Provisioned", instances=(machine(number, "Ready"),)))
    assert announced(world.state) == ["leaves"]


@pytest.mark.parametrize(("namespace", "woken"), [("default", ["p"]), ("team", [])], ids=["of health checks", "of a workload"])
def test_a_pool_looks_again_when_a_template_in_its_own_namespace_changes(namespace: str, woken: list[str]) -> None:
    world, found = World(lambda: NOW), list[str]()
    world.add(pool())
    wake_pools(world.state, found.append)
    world.add(decode({"metadata": {"name": "nccl", "namespace": namespace}}, core.PodTemplate))
    assert found == woken
