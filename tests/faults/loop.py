"""An event loop whose clock is moved by nothing but its own timers: hours pass in milliseconds, the same way each time."""

import asyncio
import selectors
from asyncio import selector_events
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Asleep(Exception):  # noqa: N818
    """Every task waits for another, and no timer is set."""


class _Clock(selectors.BaseSelector):
    """Waits for no file: where others sleep, it moves the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._files: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._files[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Asleep
        if timeout > 0:
            self.now += max(timeout, 1e-9)
        return []


class VirtualLoop(selector_events.BaseSelectorEventLoop):
    """Threads are played on the spot: no time passes in them."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs the coroutine to its end in a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
