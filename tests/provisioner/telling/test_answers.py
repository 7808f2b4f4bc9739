"""A status is written on the version that it rests on: what is on its way can't land after what came later."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from kube.autoscaling import ProvisioningRequest
from provisioner.planning.cases import Case
from provisioner.telling.answers import Answers
from provisioner.telling.progress import Attempts, Provisioned, Waiting
from provisioner.telling.statuses import Status
from runtime.client import Resource
from runtime.errors import Conflict
from tests.provisioner.make import NOW, booking, machine, purchase, request
from tests.provisioner.world_of_requests import Events


class Writer:
    """Remembers on which versions it was asked to write; `versions` are those that it answers, None a conflict."""

    def __init__(self, *versions: str | None, phase: str = "Provisioned", second: str = "Ready") -> None:
        self.versions, self.rested_on, self.phase, self.second = list(versions), list[str](), phase, second

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        assert (resource.plural, name) == ("bookings", "b")
        return booking("b", purchase(), phase=self.phase, instances=(machine(1, "Ready"), machine(2, self.second))).to_json()

    async def apply(self, resource: Resource, body: Mapping[str, Any], *, manager: str, subresource: str = "") -> dict[str, Any]:
        assert (resource.plural, manager, subresource) == ("provisioningrequests", "corral-provisioner", "status")
        self.rested_on.append(body["metadata"].get("resourceVersion", ""))
        version = self.versions.pop(0)
        if version is None:
            raise Conflict("the object has been modified")
        return {"metadata": {"resourceVersion": version}}


def at(version: str) -> ProvisioningRequest:
    asked = request()
    return structs.replace(asked, metadata=structs.replace(asked.metadata, resource_version=version))


async def told(answers: Answers, version: str, words: str) -> bool:
    case = Case(at(version), Status(), Attempts(), finding=Waiting("GangIncomplete", words))
    return await answers.tell([case], NOW)


@pytest.mark.looptime
async def test_a_write_rests_on_what_the_store_shows_then_on_our_own_last_write() -> None:
    writer = Writer("11", "12")
    answers = Answers(writer, Events())  # type: ignore[arg-type]
    assert await told(answers, "10", "one")
    assert await told(answers, "10", "two")
    assert writer.rested_on == ["10", "11"]


@pytest.mark.looptime
async def test_after_a_conflict_the_store_is_believed_and_it_is_tried_again() -> None:
    writer = Writer("11", None, "21")
    answers = Answers(writer, Events())  # type: ignore[arg-type]
    assert await told(answers, "10", "one")
    assert not await told(answers, "10", "two")
    assert await told(answers, "20", "two")
    assert writer.rested_on == ["10", "11", "20"]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("phase", "second", "promised"),
    [("Provisioned", "Ready", ["10"]), ("Releasing", "Ready", []), ("Provisioned", "Bad", [])],
)
async def test_nothing_is_promised_on_a_booking_that_ended_or_lost_a_node_while_the_store_lagged(
    phase: str, second: str, promised: list[str]
) -> None:
    writer = Writer("11", phase=phase, second=second)
    case = Case(at("10"), Status(), Attempts(), finding=Provisioned(booking("b", phase="Provisioned")))
    assert await Answers(writer, Events()).tell([case], NOW) is bool(promised)  # type: ignore[arg-type]
    assert writer.rested_on == promised
