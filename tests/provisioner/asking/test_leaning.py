"""What gangs lean on beside their templates, read anew while they wait."""

from dataclasses import replace
from typing import Any

import pytest

from kube import core
from kube.meta import decode
from kube.storage import PersistentVolume, PersistentVolumeClaim
from kube.volumes import gathered
from provisioner.asking.acceptance import Accepted, Desk, Refused, judge
from provisioner.asking.authority import Look
from provisioner.asking.leaning import Leaning, leaning, renewed
from tests.conftest import WallClock
from tests.provisioner.make import NOW, check, policy, request, template, workload
from tests.provisioner.test_requests import WAITS, Planning

CLAIMED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
OWN = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]}
SCRATCH = {"volumes": [{"name": "v", "emptyDir": {}}]}
BOUND = decode(
    {
        "metadata": {"name": "data", "namespace": "team", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv"},
    },
    PersistentVolumeClaim,
)
VOLUME = decode({"metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "east"}}}, PersistentVolume)
KATA = decode({"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}, core.RuntimeClass)


def look(**more: Any) -> Look:
    return replace(Look({("team", "job"): workload()}.get, lambda _: check(), {}), **more)


def accepted(spec: dict[str, Any], **more: Any) -> Accepted:
    templates = {("team", "tpl"): template(spec=spec)}
    found = judge(request(), Desk(templates.get, lambda _: policy(), look(**more), ["p"]), NOW)
    assert isinstance(found, Accepted)
    return found


def test_a_claim_that_came_and_was_bound_is_where_its_volume_is() -> None:
    waiting = accepted(CLAIMED)
    assert waiting.gang.pod_sets[0].awaits != ()
    fresh = renewed(waiting, request(), look(volumes=gathered([BOUND], [VOLUME], [], [], [])))
    assert isinstance(fresh, Accepted)
    (pods,) = fresh.gang.pod_sets
    assert (pods.awaits, len(pods.volumes)) == ((), 1)
    assert fresh.digest != waiting.digest
    assert (fresh.workload, fresh.check, fresh.priority) == (waiting.workload, waiting.check, waiting.priority)


def test_a_runtime_class_that_came_adds_its_overhead() -> None:
    fresh = renewed(accepted({"runtimeClassName": "kata"}), request(), look(runtime_classes={"kata": KATA}))
    assert isinstance(fresh, Accepted)
    assert (fresh.gang.pod_sets[0].awaits, fresh.gang.pod_sets[0].requests["cpu"]) == ((), 9_000)


def test_a_device_class_that_came_to_serve_what_is_asked_for() -> None:
    fresh = renewed(accepted({}), request(), look(device_resources=frozenset({"nvidia.com/gpu"})))
    assert isinstance(fresh, Accepted)
    assert len(fresh.gang.pod_sets[0].undecidable) == 1


def test_what_came_may_contradict_the_template() -> None:
    selecting = decode({"metadata": {"name": "kata"}, "scheduling": {"nodeSelector": {"a": "1"}}}, core.RuntimeClass)
    waiting = accepted({"runtimeClassName": "kata", "nodeSelector": {"a": "2"}})
    fresh = renewed(waiting, request(), look(runtime_classes={"kata": selecting}))
    assert isinstance(fresh, Refused)
    assert "PodTemplate tpl: nodeSelector a" in fresh.message


def test_a_gang_that_leans_on_nothing_stays_as_it_is() -> None:
    waiting = accepted(SCRATCH)
    assert renewed(waiting, request(), look(volumes=gathered([BOUND], [VOLUME], [], [], []))) is waiting


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(CLAIMED, Leaning(frozenset({("team", "data")}), True), id="a claim"),
        pytest.param(OWN, Leaning(any=True), id="a claim of each pod's own"),
        pytest.param({"runtimeClassName": "kata"}, Leaning(any=True), id="a runtime class"),
        pytest.param(SCRATCH, Leaning(), id="a volume that is always there"),
        pytest.param({}, Leaning(), id="nothing"),
    ],
)
def test_what_is_leant_on(spec: dict[str, Any], expected: Leaning) -> None:
    assert leaning([accepted({}), accepted(spec)]) == expected


@pytest.mark.looptime
async def test_a_request_waits_for_a_claim_that_is_not_seen_yet(clock: WallClock) -> None:
    """The claim was made a moment after the gang, and is bound a moment later."""
    world = Planning(clock)
    world.add(template(spec=CLAIMED))
    world.ask()
    await world.turn()
    assert world.said()["Provisioned"] == ("False", "GangIncomplete")
    assert "Failed" not in world.said()
    assert world.planner.leaning.claims == {("team", "data")}
    told = world.objects["provisioningrequests", "team", "req"]["status"]["conditions"]
    assert any("PersistentVolumeClaim data isn't there: create it in namespace team" in each["message"] for each in told)
    world.add(BOUND)
    world.add(VOLUME)
    await world.turn()
    assert world.said() == WAITS
    await world.turn()
    assert world.planner.leaning == Leaning()


@pytest.mark.looptime
async def test_a_claim_that_never_comes_fails_the_request_in_the_end(clock: WallClock) -> None:
    world = Planning(clock)
    world.add(template(spec=CLAIMED))
    world.ask()
    await world.turn()
    world.clock.advance(24 * 3600)
    await world.turn()
    assert world.said()["Failed"] == ("True", "GangIncomplete")
