"""Ports that stay ours while nobody listens: a program that is killed and started again must find its own.

A port that the kernel hands out is one of those it also gives to outgoing connections, so it can be gone by the restart. Ours
are below that range, and no two users of this module get the same one until all have been handed out.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 10_000, 29_999  # Linux gives out 32768 to 60999 by default, NodePorts start at 30000
_COUNTER = Path(tempfile.gettempdir()) / f"corral-ports-{os.getuid()}"


def take(count: int = 1) -> list[int]:
    """The next `count` different ports of 127.0.0.1 that nobody listens on."""
    with _COUNTER.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        place = int(file.read() or FIRST)
        found: list[int] = []
        while len(found) < count:
            place = FIRST + (place + 1 - FIRST) % (LAST - FIRST + 1)
            if _is_free(place):
                found.append(place)
        file.truncate(0)
        file.write(str(place))
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that ended a moment ago don't count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
