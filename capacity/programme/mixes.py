"""Which mixes of roles a node may hold, from what each could have there alone.

A mix is safe when no order of scheduling can spoil it: each role on the node keeps room for as many of its pods as the mix says,
even if all other roles in the mix have as many there as could ever come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import ge

from capacity.fit import slots
from capacity.programme.couplings import Pair
from capacity.programme.solver import Pattern

MAX_MIXES = 400

Mixes = Callable[[Sequence[Mapping[str, int]], Pattern, Mapping[str, int], frozenset[Pair]], tuple[Pattern, ...]]


def safe_mixes(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], apart: frozenset[Pair]
) -> tuple[Pattern, ...]:
    """For each set of roles that may share the host what each of them is sure of there; those that promise less than another
    are left out.
    """
    present = [index for index, most in enumerate(alone) if most]
    found: list[Pattern] = []
    for size in range(len(present), 0, -1):
        for chosen in combinations(present, size):
            if apart.isdisjoint(combinations(chosen, 2)):
                pattern = _sure(requests, alone, free, chosen)
                if pattern and not any(covers(other, pattern) for other in found):
                    found.append(pattern)
    return tuple(sorted(found, reverse=True))


def _sure(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], chosen: Sequence[int]
) -> Pattern | None:
    """What each role keeps when all others have as many pods there as they ever can; None when one of them is sure of none."""
    whole = [0] * len(alone)
    for index in chosen:
        left = {
            name: free[name] - sum(requests[other].get(name, 0) * alone[other] for other in chosen if other != index)
            for name in requests[index]
        }
        whole[index] = min(alone[index], slots(requests[index], left))
        if not whole[index]:
            return None
    return tuple(whole)


def lucky_mixes(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], apart: frozenset[Pair]
) -> tuple[Pattern, ...]:
    """All largest mixes that fit at once, reached only if pods come in the right order. Where there are too many to list, one
    that promises more than fits: good enough to prove that nothing fits, and not used for more.
    """
    found: list[Pattern] = []
    for pattern in _fillings(requests, alone, free, (), apart):
        found.append(pattern)
        if len(found) > MAX_MIXES:
            return (alone,)
    return largest(found)


def largest(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Those that hold something and that no other covers, in a fixed order."""
    some = {pattern for pattern in patterns if any(pattern)}
    return tuple(sorted((p for p in some if not any(p != q and covers(q, p) for q in some)), reverse=True))


def parts(patterns: Iterable[Pattern], roles: Iterable[int]) -> tuple[Pattern, ...]:
    """The patterns with each of these roles there or left out: where rules look at which nodes are taken, more can be worse."""
    found = set(patterns)
    for role in roles:
        found |= {(*pattern[:role], 0, *pattern[role + 1 :]) for pattern in found}
    return tuple(sorted((pattern for pattern in found if any(pattern)), reverse=True))


def covers(wide: Pattern, narrow: Pattern) -> bool:
    return all(map(ge, wide, narrow))


def _fillings(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], head: Pattern, apart: frozenset[Pair]
) -> Iterator[Pattern]:
    """Mixes in which the last role fills what the others left."""
    index = len(head)
    met = any(count and (other, index) in apart for other, count in enumerate(head))
    most = min(alone[index], slots(requests[index], free)) if alone[index] and not met else 0
    if index == len(alone) - 1:
        yield (*head, most)
        return
    for count in range(most, -1, -1):
        left = {name: amount - requests[index].get(name, 0) * count for name, amount in free.items()}
        yield from _fillings(requests, alone, left, (*head, count), apart)
