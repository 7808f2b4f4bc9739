"""The operator's part: answers the alarm of too many orphans as its words ask for."""

import threading
from collections.abc import Iterator

from e2e.chaos.house import House
from e2e.chaos.run import GONE, Run, Steady
from e2e.chaos.scenery import GANG, POOL
from e2e.scenario import is_true
from kube import resources

PERIOD, PATIENCE = 5.0, 40.0
"""Seconds between two looks at the pool, and for which the alarm must stand before it is answered."""


class Operator(threading.Thread):
    """Ends by hand the machines that the alarm is about, until the run is over."""

    def __init__(self, run: Run, house: House) -> None:
        super().__init__(name="operator", daemon=True)
        self._run, self._house, self._api = run, house, Steady(run, house.plane.kubeconfig)

    def run(self) -> None:
        since = None
        while not self._run.over.wait(PERIOD):
            try:
                if not self._alarmed():
                    since = None
                elif since is None:
                    since = self._run.now
                elif self._run.now - since > PATIENCE:
                    self._answer()
                    since = None
            except (*GONE, LookupError):
                continue

    def _alarmed(self) -> bool:
        pools = self._api.look(resources.CAPACITY_POOLS)
        return any(is_true(each, "TooManyOrphans") for each in pools if each["metadata"]["name"] == POOL)

    def _answer(self) -> None:
        orphans = sorted(self._orphans())
        self._run.tell(f"the operator answers the alarm TooManyOrphans: ends {', '.join(orphans)}")
        self._house.cloud.terminate(*orphans)

    def _orphans(self) -> Iterator[str]:
        """Running machines of this installation and cluster that no booking names, and under no pod of a gang."""
        claimed, names = set[str](), set[str]()
        for booking in self._api.look(resources.BOOKINGS):
            names.add(booking["metadata"]["name"])
            claimed |= {each["id"] for each in booking.get("status", {}).get("instances", [])}
            claimed |= {each["name"] for each in booking["spec"].get("nodes", [])}
        claimed |= {each["spec"].get("nodeName", "") for each in self._api.look(resources.PODS, labelSelector=GANG)}
        for machine in self._house.cloud.machines().values():
            ours = machine["tags"].get("corral.dev/cluster") == self._house.uid and machine["state"] == "running"
            if ours and machine["id"] not in claimed and machine["tags"].get("corral.dev/booking") not in names:
                yield machine["id"]
