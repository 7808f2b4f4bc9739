"""The state file: one SQLite database, written in one transaction a call, so that a kill at any moment leaves whole calls."""

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from kube.meta import Record
from provisioner.clouds.simulated.config import ConfigError
from provisioner.clouds.simulated.records import Memory

KEPT_CALLS = 10_000


class CallRecord(Record, frozen=True, kw_only=True):
    """One call and how it ended: "ok", an error code, "lost reply" or "timed out". `number` rises by one a call."""

    number: int
    at: datetime
    call: str
    outcome: str
    request: dict[str, object] = {}
    message: str = ""
    instances: int = 0


class Store:
    """Blocking; made in one thread, used by one call at a time in any thread. Raises ConfigError when the file can't be used."""

    def __init__(self, path: str) -> None:
        try:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=0.5)
            self._prepare()
        except sqlite3.Error as error:
            raise ConfigError(f"state file {Path(path).absolute()}: {error}; is another server using it?") from error

    def _prepare(self) -> None:
        # An exclusive lock that the kernel drops with the process: two servers never share a state.
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            self._database.execute(f"PRAGMA {pragma}")
        with self._database as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            transaction.execute(
                "CREATE TABLE IF NOT EXISTS rows (place INTEGER PRIMARY KEY, kind TEXT, key TEXT, data BLOB, UNIQUE (kind, key))"
            )
            transaction.execute("CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, data BLOB)")

    def load(self) -> Memory:
        """All rows, in the order in which they came."""
        memory = Memory()
        for kind, key, data in self._database.execute("SELECT kind, key, data FROM rows ORDER BY place"):
            memory.load(kind, key, data)
        return memory

    def calls(self, after: int = 0, limit: int = KEPT_CALLS) -> list[CallRecord]:
        """The log of calls with a greater number, oldest first."""
        rows = self._database.execute("SELECT data FROM calls WHERE number > ? ORDER BY number LIMIT ?", (after, limit))
        return [msgspec.json.decode(data, type=CallRecord) for (data,) in rows]

    def last_call(self) -> int:
        (number,) = self._database.execute("SELECT coalesce(max(number), 0) FROM calls").fetchone()
        return int(number)

    def save(self, rows: Iterable[tuple[str, str, bytes | None]], call: CallRecord | None = None) -> None:
        """All of it or nothing; on the disk when it returns."""
        with self._database as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            for kind, key, data in rows:
                self._save_row(kind, key, data)
            if call is not None:
                transaction.execute("INSERT INTO calls VALUES (?, ?)", (call.number, msgspec.json.encode(call)))
                transaction.execute("DELETE FROM calls WHERE number <= ?", (call.number - KEPT_CALLS,))

    def _save_row(self, kind: str, key: str, data: bytes | None) -> None:
        if data is None:
            self._database.execute("DELETE FROM rows WHERE kind = ? AND key = ?", (kind, key))
            return
        insert = "INSERT INTO rows (kind, key, data) VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET data = excluded.data"
        self._database.execute(insert, (kind, key, data))

    def close(self) -> None:
        self._database.close()
