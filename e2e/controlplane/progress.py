"""Shows how a long build goes: one living line on a terminal, now and then a plain one elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from e2e.controlplane.build import Progress

_PLAIN_SECONDS = 15.0


@contextmanager
def shown() -> Iterator[Progress]:
    """A Progress to give to `build.ensure`."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield plain()


def plain() -> Progress:
    """Print a line to stderr when another program is named, and every 15 s."""
    last = ("", 0.0)

    def show(line: str) -> None:
        nonlocal last
        subject = line.partition(":")[0]
        if subject != last[0] or time.monotonic() - last[1] >= _PLAIN_SECONDS:
            print(line, file=sys.stderr, flush=True)
            last = (subject, time.monotonic())

    return show
