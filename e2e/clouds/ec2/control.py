"""The admin API of a running stand-in, as methods. All of them block."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class AdminError(Exception):
    """The admin API refused; the message says why."""


class Control:
    """Of the stand-in at this endpoint."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def change(self, **kinds: Any) -> None:
        """`change(stock=[{"type": "p5.48xlarge", "zone": "us-east-1a", "count": 8}], settings={"visible": 0})`."""
        self.admin("PUT", "state", kinds)

    def advance(self, seconds: float) -> None:
        """Lets this much time pass at once."""
        self.admin("POST", "clock", {"advance": seconds})

    def fault(self, operation: str, **fields: Any) -> None:
        """`fault("RunInstances", drop="after")`; the fields are those of Fault."""
        self.admin("POST", "faults", {"operation": operation, **fields})

    def calls(self, operation: str = "", after: int = 0) -> list[dict[str, Any]]:
        """The log of calls since number `after`, all or of one operation."""
        narrowed = f"operation={operation}&" if operation else ""
        found: list[dict[str, Any]] = self.admin("GET", f"calls?{narrowed}after={after}")
        return found

    def instances(self) -> list[dict[str, Any]]:
        """The truth about every instance."""
        found: list[dict[str, Any]] = self.admin("GET", "instances")
        return found

    def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer. Raises AdminError."""
        data = None if body is None else json.dumps(body, default=str).encode()
        request = urllib.request.Request(f"{self.endpoint}/_admin/{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise AdminError(f"{method} {path}: {error.read().decode()}") from error

    def kill(self, *ids: str) -> None:
        """The cloud ends these by itself."""
        self.admin("POST", "kill", {"ids": ids})
