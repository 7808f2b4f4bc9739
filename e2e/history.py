"""All versions of a namespace's Workloads: what was so for a moment only, a test that looks now and then may miss."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.cluster import eventually
from e2e.follower import Follower

Json = dict[str, Any]


class History(Follower):
    """`versions` are by the name of the job, or of each pod of a group."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        super().__init__(kubeconfig, namespace)
        self.versions: dict[str, list[Json]] = {}

    def see(self, event: Json) -> None:
        found = event["object"]
        for owner in found["metadata"].get("ownerReferences") or ():
            self.versions.setdefault(owner["name"], []).append(found)

    def first(self, job: str, look: Callable[[Json], bool]) -> Json:
        """The first version that looks so, waited for."""
        return eventually(lambda: next((each for each in tuple(self.versions.get(job, ())) if look(each)), None))
