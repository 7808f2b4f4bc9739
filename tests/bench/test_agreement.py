"""The agreement experiment's own parts: cases, their sizes, shrinking, seeded mistakes and the verdict of a report."""

from dataclasses import replace
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.agreement import oracle
from bench.agreement.api import Api, GoneError
from bench.agreement.cases import Case, Offering, PodSet, Probe, case, node, pod, renamed, template, without_cordoned
from bench.agreement.catch import Caught
from bench.agreement.draft import texts, write_request
from bench.agreement.generator import FEATURES, generate
from bench.agreement.levels import broken
from bench.agreement.mutations import MUTATIONS
from bench.agreement.planner import answer
from bench.agreement.questions import all_machines, daemons, gang_pods, machines, probe_template
from bench.agreement.report import Run
from bench.agreement.results import FIT, NO_FIT, UNDECIDABLE, ProbeResult, Result, kind
from bench.agreement.shrink import _paths, _without
from bench.agreement.truth.amounts import pod_amounts

CASES = [generate(4, number) for number in range(48)]


def _simple(**more: object) -> Case:
    nodes = [node("c0c0-n0", {"cpu": "2", "pods": "10"})]
    return replace(Case(["resources"], nodes, [PodSet("worker", 1, template({"cpu": "1"}))], probes=[Probe("worker")]), **more)


@pytest.mark.parametrize("one", [pytest.param(each, id=each.seed.replace("/", "-")) for each in CASES[:24]])
def test_a_case_survives_its_json_and_a_new_id(one: Case) -> None:
    assert case(one.to_json()) == one
    other = renamed(one, "k9x9")
    assert "c0c0" not in str(other.to_json())
    assert renamed(other, "c0c0") == one


def test_numbers_decide_the_case_alone() -> None:
    assert generate(4, 17) == CASES[17]
    assert generate(5, 17) != CASES[17]


def test_all_features_take_turns() -> None:
    assert [each.features[0] for each in CASES[:24]] == list(FEATURES)


@pytest.mark.parametrize("form", ["plain", "two", "init", "sidecar", "sidecar-init", "pod-level", "limits", "rounded"])
@pytest.mark.parametrize("seed", range(5))
def test_every_form_asks_for_the_same(form: str, seed: int) -> None:
    ask = {"cpu": 1234, "memory": 5_000_000_001}
    spec = template()["spec"]
    write_request(Random(seed), spec, ask, form)
    found = pod_amounts(spec)
    assert {name: found[name] for name in ask} == ask


@pytest.mark.parametrize("amount", [1, 999, 1000, 1930, 4000])
def test_cpu_is_written_exactly(amount: int) -> None:
    for seed in range(8):
        (text,) = texts(Random(seed), {"cpu": amount}).values()
        assert pod_amounts({"containers": [{"resources": {"requests": {"cpu": text}}}]})["cpu"] == amount


def _objects(one: Case) -> list[dict[str, Any]]:
    new = all_machines(one)
    return [*one.nodes, *new, *one.pods, *daemons(one, new), *gang_pods(one, Random(1), steered=True)]


# The lists that the API server takes as maps, and what two entries of one may not share (core/v1 types and validation, 1.36).
_LIST_MAPS = {
    "taints": ("key", "effect"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
}


@pytest.mark.parametrize(
    "one",
    [
        *(pytest.param(each, id=each.seed.replace("/", "-")) for each in CASES),
        pytest.param(generate(2026, 5577), id="a node tainted by two features"),
    ],
)
def test_no_list_has_two_entries_that_the_api_server_takes_for_one(one: Case) -> None:
    for item in _objects(one):
        for name, keys in _LIST_MAPS.items():
            entries = [tuple(each.get(key) for key in keys) for each in item["spec"].get(name, [])]
            assert len(entries) == len(set(entries)), (item["metadata"]["name"], name)


def _agent(tolerations: list[dict[str, str]], **spec: Any) -> dict[str, Any]:
    form = template({"cpu": "100m"}, tolerations=tolerations, **spec)
    return {"kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "c0c0"}, "spec": {"template": form}}


@pytest.mark.parametrize(
    ("agent", "there"),
    [
        pytest.param(_agent([{"key": "corral.dev/booked", "operator": "Exists"}]), ["plain"], id="bears the mark alone"),
        pytest.param(_agent([]), [], id="doesn't bear the mark"),
        pytest.param(_agent([{"operator": "Exists"}]), ["plain", "tainted"], id="bears all"),
        pytest.param(_agent([{"operator": "Exists"}], nodeSelector={"kind": "b"}), ["tainted"], id="chooses its nodes"),
    ],
)
def test_daemons_come_to_every_bought_node_that_they_bear(agent: dict[str, Any], there: list[str]) -> None:
    amounts = {"cpu": "2", "pods": "10"}
    stays = [{"key": "dedicated", "effect": "NoSchedule"}]
    offerings = [
        Offering("plain", node("", amounts, {"kind": "a"}), 1),
        Offering(
            "tainted", node("", amounts, {"kind": "b"}, [*stays, {"key": "booting", "effect": "NoExecute"}]), 1, 0, ["booting"]
        ),
    ]
    one = _simple(daemon_sets=[agent], offerings=offerings)
    pods = daemons(one, all_machines(one))
    assert [pod["spec"]["nodeName"] for pod in pods] == [f"c0c0-{name}-0" for name in there]


def test_daemons_come_to_offerings_that_a_later_feature_adds() -> None:
    """The third is added by `purchases` when the DaemonSet is there."""
    one = generate(2026, 1075)
    names = {pod["spec"]["nodeName"] for pod in daemons(one, all_machines(one))}
    assert names == {"c0c0-o0-0", "c0c0-o1-0", "c0c0-o1-1", "c0c0-o2-0"}


def test_a_third_of_the_gangs_is_within_a_pod_of_what_cannot_be() -> None:
    close = 0
    for one in (each for each in CASES if each.pod_sets[0].count < 8):
        more = renamed(one, one.id)
        more.pod_sets[0].count += 1
        usable = [oracle.feasible(without_cordoned(each)) for each in (one, more)]
        close += usable in ([True, False], [False, False])
    assert close >= len(CASES) * 0.3


def test_a_gang_gets_no_cordoned_node() -> None:
    one = _simple(nodes=[node("c0c0-n0", {"cpu": "2", "pods": "10"}, cordoned=True)])
    assert without_cordoned(one).nodes[0]["metadata"]["labels"] == {"kubernetes.io/hostname": "c0c0-n0"}
    assert without_cordoned(_simple()) == _simple()


def test_steered_pods_bear_the_mark_and_the_toleration() -> None:
    (pod,) = gang_pods(_simple(), Random(1), steered=True)
    assert pod["spec"]["nodeSelector"] == {"case": "c0c0", "c0c0.booking.corral.dev/worker": "true"}
    assert {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]


def test_a_pinned_probe_names_its_node_and_leaves_the_template_alone() -> None:
    one = _simple()
    assert probe_template(one, Probe("worker", "c0c0-n0"))["spec"]["nodeSelector"]["kubernetes.io/hostname"] == "c0c0-n0"
    assert "kubernetes.io/hostname" not in one.pod_sets[0].template["spec"]["nodeSelector"]


def test_bought_machines_join_without_passing_taints() -> None:
    one = next(each for each in CASES if each.features[0] == "startup-taints")
    for offering in one.offerings:
        keys = {taint["key"] for made in machines(one, offering, 2) for taint in made["spec"]["taints"]}
        assert keys <= {"dedicated"}


@pytest.mark.parametrize(
    ("notes", "places", "faults"),
    [
        pytest.param({"corral.dev/required-topology": "rack"}, [{"rack": "a"}, {"rack": "a"}], 0, id="one rack"),
        pytest.param({"corral.dev/required-topology": "rack"}, [{"rack": "a"}, {"rack": "b"}], 1, id="two racks"),
        pytest.param({"corral.dev/required-topology": "rack"}, [{}, {}], 1, id="no rack"),
        pytest.param({"corral.dev/slice-topology": "rack", "corral.dev/slice-size": "2"}, [{"rack": "a"}] * 2, 0, id="one slice"),
        pytest.param(
            {"corral.dev/slice-topology": "rack", "corral.dev/slice-size": "2"},
            [{"rack": "a"}, {"rack": "b"}],
            1,
            id="torn slice",
        ),
    ],
)
def test_levels_and_slices_are_checked_on_places(notes: dict[str, str], places: list[dict[str, str]], faults: int) -> None:
    one = _simple()
    one.pod_sets[0].template["metadata"]["annotations"] = notes
    assert len(broken(one, {"worker": places})) == faults


@pytest.mark.parametrize(
    ("fits", "node_name", "what"),
    [
        pytest.param({"n": FIT}, "n", None, id="both say yes"),
        pytest.param({"n": FIT}, "", "false fit", id="only the planner says yes"),
        pytest.param({"n": NO_FIT}, "n", "false no-fit", id="only the scheduler says yes"),
        pytest.param({"n": UNDECIDABLE}, "", None, id="undecidable is never wrong"),
        pytest.param({"n": NO_FIT, "m": FIT}, "n", "false no-fit", id="bound to another node than those that fit"),
    ],
)
def test_probes_disagree_both_ways(fits: dict[str, str], node_name: str, what: str | None) -> None:
    found = ProbeResult(fits, {}, node_name).disagreement()
    assert (found.what if found else None) == what


def test_a_pod_being_deleted_is_held_in_every_smaller_case() -> None:
    """Without its finalizer the API server would let it go at once, and the case would speak of a pod that isn't there."""
    held = pod("run0", template(), node_name="c0c0-n0")
    held["metadata"] |= {"finalizers": ["example.com/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    value = _simple(pods=[held]).to_json()
    left = [each for path in _paths(value) for each in _without(value, [path]).pods]
    assert left
    assert all(each["metadata"]["finalizers"] for each in left)


async def test_a_pod_gone_is_a_pod_released() -> None:
    """Its DELETE may have come first."""
    gone = web.Application()
    async with TestServer(gone) as server, aiohttp.ClientSession() as session:
        api = Api(session, str(server.make_url("")).rstrip("/"), "")
        await api.release_pod("c0c0", "run0")
        await api.delete_pod("c0c0", "run0")
        with pytest.raises(GoneError, match="404"):
            await api.patch("Node", "n0", {})


def test_every_part_that_goes_leaves_a_readable_case() -> None:
    for one in CASES[:6]:
        for path in _paths(one.to_json()):
            assert isinstance(_without(one.to_json(), [path]), Case)


@pytest.mark.parametrize("mutation", [pytest.param(each, id=each.name) for each in MUTATIONS])
def test_a_mistake_is_there_only_inside_its_context(mutation: object) -> None:
    shown = [each for each in CASES if set(mutation.features) & set(each.features)][:4]  # type: ignore[attr-defined]
    before = [kind(answer(each)) for each in shown]
    with mutation.apply():  # type: ignore[attr-defined]
        pass
    assert [kind(answer(each)) for each in shown] == before


def _run(*results: Result, caught: str = "1/1") -> Run:
    return Run(1, {}, 1.0, results, [Caught("m", caught)])


def test_a_clean_run_has_no_faults() -> None:
    run = _run(Result(_simple(), FIT, steered=""), Result(_simple(), NO_FIT, refusals=["waits"], oracle=False))
    assert run.faults() == []
    assert run.line() == ("cases=2 fit=1 nofit=1 false_fit=0 false_nofit=0 undecidable=0.00% mutations_caught=1/1")


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        pytest.param(Result(_simple(), FIT, steered="1 pod waits"), "Q2 false fit", id="a plan that isn't bound"),
        pytest.param(Result(_simple(), FIT, survives=False), "Q2 false fit", id="a plan that an order spoils"),
        pytest.param(Result(_simple(), NO_FIT, refusals=["waits", ""]), "Q4 false no-fit", id="bound in spite of a shortfall"),
        pytest.param(Result(_simple(), NO_FIT, oracle=True), "Q4 false no-fit", id="the oracle finds a way"),
        pytest.param(Result(_simple(), UNDECIDABLE, ("why",)), "undecidable: 100.0% of all", id="too much left open"),
        pytest.param(Result(_simple(), FIT, refused="422"), "refused by the API server", id="a case that can't be"),
        pytest.param(Result(_simple(), FIT, error="boom"), "plan error", id="the planner raises"),
    ],
)
def test_faults_are_named(result: Result, fault: str) -> None:
    assert any(fault in text for text in _run(result).faults())


def test_a_refused_case_is_no_disagreement() -> None:
    """Nothing was asked: what was not bound says nothing of the planner."""
    refused = Result(_simple(), FIT, probes=[ProbeResult({"n": FIT}, {})], refused="422")
    assert refused.disagreements() == []


def test_a_mistake_that_nothing_exposes_is_a_fault() -> None:
    assert _run(Result(_simple(), FIT, steered=""), caught="").faults() == ["not caught: m"]
