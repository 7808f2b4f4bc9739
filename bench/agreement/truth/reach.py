"""What kube-scheduler can make of a gang on marked nodes: every order of the pods, every choice among the nodes it may take.

A pod that fits nowhere stays pending and is tried again after others were bound. So a state is stuck only if no pending pod
may go anywhere, and the scheduler can reach exactly what putting any pending pod on any site that allows it can reach.
"""

from collections.abc import Callable, Iterator
from random import Random

from bench.agreement.truth.world import Marks, State, World

Goal = Callable[[State], bool]


class TooBigError(Exception):
    """More states than the caller would look at."""


def failure(world: World, marks: Marks, goal: Goal, limit: int) -> State | None:
    """A state that can be reached and in which the gang is stuck, or complete without meeting the goal; None if there is none.

    Raises TooBigError after `limit` states.
    """
    seen = {world.start}
    stack = [world.start]
    while stack:
        state = stack.pop()
        following = list(moves(world, state, marks))
        if not following and not (complete(world, state) and goal(state)):
            return state
        fresh = {_canonical(world, after, marks) for after in following} - seen
        seen |= fresh
        stack += sorted(fresh)
        if len(seen) > limit:
            raise TooBigError
    return None


def greedy(world: World, marks: Marks, rng: Random) -> State:
    """Where one random order with random choices ends."""
    state = world.start
    while following := list(moves(world, state, marks)):
        state = rng.choice(following)
    return state


def reachable(world: World, final: State, marks: Marks, limit: int) -> bool:
    """Whether some order of the pods ends in exactly this state. Raises TooBigError after `limit` states."""
    seen = {world.start}
    stack = [world.start]
    while stack:
        state = stack.pop()
        if state == final:
            return True
        within = (after for after in moves(world, state, marks) if all(a <= b for a, b in zip(after, final, strict=True)))
        fresh = set(within) - seen
        seen |= fresh
        stack += sorted(fresh)
        if len(seen) > limit:
            raise TooBigError
    return False


def complete(world: World, state: State) -> bool:
    return all(missing == 0 for missing in pending(world, state))


def pending(world: World, state: State) -> list[int]:
    """Pods of each kind that are not bound yet."""
    width = world.width
    return [wanted - sum(state[kind * width : (kind + 1) * width]) for kind, wanted in enumerate(world.demand)]


def moves(world: World, state: State, marks: Marks) -> Iterator[State]:
    for kind, missing in enumerate(pending(world, state)):
        for site in sorted(marks[kind]) if missing else ():
            if world.allows(state, kind, site, marks):
                at = kind * world.width + site
                yield (*state[:at], state[at] + 1, *state[at + 1 :])


def _canonical(world: World, state: State, marks: Marks) -> State:
    """One of the states that differ only in which of alike nodes to be bought is which."""
    groups: dict[object, list[int]] = {}
    for n, site in enumerate(world.sites):
        if site.offering:
            groups.setdefault((site.offering, tuple(n in marked for marked in marks)), []).append(n)
    columns = {n: state[n :: world.width] for n in range(world.width)}
    for group in groups.values():
        columns |= zip(group, sorted(columns[n] for n in group), strict=True)
    return tuple(columns[n][kind] for kind in range(len(world.kinds)) for n in range(world.width))
