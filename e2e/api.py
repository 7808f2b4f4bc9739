"""A plain, blocking HTTP client of the API server for contract tests: what was sent, what came back, nothing in between."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """`causes` are the (field, reason, message) triples of a refusal, sorted."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        causes = self.body.get("details", {}).get("causes", []) if not self.accepted else []
        return sorted((c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes)


class Api:
    """One kept connection, as the administrator of `kubeconfig`."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._connection = http.client.HTTPSConnection(urlsplit(cluster["server"]).netloc, timeout=30, context=context)
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Answer:
        target = f"{path}?{'&'.join(f'{key}={value}' for key, value in query.items())}"
        content = json.dumps(body) if body is not None else None
        try:
            return self._send(method, target, content)
        except (OSError, http.client.HTTPException):  # the server ends a connection that was idle for long; the next is a new one
            self._connection.close()
            return self._send(method, target, content)

    def _send(self, method: str, target: str, content: str | None) -> Answer:
        self._connection.request(method, target, content, self._headers)
        response = self._connection.getresponse()
        return Answer(response.status, json.loads(response.read()))

    def close(self) -> None:
        self._connection.close()
