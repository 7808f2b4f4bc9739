"""One run: the whole provisioner in virtual time between the twins, struck by a script of faults, until all is quiet."""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from unittest import mock

from provisioner import main
from provisioner.clouds.simulated.world import World
from provisioner.settings import ProvisionerSettings
from runtime import lease, manager
from runtime.client import Client
from runtime.lease import LeadershipLost
from tests.faults import loop, neighbours
from tests.faults.cloud import CloudTwin
from tests.faults.gangs import CHECK, OVER, TEAM, Gang
from tests.faults.jobs import HOME, JobControl, pod_template
from tests.faults.judge import Judge
from tests.faults.kinds import Fault, Script
from tests.faults.listener import causes, listening
from tests.faults.objects import Body, Objects
from tests.faults.scenes import SCENES, START, Scene
from tests.faults.server import Server
from tests.faults.wire import LIVING, Guard, OneCloud, Process, Wire

RESTART = 3.0
TICK = 1.0
LONGEST = 1500.0
"""Seconds that a run may take until all is quiet."""
INSTALLATION = "here"
SETTINGS = ProvisionerSettings.model_validate(
    {
        "leaderElection": {"leaderElect": False, "resourceNamespace": HOME},
        "inventorySeconds": 10,
        "settleSeconds": 2,
        "retentionSeconds": 10,
        "reapGraceSeconds": 20,
    }
)


@dataclass
class Outcome:
    """`broken` names the invariants that didn't hold, in words; empty when all did."""

    scene: str
    faults: tuple[Fault, ...]
    broken: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    struck: list[Fault] = field(default_factory=list)
    seconds: float = 0.0


class Stage:
    """`lost`: machines that died on their own, or that the cloud takes back. `hidden`: Nodes that are away for a while.
    `world`: CloudTwin's.
    """

    def __init__(self, scene: Scene, script: Script, installation: str = INSTALLATION, world: World | None = None) -> None:
        election = SETTINGS.leader_election.model_copy(update={"leader_elect": scene.replicas > 1})
        self.settings = SETTINGS.model_copy(update={"installation": installation, "leader_election": election})
        self.scene, self.script, self.lost = scene, script, set[str]()
        self.objects = Objects(self.now)
        self.server = Server(self.objects, streaming=scene.streaming)
        self.cloud = CloudTwin(scene.config(), self.objects, self.now, installation, world)
        self.gangs = [Gang(order, self.objects, self.now) for order in scene.gangs]
        self.jobs = JobControl(self.objects, scene.sick)
        self.judge = Judge(self)
        self.processes = 0
        self.hidden: list[Body] = []
        self._open = sorted(scene.events, key=lambda event: event[0])
        self._running: list[Process] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.at)

    @property
    def at(self) -> float:
        """Seconds from the start."""
        return asyncio.get_running_loop().time()

    async def play(self) -> None:
        self._furnish()
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(self._serve()) for _ in range(self.scene.replicas)]
            while self.at < LONGEST and not self._quiet():
                await asyncio.sleep(TICK)
                self._tick()
            for each in serving:
                each.cancel()
        self.judge.at_the_end()

    def _furnish(self) -> None:
        put = self.objects.put
        for name in (TEAM, HOME, "kube-system"):
            put("namespaces", {"metadata": {"name": name}})
        put("podtemplates", pod_template())
        put("capacitypools", self.scene.pool())
        put("capacitypolicies", {"metadata": {"name": "default"}, "spec": self.scene.policy()})
        parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": "default"}
        put(
            "admissionchecks",
            {"metadata": {"name": CHECK}, "spec": {"controllerName": "corral.dev/capacity", "parameters": parameters}},
        )
        for number in range(self.scene.adopted):
            put("nodes", adopted(f"n{number}"))
        neighbours.settle_in(self.objects)
        if self.scene.on_demand:
            neighbours.machine(self.cloud)
        for fault in self.scene.spoilt:
            self.cloud.spoil(**fault)
        self.judge.begin()

    def _tick(self) -> None:
        self.cloud.step()
        self.jobs.step()
        for gang in self.gangs:
            gang.step(self.at)
        while self._open and self._open[0][0] <= self.at:
            self._open.pop(0)[1](self)
        self.judge.look()

    def _quiet(self) -> bool:
        over = not self._open and all(gang.state in OVER for gang in self.gangs)
        still = not any(process.elsewhere for process in self._running)
        return over and still and not self.judge.left_over()

    async def _serve(self) -> None:
        """One process after the other, each until a fault kills it."""
        while True:
            process = self.process()
            process.acting = self.judge.acting
            self._running.append(process)
            self.processes += 1
            life = asyncio.ensure_future(self._live(process))
            death = asyncio.ensure_future(process.dead.wait())
            try:
                await asyncio.wait((life, death), return_when=asyncio.FIRST_COMPLETED)
                if life.done() and not process.dead.is_set():
                    self._ended(life.exception())
            finally:
                process.dead.set()
                life.cancel()
                death.cancel()
                await asyncio.gather(life, death, return_exceptions=True)
            await asyncio.sleep(RESTART)

    def process(self) -> Process:
        return Process(self.script)

    def _ended(self, error: BaseException | None) -> None:
        """A leader that can't renew its lease must end, and a process that can't learn whose it is; nothing else may."""
        lost = error is not None and all(isinstance(each, LeadershipLost) for each in causes(error))
        ends = (" leases",) if lost else ("get namespaces",)
        if not any(each.call.endswith(ends) for each in self.script.struck):
            self.judge.say(f"the process ended by itself: {error!r}")

    async def _live(self, process: Process) -> None:
        LIVING.set(process)
        client = Client(Wire(self.server, process))
        await main._cluster_uid(client)
        await main.build(self.settings, client, self.cloud.installation, OneCloud(self.cloud, process))._run_parts()


def adopted(name: str) -> dict[str, object]:
    labels = {"team": "train", "topology.kubernetes.io/zone": "east", "node.kubernetes.io/instance-type": "h100"}
    room = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastTransitionTime": "2026-09-01T09:00:00Z",
    }
    taint = {"key": "kept", "value": "yes", "effect": "PreferNoSchedule", "timeAdded": "2026-09-01T09:00:00Z"}
    return {
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}, "annotations": {"kept": "yes"}},
        "spec": {"providerID": f"own://{name}", "taints": [taint]},
        "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
    }


def play(scene: str, faults: Iterable[Fault] = (), script: Script | None = None) -> Outcome:
    """One run, the same each time for the same arguments. `script`: instead of `faults`."""
    return staged(scene, script or Script(faults))[0]


def staged(scene: str, script: Script) -> tuple[Outcome, Stage]:
    """One run, and the stage as it was left."""
    random.seed(0)

    async def go() -> tuple[Outcome, Stage]:
        stage = Stage(SCENES[scene], script)
        # The loop's time is the wall's, and one process plays thousands of starts: its garbage is its own business.
        with (
            mock.patch.object(main, "_now", stage.now),
            mock.patch.object(manager, "_settle_memory"),
            mock.patch.object(lease, "Guard", Guard),
            listening(stage.judge.say),
        ):
            try:
                await stage.play()
            except Exception as error:
                stage.judge.say(f"the run broke off: {error!r}")
        told = stage.judge.broken, dict(script.counts), script.struck, stage.at
        return Outcome(scene, script.faults, *told), stage

    return loop.run(go)
