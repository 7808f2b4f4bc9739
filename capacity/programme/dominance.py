"""Kinds of nodes that no best answer needs: as many as could be taken of others are no dearer and no less roomy."""

from collections.abc import Iterable, Sequence

from capacity.programme.mixes import covers
from capacity.programme.solver import Column, Pattern


def thinned(columns: Iterable[Column], most: int, *, alike: bool) -> list[Column]:
    """The columns without those that others replace node by node, in no fixed order; `most` is how many nodes an answer takes.

    A column goes when columns that come to `most` nodes or more have the same domains, weights and penalty, an order of price,
    rank and slots no worse than its own, and a pattern that covers each of its own (the very same patterns if `alike`). Then one
    of them is always free to stand in for it, and the answer gets no worse: costs are compared in that order, and add up.
    """
    groups: dict[object, list[Column]] = {}
    for column in columns:
        groups.setdefault((column.where, column.counted, column.weights, column.penalty), []).append(column)
    return [column for group in groups.values() for column in _kept(group, most, alike=alike)]


def _kept(group: Sequence[Column], most: int, *, alike: bool) -> Iterable[Column]:
    nodes: dict[tuple[Pattern, ...], int] = {}  # of each set of patterns, kept so far
    needless: set[tuple[Pattern, ...]] = set()  # sets of patterns that need no more nodes
    ample: set[Pattern] = set()
    for column in sorted(group, key=lambda one: (one.price, one.rank, one.weight, one.patterns)):
        patterns = column.patterns
        if patterns in needless:
            continue
        if not alike and all(any(covers(wide, one) for wide in ample) for one in patterns):
            needless.add(patterns)
            continue
        yield column
        nodes[patterns] = nodes.get(patterns, 0) + column.limit
        if nodes[patterns] >= most:
            needless.add(patterns)
            ample = {*(one for one in ample if not any(covers(wide, one) for wide in patterns)), *patterns}
