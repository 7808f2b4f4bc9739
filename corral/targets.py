"""What `corral why` is asked about, as people write it: `KIND/NAME`, the kind as kubectl takes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from kube import autoscaling, kueue, ours
from kube.meta import OwnerReference

WORKLOAD, REQUEST, POD_GROUP = "workload", "provisioningrequest", "podgroup"
RESERVATION, POOL, NODE = "reservation", "capacitypool", "node"
HOLDINGS = (RESERVATION, POOL, NODE)
USAGE = (
    "name what waits: job/NAME or any other KIND/NAME that Kueue admits, pod/NAME, podgroup/NAME, workload/NAME or "
    "provreq/NAME; or what is waited for: reservation/ID, pool/NAME or node/NAME"
)

_GROUPS: Mapping[str, str] = {
    WORKLOAD: kueue.GROUP,
    REQUEST: autoscaling.GROUP,
    POD_GROUP: "",
    RESERVATION: "",
    POOL: ours.GROUP,
    NODE: "",
}
_SHORT: Mapping[str, str] = {
    "wl": WORKLOAD,
    "provreq": REQUEST,
    "cpool": POOL,
    "pool": POOL,
    "no": NODE,
    "po": "pod",
    "sts": "statefulset",
    "lws": "leaderworkerset",
    "deploy": "deployment",
}


class TargetError(ValueError):
    """The text names nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """`kind` in lower case and singular, one of the constants above where it is none that owns Workloads; `group` as given."""

    text: str
    kind: str
    group: str
    name: str

    def owns(self, owner: OwnerReference) -> bool:
        """Whether the reference is to it, by kind, name and, if given, group; `group` may begin with a version."""
        group, _, version = owner.api_version.rpartition("/")
        return owner.kind.lower() == self.kind and owner.name == self.name and self.group in ("", group, f"{version}.{group}")


def target(text: str) -> Target:
    """`jobs.batch/llm` as well as `Job/llm`. Raises TargetError."""
    left, slash, name = text.partition("/")
    kind, _, group = left.lower().partition(".")
    if not (slash and kind and name):
        raise TargetError(f'"{text}" is no target: {USAGE}')
    found = _SHORT.get(kind) or _SHORT.get(kind.removesuffix("s")) or kind.removesuffix("s")
    if group and _GROUPS.get(found, group) not in ("", group):
        raise TargetError(f'"{text}" is no target: {found} is of group {_GROUPS[found]}')
    return Target(text, found, group, name)
