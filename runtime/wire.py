"""The seam between the client and the wire: requests and answers as plain values, so that a test can put a twin in its place."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Lane = Literal["request", "watch", "lease"]
"""Connections are pooled by purpose, so that neither watches nor a flood of requests can keep a lease from being renewed."""


@dataclass(frozen=True, slots=True)
class Request:
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    lane: Lane = "request"
    timeout: float = 30.0
    """Seconds for the whole exchange."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    retry_after: str = ""
    """The header Retry-After as it came."""


class Transport(Protocol):
    """One way to an API server. Streams and requests may run at the same time."""

    async def send(self, request: Request) -> Reply:
        """One exchange, whatever its status. Raises TransportError."""

    def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The body of one long GET as it comes. Raises ApiError on a status that isn't 200, TransportError on anything else."""

    async def renew_credentials(self) -> None:
        """Reads token and configuration again."""

    async def close(self) -> None:
        """Closes all connections."""
