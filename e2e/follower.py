"""A thread that follows all versions of a namespace's Workloads."""

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.api import Watch, path
from kube import resources


class Follower:
    """Calls `see` in its thread with each watch event, from entry to exit."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._watch = Watch(kubeconfig, path(resources.WORKLOADS, namespace))
        self._thread = threading.Thread(target=self._follow, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.join(0.1)  # what the test has seen last is on its way
        self._watch.close()
        self._thread.join(30)

    def see(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def _follow(self) -> None:
        for line in self._watch:
            self.see(json.loads(line))
