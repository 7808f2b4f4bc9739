"""One run: the whole provisioner in virtual time between the twins, struck by a script of faults, until all is quiet."""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from unittest import mock

from provisioner import main
from provisioner.clouds.simulated.world import World
from provisioner.settings import ProvisionerSettings
from runtime import manager
from runtime.client import Client
from tests.faults import loop
from tests.faults.cloud import CloudTwin
from tests.faults.gangs import CHECK, OVER, TEAM, Gang
from tests.faults.judge import Judge
from tests.faults.kinds import Fault, Script
from tests.faults.listener import listening
from tests.faults.objects import Body, Objects
from tests.faults.scenes import SCENES, Scene
from tests.faults.server import Server
from tests.faults.wire import OneCloud, Process, Wire

START = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
RESTART = 3.0
TICK = 1.0
LONGEST = 1500.0
"""Seconds that a run may take until all is quiet."""
INSTALLATION = "here"
SETTINGS = ProvisionerSettings.model_validate(
    {
        "leaderElection": {"leaderElect": False},
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
    """`lost`: a machine died on its own in this run. `hidden`: Nodes that are away for a while. `world`: CloudTwin's."""

    def __init__(
        self, scene: Scene, faults: Iterable[Fault], installation: str = INSTALLATION, world: World | None = None
    ) -> None:
        self.settings = SETTINGS.model_copy(update={"installation": installation})
        self.scene, self.script, self.lost = scene, Script(faults), False
        self.objects = Objects(self.now)
        self.server = Server(self.objects)
        self.cloud = CloudTwin(scene.config(), self.objects, self.now, installation, world)
        self.gangs = [Gang(order, self.objects, self.now) for order in scene.gangs]
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
            serving = group.create_task(self._serve())
            while self.at < LONGEST and not self._quiet():
                await asyncio.sleep(TICK)
                self._tick()
            serving.cancel()
        self.judge.at_the_end()

    def _furnish(self) -> None:
        put = self.objects.put
        for name in (TEAM, "kube-system"):
            put("namespaces", {"metadata": {"name": name}})
        put("capacitypools", self.scene.pool())
        timeouts = {"queued": "10m", "provision": "120s", "booking": "60s"}
        put("capacitypolicies", {"metadata": {"name": "default"}, "spec": {"timeouts": timeouts}})
        parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": "default"}
        put(
            "admissionchecks",
            {"metadata": {"name": CHECK}, "spec": {"controllerName": "corral.dev/capacity", "parameters": parameters}},
        )
        for number in range(self.scene.adopted):
            put("nodes", adopted(f"n{number}"))
        for fault in self.scene.spoilt:
            self.cloud.spoil(**fault)
        self.judge.begin()

    def _tick(self) -> None:
        self.cloud.step()
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
            self._running.append(process)
            self.processes += 1
            life = asyncio.ensure_future(self._live(process))
            death = asyncio.ensure_future(process.dead.wait())
            try:
                await asyncio.wait((life, death), return_when=asyncio.FIRST_COMPLETED)
                if life.done() and not process.dead.is_set():
                    self.judge.broken.append(f"the process ended by itself: {life.exception()!r}")
            finally:
                process.dead.set()
                life.cancel()
                death.cancel()
                await asyncio.gather(life, death, return_exceptions=True)
            await asyncio.sleep(RESTART)

    def process(self) -> Process:
        return Process(self.script)

    async def _live(self, process: Process) -> None:
        client = Client(Wire(self.server, process))
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


def play(scene: str, faults: Iterable[Fault] = (), seed: int = 0) -> Outcome:
    """One run, the same each time for the same arguments."""
    faults = tuple(faults)
    random.seed(seed)
    outcome = Outcome(scene, faults)

    async def go() -> None:
        stage = Stage(SCENES[scene], faults)
        # The loop's time is the wall's, and one process plays thousands of starts: its garbage is its own business.
        with mock.patch.object(main, "_now", stage.now), mock.patch.object(manager, "_settle_memory"), listening(stage.judge.say):
            try:
                await stage.play()
            except Exception as error:
                stage.judge.say(f"the run broke off: {error!r}")
            finally:
                outcome.broken = stage.judge.broken
                outcome.counts, outcome.struck, outcome.seconds = dict(stage.script.counts), stage.script.struck, stage.at

    loop.run(go)
    return outcome
