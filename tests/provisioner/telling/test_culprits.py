"""Whom a pool blames: each is told once, for as long as it lasts."""

from dataclasses import replace
from typing import cast

import pytest

from capacity.model import PodSet
from kube import kueue
from kube.meta import decode
from provisioner.planning import daemons
from provisioner.planning.offerings import Offers
from provisioner.telling.culprits import Culprit, Told, culprits
from provisioner.telling.poolstatus import Look
from runtime.events import Recorder
from tests.provisioner.make import GPU_TOLERATION, H100, daemon_set, pool
from tests.provisioner.world_of_requests import Events

AGENT = daemon_set("agent", GPU_TOLERATION)
PLUGIN = daemon_set("plugin", {"operator": "Exists"})
FLAVOR = decode({"metadata": {"name": "f"}, "spec": {"nodeLabels": {"gpu": "h200"}}}, kueue.ResourceFlavor)


def blamed(**missing: str) -> list[Culprit]:
    pods: tuple[PodSet, ...] = daemons.daemon_pods([AGENT, PLUGIN])
    seen = Look(None, Offers(), daemons.blocked(pool(), [H100.shape], (), pods), missing=missing)
    return list(culprits(pool(), seen, [AGENT, PLUGIN], [FLAVOR]))


def test_who_is_named() -> None:
    agent, flavor = blamed(f="ResourceFlavor f asks for gpu=h200")
    assert (agent.kind.kind, agent.namespace, agent.name, agent.reason) == (
        "DaemonSet",
        "kube-system",
        "agent",
        "DaemonSetBlocked",
    )
    assert agent.message.startswith(
        "CapacityPool p: DaemonSet kube-system/agent would not run on booked nodes: add the toleration"
    )
    assert (flavor.kind.kind, flavor.name, flavor.reason) == ("ResourceFlavor", "f", "LabelsMissing")
    assert flavor.message == "CapacityPool p: ResourceFlavor f asks for gpu=h200"
    assert agent.regarding["apiVersion"] == "apps/v1"


def test_a_flavor_that_does_not_fit_is_named() -> None:
    seen = Look(None, Offers(), daemons.Blocked(), unfit={"f": "ResourceFlavor f has a topologyName"})
    [found] = culprits(pool(), seen, [], [FLAVOR])
    assert (found.name, found.reason) == ("f", "FlavorUnfit")
    assert found.message == "CapacityPool p: ResourceFlavor f has a topologyName"


def test_nobody_to_blame() -> None:
    seen = Look(None, Offers(), daemons.Blocked())
    assert not list(culprits(pool(), seen, [AGENT, PLUGIN], [FLAVOR]))


@pytest.mark.looptime
async def test_each_is_told_once_while_it_lasts() -> None:
    events = Events()
    told = Told(cast("Recorder", events))
    found = blamed(f="sentence")
    await told.tell("p", found)
    await told.tell("p", found)
    assert events.told == [("Warning", "DaemonSetBlocked"), ("Warning", "LabelsMissing")]
    await told.tell("p", found[:1])
    await told.tell("p", [found[0], replace(found[1], message="another")])
    assert events.told[2:] == [("Warning", "LabelsMissing")]
    told.forget("p")
    await told.tell("p", found[:1])
    assert len(events.told) == 4
