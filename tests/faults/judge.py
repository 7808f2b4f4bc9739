"""What must always hold (design.md), looked at while a run goes on and when all is quiet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from provisioner.clouds.simulated.records import Machine
from provisioner.state import TAG_BOOKING
from tests.faults.cloud import running
from tests.faults.gangs import OVER, TEAM, Gang, _fits
from tests.faults.jobs import HOME
from tests.faults.neighbours import FOREIGN
from tests.faults.objects import Body, Change
from tests.faults.spending import Spending, buying
from tests.faults.wire import Process

if TYPE_CHECKING:
    from tests.faults.stage import Stage

BOOKED = "corral.dev/booked"
SUFFIX = ".booking.corral.dev/"
KNOWN = {"Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked"}


class Judge:
    """`broken` gathers what didn't hold, each once."""

    def __init__(self, stage: "Stage") -> None:
        self.stage, self.broken = stage, list[str]()
        self.spending = Spending(stage, self.say)
        self._before: dict[str, Body] = {}
        self._foreign: list[Body | None] = []

    def begin(self) -> None:
        self._before = {each["metadata"]["name"]: each for each in self.stage.objects.bodies("nodes")}
        self.stage.objects.told.append(self._changed)
        self._foreign = [self.stage.objects.get(*each) for each in FOREIGN]
        self.stage.cloud.before_launch = self.spending.launching
        self.stage.cloud.after_launch = self.spending.launched
        self.stage.cloud.before_end = self._ending
        self.stage.server.before_evict = self._evicting

    def say(self, words: str) -> None:
        if words not in self.broken:
            self.broken.append(words)

    # --- while it goes on ---

    def _changed(self, change: Change) -> None:
        if change.new is None:
            return
        match change.plural:
            case "provisioningrequests":
                self._told(change.old.body if change.old else {}, change.new.body)
            case "bookings" if change.old is None:
                self.spending.booked(change.new.body)
            case "capacitypools":
                self.spending.pool_changed(change.new.body)

    def acting(self, process: Process, call: str) -> None:
        """No leader acts after its time: when it makes a call the lease is its own."""
        lease = next(self.stage.objects.bodies("leases"), None)
        if self.stage.scene.replicas > 1 and (lease is None or lease["spec"]["holderIdentity"] != process.identity):
            self.say(f"{call} is called by a process that doesn't lead")

    def _told(self, old: Body, new: Body) -> None:
        before, after = conditions(old), conditions(new)
        name = new["metadata"]["name"]
        if after.get("Provisioned") == "True" and after.get("Failed") == "True":
            self.say(f"request {name} is Provisioned and Failed")
        if before.get("Provisioned") == "True" and after.get("Provisioned") != "True":
            self.say(f"request {name} was Provisioned and is not any more")
        for gone in ("Failed", "BookingExpired", "CapacityRevoked"):
            if before.get(gone) == "True" and after.get(gone) != "True":
                self.say(f"request {name} took back {gone}")
        for words in moved(old, new):
            self.say(f"request {name}: {words}")
        gang = next((each for each in self.stage.gangs if each.request == name), None)
        if gang and after.get("Provisioned") == "True" and before.get("Provisioned") != "True":
            self._promised(gang, new)

    def _promised(self, gang: Gang, request: Body) -> None:
        """All or nothing: at the moment of the promise each machine is there, sound, marked and its own."""
        booking = request["status"]["provisioningClassDetails"]["Booking"]
        held = [node for node in self.stage.objects.bodies("nodes") if booking in bookings_on(node)]
        sound = [node for node in held if _fits(node) and tainted(node) and bookings_on(node) == {booking}]
        expired = conditions(request).get("BookingExpired") == "True" or conditions(request).get("CapacityRevoked") == "True"
        if len(sound) < gang.order.count and not expired and not self.stage.lost:
            self.say(f"request {request['metadata']['name']} was promised {gang.order.count} nodes and has {len(sound)}")

    def _evicting(self, pod: Body) -> None:
        """Nobody is asked to leave but where the machine ends."""
        node = pod["spec"].get("nodeName", "")
        if node not in self.stage.lost:
            self.say(f"pod {pod['metadata']['name']} is evicted from {node}, which nothing takes away")

    def _ending(self, ids: Sequence[str]) -> None:
        """A running job is sacred, and so is what belongs to others."""
        if taken := {*ids} - {each.id for each in self.stage.cloud.machines()}:
            self.say(f"{self.stage.cloud.installation} ends machines of others: {sorted(taken)}")
        for id_ in ids:
            machine = next((each for each in self.stage.cloud.alive() if each.id == id_), None)
            if machine is None:
                continue
            if any(pod["spec"].get("nodeName") == id_ for pod in self.stage.objects.bodies("pods") if not _checks(pod)):
                self.say(f"machine {id_} is ended under running pods")
            self._counted_on(machine)
            holder = next((g for g in self.stage.gangs if g.holds and g.booking == machine.order.tags[TAG_BOOKING]), None)
            if holder and _sound(self.stage.objects.get("nodes", id_)):
                self.say(f"machine {id_} is taken from {holder.order.name}, which is {holder.state}")

    def _counted_on(self, machine: Machine) -> None:
        """What a live booking has not written off is ended by nobody."""
        booking = self.stage.objects.get("bookings", machine.order.tags[TAG_BOOKING]) or {}
        status = booking.get("status", {})
        states = {each["id"]: each["state"] for each in status.get("instances", ())}
        if booking and buying(booking) and states.get(machine.id, "Launched") in ("Launched", "Joined", "Ready"):
            self.say(f"machine {machine.id} is ended though booking {machine.order.tags[TAG_BOOKING]} counts on it")

    def look(self) -> None:
        """Once a second."""
        for gang in self.stage.gangs:
            for problem in gang.problems:
                if not self.stage.lost:
                    self.say(problem)
            if gang.state == "running":
                self._kept(gang)
        for node in self.stage.objects.bodies("nodes"):
            if len(bookings_on(node)) > 1:
                self.say(f"node {node['metadata']['name']} belongs to {', '.join(sorted(bookings_on(node)))}")

    def _kept(self, gang: Gang) -> None:
        """Bookings hold: its pods are there, on nodes that keep all others off."""
        for pod in gang.pods():
            node = self.stage.objects.get("nodes", pod["spec"]["nodeName"])
            if pod["spec"]["nodeName"] in self.stage.lost or (node is None and self.stage.hidden):
                continue  # it ends anyway, or only blinks
            if node is None or not tainted(node) or gang.key() not in node["metadata"].get("labels", {}):
                self.say(f"node {pod['spec']['nodeName']} of running {gang.order.name} is no longer held")

    # --- at the end ---

    def left_over(self) -> list[str]:
        """What is still held or marked though every gang is over."""
        objects, cloud, now = self.stage.objects, self.stage.cloud, self.stage.now()
        found = [f"booking {each['metadata']['name']} is left" for each in objects.bodies("bookings")]
        nodes = {each["metadata"]["name"]: each for each in objects.bodies("nodes")}
        for machine in cloud.machines():
            if running(machine, now):
                found += self._remains(machine, nodes.get(machine.id))
        for pool in objects.bodies("capacitypools"):
            counts = {each["id"]: each["booked"] for each in pool.get("status", {}).get("reservations", ())}
            found += [f"reservation {name} is told to be booked {count} times" for name, count in counts.items() if count]
        for name, before in self._before.items():
            there = nodes.get(name)
            if _lasting(there) != _lasting(before) if there else name not in self.stage.lost:
                found.append(f"adopted node {name} isn't as it was")
        return found

    def _remains(self, machine: Machine, node: Body | None) -> list[str]:
        """A machine may stay only if it is prepaid, and the pool keeps such."""
        if machine.order.reservation is None or not self.stage.scene.never:
            return [f"{machine.order.capacity_type} machine {machine.id} is left running"]
        if node is None:
            return [f"machine {machine.id} runs without a node"]
        quarantined = "corral.dev/quarantined" in node["metadata"].get("labels", {})
        if bookings_on(node) or (tainted(node) and not quarantined):
            return [f"node {machine.id} bears marks that nobody claims"]
        return []

    def at_the_end(self) -> None:
        for words in self.left_over():
            self.say(words)
        for place, before in zip(FOREIGN, self._foreign, strict=True):
            if self.stage.objects.get(*place) != before:
                self.say(f"{' '.join(place[:2])} belongs to others and was changed")
        for gang in self.stage.gangs:
            wanted = self.stage.scene.ends.get(gang.order.name, "done")
            if gang.state != wanted:
                self.say(f"{gang.order.name} is {gang.state} and was to be {wanted}")
            if gang.state not in OVER:
                said = self.stage.objects.get("provisioningrequests", gang.request, TEAM) or {}
                self.say(f"{gang.order.name} waits for ever: {conditions(said)}")


def conditions(request: Body) -> dict[str, str]:
    return {each["type"]: each["status"] for each in request.get("status", {}).get("conditions", ())}


def moved(old: Body, new: Body) -> list[str]:
    """What is wrong with how conditions went on: types that nobody knows, a promise never accepted, times that moved alone."""
    before = {each["type"]: each for each in old.get("status", {}).get("conditions", ())}
    after = {each["type"]: each for each in new.get("status", {}).get("conditions", ())}
    found = [f"condition {each} is not one of the API's" for each in after.keys() - KNOWN]
    if "Provisioned" in after and after["Provisioned"]["status"] == "True" and conditions(new).get("Accepted") != "True":
        found.append("it is Provisioned and was never Accepted")
    for name, each in after.items():
        told = before.get(name)
        same = told is not None and told["status"] == each["status"]
        if told and same and told["lastTransitionTime"] != each["lastTransitionTime"]:
            found.append(f"{name} has another transition time and the same status")
        if not each["reason"] or each.get("observedGeneration") != new["metadata"]["generation"]:
            found.append(f"{name} names no reason or not the generation that it is about")
    return found


def _checks(pod: Body) -> bool:
    """Whether it is a health check's."""
    return bool(pod["metadata"].get("namespace") == HOME)


def bookings_on(node: Body) -> set[str]:
    return {key.partition(SUFFIX)[0] for key in node["metadata"].get("labels", {}) if SUFFIX in key}


def tainted(node: Body) -> bool:
    return any(each["key"] == BOOKED for each in node["spec"].get("taints", ()))


def _sound(node: Body | None) -> bool:
    return node is not None and _fits(node)


def _lasting(node: Body) -> tuple[object, ...]:
    meta, spec = node["metadata"], node["spec"]
    return meta.get("labels", {}), meta.get("annotations", {}), spec.get("taints", []), spec.get("unschedulable", False)
