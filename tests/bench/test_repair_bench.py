import pytest

from bench.repair import play, scene


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve machines in three racks."""
    for name, value in {"GANG": 12, "RACKS": 3, "IN_RACK": 4}.items():
        monkeypatch.setattr(scene, name, value)


@pytest.mark.parametrize("spare", [0, 1])
def test_a_gang_starts_though_machines_are_bad(spare: int) -> None:
    """One machine in five: none that is bad is left, and what is bought beyond the gang is what was bad."""
    found = [play.play(seed, spare=spare, one_in=5) for seed in range(1, 4)]
    assert all(each.started for each in found), found
    assert all(each.bought == 12 + each.bad for each in found)
    assert sum(each.bad for each in found) > 3


def test_a_gang_of_bad_machines_alone_does_not_start() -> None:
    found = play.play(1, spare=0, one_in=1)
    assert (found.started, found.phase) == (False, "Failing")
