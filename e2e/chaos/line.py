"""A TCP line between a service and what it calls, which can be cut, stalled or made slow."""

import asyncio
import contextlib
import threading
from typing import Literal

from e2e import ports

State = Literal["open", "cut", "stalled", "slow"]
_SLOW = 0.4
"""Seconds by which each piece of a slow line is late."""


class Lines:
    """An event loop in a thread of its own, on which all lines run."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="lines", daemon=True)
        self._lines: list[Line] = []
        self._thread.start()

    def add(self, target: int) -> "Line":
        """A line to that port of 127.0.0.1, open."""
        line = Line(target)
        asyncio.run_coroutine_threadsafe(line.serve(), self.loop).result(10)
        self._lines.append(line)
        return line

    def set(self, line: "Line", state: State) -> None:
        self.loop.call_soon_threadsafe(line.turn, state)

    def close(self) -> None:
        """Ends all lines with their connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    async def _end(self) -> None:
        for line in self._lines:
            line.end()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Line:
    """`port` leads to the target. Only the thread of its loop may call anything here."""

    def __init__(self, target: int) -> None:
        self.port = ports.take()[0]
        self._target = target
        self._state: State = "open"
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", self.port)

    def end(self) -> None:
        self.turn("cut")
        if self._server:
            self._server.close()

    def turn(self, state: State) -> None:
        """A cut ends all connections there are, and each new one."""
        self._state = state
        if state == "cut":
            for writer in self._writers:
                writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            if self._state != "cut":
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
                ends.append(far_writer)
                self._writers |= {writer, far_writer}
                pumps = [asyncio.create_task(self._pump(reader, far_writer)), asyncio.create_task(self._pump(far_reader, writer))]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # nobody listens there now: the caller sees its connection end
        finally:
            self._writers -= {*ends}
            for end in ends:
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self._state == "slow":
                    await asyncio.sleep(_SLOW)
                while self._state == "stalled":  # noqa: ASYNC110  another thread turns it
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
