"""The problems of bench/planner: from traces made up by hand, sound and the same each time."""

import json
from pathlib import Path

import pytest

from bench.planner import scenarios, traces
from bench.planner.problems import BLOCK, GPU, HOST, RACK, ZONE, Ask, Machine, Pods, Problem, for_kueue, wire

GIB = 1 << 30
NODES = """sn,cpu_milli,memory_mib,gpu,model
a,96000,393216,8,G2
b,64000,262144,2,T4
c,32000,131072,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu
p,12000,16384,1
q,4000,8192,0
r,30000,65536,2
"""
JOBS = "timestamp,duration,num_gpus\n2017-10-09 07:01:55,66.0,1\n2017-10-09 06:13:03,9.0,16\n2017-10-09 06:13:04,9.0,4\n"
FABRIC = "ip,DSW,PSW,ASW\n1,G,P1,S1\n2,G,P1,S1\n3,G,P1,S2\n4,G,P2,S1\n"


@pytest.fixture(autouse=True)
def _traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("openb_nodes", NODES), ("openb_pods", PODS), ("philly_jobs", JOBS), ("lingjun_topology", FABRIC)):
        (tmp_path / f"{name}.csv").write_text(content)
    monkeypatch.setenv("CORRAL_TRACES", str(tmp_path))
    for one in (traces.machines, traces.pods, traces.gangs, traces.fabric):
        one.cache_clear()


def test_traces_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert traces.machines()[1] == ("T4", {"cpu": 64_000, "memory": 256 * GIB, GPU: 2})
    assert traces.gangs() == (1, 16, 4)
    assert traces.fabric()[2:] == (("P1", "P1-S2"), ("P2", "P2-S1"))
    monkeypatch.setenv("CORRAL_TRACES", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="set CORRAL_TRACES"):
        traces.folder()


@pytest.mark.parametrize("share", [pytest.param(0.0, id="empty"), pytest.param(0.9, id="nine-tenths")])
def test_no_node_is_given_more_than_it_has(share: float) -> None:
    nodes = scenarios.cluster(300, share)
    assert all(amount >= 0 for node in nodes for amount in node.free().values())
    taken = sum(bool(node.requested) for node in nodes)
    assert abs(taken - 300 * share) <= 20
    assert not any(scenarios.fits(scenarios.WORKER, node) for node in nodes if node.requested)
    assert nodes == scenarios.cluster(300, share)


def test_the_largest_gang_fits_and_one_more_does_not() -> None:
    problems = {problem.name: problem for problem in scenarios.s1([300], [8, 4_096])}
    room = sum(scenarios.fits(scenarios.WORKER, node) for node in scenarios.cluster(300, 0.9))
    assert problems["300 nodes, 90 % taken, impossible"].pods == room + 1
    assert f"300 nodes, 90 % taken, gang {room}" in problems


def test_half_of_the_fabric_is_given_to_jobs() -> None:
    hosts = scenarios.fabric(40)
    assert all(0 <= host.free()[GPU] <= 8 for host in hosts)
    assert sum(host.free()[GPU] for host in hosts) <= 4 * 40
    assert {host.labels[RACK] for host in hosts[:4]} == {"0-P1-S1", "0-P1-S2", "0-P2-S1"}
    assert hosts[4].labels[BLOCK] == "1-P1"


def test_the_fewest_racks_are_found_by_hand() -> None:
    sizes = {("a", "a1"): 3, ("a", "a2"): 2, ("a", "a3"): 1, ("b", "b1"): 4}
    nodes = tuple(
        Machine(
            f"{rack}-{index}", {ZONE: "z", BLOCK: block, RACK: rack}, {"cpu": 96_000, "memory": 384 * GIB, GPU: 8, "pods": 110}
        )
        for (block, rack), size in sizes.items()
        for index in range(size)
    )
    problem = Problem("p", (scenarios.bound(4),), nodes)
    assert scenarios.fewest_racks(problem) == 1
    assert scenarios.fewest_racks(Problem("p", (scenarios.bound(5),), nodes)) == 2
    assert scenarios.fewest_racks(Problem("p", (scenarios.bound(6),), nodes)) == 3
    assert scenarios.fewest_racks(Problem("p", (scenarios.bound(7),), nodes)) is None
    reserved = scenarios.as_reservations(problem)
    assert {(offer.domain[RACK], offer.available) for offer in reserved.offers} == {
        (rack, size) for (_, rack), size in sizes.items()
    }


def test_the_market_has_400_types_in_3_zones() -> None:
    kinds, offers = scenarios.market()
    assert (len(kinds), len(offers)) == (400, 1200)
    assert len({kind.name for kind in kinds}) == 400
    assert all(offer.price > 0 for offer in offers)


def test_gangs_of_s4_are_of_the_trace_sizes() -> None:
    problem = scenarios.s4(20)
    gpus = [one.count * one.requests[GPU] for gang in problem.gangs for one in gang.sets]
    assert set(gpus) == {4, 16}
    assert any(offer.type == "reserved" for offer in problem.offers)


def test_peers_are_told_the_same() -> None:
    node = Machine("n", {BLOCK: "b"}, {"cpu": 96_000, "memory": 8, "pods": 110}, {"cpu": 95_500, "pods": 1})
    gang = Ask("g", (Pods("w", 2, {"cpu": 500, "memory": 4, "pods": 1}, {"k": "v"}, required=BLOCK),))
    problem = Problem("p", (gang,), (node,), levels=(BLOCK,))
    told, kueue = wire(problem), for_kueue(problem)
    json.dumps([told, kueue])
    assert told["nodes"][0]["allocatable"]["cpu"] == "96000m"
    assert told["nodes"][0]["requested"] == {"cpu": "95500m", "pods": "1"}
    assert told["gangs"][0]["podSets"][0]["requests"] == {"cpu": "500m", "memory": "4", "pods": "1"}
    assert kueue["nodes"][0]["allocatable"] == {"cpu": "500m", "memory": "8", "pods": "109"}
    assert kueue["levels"] == [BLOCK, HOST]
    assert kueue["podSets"][0]["topologyRequest"] == {"required": BLOCK}
