"""What wakes the reconciler of workloads."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from admission import main
from admission.settings import AdmissionSettings
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.makers import JobSet
from kube.meta import OwnerReference, decode
from kube.queued_pods import QueuedPod
from kube.request_marks import WORKLOAD
from runtime.client import Client
from runtime.controller import DONE
from runtime.store import Store, key_of
from tests.admission.objects import condition, workload
from tests.runtime.fakes import Wire

pytestmark = pytest.mark.looptime


def made_of(kind: str, name: str, **more: Any) -> Workload:
    owner = OwnerReference(kind=kind, name=name, uid=f"{name}-uid", controller=True)
    made = workload(name=f"of-{name}", **more)
    return structs.replace(made, metadata=structs.replace(made.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("kind", "plural", "view"),
    [pytest.param("JobSet", "jobsets", JobSet, id="JobSet"), pytest.param("Pod", "pods", QueuedPod, id="pod")],
)
async def test_who_makes_the_pods_wakes_the_workload_that_waits_for_it(kind: str, plural: str, view: type[Any]) -> None:
    manager = main.build(AdmissionSettings(), Client(Wire()))
    stores: dict[str, Store[Any]] = {each.resource.plural: each.store for each in manager._reflectors}
    [controller] = [each for each in manager._controllers if each.name == "workloads"]
    keys: list[Any] = []

    async def seen(key: Any) -> Any:
        keys.append(key)
        return DONE

    controller._reconcile = seen
    running = asyncio.create_task(controller.run())
    admitted = [condition("QuotaReserved"), condition("Admitted")]
    for each in (made_of(kind, "a"), made_of(kind, "b"), made_of(kind, "c", conditions=admitted)):
        stores["workloads"].put(key_of(each), each)
    await asyncio.sleep(1)
    keys.clear()
    for name in ("a", "c"):
        made = decode({"metadata": {"namespace": "team", "name": name, "uid": f"{name}-uid"}}, view)
        stores[plural].put(key_of(made), made)
    await asyncio.sleep(1)
    assert keys == [("team", "of-a")]
    controller.stop()
    await running


async def test_a_workload_whose_request_is_answered_goes_before_those_that_begin() -> None:
    manager = main.build(AdmissionSettings(workers=1), Client(Wire()))
    stores: dict[str, Store[Any]] = {each.resource.plural: each.store for each in manager._reflectors}
    [controller] = [each for each in manager._controllers if each.name == "workloads"]
    keys: list[Any] = []

    async def seen(key: Any) -> Any:
        keys.append(key)
        await asyncio.sleep(1)
        return DONE

    controller._reconcile = seen
    running = asyncio.create_task(controller.run())
    for store in stores.values():
        store.synced.set()
    await asyncio.sleep(1)
    for name in "abc":
        begins = workload(name=name)
        stores["workloads"].put(key_of(begins), begins)
    marks = {"namespace": "team", "name": "of-c", "annotations": {WORKLOAD: "c"}}
    stores["provisioningrequests"].put(
        ("team", "of-c"),
        decode(
            {
                "metadata": marks,
                "spec": {"provisioningClassName": "gang.corral.dev", "podSets": [{"podTemplateRef": {"name": "t"}, "count": 1}]},
            },
            ProvisioningRequest,
        ),
    )
    await asyncio.sleep(9)
    assert [name for _, name in keys] == ["c", "a", "b"]
    controller.stop()
    await running


def test_only_pods_that_kueue_manages_are_watched_until_they_end() -> None:
    [pods] = [each for each in main.build(AdmissionSettings(), Client(Wire()))._reflectors if each.resource.plural == "pods"]
    assert pods._narrow == {
        "labelSelector": "kueue.x-k8s.io/managed=true",
        "fieldSelector": "status.phase!=Failed,status.phase!=Succeeded",
    }
