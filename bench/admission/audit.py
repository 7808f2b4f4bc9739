"""What a check's controller has written, from the API server's audit log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import msgspec

OURS = "system:serviceaccount:corral-system:corral-admission"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
IN_TREE_MANAGER = "kueue.x-k8s.io/provisioning-request"  # of Kueue's own check; the rest of that process writes under other names
_OF_IN_TREE = ("podtemplates", "provisioningrequests")  # that process writes Jobs, too: when Kueue lets them go
CHECK_EVENTS = ("ProvisioningRequestCreated", "AdmissionCheckUpdated", "FailedCreate")
_CONFLICT = 409


class _User(msgspec.Struct):
    username: str = ""


class _Reference(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Body(msgspec.Struct):
    reason: str = ""


class Entry(msgspec.Struct, rename="camel"):
    """One request, as audit.k8s.io/v1 tells of it."""

    verb: str
    user: _User
    object_ref: _Reference
    response_status: _Status
    request_uri: str = msgspec.field(name="requestURI", default="")
    request_object: _Body = msgspec.field(default_factory=_Body)
    request_received_timestamp: str = ""

    @property
    def what(self) -> str:
        """E.g. `patch workloads/status`."""
        parts = (self.object_ref.resource, self.object_ref.subresource)
        return f"{self.verb} {'/'.join(filter(None, parts))}"


@dataclass(slots=True)
class Writes:
    """Of the check's controller in one namespace: by kind, those among them that conflicted, and its events by reason."""

    by_kind: Counter[str] = field(default_factory=Counter)
    conflicts: int = 0
    events: Counter[str] = field(default_factory=Counter)
    everybody: int = 0  # writes of all programs together since a given moment, events too

    @property
    def total(self) -> int:
        return self.by_kind.total()


def writes(lines: Iterable[bytes], namespace: str, since: str = "") -> Writes:
    """Counts every write that was sent, also those that were refused. `since` is an instant in the log's own format."""
    found, decoder = Writes(), msgspec.json.Decoder(Entry)
    for entry in (decoder.decode(line) for line in lines):
        if entry.object_ref.namespace != namespace:
            continue
        found.everybody += entry.request_received_timestamp >= since
        if entry.object_ref.resource == "events":
            if entry.request_object.reason in CHECK_EVENTS:
                found.events[entry.request_object.reason] += 1
        elif _of_check(entry):
            found.by_kind[entry.what] += 1
            found.conflicts += entry.response_status.code == _CONFLICT
    return found


def _of_check(entry: Entry) -> bool:
    """The two share neither user nor, in Kueue's process, the name under which they write to a Workload."""
    if entry.user.username == OURS:
        return True
    if entry.user.username != KUEUE:
        return False
    manager = parse_qs(urlsplit(entry.request_uri).query).get("fieldManager", [""])[0]
    resource = entry.object_ref.resource
    return resource in _OF_IN_TREE or (resource == "workloads" and manager == IN_TREE_MANAGER)
