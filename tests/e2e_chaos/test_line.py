"""A line between a client and a server, cut, stalled and slow: over real sockets."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from e2e.chaos.line import Line, Lines

pytestmark = pytest.mark.realtime


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    yield made
    made.close()


@pytest.fixture
def line(lines: Lines) -> Iterator[Line]:
    """To a server that answers each piece with the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            try:
                while True:
                    peer, _ = server.accept()
                    threading.Thread(target=_answer, args=(peer,), daemon=True).start()
            except OSError:
                return  # closed

        threading.Thread(target=echo, daemon=True).start()
        yield lines.add(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


def _answer(peer: socket.socket) -> None:
    with peer:
        while piece := peer.recv(100):
            peer.sendall(piece)


def asked(client: socket.socket) -> float:
    """Seconds until the answer to a word is there. Raises TimeoutError, or ConnectionError when there will be none."""
    began = time.monotonic()
    client.sendall(b"word")
    if client.recv(100) != b"word":
        raise ConnectionResetError
    return time.monotonic() - began


def connected(line: Line) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), timeout=3)


def test_an_open_line_passes_everything_on(line: Line) -> None:
    with connected(line) as client:
        assert asked(client) < 0.4
        assert asked(client) < 0.4


def test_a_slow_line_is_late_in_both_directions(lines: Lines, line: Line) -> None:
    with connected(line) as client:
        asked(client)
        lines.set(line, "slow")
        assert asked(client) >= 0.8


def test_a_stalled_line_passes_on_when_it_opens_again(lines: Lines, line: Line) -> None:
    with connected(line) as client:
        asked(client)
        lines.set(line, "stalled")
        time.sleep(0.1)
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            asked(client)
        lines.set(line, "open")
        client.settimeout(3)
        assert client.recv(100) == b"word"


def test_a_cut_ends_connections_and_refuses_new_ones_until_it_is_over(lines: Lines, line: Line) -> None:
    with connected(line) as client:
        asked(client)
        lines.set(line, "cut")
        with pytest.raises(ConnectionError):
            _ask_twice(client)
        with connected(line) as another, pytest.raises(ConnectionError):
            asked(another)
        lines.set(line, "open")
        with connected(line) as again:
            asked(again)


def _ask_twice(client: socket.socket) -> None:
    """The cut reaches the client a moment after it was ordered."""
    asked(client)
    time.sleep(0.2)
    asked(client)
