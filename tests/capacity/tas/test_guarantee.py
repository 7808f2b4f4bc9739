"""Kueue's topology assignment. What is expected of `simulate` is what Kueue v0.17.0 itself answers when bench/tas
puts the same to it.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.fit import Host
from capacity.model import HOSTNAME, PodSet, Slices
from capacity.requirements import HostPort
from capacity.tas.domains import simulate
from capacity.tas.guarantee import assign, guaranteed
from capacity.tas.room import RefusalError, Request

BLOCK, RACK = "block", "rack"
LEVELS = (BLOCK, RACK, HOSTNAME)


def hosts(text: str) -> list[Host]:
    """Each `block/rack/host=gpus`, or `=gpus,pods` where pods are scarce."""
    found = []
    for word in text.split():
        place, amounts = word.split("=")
        block, rack, name = place.split("/")
        gpu, pods = (*map(int, amounts.split(",")), 110)[:2]
        found.append(Host(name, {BLOCK: block, RACK: rack, HOSTNAME: name}, (), {"gpu": gpu, "pods": pods}))
    return found


def request(name: str, count: int, gpu: int = 1, where: str = "abcdefgh", **topology: str | Slices | None) -> Request:
    return Request(name, count, {"gpu": gpu}, frozenset(where), **topology)  # type: ignore[arg-type]  # by keyword


TWO_BLOCKS = "0/0/a=4 0/0/b=2 0/1/c=3 1/0/d=8 1/0/e=1"
PAIR = {"group": "pair"}
KEPT = [
    pytest.param(TWO_BLOCKS, [request("w", 9, required=BLOCK)], {"w": {"a": 4, "b": 2, "c": 3}}, id="smallest-block-that-fits"),
    pytest.param(TWO_BLOCKS, [request("w", 6, required=RACK)], {"w": {"a": 4, "b": 2}}, id="smallest-rack-that-fits"),
    pytest.param(TWO_BLOCKS, [request("w", 10, required=BLOCK)], (9, 10), id="no-block-fits"),
    pytest.param(TWO_BLOCKS, [request("w", 9, required=RACK)], {"w": {"d": 8, "e": 1}}, id="the-one-rack"),
    pytest.param(TWO_BLOCKS, [request("w", 10, preferred=RACK)], {"w": {"c": 2, "d": 8}}, id="up-to-the-top-and-over"),
    pytest.param(TWO_BLOCKS, [request("w", 5)], {"w": {"d": 5}}, id="unconstrained-on-one-host-if-any-will-do"),
    pytest.param(TWO_BLOCKS, [request("w", 9)], {"w": {"a": 3, "b": 2, "c": 3, "e": 1}}, id="unconstrained-least-free-first"),
    pytest.param(TWO_BLOCKS, [request("w", 19)], (18, 19), id="unconstrained-not-enough"),
    pytest.param(
        TWO_BLOCKS, [request("w", 8, slices=Slices(RACK, 4))], {"w": {"d": 7, "e": 1}}, id="slices-least-free-host-first"
    ),
    pytest.param(
        TWO_BLOCKS,
        [request("w", 12, preferred=BLOCK, slices=Slices(RACK, 3))],
        {"w": {"c": 3, "d": 8, "e": 1}},
        id="slices-over-two-blocks",
    ),
    pytest.param(TWO_BLOCKS, [request("w", 12, required=BLOCK, slices=Slices(HOSTNAME, 2))], (4, 6), id="slices-split-by-hosts"),
    pytest.param(
        TWO_BLOCKS,
        [request("w", 7, required=BLOCK, slices=Slices(RACK, 3))],
        {"w": {"a": 4, "b": 2}},
        id="a-broken-slice-is-lost",
    ),
    pytest.param(TWO_BLOCKS, [request("w", 3, required=RACK, where="ce")], {"w": {"c": 3}}, id="only-admitted-hosts"),
    pytest.param(
        TWO_BLOCKS,
        [request("v", 3, required=HOSTNAME), request("w", 6, required=BLOCK)],
        {"v": {"c": 3}, "w": {"a": 4, "b": 2}},
        id="one-after-the-other",
    ),
    pytest.param(
        "0/0/a=8,2 0/0/b=1,2",
        [request("v", 2, required=HOSTNAME), request("w", 2, required=HOSTNAME)],
        {"v": {"a": 2}, "w": {"a": 2}},
        id="pods-of-others-are-not-counted",
    ),
    pytest.param(
        "0/0/a=4 0/0/b=4",
        [request("leader", 1, 2, required=RACK, **PAIR), request("workers", 6, required=RACK, **PAIR)],
        {"leader": {"a": 1}, "workers": {"a": 2, "b": 4}},
        id="leader-and-workers",
    ),
    pytest.param(
        "0/0/a=4 0/0/b=4",
        [request("workers", 7, required=RACK, **PAIR), request("leader", 1, 2, required=RACK, **PAIR)],
        (8, 7),
        id="leader-leaves-too-little",
    ),
    pytest.param(
        "0/0/a=4 0/0/b=4",
        [request("leader", 1, where="b", required=RACK, **PAIR), request("workers", 3, where="a", required=RACK, **PAIR)],
        {"leader": {"a": 1}, "workers": {"a": 3}},
        id="leader-by-its-workers-selector",
    ),
    pytest.param(
        "0/0/a=4 0/0/b=0 0/0/c=4",
        [request("leader", 1, 4, required=RACK, **PAIR), request("workers", 5, required=RACK, **PAIR)],
        {"leader": {}, "workers": {}},
        id="leader-thought-to-cost-nothing",
    ),
    pytest.param(
        "0/0/a=2 0/0/b=2",
        [
            request("leader", 1, required=RACK, **PAIR),
            request("workers", 3, required=RACK, slices=Slices(RACK, 3), **PAIR),
        ],
        {"leader": {}, "workers": {"a": 2, "b": 2}},
        id="leader-forgotten-below-its-slice",
    ),
]


@pytest.mark.parametrize(("nodes", "requests", "expected"), KEPT)
def test_places_as_kueue_does(nodes: str, requests: list[Request], expected: object) -> None:
    try:
        found: object = simulate(requests, hosts(nodes), LEVELS)
    except RefusalError as refusal:
        found = (refusal.fits, refusal.wanted)
    assert found == expected


@pytest.mark.parametrize(
    ("nodes", "requests", "expected"),
    [
        pytest.param(TWO_BLOCKS, [request("w", 5)], {"w": {"d": 5}}, id="right"),
        pytest.param(TWO_BLOCKS, [request("w", 19)], "Kueue can place 18 of 19 units of w", id="refused"),
        pytest.param(
            TWO_BLOCKS,
            [request("w", 7, required=BLOCK, slices=Slices(RACK, 3))],
            "Kueue places 6 of 7 pods of w",
            id="a-broken-slice",
        ),
        pytest.param(
            "0/0/a=8,2 0/0/b=1,2",
            [request("v", 2, required=HOSTNAME), request("w", 2, required=HOSTNAME)],
            "Kueue sends more pods to a than fit",
            id="more-pods-than-a-node-takes",
        ),
        pytest.param(
            "0/0/a=4 0/0/b=4",
            [request("leader", 1, where="b", required=RACK, **PAIR), request("workers", 3, where="a", required=RACK, **PAIR)],
            "Kueue sends leader to a, which does not admit it",
            id="leader-astray",
        ),
        pytest.param(
            "0/0/a=2 0/0/b=2",
            [request("leader", 1, required=RACK, **PAIR), request("workers", 3, required=RACK, slices=Slices(RACK, 3), **PAIR)],
            "Kueue places 0 of 1 pods of leader",
            id="leader-forgotten",
        ),
        pytest.param("0/0/a=4", [request("w", 1, required="row")], "Kueue's topology has no level row", id="no-such-level"),
        pytest.param(
            "0/0/a=4",
            [request("w", 2, required=RACK, slices=Slices(BLOCK, 2))],
            "Kueue wants slices at or below rack, not at block",
            id="slices-wider-than-the-whole",
        ),
        pytest.param(
            "0/0/a=4",
            [request(name, 1, **PAIR) for name in "uvw"],
            "Kueue can't place 3 pod sets in one group",
            id="three-in-a-group",
        ),
        pytest.param("", [request("w", 1)], "Kueue knows no node for w", id="no-node"),
    ],
)
def test_tells_a_right_placement_from_a_wrong_one(nodes: str, requests: list[Request], expected: object) -> None:
    assert assign(requests, hosts(nodes), LEVELS) == expected


def test_a_host_without_a_level_takes_no_part() -> None:
    lost = replace(hosts("0/0/a=9")[0], labels={HOSTNAME: "a", BLOCK: "0"})
    assert assign([request("w", 2)], [lost, *hosts("0/0/b=2")], LEVELS) == {"w": {"b": 2}}


# ---- the guarantee


def pod_set(name: str, count: int, **fields: object) -> PodSet:
    return PodSet(name, count, {"gpu": 1, "pods": 1}, placed_by_kueue=True, **fields)  # type: ignore[arg-type]  # by keyword


def places(text: str, names: str = "w") -> list[tuple[Host, frozenset[str]]]:
    return [(host, frozenset(names.split())) for host in hosts(text)]


def new(text: str, unknown: frozenset[str] = frozenset()) -> list[tuple[Host, frozenset[str]]]:
    """Nodes still to be bought, whose labels `unknown` only a launch will tell."""
    found = []
    for host in hosts(text):
        labels = {key: value for key, value in host.labels.items() if key not in unknown}
        name = f"offering#{host.name}"
        found.append((replace(host, name=name, labels={**labels, HOSTNAME: name}, unknown=unknown), frozenset({"v", "w"})))
    return found


@pytest.mark.parametrize(
    ("pod_sets", "where", "flaw"),
    [
        pytest.param([pod_set("w", 6, required_topology=RACK)], places("0/0/a=4 0/0/b=2"), "", id="fits"),
        pytest.param([pod_set("w", 7, required_topology=RACK)], places("0/0/a=4 0/1/b=3"), "4 of 7", id="no-rack"),
        pytest.param([pod_set("w", 7, preferred_topology=RACK)], places("0/0/a=4 0/1/b=3"), "", id="preferred-gives-way"),
        pytest.param([pod_set("w", 4)], places("0/0/a=4", "v"), "0 of 4", id="not-marked-for-it"),
        pytest.param([pod_set("w", 6, required_topology=RACK)], new("0/0/a=4 0/0/b=2"), "", id="new-nodes"),
        pytest.param(
            [pod_set("w", 6, required_topology=BLOCK)], new("0/0/a=4 0/0/b=2", frozenset({RACK})), "", id="an-unknown-level-below"
        ),
        pytest.param(
            [pod_set("w", 6, required_topology=RACK)],
            new("0/0/a=4 0/0/b=2", frozenset({RACK})),
            "4 of 6",
            id="an-unknown-level-required",
        ),
        pytest.param(
            [pod_set("w", 4, required_topology=RACK)], new("0/0/a=4", frozenset({RACK})), "", id="one-host-is-always-in-one-rack"
        ),
        pytest.param(
            [pod_set("w", 2, ports=(HostPort(80),))], places("0/0/a=4 0/0/b=2"), "more pods to b than fit", id="ports-clash"
        ),
        pytest.param([pod_set("w", 2, ports=(HostPort(80),))], places("0/0/a=1 0/0/b=1"), "", id="ports-apart-for-want-of-room"),
        pytest.param(
            [pod_set(name, 2, required_topology=HOSTNAME) for name in "vw"],
            places("0/0/a=8,2 0/0/b=1,2", "v w"),
            "more pods to a than fit",
            id="pods-of-others-are-not-counted",
        ),
        pytest.param([pod_set("w", 1), replace(pod_set("v", 1), placed_by_kueue=False)], places("0/0/a=4"), "not v", id="mixed"),
        pytest.param([replace(pod_set("v", 9), placed_by_kueue=False)], places("0/0/a=4"), "", id="none-is-kueues"),
    ],
)
def test_guarantees_what_kueue_places(pod_sets: list[PodSet], where: list[tuple[Host, frozenset[str]]], flaw: str) -> None:
    found = guaranteed(pod_sets, where, LEVELS)
    assert flaw in found if flaw else not found


def test_a_name_yet_to_be_given_is_no_guarantee() -> None:
    """v goes to the first of two hosts alike to it; w, which wants more pods on one host, needs the one with more room for it."""
    v, w = (
        pod_set("v", 2, required_topology=HOSTNAME),
        PodSet("w", 1, {"nic": 1}, required_topology=HOSTNAME, placed_by_kueue=True),
    )
    old = [(replace(host, free={**host.free, "nic": 1, "pods": 9}), frozenset({"v", "w"})) for host in hosts("0/0/m=2")]
    w = replace(w, requests={"gpu": 1, "nic": 1})
    assert guaranteed([v, w], [*old, *new("0/0/a=2")], LEVELS) == "Kueue can place 0 of 1 units of w"
    assert guaranteed([w, v], [*old, *new("0/0/a=2")], LEVELS) == ""


def test_a_leader_must_not_depend_on_other_nodes_around() -> None:
    """With a node beside that takes none of the workers, Kueue thinks that the leader costs rack 0 nothing, and chooses it."""
    pair = [
        pod_set("l", 1, topology_group="p", required_topology=RACK),
        pod_set("w", 3, topology_group="p", required_topology=RACK),
    ]
    assert guaranteed(pair, places("0/0/a=3 0/1/b=2 0/1/c=2", "l w"), LEVELS) == "Kueue places 0 of 1 pods of l"
    assert guaranteed(pair, places("0/1/b=2 0/1/c=2", "l w"), LEVELS) == ""


# ---- properties


@st.composite
def topologies(draw: st.DrawFn) -> list[Host]:
    drawn = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=8))
    return hosts(" ".join(f"{block}/{rack}/{name}={gpu}" for name, (block, rack, gpu) in zip("abcdefgh", drawn, strict=False)))


modes = st.sampled_from([{"required": BLOCK}, {"required": RACK}, {"required": HOSTNAME}, {"preferred": RACK}, {}])
one_request = st.builds(lambda count, gpu, mode: request("w", count, gpu, **mode), st.integers(1, 12), st.integers(1, 3), modes)


def room(host: Host, one: Request) -> int:
    return host.free["gpu"] // one.requests["gpu"]


def largest(one: Request, where: Sequence[Host], level: str | None) -> int:
    """Pods of the set that the roomiest domain of a level holds; all nodes are one domain without a level."""
    held: dict[tuple[str, ...], int] = {}
    for host in where:
        path = tuple(host.labels[key] for key in LEVELS[: LEVELS.index(level) + 1]) if level else ()
        held[path] = held.get(path, 0) + room(host, one)
    return max(held.values())


@given(topologies(), one_request)
def test_one_pod_set_is_refused_only_if_no_domain_fits(where: list[Host], one: Request) -> None:
    fits = largest(one, where, one.required) >= one.count
    assert isinstance(assign([one], where, LEVELS), dict) == fits


@given(topologies(), one_request, st.data())
def test_more_room_never_hurts_one_pod_set(where: list[Host], one: Request, data: st.DataObject) -> None:
    roomier = [replace(host, free={**host.free, "gpu": host.free["gpu"] + data.draw(st.integers(0, 2))}) for host in where]
    if isinstance(assign([one], where, LEVELS), dict):
        assert isinstance(assign([one], roomier, LEVELS), dict)


@given(topologies(), st.lists(st.tuples(one_request, st.integers(1, 3), st.sampled_from(LEVELS)), min_size=1, max_size=3))
@settings(max_examples=200)
def test_what_is_assigned_is_valid(where: list[Host], drawn: list[tuple[Request, int, str]]) -> None:
    requests = [
        replace(one, name=f"w{number}", count=one.count * size, slices=Slices(level, size))
        for number, (one, size, level) in enumerate(drawn)
    ]
    placed = assign(requests, where, LEVELS)
    if isinstance(placed, str):
        return
    by_name = {host.name: host for host in where}
    for host in where:
        assert sum(placed[one.name].get(host.name, 0) * one.requests["gpu"] for one in requests) <= host.free["gpu"]
    for one in requests:
        assert sum(placed[one.name].values()) == one.count
        paths = {name: tuple(by_name[name].labels[key] for key in LEVELS) for name in placed[one.name]}
        if one.required:
            assert len({path[: LEVELS.index(one.required) + 1] for path in paths.values()}) == 1
        assert one.slices is not None
        whole: dict[tuple[str, ...], int] = {}
        for name, pods in placed[one.name].items():
            path = paths[name][: LEVELS.index(one.slices.topology_key) + 1]
            whole[path] = whole.get(path, 0) + pods
        assert all(pods % one.slices.size == 0 for pods in whole.values())
