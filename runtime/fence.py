"""Whether this process may still act on the world: asked right before each call that changes something, from any thread.

The elector cancels the work of a leader whose time is over, but a process that was frozen wakes in the middle of it, and a call
may have waited in a queue of threads. So the last look is taken where the call is made.
"""

from collections.abc import Callable

FOREVER = float("inf")


class Deposed(Exception):  # noqa: N818
    """A call was not made, because the lease that allowed it is over."""


class Fence:
    """Shut until `open` is called. `until` is an instant of `clock`, which must be monotonic, in seconds."""

    def __init__(self) -> None:
        self._until = -FOREVER
        self._clock: Callable[[], float] = float

    def open(self, until: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = until

    def shut(self) -> None:
        self._until = -FOREVER

    def check(self) -> None:
        """Raises Deposed unless calls are allowed at this moment."""
        late = self._clock() - self._until
        if late >= 0:
            raise Deposed("this process does not lead any more" if late < FOREVER else "this process does not lead")
