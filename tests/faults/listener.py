"""Hears what the service logs as a failure, and tells of those that no fault of a call explains."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from provisioner.clouds.base import CloudError
from runtime.errors import ApiError, TransportError
from runtime.fence import Deposed

EXPECTED = (ApiError, TransportError, CloudError, TimeoutError, Deposed)


@contextmanager
def listening(say: Callable[[str], None]) -> Iterator[None]:
    """While it lasts nothing is written, and every surprising exception that is logged is told."""

    def hear(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
        error = sys.exc_info()[1] if event.get("exc_info") else None
        for each in causes(error) if error else ():
            if not isinstance(each, EXPECTED):
                say(f"{event.get('event')}: {type(each).__name__}: {each}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[hear], wrapper_class=structlog.make_filtering_bound_logger(40))
    try:
        yield
    finally:
        structlog.configure(**before)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, or the ones that a group holds."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from causes(each)
    else:
        yield error
