"""Which of many alike nodes to take, by columns: the same rules as capacity/place.py, which does it for few."""

from collections.abc import Sequence

import numpy as np

from capacity.columns import Vector
from capacity.fleet import Fleet
from capacity.place import Path


def pick(fleet: Fleet, rows: Vector, count: int, keys: Sequence[str], touched: set[Path]) -> Vector:
    """`count` of these rows: going down the tree of `keys`, from the smallest domain that holds all that is still needed, or the
    largest whole ones where none does; of one domain the fullest nodes. Domains that are `touched` already go first.
    """
    return _descend(fleet, rows, count, tuple(keys), (), touched)


def _descend(fleet: Fleet, rows: Vector, count: int, keys: tuple[str, ...], above: Path, touched: set[Path]) -> Vector:
    if count >= len(rows):
        return rows
    if not keys:
        return _fullest(fleet, rows, count)
    codes, known = fleet.column("label", keys[0])[rows], fleet.codes(keys[0])
    sizes = np.bincount(codes, minlength=len(known))
    domains = np.flatnonzero(sizes)
    if len(domains) == 1:
        return _descend(fleet, rows, count, keys[1:], (*above, known.values[domains[0]] or ""), touched)
    whole, left = _largest(domains, sizes, known.order, count)
    holding = domains[(sizes[domains] >= left) & ~np.isin(domains, whole)] if left else domains[:0]
    chosen = np.zeros(len(known), np.bool_)
    chosen[whole] = True
    taken = rows[chosen[codes]]
    if not left:
        return taken
    warm = [(*above, known.values[domain] or "") in touched for domain in holding.tolist()] if touched else []
    last = _smallest(holding, sizes, known.order, warm)
    more = _descend(fleet, rows[codes == last], left, keys[1:], (*above, known.values[last] or ""), touched)
    return np.concatenate([taken, more])


def _largest(domains: Vector, sizes: Vector, order: Vector, count: int) -> tuple[Vector, int]:
    """The domains that are taken whole, largest first, until one of the others holds the rest; and that rest."""
    if sizes[domains].max() >= count:
        return domains[:0], count
    ranked = domains[np.lexsort((order[domains], -sizes[domains]))]
    before = np.cumsum(sizes[ranked]) - sizes[ranked]
    stop = int(np.argmax(sizes[ranked] >= count - before))
    return ranked[:stop], count - int(before[stop])


def _smallest(holding: Vector, sizes: Vector, order: Vector, touched: Sequence[bool]) -> int:
    if any(touched):
        holding = holding[np.array(touched)]
    least = holding[sizes[holding] == sizes[holding].min()]
    return int(least[np.argmin(order[least])])


def _fullest(fleet: Fleet, rows: Vector, count: int) -> Vector:
    """The nodes with the least left, by name where that is equal."""
    full = fleet.column("full")[rows]
    most = np.partition(full, count - 1)[count - 1]
    sure, equal = rows[full < most], rows[full == most]
    missing = count - len(sure)
    if missing < len(equal):
        names = fleet.column("name")[equal]
        equal = equal[np.argpartition(names, missing - 1)[:missing]]
    return np.concatenate([sure, equal])


def paths(fleet: Fleet, rows: Vector, keys: Sequence[str]) -> set[Path]:
    """The domains of these rows on every level."""
    values = [[fleet.codes(key).values[code] or "" for code in fleet.column("label", key)[rows].tolist()] for key in keys]
    whole = set(zip(*values, strict=True))
    return {path[:level] for path in whole for level in range(1, len(path) + 1)}
