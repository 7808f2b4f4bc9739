"""A plain, blocking HTTP client of the API server for contract tests: what was sent, what came back, nothing in between."""

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kube.resources import Kind


def path(kind: Kind, namespace: str = "", name: str = "") -> str:
    """Where the API server keeps the kind, or one object of it; `namespace` is left out for cluster-scoped kinds."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return f"{root}{within}/{kind.plural}" + (f"/{name}" if name else "")


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


def _plural(kind: str) -> str:
    """As Kubernetes names resources after their kinds."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"


def _connect(kubeconfig: Path, timeout: float | None) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
    """A connection as the administrator of `kubeconfig`, and the headers to send on it."""
    config = json.loads(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    connection = http.client.HTTPSConnection(urlsplit(cluster["server"]).netloc, timeout=timeout, context=context)
    return connection, {"Authorization": f"Bearer {config['users'][0]['user']['token']}", "Content-Type": "application/json"}


class Watch:
    """Lines of a watch on a connection of its own, what is there already first, until another thread calls `close`."""

    def __init__(self, kubeconfig: Path, target: str) -> None:
        self._connection, headers = _connect(kubeconfig, None)
        self._connection.request("GET", f"{target}?watch=1", headers=headers)
        assert self._connection.sock is not None
        self._socket: socket.socket = self._connection.sock
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read()

    def __iter__(self) -> Iterator[bytes]:
        try:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # closed
                while line := self._response.readline():
                    yield line
        finally:
            self._response.close()
            self._connection.close()

    def close(self) -> None:
        """Lets the iteration end, which frees the connection."""
        with contextlib.suppress(OSError):  # SSLSocket's own shutdown drops the keys: the reader would go on with ciphertext
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class Api:
    """One kept connection, as the administrator of `kubeconfig`."""

    def __init__(self, kubeconfig: Path) -> None:
        self._connection, self._headers = _connect(kubeconfig, 30)

    def get(self, kind: Kind, namespace: str = "", name: str = "") -> dict[str, Any]:
        """One object, or without a name the list of a kind. Raises LookupError with the server's words."""
        answer = self.call("GET", path(kind, namespace, name))
        if not answer.accepted:
            raise LookupError(answer.body.get("message"))
        return answer.body

    def merge(self, kind: Kind, namespace: str, name: str, patch: Any, subresource: str = "") -> dict[str, Any]:
        """Applies a JSON merge patch. Raises LookupError with the server's words."""
        target = path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        answer = self._answer("PATCH", target, json.dumps(patch), {"Content-Type": "application/merge-patch+json"})
        if not answer.accepted:
            raise LookupError(answer.body.get("message"))
        return answer.body

    def apply(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply of an object of any kind whose plural is regular. Raises LookupError with the server's words."""
        group, _, version = item["apiVersion"].rpartition("/")
        meta = item["metadata"]
        kind = Kind(group, version, _plural(item["kind"]), item["kind"], "namespace" in meta)
        target = f"{path(kind, meta.get('namespace', ''), meta['name'])}?fieldManager=test&force=true&fieldValidation=Strict"
        answer = self._answer("PATCH", target, json.dumps(item), {"Content-Type": "application/apply-patch+yaml"})
        if not answer.accepted:
            raise LookupError(answer.body.get("message"))
        return answer.body

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Answer:
        target = f"{path}?{'&'.join(f'{key}={value}' for key, value in query.items())}"
        content = json.dumps(body) if body is not None else None
        return self._answer(method, target, content, {})

    def _answer(self, method: str, target: str, content: str | None, headers: Mapping[str, str]) -> Answer:
        try:
            return self._send(method, target, content, headers)
        except (OSError, http.client.HTTPException):  # the server ends a connection that was idle for long; the next is a new one
            self._connection.close()
            return self._send(method, target, content, headers)

    def _send(self, method: str, target: str, content: str | None, headers: Mapping[str, str]) -> Answer:
        self._connection.request(method, target, content, {**self._headers, **headers})
        response = self._connection.getresponse()
        return Answer(response.status, json.loads(response.read()))

    def close(self) -> None:
        self._connection.close()
