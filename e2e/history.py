"""All versions of a namespace's Workloads: what was so for a moment only, a test that looks now and then may miss."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.api import Watch, path
from e2e.cluster import eventually
from kube import resources

Json = dict[str, Any]


class History:
    """`versions` are by the name of the job, or of each pod of a group."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.versions: dict[str, list[Json]] = {}
        self._watch = Watch(kubeconfig, path(resources.WORKLOADS, namespace))
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watch.close()
        self._thread.join(30)

    def _follow(self) -> None:
        for line in self._watch:
            found = json.loads(line)["object"]
            for owner in found["metadata"].get("ownerReferences") or ():
                self.versions.setdefault(owner["name"], []).append(found)

    def first(self, job: str, look: Callable[[Json], bool]) -> Json:
        """The first version that looks so, waited for."""
        return eventually(lambda: next((each for each in tuple(self.versions.get(job, ())) if look(each)), None))
