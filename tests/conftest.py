"""Shared by all unit tests: plain logs on stdout, and a wall clock that stands where a test puts it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import structlog

# Without this, looptime asks for "the" loop of every test that has none, and the one made for it is never closed.
asyncio.set_event_loop(None)

# structlog's own default draws every traceback as a picture, which takes longer than the tests.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str),
    ],
    logger_factory=structlog.PrintLoggerFactory(),
)


class WallClock:
    """Callable like `datetime.now` in UTC; `advance` moves it by seconds."""

    def __init__(self, start: datetime = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)) -> None:
        self.at = start

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> WallClock:
    return WallClock()
