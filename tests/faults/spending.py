"""Nothing is bought twice, unwritten, for nobody or out of place: what must hold whenever the cloud is asked for machines."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from provisioner.clouds.base import Order
from provisioner.state import TAG_BOOKING, TAG_INSTALLATION, TAG_POOL, TAG_PURCHASE
from provisioner.steps import BEFORE
from tests.faults.objects import Body

if TYPE_CHECKING:
    from tests.faults.stage import Stage

IN_TIME, MISLED = 5.0, 90.0
"""Seconds after which the provisioner must know that quota is gone or a pool was paused; the second when a fault keeps a store
from knowing."""


class Spending:
    """`say` takes what didn't hold."""

    def __init__(self, stage: "Stage", say: Callable[[str], None]) -> None:
        self._stage, self._say = stage, say
        self._orders: dict[str, Order] = {}
        self._paused: float | None = None

    def booked(self, booking: Body) -> None:
        """Nobody spends without quota: at the beginning of each attempt there is a workload that holds some."""
        name, request = booking["metadata"]["name"], booking["spec"]["request"]["name"]
        gang = next((each for each in self._stage.gangs if request.startswith(f"{each.order.name}-")), None)
        if gang is None:
            self._say(f"booking {name} is made for request {request}, which has no right to it")
        elif gang.quota_lost is not None and self._late(gang.quota_lost) and not self._ran_on("api create bookings"):
            self._say(f"booking {name} is made for {gang.order.name}, which has no quota")

    def pool_changed(self, pool: Body) -> None:
        if pool["spec"]["mode"] != "Paused":
            self._paused = None
        elif self._paused is None:
            self._paused = self._stage.at

    def _left(self, name: str) -> None:
        """Where the policy says Leave nothing takes a lost machine's place under a running gang."""
        gang = next((each for each in self._stage.gangs if each.booking == name), None)
        leaves = self._stage.scene.on_loss == "Leave"
        if gang and gang.state == "running" and leaves and self._late(gang.began):
            self._say(f"a launch for booking {name} was made under {gang.order.name}, whose policy leaves what it lost")

    def _late(self, since: float) -> bool:
        blind = any(each.call.startswith(("api watch", "api list", "api get")) for each in self._stage.script.struck)
        return self._stage.at - since > (MISLED if blind else IN_TIME)

    def _ran_on(self, call: str) -> bool:
        """Whether what is done now was asked for long ago. Nothing may be bought for it, which `launching` sees."""
        return any(each.call == call and each.kind.startswith("runs-on") for each in self._stage.script.struck)

    def launching(self, order: Order) -> None:
        """Written down before it is done, for a booking that goes on, and told in its tags as it was planned."""
        name = order.tags[TAG_BOOKING]
        booking = self._stage.objects.get("bookings", name) or {}
        status = booking.get("status", {})
        if order.token not in [each["token"] for each in status.get("launches", ())]:
            self._say(f"a launch for booking {name} was made before it was written down")
        elif not buying(booking):
            self._say(f"a launch for booking {name} was made when it was {status['phase']}")
        self._left(name)
        if self._orders.setdefault(order.token, order) != order:
            self._say(f"token {order.token} of booking {name} was used for two orders that differ")
        if self._paused is not None and self._late(self._paused):
            self._say(f"a launch for booking {name} was made from a paused pool")
        self._tagged(order, booking)

    def _tagged(self, order: Order, booking: Body) -> None:
        planned = {each["name"]: each["pool"] for each in booking.get("spec", {}).get("purchases", ())}
        mine = order.tags[TAG_INSTALLATION] == self._stage.cloud.installation
        if not mine or (planned and planned.get(order.tags[TAG_PURCHASE]) != order.tags[TAG_POOL]):
            self._say(f"a launch for booking {order.tags[TAG_BOOKING]} bears tags {order.tags}")

    def launched(self, order: Order) -> None:
        """Never more machines than were planned, bad ones apart, and for one attempt of a request at a time."""
        name = order.tags[TAG_BOOKING]
        booking = self._stage.objects.get("bookings", name)
        if booking is None:
            return
        self._limited()
        all_ = self._stage.objects.bodies("bookings")
        twins = [each for each in all_ if buying(each) and _asked_by(each) == _asked_by(booking)]
        if len(twins) > 1 and buying(booking):
            self._say(f"bookings {' and '.join(each['metadata']['name'] for each in twins)} buy for one request at once")
        bought = {each["name"]: each["count"] for each in booking["spec"].get("purchases", ())}
        for purchase, count in self._alive(booking).items():
            if count > bought.get(purchase, 0):
                self._say(f"booking {name} bought {count} machines of {purchase} where {bought.get(purchase, 0)} were planned")

    def _limited(self) -> None:
        limit = self._stage.scene.limit
        extra = [each.id for each in self._stage.cloud.alive() if each.order.reservation is None]
        if limit is not None and len(extra) > limit and not self._ran_on("cloud launch"):
            self._say(f"{len(extra)} on-demand machines run where the pool allows {limit}")

    def _alive(self, booking: Body) -> Counter[str]:
        """Sound machines by purchase."""
        lost = ("Bad", "Gone", "Terminating")
        bad = {each["id"] for each in booking.get("status", {}).get("instances", ()) if each["state"] in lost}
        mine = [each for each in self._stage.cloud.alive() if each.order.tags[TAG_BOOKING] == booking["metadata"]["name"]]
        return Counter(each.order.tags[TAG_PURCHASE] for each in mine if each.id not in bad)


def buying(booking: Body) -> bool:
    return booking.get("status", {}).get("phase", "Marking") in (*BEFORE, "Provisioned")


def _asked_by(booking: Body) -> str:
    return str(booking["spec"]["request"]["uid"])
