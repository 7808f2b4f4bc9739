"""What became of each gang, from looks at the cluster now and then, over restores of an older state of it."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from e2e.chaos.scenery import GANG, GPU
from e2e.chaos.schedule import Gang

Json = Mapping[str, Any]
BOOKING = "corral.dev/request"
"""Node label whose value is the booking that has the whole node."""
IN_FLIGHT = 3.0
"""Seconds within which what a user did before a snapshot may have reached the API server only after it."""


@dataclass
class PodLife:
    """`bound`, `done` and `lost` are seconds of the run; `words` say what it looked like when it was lost."""

    name: str
    node: str
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

    @property
    def running(self) -> list[PodLife]:
        return [pod for pod in self.pods.values() if pod.done is None and pod.lost is None]


@dataclass(frozen=True)
class Look:
    """One look at the cluster: workloads first, nodes last, so that what an admission needs was looked at after it.
    `restores` is how many there had been when it began.
    """

    at: float
    workloads: Sequence[Json]
    pods: Sequence[Json]
    bookings: Sequence[Json]
    nodes: Sequence[Json]
    restores: int = 0


@dataclass
class Restore:
    """`taken` and `healed` are when the snapshot was taken and when all ran again, in seconds of the run; `then` are the lives at
    the snapshot, `undone` what they had become when it came back.
    """

    taken: float
    then: Mapping[str, GangLife]
    undone: Mapping[str, GangLife]
    healed: float = float("inf")

    def excuse(self, name: str) -> str:
        """Words, if the gang was over already: it is back, but its machines were given back, which no restore undoes."""
        then, undone = self.then[name], self.undone[name]
        words = f"at {{:.0f}} s, which the snapshot of {self.taken:.0f} s took back: its machines were not its own any more"
        if then.ended is None and undone.ended is not None:
            return "its user ended it " + words.format(undone.ended)
        if then.finished is None and undone.finished is not None:
            return "it finished " + words.format(undone.finished)
        return ""


class Ledger:
    """The lives of all gangs. A restore makes each what it was at the snapshot, and it lives on from there; what it had been
    until then is kept, and judged as well. `killed` are nodes whose machine was ended from outside; `bookings` those that each
    node had.
    """

    def __init__(self, gangs: Iterable[Gang]) -> None:
        self.gangs = {gang.name: gang for gang in gangs}
        self.lives = {name: GangLife() for name in self.gangs}
        self.restores: list[Restore] = []
        self.killed: set[str] = set()
        self.bookings: dict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def copied(self, at: float) -> dict[str, GangLife]:
        """The lives, for a snapshot that is taken now. What users are about to do isn't in it."""
        with self._lock:
            lives = deepcopy(self.lives)
        for life in lives.values():
            if life.ended is not None and at - life.ended < IN_FLIGHT:
                life.ended = None
        return lives

    def restored(self, taken: float, then: Mapping[str, GangLife]) -> Restore:
        """The cluster is again what it was at that time; called while it can't be looked at."""
        with self._lock:
            self.restores.append(Restore(taken, then, self.lives))
            self.lives = deepcopy(dict(then))
        return self.restores[-1]

    def excuse(self, name: str) -> str:
        """Why not all that became of the gang is for us to answer for, or nothing."""
        return next((words for each in self.restores if (words := each.excuse(name))), "")

    def answerable(self, name: str) -> list[GangLife]:
        """What the gang has been until each restore, and is now; after one that is an excuse for it, nothing any more."""
        found = []
        for each in self.restores:
            found.append(each.undone[name])
            if each.excuse(name):
                return found
        return [*found, self.lives[name]]

    def see(self, look: Look) -> None:
        """Takes in one look, unless it is of what a restore has undone."""
        with self._lock:
            if look.restores == len(self.restores):
                self._see(look)

    def _see(self, look: Look) -> None:
        for workload in look.workloads:
            if (name := gang_of(workload)) in self.lives:
                self._workload(name, workload, look)
        there: dict[str, set[str]] = {name: set() for name in self.lives}
        for pod in look.pods:
            name = pod["metadata"].get("labels", {}).get(GANG, "")
            if name in self.lives:
                there[name].add(pod["metadata"]["uid"])
                _see_pod(self.lives[name], pod, look.at)
        for name, life in self.lives.items():
            for uid, pod_life in life.pods.items():
                if uid not in there[name]:
                    _lose(pod_life, look.at, "is gone")
        for node in look.nodes:
            if booking := node["metadata"]["labels"].get(BOOKING):
                self.bookings[node["metadata"]["name"]].add(booking)

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
            sound = set(_sound(workload["metadata"]["uid"], look))
            if len(sound) < self.gangs[name].nodes:
                life.short.append(f"{len(sound)} of {self.gangs[name].nodes} nodes sound at {look.at:.0f} s: {sorted(sound)}")


def gang_of(workload: Json) -> str:
    """Of a Workload: its Job's name, or its own for a group of pods."""
    owners = [each["name"] for each in workload["metadata"].get("ownerReferences", []) if each["kind"] == "Job"]
    name: str = owners[0] if owners else workload["metadata"]["name"]
    return name


def _see_pod(life: GangLife, pod: Json, at: float) -> None:
    meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
    if "nodeName" not in pod["spec"]:
        return
    seen = life.pods.setdefault(meta["uid"], PodLife(meta["name"], pod["spec"]["nodeName"], at))
    if phase == "Succeeded":
        seen.done = seen.done or at
    elif phase == "Failed" or "deletionTimestamp" in meta:
        states = pod["status"].get("conditions", [])
        conditions = [f"{each['reason']}: {each.get('message', '')}" for each in states if "reason" in each]
        why = f"{pod['status'].get('reason', '')} {conditions}"
        _lose(seen, at, f"phase {phase}, deleted {meta.get('deletionTimestamp')}, {why}")


def _lose(pod: PodLife, at: float, words: str) -> None:
    if pod.done is None and pod.lost is None:
        pod.lost, pod.words = at, words


def _sound(workload: str, look: Look) -> Iterator[str]:
    """Nodes of the workload's live bookings that are ready, marked and have all devices."""
    live = {
        each["metadata"]["name"]
        for each in look.bookings
        if each["spec"].get("workload", {}).get("uid") == workload and each["status"]["phase"] == "Provisioned"
    }
    for node in look.nodes:
        if node["metadata"]["labels"].get(BOOKING) in live and _whole(node):
            yield node["metadata"]["name"]


def _whole(node: Json) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))
    return ready and node["status"]["allocatable"].get(GPU) == "8"
