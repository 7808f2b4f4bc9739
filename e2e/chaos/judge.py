"""What became of each gang, from looks at the cluster now and then, and whether that is right. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.chaos.scenery import GANG, GPU
from e2e.chaos.schedule import Gang

Json = Mapping[str, Any]
GANG_OF_GROUP = "kueue.x-k8s.io/pod-group-name"
SPREAD = 60.0
"""Seconds that may pass between the binding of a gang's first pod and its last: the scheduler's own outage included."""


@dataclass
class PodLife:
    """`bound`, `done` and `lost` are seconds of the run; `words` say what it looked like when it was lost."""

    name: str
    bound: float
    done: float | None = None
    lost: float | None = None
    words: str = ""


@dataclass
class GangLife:
    """`admissions` are by the API server's time of the transition. `ended` is when its user, not we, ended it."""

    admissions: dict[str, float] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)
    pods: dict[str, PodLife] = field(default_factory=dict)
    submitted: float | None = None
    finished: float | None = None
    failed: str = ""
    ended: float | None = None
    said: str = ""

    def runs_whole(self, nodes: int) -> bool:
        return sum(pod.done is None and pod.lost is None for pod in self.pods.values()) == nodes


@dataclass(frozen=True)
class Look:
    """One look at the cluster: workloads first, nodes last, so that what an admission needs was looked at after it."""

    at: float
    workloads: Sequence[Json]
    pods: Sequence[Json]
    bookings: Sequence[Json]
    nodes: Sequence[Json]


class Ledger:
    """All lives, looked at until `closed`. `restored` are (age of the snapshot, end of the restore) in seconds of the run."""

    def __init__(self, gangs: Iterable[Gang]) -> None:
        self.gangs = {gang.name: gang for gang in gangs}
        self.lives = {name: GangLife() for name in self.gangs}
        self.restored: list[tuple[float, float]] = []
        self.names: frozenset[str] = frozenset()

    def vanished(self, name: str) -> bool:
        """Whether a restore has taken the gang back whole: it is not there any more."""
        return _cut(self.lives[name], self.restored) and name not in self.names

    def see(self, look: Look) -> None:
        """Takes in one look."""
        self.names = frozenset(map(gang_of, look.workloads))
        for workload in look.workloads:
            if (name := gang_of(workload)) in self.lives:
                self._workload(name, workload, look)
        there: dict[str, set[str]] = {name: set() for name in self.lives}
        for pod in look.pods:
            name = pod["metadata"].get("labels", {}).get(GANG, "")
            if name in self.lives:
                there[name].add(pod["metadata"]["uid"])
                self._pod(self.lives[name], pod, look.at)
        for name, life in self.lives.items():
            for uid, pod_life in life.pods.items():
                if uid not in there[name]:
                    _lose(pod_life, look.at, "is gone")

    def _workload(self, name: str, workload: Json, look: Look) -> None:
        life, states = self.lives[name], {each["type"]: each for each in workload.get("status", {}).get("conditions", [])}
        life.said = "; ".join(f"{key}={each['status']} {each['reason']}: {each['message']}" for key, each in states.items())
        finished = states.get("Finished")
        if finished and finished["status"] == "True":
            life.finished = life.finished or look.at
            life.failed = "" if finished["reason"] == "Succeeded" else f"{finished['reason']}: {finished['message']}"
            return
        admitted = states.get("Admitted")
        if admitted and admitted["status"] == "True" and admitted["lastTransitionTime"] not in life.admissions:
            life.admissions[admitted["lastTransitionTime"]] = look.at
            sound = _sound(workload["metadata"]["uid"], look)
            if len(sound) < self.gangs[name].nodes:
                life.short.append(f"{len(sound)} of {self.gangs[name].nodes} nodes sound at {look.at:.0f} s: {sorted(sound)}")

    @staticmethod
    def _pod(life: GangLife, pod: Json, at: float) -> None:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
        if "nodeName" not in pod["spec"]:
            return
        seen = life.pods.setdefault(meta["uid"], PodLife(meta["name"], at))
        if phase == "Succeeded":
            seen.done = seen.done or at
        elif phase == "Failed" or "deletionTimestamp" in meta:
            conditions = [
                f"{each['reason']}: {each.get('message', '')}" for each in pod["status"].get("conditions", []) if "reason" in each
            ]
            _lose(
                seen,
                at,
                f"phase {phase}, deleted {meta.get('deletionTimestamp')}, {pod['status'].get('reason', '')} {conditions}",
            )


def gang_of(workload: Json) -> str:
    """Of a Workload: its Job's name, or its own for a group of pods."""
    owners = [each["name"] for each in workload["metadata"].get("ownerReferences", []) if each["kind"] == "Job"]
    name: str = owners[0] if owners else workload["metadata"]["name"]
    return name


def _lose(pod: PodLife, at: float, words: str) -> None:
    if pod.done is None and pod.lost is None:
        pod.lost, pod.words = at, words


def _sound(workload: str, look: Look) -> set[str]:
    """Nodes of the workload's live bookings that are ready, marked and have all devices."""
    live = {
        each["metadata"]["name"]
        for each in look.bookings
        if each["spec"].get("workload", {}).get("uid") == workload and each["status"]["phase"] == "Provisioned"
    }
    return {
        node["metadata"]["name"]
        for node in look.nodes
        if node["metadata"]["labels"].get("corral.dev/request") in live and _whole(node)
    }


def _whole(node: Json) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))
    return ready and node["status"]["allocatable"].get(GPU) == "8"


# --- the verdict ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """`wrong` has a line for each thing that is; `excused` are gangs whose life an etcd restore has cut."""

    gangs: int
    able: int
    admitted_once: int
    harmed: int
    excused: int
    wrong: tuple[str, ...]


def judged(ledger: Ledger) -> Verdict:
    """Of all that was seen."""
    wrong, once, harmed, able, excused = list[str](), 0, 0, 0, 0
    for name, gang in ledger.gangs.items():
        life = ledger.lives[name]
        cut = _cut(life, ledger.restored)
        lost = list(_harm(life, ledger.restored))
        harmed += len(lost)
        could = gang.fate in ("runs", "request") and not cut
        able += could
        excused += cut
        found = [*lost, *life.short, *_faults(gang, life, could, cut)]
        once += could and life.finished is not None and not found
        wrong += [f"{name} ({gang.kind} of {gang.nodes}, {gang.queue}, {gang.fate}): {each}" for each in found]
    return Verdict(len(ledger.gangs), able, once, harmed, excused, tuple(wrong))


def _cut(life: GangLife, restored: Sequence[tuple[float, float]]) -> bool:
    """Whether a restore took part of its life back."""
    begun = life.submitted
    return begun is not None and any(begun < end and (life.finished is None or life.finished > old) for old, end in restored)


def _harm(life: GangLife, restored: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Pods lost though their gang was not over, its user let it run, and no restore took them back."""
    for pod in life.pods.values():
        if pod.lost is None or (life.ended is not None and life.ended <= pod.lost + 1):
            continue
        if life.finished is not None and life.finished <= pod.lost and not life.failed:
            continue
        if not any(old - 2 <= pod.bound <= end for old, end in restored):
            yield f"pod {pod.name} lost at {pod.lost:.0f} s: {pod.words}"


def _faults(gang: Gang, life: GangLife, could: bool, cut: bool) -> Iterator[str]:
    count = len(life.admissions)
    if gang.fate == "impossible":
        if count or life.pods:
            yield f"admitted {count} times though no rack has room for it"
        return
    if cut:
        return
    if could and life.submitted is not None and (life.finished is None or life.failed):
        yield f"not completed: {life.failed or life.said or 'no Workload seen'}"
    if count > 1:
        yield f"admitted {count} times, at {', '.join(f'{at:.0f}' for at in life.admissions.values())} s"
    bound = sorted(pod.bound for pod in life.pods.values())
    if bound and bound[-1] - bound[0] > SPREAD and could:
        yield f"pods bound over {bound[-1] - bound[0]:.0f} s"
