"""The rows of the conformance table: read from rows/*.yaml, claimed by tests with `@pytest.mark.row(ID, ...)`."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "rows"
_ID = re.compile(r"(?P<section>\d+\.\d+|W)-?(?P<number>\d+)")


class RowsError(Exception):
    """The table can't be used; the message names file or test, row and remedy."""


class Kind(StrEnum):
    """What a row is about: our check with Kueue beside it; our code alone; Kueue's core, where any check would do."""

    REAL = "real"
    TWIN = "twin"
    CORE = "core"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One case. `note` says what a reader must know beside it, and why there is no test if there is none."""

    id: str
    case: str
    in_tree: str
    ours: str
    kind: Kind
    note: str = ""

    @property
    def order(self) -> tuple[str, int]:
        return _order(self.id)


def load(folder: Path = FOLDER) -> dict[str, Row]:
    """All rows by id, sorted. Raises RowsError for a file that is not a list of rows, and for an id that is used twice."""
    found: dict[str, Row] = {}
    for path in sorted(folder.glob("*.yaml")):
        for row in _read(path):
            if row.id in found:
                raise RowsError(f"{path.name}: row {row.id} is there twice: give one of them another number")
            found[row.id] = row
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def check(rows: Mapping[str, Row], claims: Mapping[str, Iterable[str]]) -> None:
    """`claims` are the row ids by test or file of tests. Raises RowsError for ids that no file knows."""
    unknown = sorted(f"{test}: {id_}" for test, ids in claims.items() for id_ in ids if id_ not in rows)
    if unknown:
        raise RowsError(f"rows that are not in {FOLDER.name}/*.yaml: {'; '.join(unknown)}: correct the marker or add the row")


def bare(rows: Mapping[str, Row], claimed: Iterable[str]) -> list[str]:
    """Ids of rows that no test claims and whose note doesn't say why."""
    ids = set(claimed)
    return [row.id for row in rows.values() if row.id not in ids and not row.note]


def _read(path: Path) -> list[Row]:
    section = path.stem
    try:
        rows = msgspec.yaml.decode(path.read_bytes(), type=list[Row])
    except msgspec.MsgspecError as error:
        raise RowsError(f"{path.name}: {error}") from error
    for row in rows:
        if not (match := _ID.fullmatch(row.id)) or match["section"] != section:
            raise RowsError(f'{path.name}: row "{row.id}" is not of this file: ids here are {section}-NN (W1 in W.yaml)')
    return rows


def _order(id_: str) -> tuple[str, int]:
    match = _ID.fullmatch(id_)
    assert match
    section = match["section"]
    return (section if section == "W" else f"{int(section.partition('.')[2]):04}", int(match["number"]))
