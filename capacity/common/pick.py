"""Which of many alike nodes to take, by columns: the same rules as capacity/place.py, which does it for few."""

from collections.abc import Sequence

import numpy as np

from capacity.index.columns import Codes, Vector
from capacity.index.fleet import Fleet
from capacity.place import Path


def pick(fleet: Fleet, rows: Vector, count: int, keys: Sequence[str], touched: set[Path]) -> Vector:
    """`count` of these rows: going down the tree of `keys`, from the smallest domain that holds all that is still needed, or the
    largest whole ones where none does; of one domain those of which the least is lost to others. Domains that are `touched`
    already go first.
    """
    taken: list[Vector] = []
    above: Path = ()
    for key in keys:
        if count >= len(rows):
            break
        known = fleet.codes(key)
        codes = fleet.column("label", key)[rows]
        sizes = np.bincount(codes, minlength=len(known))
        domains = sizes.nonzero()[0]
        if len(domains) > 1:
            whole, count = _largest(domains, sizes, known.order, count)
            if len(whole):
                taken.append(rows[_flags(whole, len(known))[codes]])
                sizes[whole] = 0
            if not count:
                return np.concatenate(taken)
            last = _smallest(sizes, known, count, above, touched)
            rows = rows[(codes == last).nonzero()[0]]
        else:
            last = int(domains[0])
        above = (*above, known.values[last] or "")
    taken.append(rows if count >= len(rows) else _fullest(fleet, rows, count))
    return taken[0] if len(taken) == 1 else np.concatenate(taken)


def _flags(codes: Vector, size: int) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    flags = np.zeros(size, np.bool_)
    flags[codes] = True
    return flags


def _largest(domains: Vector, sizes: Vector, order: Vector, count: int) -> tuple[Vector, int]:
    """The domains that are taken whole, largest first, until one of the others holds the rest; and that rest."""
    there = sizes[domains]
    if there.max() >= count:
        return domains[:0], count
    ranked = domains[np.lexsort((order[domains], -there))]
    there = sizes[ranked]
    before = there.cumsum() - there
    stop = int((there >= count - before).argmax())
    return ranked[:stop], count - int(before[stop])


def _smallest(sizes: Vector, known: Codes, count: int, above: Path, touched: set[Path]) -> int:
    """Of the domains that hold all, one that is touched already, then the smallest, then the first by name."""
    holding = (sizes >= count).nonzero()[0]
    if touched:
        warm = [domain for domain in holding.tolist() if (*above, known.values[domain] or "") in touched]
        holding = np.array(warm, np.int64) if warm else holding
    there = sizes[holding]
    least = holding[(there == there.min()).nonzero()[0]]
    return int(least[known.order[least].argmin()]) if len(least) > 1 else int(least[0])


def _fullest(fleet: Fleet, rows: Vector, count: int) -> Vector:
    """The nodes of which the least is lost to others, by name where that is equal."""
    full = fleet.column("spare")[rows]
    bound = np.partition(full, count - 1)[count - 1]
    sure, equal = rows[full < bound], rows[full == bound]
    missing = count - len(sure)
    if missing < len(equal):
        equal = equal[np.argpartition(fleet.column("name")[equal], missing - 1)[:missing]]
    return np.concatenate([sure, equal])


def paths(fleet: Fleet, rows: Vector, keys: Sequence[str]) -> set[Path]:
    """The domains of these rows on every level."""
    values = [[fleet.codes(key).values[code] or "" for code in fleet.column("label", key)[rows].tolist()] for key in keys]
    whole = set(zip(*values, strict=True))
    return {path[:level] for path in whole for level in range(1, len(path) + 1)}
