"""Does what a strike says, and undoes it when its time is over."""

import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from e2e.chaos import scenery
from e2e.chaos.house import SERVICES, House
from e2e.chaos.line import Line, State
from e2e.chaos.lives import Ledger
from e2e.chaos.run import GONE, Run, Steady
from e2e.chaos.schedule import WORLD, Strike
from e2e.controlplane.cluster import ControlPlaneError
from e2e.served import StartError
from kube import resources

STEP = 60.0
"""Seconds by which a clock is set forward or back."""
_AFTER_RESTORE = ("kube-controller-manager", "kube-scheduler", "kwok", "kueue")
"""Restarted after a restore, as Kubernetes' documentation on etcd asks for; our services are not."""


class Strikes(threading.Thread):
    """Strikes one after the other. `struck` counts them by kind; `failed` says which could not be made."""

    def __init__(self, name: str, run: Run, house: House, ledger: Ledger, strikes: Sequence[Strike]) -> None:
        super().__init__(name=name, daemon=True)
        self._run, self._house, self._ledger, self._strikes = run, house, ledger, strikes
        self.struck: list[Strike] = []
        self.failed: list[str] = []

    def run(self) -> None:
        for strike in self._strikes:
            if not self._run.until(strike.at):
                return
            try:
                self._strike(strike)
            except (ControlPlaneError, StartError, *GONE) as error:
                self.failed.append(f"{strike.kind}: {error}")
                self._run.tell(self.failed[-1])

    def _strike(self, strike: Strike) -> None:
        with self._kinds()[strike.kind](strike) as whom:
            self.struck.append(strike)
            self._run.tell(f"{strike.kind} {whom} for {strike.seconds:.0f} s")
            self._run.over.wait(strike.seconds)

    def _kinds(self) -> Mapping[str, Callable[[Strike], Any]]:
        states: Mapping[str, State] = {"cut": "cut", "stall": "stalled", "slow": "slow"}
        lines = {f"{word}-{end}": self._line(state, end) for word, state in states.items() for end in ("api", "cloud")}
        own: dict[str, Callable[[Strike], Any]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "clock": self._clock,
            "etcd": lambda _: self._restarted("etcd"),
            "apiserver": lambda _: self._restarted("kube-apiserver"),
            "cloud": lambda _: self._cloud_restarted(),
            "restore": self._restore,
            "daemon-set": lambda _: self._daemon_set(),
            "health-check": lambda _: self._health_check(),
        }
        return {**dict.fromkeys(WORLD, self._in_cloud), **lines, **own}

    # --- processes and connections ----------------------------------------------------------------------------------------

    def _whom(self, strike: Strike) -> str:
        """A leader three times out of four, its follower else."""
        service = SERVICES[int(strike.luck * 100) % 2]
        leader = self._house.leader(service)
        follower = service if leader != service else f"{service}-2"
        return leader if strike.luck < 0.75 else follower

    @contextmanager
    def _kill(self, strike: Strike) -> Iterator[str]:
        name = self._whom(strike)
        self._house.programs[name].signal(signal.SIGKILL)
        yield name

    @contextmanager
    def _freeze(self, strike: Strike) -> Iterator[str]:
        name = self._whom(strike)
        pid = self._house.programs[name].pid
        self._house.programs[name].signal(signal.SIGSTOP)
        yield name
        if self._house.programs[name].pid == pid:
            self._house.programs[name].signal(signal.SIGCONT)

    @contextmanager
    def _clock(self, strike: Strike) -> Iterator[str]:
        name, step = self._whom(strike), STEP if int(strike.luck * 1000) % 2 else -STEP
        self._house.set_clock(name, step)
        yield f"{name} {step:+.0f} s"
        self._house.set_clock(name, 0)

    def _line(self, state: State, end: str) -> Callable[[Strike], Any]:
        @contextmanager
        def turned(strike: Strike) -> Iterator[str]:
            name = self._whom(strike)
            line: Line = self._house.cloud_line if end == "cloud" else self._house.api_lines[name]
            self._house.lines.set(line, state)
            yield "" if end == "cloud" else name
            self._house.lines.set(line, "open")

        return turned

    @contextmanager
    def _restarted(self, program: str) -> Iterator[str]:
        self._house.plane.kill(program)
        self._bring_back(program)
        yield ""

    def _bring_back(self, program: str) -> None:
        """As a kubelet does: a killed program's last threads may still hold its port when the next one begins."""
        for _ in range(4):
            try:
                self._house.plane.restart(program)
            except ControlPlaneError as error:
                self._run.tell(f"{program} is started once more: {str(error)[-120:]}")
            else:
                return
        raise ControlPlaneError(f"{program} doesn't come back")

    @contextmanager
    def _cloud_restarted(self) -> Iterator[str]:
        with self._house.cloud_up:
            self._house.cloud.restart()
        yield ""

    @contextmanager
    def _restore(self, strike: Strike) -> Iterator[str]:
        """A snapshot is taken with etcd stopped; `seconds` later everything is as it was then, but for machines and services."""
        plane = self._house.plane
        data = plane.layout.directory / "etcd"
        kept = data.with_name("etcd.snapshot")
        old = self._run.now
        plane.halt("etcd")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(data, kept)
        then = self._ledger.copied(old)
        self._bring_back("etcd")
        yield "after a snapshot"
        for name in (*_AFTER_RESTORE, "kube-apiserver", "etcd"):
            plane.halt(name)
        shutil.rmtree(data)
        kept.rename(data)
        restore = self._ledger.restored(old, then)
        for name in ("etcd", "kube-apiserver"):
            self._bring_back(name)
        self._forget_machines()
        self._end_spells()
        for name in _AFTER_RESTORE:
            self._bring_back(name)
        restore.healed = self._run.now
        self._run.tell(f"restored to {old:.0f} s")

    def _forget_machines(self) -> None:
        """The cloud's node controller would delete Nodes that came back though their machines are gone; none runs here."""
        api = Steady(self._run, self._house.plane.kubeconfig)
        gone = {each["id"] for each in self._house.cloud.machines().values() if each["state"] == "terminated"}
        for node in api.items(resources.NODES):
            if node["metadata"]["name"] in gone:
                api.delete(resources.NODES, "", node["metadata"]["name"])

    def _end_spells(self) -> None:
        """What a strike had put into the cluster when the snapshot was taken would stay for ever."""
        api = Steady(self._run, self._house.plane.kubeconfig)
        api.delete(resources.DAEMON_SETS, "kube-system", scenery.greedy()["metadata"]["name"])
        api.apply(scenery.burn_in())

    # --- the world --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _daemon_set(self) -> Iterator[str]:
        api, made = Steady(self._run, self._house.plane.kubeconfig), scenery.greedy()
        api.apply(made)
        yield "greedy"
        api.delete(resources.DAEMON_SETS, "kube-system", made["metadata"]["name"])

    @contextmanager
    def _health_check(self) -> Iterator[str]:
        """New nodes fail theirs meanwhile."""
        api = Steady(self._run, self._house.plane.kubeconfig)
        api.apply(scenery.burn_in(**{"e2e.corral.dev/exit": "fail"}))
        yield "fails"
        api.apply(scenery.burn_in())

    @contextmanager
    def _in_cloud(self, strike: Strike) -> Iterator[str]:
        call = ("launch", "terminate", "instances", "inventory")[int(strike.luck * 4)]
        when = "before" if int(strike.luck * 100) % 2 else "after"
        kinds: dict[str, dict[str, Any]] = {
            "stock-out": {"kind": "stock-out"},
            "reservation-out": {"kind": "stock-out", "reservation": scenery.RESERVATION},
            "late": {"kind": "late", "delay": "8s"},
            "gpu-missing": {"kind": "fewer-devices", "devices": {scenery.GPU: 7}, "times": 1},
            "never-joins": {"kind": "never-joins", "times": 1},
            "error": {
                "kind": "error",
                "call": call,
                "when": when,
                "code": ("InternalError", "RequestLimitExceeded")[strike.luck > 0.5],
            },
            "lost-reply": {"kind": "lost-reply", "call": "launch" if strike.luck < 0.7 else "terminate"},
            "timeout": {"kind": "timeout", "call": "launch", "when": when, "delay": "5s"},
        }
        with self._house.cloud_up:
            self._house.cloud.fault(**kinds[strike.kind], **{"for": f"{strike.seconds:.0f}s"})
        yield " ".join(map(str, kinds[strike.kind].values()))


def strangers(house: House) -> list[str]:
    """Machines of others in our account, one with the name of our installation in another cluster; their ids."""
    tags = {"corral.dev/installation": "another", "corral.dev/pool": scenery.POOL, "corral.dev/booking": "theirs"}
    same = {**tags, "corral.dev/installation": house.uid, "corral.dev/cluster": "another"}
    launched = [
        house.cloud.launch(f"theirs-{number}", shape=scenery.SHAPE, zone="west", tags=each)
        for number, each in enumerate((tags, same))
    ]
    return [each["id"] for [each] in launched]
