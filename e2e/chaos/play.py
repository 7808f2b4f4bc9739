"""The users' part: gangs come, some are cancelled, some lose their request, a machine or their namespace while they run."""

import heapq
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from e2e.chaos.lives import GangLife, Ledger, Look
from e2e.chaos.run import GONE, Run, Steady
from e2e.chaos.scenery import GANG, NAMESPACE, gang_objects, namespace_of
from e2e.chaos.schedule import ABLE, Gang
from kube import resources
from kube.request_marks import WORKLOAD

PERIOD = 0.7
"""Seconds between two looks."""
PATIENCE = 400.0
"""Seconds for which a gang is looked after; one that doesn't run by then is the judge's business."""

IN_TIME = 150.0
"""Seconds within which a gang must run to lose a machine: the end of a run shall not wait for repairs that begin late."""


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
        look, restores = self._api.look, len(self._ledger.restores)
        workloads, pods = look(resources.WORKLOADS), look(resources.PODS, labelSelector=GANG)
        return Look(self._run.now, workloads, pods, look(resources.BOOKINGS), look(resources.NODES), restores)


class Users(threading.Thread):
    """Submits each gang when its time comes, and does to it what its fate says. What a restore has undone is done again, until
    `closed`. `end_machine` ends one at the cloud.
    """

    def __init__(
        self, run: Run, ledger: Ledger, gangs: Sequence[Gang], kubeconfig: Path, end_machine: Callable[[str], None]
    ) -> None:
        super().__init__(name="users", daemon=True)
        self._run, self._ledger, self._gangs, self._api = run, ledger, gangs, Steady(run, kubeconfig)
        self._end_machine = end_machine
        self._restores = 0
        self._due = self._all()
        self.closed = threading.Event()

    def run(self) -> None:
        while (self._due or not self.closed.is_set()) and not self._run.over.is_set():
            if self._restores != len(self._ledger.restores):
                self._restores, self._due = len(self._ledger.restores), self._all()
            if self._due and self._due[0][0] <= self._run.now:
                _, number, gang = heapq.heappop(self._due)
                again = self._submit(gang) if self._life(gang).submitted is None else self._attend(gang)
                if again is not None:
                    heapq.heappush(self._due, (again, number, gang))
            else:
                self._run.over.wait(0.1)

    def _all(self) -> list[tuple[float, int, Gang]]:
        """Every gang at its time: one that is submitted already, when it is to be looked after."""
        begun = [(self._life(gang).submitted, number, gang) for number, gang in enumerate(self._gangs)]
        due = [(gang.at if at is None else at + gang.after, number, gang) for at, number, gang in begun]
        heapq.heapify(due)
        return due

    def _life(self, gang: Gang) -> GangLife:
        return self._ledger.lives[gang.name]

    def _submit(self, gang: Gang) -> float | None:
        """When to look after it for the first time. A user who sees that nothing came of it does it once more."""
        restores = len(self._ledger.restores)
        for each in gang_objects(gang):
            self._api.apply(each)
        if restores != len(self._ledger.restores):
            return self._run.now
        self._life(gang).submitted = self._run.now
        return self._run.now + gang.after

    def _attend(self, gang: Gang) -> float | None:
        """When to look again: request, machine and namespace go while it runs, if it ever does."""
        life = self._life(gang)
        if life.ended is not None:
            return None
        if self._ledger.excuse(gang.name):
            self._give_up(gang, life)
            return None
        late = gang.fate == "machine" and self._run.now > gang.at + IN_TIME
        if gang.fate in ("runs", "impossible") or life.finished is not None or late:
            return None
        if gang.fate == "cancelled" or len(life.running) == gang.nodes:
            return None if self._meet(gang, life) else self._run.now + 1
        return self._run.now + 1 if self._run.now < gang.at + PATIENCE else None

    def _give_up(self, gang: Gang, life: GangLife) -> None:
        """What a restore brings back without machines its user takes away: a group would wait for new pods for ever, and keep its
        capacity.
        """
        life.ended = self._run.now
        self._run.tell(f"{gang.name}: over before the restore, and taken away")
        end(self._api, gang)

    def _meet(self, gang: Gang, life: GangLife) -> bool:
        """Its fate; whether that could be done."""
        if gang.fate == "request":
            self._delete_request(gang)
            return True
        if gang.fate == "machine":
            return self._lose_machine(gang, life)
        life.ended = self._run.now
        self._run.tell(f"{gang.name}: {gang.fate}")
        if gang.fate == "namespace":
            self._api.delete(resources.NAMESPACES, "", namespace_of(gang))
        else:
            end(self._api, gang)
        return True

    def _delete_request(self, gang: Gang) -> None:
        for request in self._api.items(resources.PROVISIONING_REQUESTS):
            if request["metadata"].get("annotations", {}).get(WORKLOAD) in self._workloads(gang):
                self._run.tell(f"{gang.name}: its request is deleted")
                self._api.delete(resources.PROVISIONING_REQUESTS, NAMESPACE, request["metadata"]["name"])

    def _lose_machine(self, gang: Gang, life: GangLife) -> bool:
        """One and no other, also if the cloud's answer is lost, or a restore brings its Node back."""
        killed = self._ledger.killed & {pod.node for pod in life.pods.values()}
        lost = min(killed or {pod.node for pod in life.running})
        self._ledger.killed.add(lost)
        try:
            self._end_machine(lost)
        except OSError:
            return False
        self._run.tell(f"{gang.name}: its machine {lost} is lost")
        return True

    def _workloads(self, gang: Gang) -> set[str]:
        own = self._api.items(resources.WORKLOADS)
        return {
            each["metadata"]["name"]
            for each in own
            if gang.name in (each["metadata"]["name"], *(owner["name"] for owner in each["metadata"].get("ownerReferences", [])))
        }


class Party:
    """The users of one cluster and who watches them. `gangs` are theirs, `ledger` says what became of these."""

    def __init__(self, run: Run, gangs: Sequence[Gang], kubeconfig: Path, end_machine: Callable[[str], None]) -> None:
        self.gangs, self.kubeconfig, self.ledger = gangs, kubeconfig, Ledger(gangs)
        self.watcher = Watcher(run, self.ledger, kubeconfig)
        self.users = Users(run, self.ledger, gangs, kubeconfig, end_machine)
        self._run = run

    def start(self) -> None:
        self.watcher.start()
        self.users.start()

    def close(self) -> None:
        """Returns when each gang has met its fate."""
        self.users.closed.set()
        self.users.join()

    def leave(self) -> None:
        """Users take their jobs away, and nobody watches any more."""
        self.watcher.closed.set()
        self.watcher.join()
        api = Steady(self._run, self.kubeconfig)
        for gang in self.gangs:
            end(api, gang)


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
    waiting = [gang.name for gang in gangs if gang.fate in ABLE and not ledger.excuse(gang.name)]
    return [name for name in waiting if ledger.lives[name].submitted is not None and ledger.lives[name].finished is None]
