"""What a policy's author is told, and when it is written."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from kube import ours
from kube.meta import decode
from provisioner.telling.policies import PolicyReconciler, verdict
from runtime.client import Resource
from runtime.errors import NotFound
from tests.provisioner.fake_api import Api, Clock, recorder, state
from tests.provisioner.make import RACK, policy, pool

pytestmark = pytest.mark.looptime
ZONES = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("spec", "pools", "reason", "words"),
    [
        pytest.param({}, ["a", "b"], "Ready", "requests are served from a, b", id="all"),
        pytest.param({"pools": ["b"]}, ["a", "b"], "Ready", "requests are served from b", id="one"),
        pytest.param(
            {"pools": ["c", "a", "d"]}, ["a"], "UnknownPool", "spec.pools: there is no CapacityPool c, d: create it", id="absent"
        ),
        pytest.param({}, [], "NoPool", "there is no CapacityPool: create one", id="none-at-all"),
        pytest.param({"topology": {"required": RACK, "preferred": ZONES}}, ["a"], "Ready", "", id="levels"),
        pytest.param(
            {"topology": {"required": "rack"}},
            ["a"],
            "UnknownTopologyKey",
            f"spec.topology.required: no pool has rack among its topologyKeys: name one of {RACK}, {ZONES}",
            id="unknown-level",
        ),
        pytest.param({"byPriorityClass": [{"policy": "other", "names": ["x"]}]}, ["a"], "Ready", "", id="another-policy"),
        pytest.param(
            {"byPriorityClass": [{"policy": "gone", "names": ["x"]}]},
            ["a"],
            "UnknownPolicy",
            "spec.byPriorityClass: there is no CapacityPolicy gone: create it or correct the name",
            id="another-policy-that-is-not-there",
        ),
    ],
)
def test_verdict(spec: dict[str, Any], pools: list[str], reason: str, words: str) -> None:
    found = verdict(policy(**spec).spec, {name: pool(name) for name in pools}, {"default", "other"})
    assert found.ready is (found.reason == "Ready")
    assert found.reason == reason
    assert found.message.startswith(words)


class Applying(Api):
    """Keeps the bodies applied; `gone`: the object was deleted meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[Any] = []
        self.gone = False

    async def apply(self, resource: Resource, body: Mapping[str, Any], *, manager: str, subresource: str = "") -> dict[str, Any]:
        assert (resource.plural, manager, subresource) == ("capacitypolicies", "corral-provisioner", "status")
        if self.gone:
            raise NotFound("gone")
        self.applied.append(copy.deepcopy(body))
        return dict(body)


async def test_it_is_written_when_it_changes_and_told_once() -> None:
    api, clock = Applying(), Clock()
    here = state(api)
    here.pools.put(("", "p"), pool())
    made = decode(
        {**policy(pools=["p", "q"]).to_json(), "metadata": {"name": "x", "uid": "u", "generation": 3}}, ours.CapacityPolicy
    )
    here.policies.put(("", "x"), made)
    reconciler = PolicyReconciler(here, api, recorder(api, clock), clock)

    async def turn() -> None:
        await reconciler.reconcile("x")
        if api.applied:
            here.policies.put(("", "x"), decode({**made.to_json(), "status": api.applied[-1]["status"]}, ours.CapacityPolicy))

    await turn()
    await turn()
    [body] = api.applied
    [said] = body["status"]["conditions"]
    assert body["metadata"] == {"name": "x", "uid": "u"}
    assert (said["type"], said["status"], said["reason"], said["observedGeneration"]) == ("Ready", "False", "UnknownPool", 3)
    assert said["lastTransitionTime"] == "2026-09-01T10:00:00Z"
    clock.pass_by(60)
    here.pools.put(("", "q"), pool("q"))
    await turn()
    assert api.applied[-1]["status"]["conditions"][0]["lastTransitionTime"] == "2026-09-01T10:01:00Z"
    assert api.events == ["UnknownPool", "Ready"]


async def test_a_policy_that_goes_meanwhile() -> None:
    api, clock = Applying(), Clock()
    here = state(api)
    reconciler = PolicyReconciler(here, api, recorder(api, clock), clock)
    await reconciler.reconcile("x")
    here.policies.put(("", "x"), policy("x"))
    api.gone = True
    await reconciler.reconcile("x")
    assert not api.events
