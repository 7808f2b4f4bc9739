"""What a chaos run plays."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.chaos.schedule import APART, FATES, MOST, SERVICES, WORLD, gangs, neighbours, strikes

SEEDS = range(50)


def test_the_same_seed_plays_the_same() -> None:
    assert gangs(7, 300) == gangs(7, 300)
    assert strikes(7, 300, SERVICES, 6) == strikes(7, 300, SERVICES, 6)
    assert gangs(7, 300) != gangs(8, 300)


@pytest.mark.parametrize("seed", SEEDS)
def test_gangs_fit_the_capacity_of_their_queue_unless_no_rack_has_room_for_them(seed: int) -> None:
    made = gangs(seed, 1800)
    assert all(1 <= each.nodes <= MOST[each.queue] for each in made)
    assert {each.fate for each in made} == {"runs", "impossible", "cancelled", "namespace", "request", "machine"}
    assert all((each.queue == "hopeless") is (each.fate == "impossible") for each in made)
    assert all(each.nodes > 5 for each in made if each.fate == "impossible"), "a rack of the cloud has five slots"
    assert all(6 <= round(b.at - a.at, 1) <= 12 for a, b in pairwise(made))


@pytest.mark.parametrize("kinds", [SERVICES, WORLD], ids=["services", "world"])
def test_strikes_of_a_lane_never_overlap_and_each_kind_comes_before_any_comes_again(kinds: dict[str, float]) -> None:
    for seed in SEEDS:
        made = strikes(seed, 1800, kinds, 4)
        assert all(b.at - (a.at + a.seconds) >= 4 - 0.1 for a, b in pairwise(made))
        assert made[-1].at + made[-1].seconds <= 1800
        often = [each.kind for each in made if each.kind not in APART]
        deck = [*({*kinds} - {*APART})]
        for begin in range(0, len(often) - len(deck) + 1, len(deck)):
            assert Counter(often[begin : begin + len(deck)]) == Counter(deck)


def test_a_snapshot_is_restored_once_in_ten_minutes_at_most() -> None:
    for seed in SEEDS:
        at = [each.at for each in strikes(seed, 1800, SERVICES, 6) if each.kind == "restore"]
        assert at
        assert all(b - a >= 600 for a, b in pairwise(at))


def test_continuous_integration_plays_every_fault_and_every_fate() -> None:
    [(minutes, seed)] = re.findall(r"make chaos MINUTES=(\d+) SEED=(\d+)", Path(".ci/run").read_text())
    length = 60.0 * int(minutes)
    made = [*strikes(int(seed), length, SERVICES, 6), *strikes(int(seed), length, WORLD, 4)]
    assert {each.kind for each in made} == {*SERVICES, *WORLD}
    assert {each.fate for each in gangs(int(seed), length)} == {*FATES}


def test_gangs_of_the_other_installation_are_few_small_and_all_of_them_run() -> None:
    made = neighbours(7, 600)
    assert made == neighbours(7, 600)
    assert all(each.nodes <= 2 and each.fate == "runs" for each in made)
    assert all(25 <= round(b.at - a.at, 1) <= 45 for a, b in pairwise(made))
