"""What all threads of a run share: its clock, and an API client that outlives the API server's absence."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from e2e.api import Answer, Api, path
from kube.resources import Kind

T = TypeVar("T")
GONE = (OSError, http.client.HTTPException, json.JSONDecodeError)
"""What a call raises while the server is away."""


class Run:
    """Seconds since its begin. `over` ends all threads."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.told: list[str] = []

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def tell(self, words: str) -> None:
        with self._lock:
            self.told.append(f"{self.now:6.1f} {words}")
            print(self.told[-1], flush=True)

    def until(self, at: float) -> bool:
        """Waits for a time of the run; False if the run was over first."""
        return not self.over.wait(max(0.0, at - self.now))


class Steady:
    """Calls that are made again until the server answers with a yes, or a no that won't change. For one thread."""

    def __init__(self, run: Run, kubeconfig: Path) -> None:
        self._run, self._api = run, Api(kubeconfig)

    def apply(self, item: Mapping[str, Any]) -> None:
        """Server-side apply; webhooks that don't answer are waited for as well."""
        self._insist(lambda: self._api.apply(item))

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Fine if it isn't there."""
        self._insist(lambda: self._deleted(path(kind, namespace, name)))

    def items(self, kind: Kind, **query: str) -> list[dict[str, Any]]:
        """All of a kind in all namespaces."""
        return self._insist(lambda: self.look(kind, **query))

    def look(self, kind: Kind, **query: str) -> list[dict[str, Any]]:
        """As `items`, once. Raises one of GONE, or LookupError."""
        answer = self._api.call("GET", path(kind), **query)
        if not answer.accepted:
            raise LookupError(str(answer.body.get("message")))
        found: list[dict[str, Any]] = answer.body["items"]
        return found

    def patch(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """Merge patch, once, and not of what isn't there."""
        self._insist(lambda: self._patched(kind, namespace, name, patch))

    def _patched(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        if self._api.call("GET", path(kind, namespace, name)).accepted:
            self._api.merge(kind, namespace, name, patch)

    def _deleted(self, target: str) -> Answer:
        answer = self._api.call("DELETE", target, propagationPolicy="Background")
        if not answer.accepted and answer.status != 404:
            raise LookupError(str(answer.body.get("message")))
        return answer

    def _insist(self, act: Callable[[], T]) -> T:
        last = ""
        while True:
            try:
                return act()
            except (*GONE, LookupError) as error:
                if str(error) != last and not isinstance(error, GONE):
                    self._run.tell(f"tried again: {error}"[:300])
                last = str(error)
                if self._run.over.wait(0.5):
                    raise
