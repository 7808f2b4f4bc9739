"""What Kueue's own process was seen to write to Workloads: the difference between a twin of Kueue and Kueue."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from e2e.follower import Follower

Json = Mapping[str, Any]

KUEUE = "kueue"  # field managers of Kueue 0.17.0 begin with it: kueue, kueue-admission, kueue-job-controller and more
_FIRST = frozenset({"QuotaReserved", "Admitted"})  # False when they first appear means: nothing has happened yet


def changes(before: Json, after: Json) -> list[str]:
    """What Kueue did from one version of a Workload to the next: reserve, evict, requeue, admit, deactivate, finish.

    A change counts when one of Kueue's field managers owns the changed field in the later version.
    """
    return [*_conditions(before, after), *_activity(before, after)]


def _conditions(before: Json, after: Json) -> Iterator[str]:
    old = {each["type"]: each for each in _status(before).get("conditions") or ()}
    for each in _status(after).get("conditions") or ():
        kind, previous = each["type"], old.get(each["type"], {})
        if all(previous.get(key) == each.get(key) for key in ("status", "reason", "lastTransitionTime")):
            continue
        begun = previous or each["status"] == "True" or kind not in _FIRST
        same = previous.get("status") == "False" == each["status"] and kind in _FIRST
        key = 'k:{"type":"' + kind + '"}'
        if begun and not same and _by_kueue(after, "f:status", "f:conditions", key, "f:status"):
            yield f"{kind}={each['status']}({each['reason']})"


def _activity(before: Json, after: Json) -> Iterator[str]:
    was, now = ((each.get("spec") or {}).get("active", True) for each in (before, after))
    if was and not now and _by_kueue(after, "f:spec", "f:active"):
        yield "active=false"


def _by_kueue(workload: Json, *field: str) -> bool:
    entries = workload["metadata"].get("managedFields") or ()
    return any(each["manager"].startswith(KUEUE) and _has(each.get("fieldsV1") or {}, field) for each in entries)


def _has(fields: Json, steps: tuple[str, ...]) -> bool:
    for step in steps:
        if step not in fields:
            return False
        fields = fields[step]
    return True


def _status(workload: Json) -> Json:
    return workload.get("status") or {}


class Evidence(Follower):
    """Watches the Workloads of a namespace. `notes` are lines like `job-x: QuotaReserved=True(QuotaReserved) @1234`."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        super().__init__(kubeconfig, namespace)
        self.notes: list[str] = []
        self._seen: dict[str, Json] = {}

    def see(self, event: Json) -> None:
        if event["type"] in ("ADDED", "MODIFIED"):
            self._note(event["object"])

    def _note(self, workload: Json) -> None:
        meta = workload["metadata"]
        found = changes(self._seen.get(meta["uid"], {}), workload)
        self._seen[meta["uid"]] = workload
        if found:
            self.notes.append(f"{meta['name']}: {', '.join(found)} @{meta['resourceVersion']}")
