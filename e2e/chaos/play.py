"""The users' part: gangs come, some are cancelled, some lose their request or their namespace while they run."""

import heapq
import threading
from collections.abc import Sequence
from pathlib import Path

from e2e.chaos.judge import Ledger, Look
from e2e.chaos.run import GONE, Run, Steady
from e2e.chaos.scenery import GANG, NAMESPACE, gang_objects, namespace_of
from e2e.chaos.schedule import Gang
from kube import resources
from kube.request_marks import WORKLOAD

PERIOD = 0.7
"""Seconds between two looks."""
PATIENCE = 400.0
"""Seconds for which a gang is looked after; one that doesn't run by then is the judge's business."""


class Watcher(threading.Thread):
    """Shows the ledger the cluster; a look that fails is left out whole."""

    def __init__(self, run: Run, ledger: Ledger, kubeconfig: Path) -> None:
        super().__init__(name="watcher", daemon=True)
        self._run, self._ledger, self._api = run, ledger, Steady(run, kubeconfig)
        self.looks = 0
        self.closed = threading.Event()

    def run(self) -> None:
        while not self.closed.wait(PERIOD):
            try:
                self._ledger.see(self._look())
                self.looks += 1
            except (*GONE, LookupError):
                continue

    def _look(self) -> Look:
        look = self._api.look
        workloads, pods = look(resources.WORKLOADS), look(resources.PODS, labelSelector=GANG)
        return Look(self._run.now, workloads, pods, look(resources.BOOKINGS), look(resources.NODES))


class Users(threading.Thread):
    """Submits each gang when its time comes, and does to it what its fate says."""

    def __init__(self, run: Run, ledger: Ledger, gangs: Sequence[Gang], kubeconfig: Path) -> None:
        super().__init__(name="users", daemon=True)
        self._run, self._ledger, self._api = run, ledger, Steady(run, kubeconfig)
        self._due = [(gang.at, number, gang) for number, gang in enumerate(gangs)]
        heapq.heapify(self._due)

    def run(self) -> None:
        while self._due:
            at, number, gang = heapq.heappop(self._due)
            if not self._run.until(at):
                return
            again = self._submit(gang) if self._ledger.lives[gang.name].submitted is None else self._attend(gang)
            if again is not None:
                heapq.heappush(self._due, (again, number, gang))

    def _submit(self, gang: Gang) -> float | None:
        """When to look after it for the first time; None for one that needs no looking after."""
        self._ledger.lives[gang.name].submitted = self._run.now
        for each in gang_objects(gang):
            self._api.apply(each)
        return None if gang.fate in ("runs", "impossible") else self._run.now + gang.after

    def _attend(self, gang: Gang) -> float | None:
        """When to look again: request and namespace go while it runs, if it ever does."""
        life = self._ledger.lives[gang.name]
        if life.finished is not None or self._ledger.vanished(gang.name):
            return None
        if gang.fate == "cancelled" or life.runs_whole(gang.nodes):
            self._meet(gang)
            return None
        return self._run.now + 1 if self._run.now < gang.at + PATIENCE else None

    def _meet(self, gang: Gang) -> None:
        """Its fate."""
        if gang.fate == "request":
            for request in self._api.items(resources.PROVISIONING_REQUESTS):
                if request["metadata"].get("annotations", {}).get(WORKLOAD) in self._workloads(gang):
                    self._run.tell(f"{gang.name}: its request is deleted")
                    self._api.delete(resources.PROVISIONING_REQUESTS, NAMESPACE, request["metadata"]["name"])
            return
        self._ledger.lives[gang.name].ended = self._run.now
        self._run.tell(f"{gang.name}: {gang.fate}")
        if gang.fate == "namespace":
            self._api.delete(resources.NAMESPACES, "", namespace_of(gang))
        else:
            end(self._api, gang)

    def _workloads(self, gang: Gang) -> set[str]:
        own = self._api.items(resources.WORKLOADS)
        return {
            each["metadata"]["name"]
            for each in own
            if gang.name in (each["metadata"]["name"], *(owner["name"] for owner in each["metadata"].get("ownerReferences", [])))
        }


def end(api: Steady, gang: Gang) -> None:
    """Deletes the Job, or all pods of the group and its Workload: Kueue holds deleted pods of a group that ran, and waits for
    others in their place, until that goes."""
    where = namespace_of(gang)
    if gang.kind == "job":
        api.delete(resources.JOBS, where, gang.name)
        return
    for number in range(gang.nodes):
        api.delete(resources.PODS, where, f"{gang.name}-{number}")
    api.delete(resources.WORKLOADS, where, gang.name)


def settled(ledger: Ledger, gangs: Sequence[Gang]) -> list[str]:
    """Names of the gangs that must still finish."""
    waiting = [gang.name for gang in gangs if gang.fate in ("runs", "request")]
    now = [name for name in waiting if ledger.lives[name].submitted is not None and ledger.lives[name].finished is None]
    return [name for name in now if not ledger.vanished(name)]
