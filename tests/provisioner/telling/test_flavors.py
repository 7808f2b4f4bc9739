"""Flavors that no pool can serve, and on which pools that is told."""

from typing import Any

import pytest
from msgspec import structs

from capacity.requirements import Taint
from kube import kueue, ours
from kube.meta import decode
from provisioner.telling.flavors import Ground, Place, Use, grounds, missing, unfit, used
from tests.provisioner.fake_api import Api, state
from tests.provisioner.make import RACK, check, node, pool, view

GPU = Taint("nvidia.com/gpu", "NoSchedule", "present")
BEARS = {"nvidia.com/gpu": {"key": "nvidia.com/gpu", "operator": "Exists"}}
BOOKED = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
HOST = "kubernetes.io/hostname"


def flavor(name: str = "f", **spec: Any) -> kueue.ResourceFlavor:
    return decode({"metadata": {"name": name}, "spec": spec}, kueue.ResourceFlavor)


ADOPTED = structs.replace(pool(), spec=structs.replace(pool().spec, sources=()))


def labelled(**labels: str) -> Use:
    return Use(flavor(nodeLabels=labels))


THERE = {
    "p": Ground(pool("p"), [Place({"gpu": "h100", "zone": "east"})]),
    "q": Ground(pool("q"), [Place({"gpu": "a100", "zone": "west"})]),
}


@pytest.mark.parametrize(
    ("use", "pools"),
    [
        pytest.param(labelled(gpu="h100"), [], id="borne-by-one"),
        pytest.param(labelled(), [], id="asks-for-nothing"),
        pytest.param(labelled(gpu="h100", zone="north"), ["p"], id="nearly"),
        pytest.param(labelled(gpu="h200"), ["p", "q"], id="by-none-at-all"),
    ],
)
def test_labels_that_are_missing(use: Use, pools: list[str]) -> None:
    found = missing([use], THERE)
    assert [name for name, texts in found.items() if texts] == pools


@pytest.mark.parametrize(
    ("given", "by_kueues", "words"),
    [
        pytest.param({"tolerations": [BEARS["nvidia.com/gpu"]]}, False, "", id="tolerated"),
        pytest.param({"nodeTaints": [{"key": GPU.key, "value": GPU.value, "effect": GPU.effect}]}, False, "", id="named"),
        pytest.param(
            {}, False, "neither tolerates nor names taint nvidia.com/gpu=present:NoSchedule, and each node", id="neither"
        ),
        pytest.param(
            {"tolerations": [{"key": "nvidia.com/gpu", "value": "absent"}]},
            False,
            "neither tolerates nor names",
            id="another-value",
        ),
        pytest.param({"tolerations": [BEARS["nvidia.com/gpu"], BOOKED]}, True, "", id="booked-tolerated-for-kueues-check"),
        pytest.param(
            {"tolerations": [BEARS["nvidia.com/gpu"]]},
            True,
            "does not tolerate taint corral.dev/booked, and Kueue's own check adds no toleration: add {key: corral.dev/booked,",
            id="booked-untolerated-for-kueues-check",
        ),
    ],
)
def test_taints(given: dict[str, Any], by_kueues: bool, words: str) -> None:
    there = {"p": Ground(pool("p"), [Place({"gpu": "h100"}, (GPU,))]), "q": Ground(pool("q"), [Place({"gpu": "a100"})])}
    found = unfit([Use(flavor(nodeLabels={"gpu": "h100"}, **given), by_kueues=by_kueues)], there)
    assert not found["q"], "its nodes don't bear the labels"
    assert bool(found["p"]) is bool(words)
    assert words in found["p"].get("f", "")


def test_one_node_without_the_taint_is_enough() -> None:
    """Whichever of the pools that a flavor spans it is in."""
    there = {"p": Ground(pool("p"), [Place({"gpu": "h100"}, (GPU,))]), "q": Ground(pool("q"), [Place({"gpu": "h100"})])}
    assert unfit([labelled(gpu="h100")], there) == {"p": {}, "q": {}}


@pytest.mark.parametrize(
    ("levels", "labels", "words"),
    [
        pytest.param((RACK, HOST), {}, "", id="among the pool's own levels"),
        pytest.param(("block", HOST), {"block": "b"}, "", id="borne by a node"),
        pytest.param(
            ("block", "cell", RACK),
            {},
            "has Topology t with level block, cell, which no node of the pool is known to carry",
            id="no",
        ),
    ],
)
def test_levels_of_its_topology(levels: tuple[str, ...], labels: dict[str, str], words: str) -> None:
    use = Use(flavor(topologyName="t", nodeLabels={"gpu": "h100"}, tolerations=[BOOKED]), levels, by_ours=False, by_kueues=True)
    found = unfit([use], {"p": Ground(pool("p", topologyKeys=[RACK]), [Place({"gpu": "h100", **labels})])})
    assert bool(found["p"]) is bool(words)
    assert words in found["p"].get("f", "")


@pytest.mark.parametrize(
    ("by_ours", "of", "told"),
    [
        pytest.param(True, pool(), True, id="nothing is bought for it"),
        pytest.param(True, ADOPTED, False, id="a pool that buys nothing anyway"),
        pytest.param(False, pool(), False, id="Kueue's own check"),
    ],
)
def test_a_topology_with_a_check_of_ours(by_ours: bool, of: ours.CapacityPool, told: bool) -> None:
    use = Use(flavor(topologyName="t", nodeLabels={"gpu": "h100"}, tolerations=[BOOKED]), (RACK,), by_ours, not by_ours)
    found = unfit([use], {"p": Ground(of, [Place({"gpu": "h100"})])})["p"]
    assert bool(found) is told
    assert not told or found["f"].startswith(
        "ResourceFlavor f has a topologyName: with a check of corral.dev/capacity Kueue reserves"
    )


def test_the_places_of_a_pool() -> None:
    """What is on its way, or booked, counts with the taints that it will have."""
    tainted = node("n", labels={"corral.dev/pool": "p"}, taints=[{"key": "corral.dev/booked", "effect": "NoSchedule"}])
    found = grounds(view(pool("p", nodeLabels={"team": "train"}), nodes=(tainted,)))["p"].places
    assert [place.taints for place in found if place.labels.get("kubernetes.io/hostname") == "n"] == [()]
    sold = [place for place in found if place.labels.get("team") == "train"]
    assert sold
    assert all(place.labels["topology.kubernetes.io/zone"] in ("east", "west") for place in sold)


def test_flavors_in_use() -> None:
    """Those of queues whose check leads to us, and no others."""
    here = state(Api())
    in_tree = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "ours"}
    for name, made in {
        "capacity": check("capacity"),
        "kueues": decode({"metadata": {"name": "kueues"}, "spec": {**in_tree, "parameters": reference}}, kueue.AdmissionCheck),
        "other": decode({"metadata": {"name": "other"}, "spec": in_tree}, kueue.AdmissionCheck),
    }.items():
        here.checks.put(("", name), made)
    config = {"metadata": {"name": "ours"}, "spec": {"provisioningClassName": "gang.corral.dev"}}
    here.configs.put(("", "ours"), decode(config, kueue.ProvisioningRequestConfig))
    for name, rule in {
        "a": {"name": "capacity"},
        "b": {"name": "capacity", "onFlavors": ["b2"]},
        "c": {"name": "kueues"},
        "d": {"name": "other"},
    }.items():
        groups = [{"flavors": [{"name": f"{name}1"}, {"name": f"{name}2"}]}]
        spec = {"resourceGroups": groups, "admissionChecksStrategy": {"admissionChecks": [rule]}}
        here.cluster_queues.put(("", name), decode({"metadata": {"name": name}, "spec": spec}, kueue.ClusterQueue))
        for each in (f"{name}1", f"{name}2"):
            here.flavors.put(("", each), flavor(each, topologyName="t"))
    topology = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": RACK}]}}
    here.topologies.put(("", "t"), decode(topology, kueue.Topology))
    found = used(here)
    assert sorted(use.name for use in found if use.by_ours) == ["a1", "a2", "b2"]
    assert sorted(use.name for use in found if use.by_kueues) == ["c1", "c2"]
    assert {use.levels for use in found} == {(RACK,)}
