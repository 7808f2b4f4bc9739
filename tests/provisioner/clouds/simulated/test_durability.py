"""A server that is killed while it works: what was answered is there, and what wasn't is there whole or not at all."""

import threading
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from e2e.served import StartError
from e2e.simcloud import SimCloud
from tests.provisioner.clouds.conftest import RAW

pytestmark = pytest.mark.realtime
ORDER = {"shape": "m7i.4xlarge", "zone": "z1", "count": 3}


@pytest.fixture
def cloud(tmp_path: Path) -> SimCloud:
    zones = [{"name": "z1", "onDemand": [{"shape": "m7i.4xlarge", "count": 5000}]}]
    return SimCloud(tmp_path, {**RAW, "zones": zones, "reservations": [], "throttle": {"burst": 10_000, "perSecond": 10_000}})


def test_killed_while_launching(cloud: SimCloud) -> None:
    answered: dict[str, list[str]] = {}
    unanswered: set[str] = set()
    enough = threading.Event()

    def keep_launching(worker: int) -> None:
        for number in range(10_000):
            token = f"w{worker}-{number}"
            try:
                answered[token] = [each["id"] for each in cloud.launch(token, **ORDER)]
            except OSError:
                unanswered.add(token)
                return
            if len(answered) > 20:
                enough.set()

    cloud.start()
    workers = [threading.Thread(target=keep_launching, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    assert enough.wait(60)
    cloud.kill()
    for worker in workers:
        worker.join()

    with cloud:
        there: dict[str, set[str]] = {}
        for machine in cloud.machines().values():
            there.setdefault(machine["token"], set()).add(machine["id"])
        assert {token: set(ids) for token, ids in answered.items()}.items() <= there.items()
        assert there.keys() - answered.keys() <= unanswered
        assert {len(ids) for ids in there.values()} == {3}
        again = {token: {each["id"] for each in cloud.launch(token, **ORDER)} for token in [*answered, *unanswered]}
        assert again.items() >= {token: set(ids) for token, ids in answered.items()}.items()
        assert len(cloud.machines()) == 3 * len(again)


def test_terminations_faults_and_the_log_go_on_after_a_kill(cloud: SimCloud) -> None:
    with cloud:
        first, second, _ = (each["id"] for each in cloud.launch("t", **ORDER))
        hang = cloud.fault("hang-termination", times=1)
        cloud.terminate(first, second)
        calls = cloud.calls()
        cloud.restart()
        assert cloud.calls()[:2] == calls
        with pytest.raises(urllib.error.HTTPError):
            cloud.terminate("i-1")
        assert cloud.calls("terminate")[-1]["number"] == calls[-1]["number"] + 1
        assert cloud.machines()[first]["state"] == "shutting-down"
        cloud.delete(f"/control/faults/{hang}")
        assert cloud.get("/control/faults") == {"faults": []}


@pytest.mark.parametrize(
    ("config", "words"),
    [({"zones": []}, "unknown field `bogus`"), ({"zones": [], "host": "203.0.113.7"}, "can't listen on 203.0.113.7")],
)
def test_server_that_can_not_start_says_why(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    with pytest.raises(StartError, match=words):
        SimCloud(tmp_path, {**config, **({"bogus": 1} if "bogus" in words else {})}).start()
