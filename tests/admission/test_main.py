"""What wakes the reconciler of workloads."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from admission import main
from admission.settings import AdmissionSettings
from kube.kueue import Workload
from kube.makers import JobSet
from kube.meta import OwnerReference, decode
from runtime.client import Client
from runtime.controller import DONE
from runtime.store import Store, key_of
from tests.admission.objects import condition, workload
from tests.runtime.fakes import Wire

pytestmark = pytest.mark.looptime


def of_job_set(name: str, **more: Any) -> Workload:
    owner = OwnerReference(kind="JobSet", name=name, uid=f"{name}-uid", controller=True)
    made = workload(name=f"jobset-{name}", **more)
    return structs.replace(made, metadata=structs.replace(made.metadata, owner_references=(owner,)))


async def test_a_job_set_wakes_the_workload_that_waits_for_it() -> None:
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
    for each in (of_job_set("a"), of_job_set("b"), of_job_set("c", conditions=admitted)):
        stores["workloads"].put(key_of(each), each)
    await asyncio.sleep(1)
    keys.clear()
    for name in ("a", "c"):
        made = decode({"metadata": {"namespace": "team", "name": name, "uid": f"{name}-uid"}}, JobSet)
        stores["jobsets"].put(key_of(made), made)
    await asyncio.sleep(1)
    assert keys == [("team", "jobset-a")]
    controller.stop()
    await running
