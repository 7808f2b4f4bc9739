"""The state file: whole calls or nothing, one server at a time."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provisioner.clouds.simulated.config import ConfigError
from provisioner.clouds.simulated.store import KEPT_CALLS, CallRecord, Store
from tests.provisioner.clouds.simulated.worlds import START, on_demand, world

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_rows_come_back_in_their_order_and_dropped_ones_do_not(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    there = world()
    there.launch(on_demand("a", 3), START)
    store.save(there.memory.take_changes())
    ids = [machine.id for machine in there.memory.machines.values()]
    there.progress(ids[0], joined=True)
    there.memory.machines.drop(ids[1])
    store.save(there.memory.take_changes())
    assert list(there.memory.take_changes()) == []
    store.close()
    again = Store(str(tmp_path / "db"))
    loaded = list(again.load().machines.values())
    assert [(machine.id, machine.joined) for machine in loaded] == [(ids[0], True), (ids[2], False)]
    again.close()


def test_a_call_that_fails_half_way_is_not_there_at_all(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    call = CallRecord(number=1, at=NOON, call="launch", outcome="ok")
    store.save([("stock", "a", b"{}")], call)
    with pytest.raises(sqlite3.IntegrityError):
        store.save([("stock", "b", b"{}")], call)  # the same number again
    store.close()
    rows = sqlite3.connect(tmp_path / "db")
    assert rows.execute("SELECT key FROM rows").fetchall() == [("a",)]
    rows.close()


def test_log_of_calls_is_bounded_and_read_from_a_number_on(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    assert store.last_call() == 0
    for number in (1, 2, 3, KEPT_CALLS + 2):
        store.save([], CallRecord(number=number, at=NOON, call="launch", outcome="ok"))
    assert [call.number for call in store.calls()] == [3, KEPT_CALLS + 2]
    assert [call.number for call in store.calls(3)] == [KEPT_CALLS + 2]
    assert store.last_call() == KEPT_CALLS + 2
    store.close()


def test_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "db"))
    with pytest.raises(ConfigError, match="is another server using it"):
        Store(str(tmp_path / "db"))
    store.close()
    Store(str(tmp_path / "db")).close()


def test_file_that_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("hello" * 1000)
    for path in (tmp_path / "db", tmp_path / "none" / "db"):
        with pytest.raises(ConfigError, match=str(path)):
            Store(str(path))
