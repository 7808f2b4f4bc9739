"""Control plane, simulated cloud, and two replicas of each service, each on a line and with a clock of its own; and a second
installation on the same cloud account, with a control plane of its own.
"""

import functools
import json
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.api import Api
from e2e.chaos import scenery
from e2e.chaos.clocked import CLOCK
from e2e.chaos.line import Line, Lines
from e2e.controlplane.cluster import ControlPlane
from e2e.stack import ROOT, Program, Stack, StackError
from kube import resources

SERVICES = ("admission", "provisioner")
NEIGHBOUR = "neighbour"
"""Name of the second installation."""
_SETTINGS = {**Stack.extra["provisioner"], "retentionSeconds": 15}  # the end of a run waits for the last booking to go


class House(Stack):
    """`api_lines` and `clocks` are by program; the pool reaches its cloud over `cloud_line`. `cloud_up` is held while the cloud
    restarts.
    """

    module = "e2e.chaos.clocked"
    extra = {"provisioner": _SETTINGS}

    def __init__(self, plane: ControlPlane, neighbour: ControlPlane, directory: Path) -> None:
        super().__init__(plane, directory, scenery.cloud({NEIGHBOUR: str(neighbour.kubeconfig)}))
        self.lines = Lines()
        self.api_lines: dict[str, Line] = {}
        self.clocks: dict[str, Path] = {}
        self.cloud_line = self.lines.add(self.cloud.port)
        self.cloud_up = threading.Lock()
        self._stopping = threading.Event()
        self._keepers: list[threading.Thread] = []

    def start(self) -> None:
        """Everything is up, and the pool's objects are there."""
        self.cloud.start()
        _furnish(self, f"http://127.0.0.1:{self.cloud_line.port}")
        for service in SERVICES:
            for name in (service, f"{service}-2"):
                self._env = {CLOCK: str(self._clock(name))}
                self._add_service(service, name)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.start, self.programs.values()))
        self._keepers = [threading.Thread(target=self._keep, args=(each,), daemon=True) for each in self.programs.values()]
        for keeper in self._keepers:
            keeper.start()

    @functools.cached_property
    def uid(self) -> str:
        """Of the cluster, which is the installation's name as well."""
        api = Api(self.plane.kubeconfig)
        found: str = api.get(resources.NAMESPACES, "", "kube-system")["metadata"]["uid"]
        api.close()
        return found

    def stop(self) -> None:
        self._stopping.set()
        for keeper in self._keepers:
            keeper.join(150)
        super().stop()
        self.lines.close()

    def set_clock(self, name: str, seconds: float) -> None:
        """How far the program's wall clock is ahead."""
        draft = self.clocks[name].with_suffix(".new")
        draft.write_text(str(seconds))
        draft.rename(self.clocks[name])

    def leader(self, service: str) -> str:
        """The program that leads, or any one while none does."""
        names = (service, f"{service}-2")
        return next((name for name in names if self.leads(self.programs[name])), names[0])

    def _keep(self, program: Program) -> None:
        """As a kubelet does: what has ended is started again."""
        while not self._stopping.wait(1.0):
            if not program.alive:
                try:
                    program.start()
                except StackError:
                    time.sleep(1.0)

    def _clock(self, name: str) -> Path:
        self.clocks[name] = self.directory / f"{name}.clock"
        self.set_clock(name, 0)
        return self.clocks[name]

    def _kubeconfig(self, service: str, name: str) -> Path:
        own = super()._kubeconfig(service, name)
        config = json.loads(own.read_text())
        cluster = config["clusters"][0]["cluster"]
        port = urllib.parse.urlsplit(cluster["server"]).port
        assert port is not None
        self.api_lines[name] = self.lines.add(port)
        cluster["server"] = f"https://127.0.0.1:{self.api_lines[name].port}"
        path = own.with_name(f"{name}.line.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path


class Neighbour(Stack):
    """One replica of each service on the second control plane, which has the same pool, policies and queues. Nothing strikes it
    but what strikes the cloud.
    """

    extra = {"provisioner": {**_SETTINGS, "installation": NEIGHBOUR}}

    def __init__(self, plane: ControlPlane, house: House, directory: Path) -> None:
        super().__init__(plane, directory, {})
        self.cloud = house.cloud

    def start(self) -> None:
        _furnish(self, self.cloud.endpoint)
        for service in SERVICES:
            self._add_service(service)
            self.programs[service].start()

    def stop(self) -> None:
        for program in self.programs.values():
            program.stop()


def _furnish(stack: Stack, endpoint: str) -> None:
    """What is installed, and all objects that are there before the first gang. `endpoint` is the cloud's."""
    stack.install()
    stack.plane.kubectl("apply", "-f", str(ROOT / "e2e" / "demo" / "manifests" / "cluster.yaml"))
    api = Api(stack.plane.kubeconfig)
    for each in scenery.house(endpoint):
        api.apply(each)
    api.close()
