"""What a plan's nodes may turn out to be is tried in every way that matters: proven against all namings and all other nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.fit import Host
from capacity.model import HOSTNAME, PodSet
from capacity.tas.guarantee import assign, guaranteed
from capacity.tas.guises import LARGEST, MOST, TooManyError, guises
from capacity.tas.room import Request

RACK = "rack"
LEVELS = (RACK, HOSTNAME)


def host(name: str, rack: str, gpu: int, nic: int = 1, *, new: bool = False) -> Host:
    shown = f"offer#{name}" if new else name
    return Host(shown, {RACK: rack, HOSTNAME: shown}, (), {"gpu": gpu, "nic": nic, "pods": 20})


def request(name: str, hosts: Sequence[Host], **more: object) -> Request:
    return Request(name, 1, {"gpu": 1}, frozenset(one.name for one in hosts), **more)  # type: ignore[arg-type]  # by keyword


def words(hosts: Sequence[Host], count: int = 2) -> set[tuple[int, ...]]:
    """The orders of the first rack's hosts by their gpus, one for each guise."""
    found = []
    for guise in guises(hosts, LEVELS, [request(f"w{number}", hosts) for number in range(count)]):
        first = sorted((one.labels[HOSTNAME], one.free["gpu"]) for one in guise if one.labels[RACK] == "a")
        found.append(tuple(gpu for _, gpu in first))
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        pytest.param([host("m", "a", 1), host("b", "a", 2)], {(2, 1)}, id="old-nodes-have-their-names"),
        pytest.param([host(name, "a", 1, new=True) for name in "xyz"], {(1, 1, 1)}, id="nodes-alike"),
        pytest.param([host("b", "a", 2), host("x", "a", 1, new=True)], {(2, 1), (1, 2)}, id="before-or-after"),
        pytest.param(
            [host("b", "a", 2), host("c", "a", 3), *(host(name, "a", 1, new=True) for name in "xy")],
            {(2, 3, 1, 1), (2, 1, 3, 1), (2, 1, 1, 3), (1, 2, 3, 1), (1, 2, 1, 3), (1, 1, 2, 3)},
            id="anywhere-in-between",
        ),
        pytest.param([host("b", "a", 2), host("c", "b", 3), host("x", "a", 2, new=True)], {(2, 2)}, id="other-racks-apart"),
    ],
)
def test_orders_that_differ(hosts: list[Host], expected: set[tuple[int, ...]]) -> None:
    assert words(hosts) == expected


def test_a_single_pod_set_minds_no_names() -> None:
    assert len(words([host("b", "a", 2), host("x", "a", 1, new=True)], count=1)) == 1


@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param([host(f"o{n}", "a", n) for n in range(MOST)] + [host("x", "a", 999, new=True)], id="too-many-orders"),
        pytest.param([host(f"o{n:04}", "a", n % 2) for n in range(LARGEST)] + [host("x", "a", 1, new=True)], id="too-many-nodes"),
        pytest.param(
            [replace(host("x", "a", 2, new=True), labels={HOSTNAME: "#"}, unknown=frozenset({RACK}))], id="unknown-level"
        ),
    ],
)
def test_too_many_ways_are_no_proof(hosts: list[Host]) -> None:
    with pytest.raises(TooManyError):
        list(guises(hosts, LEVELS, [request("v", hosts), request("w", hosts)]))
    pod_sets = [PodSet(name, 1, {"gpu": 1, "pods": 1}, placed_by_kueue=True) for name in "vw"]
    told = guaranteed(pod_sets, [(one, frozenset("vw")) for one in hosts], LEVELS)
    assert "it can't be told where Kueue places the pods" in told


def test_a_thousand_new_nodes_alike_are_one_way() -> None:
    hosts = [host(f"x{n}", "a", 8, new=True) for n in range(1000)]
    assert len(list(guises(hosts, LEVELS, [request("v", hosts), request("w", hosts)]))) == 1


# --- against all there are


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Host], list[PodSet]]:
    drawn = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=5)
    )
    hosts = [host(f"h{i}", rack, gpu, nic, new=new) for i, (rack, gpu, nic, new) in enumerate(drawn)]
    sets = []
    for name in draw(st.sampled_from(["v", "vw", "uvw"])):
        level = draw(st.sampled_from([None, RACK, HOSTNAME]))
        kind = draw(st.sampled_from(["gpu", "nic"]))
        group = draw(st.sampled_from(["", "", "g"]))
        one = PodSet(name, draw(st.integers(1, 4)), {kind: 1, "pods": 1}, required_topology=level, topology_group=group)
        sets.append(replace(one, placed_by_kueue=True))
    return hosts, sets


def everything(hosts: list[Host], led: bool) -> Iterator[list[Host]]:
    """All orders of all names of which old ones keep theirs, with and without another node in each rack."""
    old = sorted(one.labels[HOSTNAME] for one in hosts if "#" not in one.labels[HOSTNAME])
    for order in permutations(hosts):
        kept = [one.labels[HOSTNAME] for one in order if "#" not in one.labels[HOSTNAME]]
        if kept != old:
            continue
        named = [replace(one, labels={**one.labels, HOSTNAME: f"{place:03}"}) for place, one in enumerate(order)]
        there = sorted({one.labels[RACK] for one in hosts})
        for beside in product((False, True), repeat=len(there)) if led else ((False,) * len(there),):
            extra = [
                Host(f"~{rack}", {RACK: rack, HOSTNAME: "~"}, (), {}) for rack, yes in zip(there, beside, strict=True) if yes
            ]
            yield [*named, *extra]


@settings(max_examples=150, deadline=None)
@given(plans())
def test_a_guarantee_holds_in_every_way(plan: tuple[list[Host], list[PodSet]]) -> None:
    hosts, sets = plan
    groups = [one.topology_group or one.name for one in sets]
    flaw = guaranteed(sets, [(one, frozenset("uvw")) for one in hosts], LEVELS)
    names = frozenset(one.name for one in hosts)
    asked = [
        Request(
            one.name,
            one.count,
            {k: v for k, v in one.requests.items() if k != "pods"},
            names,
            one.required_topology,
            group=one.topology_group,
        )
        for one in sets
    ]
    fits = [isinstance(assign(asked, way, LEVELS), dict) for way in everything(hosts, len(set(groups)) < len(groups))]
    assert all(fits) == (flaw == "")
