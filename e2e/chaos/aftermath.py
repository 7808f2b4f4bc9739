"""The end of a run: everything heals, gangs finish, users leave, and what is left over then is named."""

import time
from collections.abc import Callable, Sequence

from e2e.api import Api
from e2e.chaos.house import House
from e2e.chaos.judge import Ledger
from e2e.chaos.play import end, settled
from e2e.chaos.run import GONE, Run, Steady
from e2e.chaos.scenery import POOL
from e2e.chaos.schedule import Gang
from e2e.scenario import is_true
from kube import resources

FINISH, LEAVE, ALARM = 300.0, 240.0, 90.0
"""Seconds for the last gangs, for all to be given back, and until an operator answers the alarm of too many orphans."""


def let_finish(run: Run, ledger: Ledger, gangs: Sequence[Gang]) -> None:
    """Returns when all that could run have finished, or time is up."""
    _wait(lambda: settled(ledger, gangs), FINISH)
    if late := settled(ledger, gangs):
        run.tell(f"not finished in time: {', '.join(late)}")


def leave(api: Steady, gangs: Sequence[Gang]) -> None:
    """Users take their jobs away."""
    for gang in gangs:
        end(api, gang)


def left_over(run: Run, house: House, theirs: Sequence[str]) -> list[str]:
    """What is still there though nobody needs it, in words, after the time that giving back may take."""
    api = Api(house.plane.kubeconfig)
    began = time.monotonic()
    alarmed = False

    def remains() -> list[str]:
        nonlocal alarmed
        try:
            if not alarmed and time.monotonic() - began > ALARM and _alarm(api):
                alarmed = True
                _answer_alarm(run, house, theirs)
            return [*_machines(house, theirs), *_objects(api)]
        except (*GONE, LookupError) as error:
            return [f"not to be seen: {error}"]

    return _wait(remains, LEAVE)


def missing(house: House, theirs: Sequence[str]) -> list[str]:
    """Machines of the other installation that are not there any more."""
    there = house.cloud.machines()
    return [f"{each} of the other installation is {there[each]['state']}" for each in theirs if there[each]["state"] != "running"]


def _wait(look: Callable[[], list[str]], seconds: float) -> list[str]:
    """The last answer of a look that should be empty: asked every second until it is, or time is up."""
    end_at = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < end_at:
        time.sleep(1.0)
    return found


def _machines(house: House, theirs: Sequence[str]) -> list[str]:
    ours = [each for each in house.cloud.machines().values() if each["id"] not in theirs]
    return [
        f"machine {each['id']} of booking {each['tags'].get('corral.dev/booking')}: {each['state']}"
        for each in ours
        if each["state"] != "terminated"
    ]


def _objects(api: Api) -> list[str]:
    found = []
    for kind in (resources.BOOKINGS, resources.PROVISIONING_REQUESTS, resources.POD_TEMPLATES, resources.WORKLOADS):
        items = api.get(kind)["items"]
        found += [f"{kind.kind} {each['metadata']['name']} {each.get('status', {}).get('phase', '')}" for each in items]
    for node in api.get(resources.NODES)["items"]:
        labels = node["metadata"]["labels"]
        marks = [key for key in labels if "booking.corral.dev" in key or key in ("corral.dev/request", "corral.dev/pool")]
        if marks:
            found.append(f"Node {node['metadata']['name']} with {marks}")
    return found


def _alarm(api: Api) -> bool:
    return is_true(api.get(resources.CAPACITY_POOLS, "", POOL), "TooManyOrphans")


def _answer_alarm(run: Run, house: House, theirs: Sequence[str]) -> None:
    """An operator does what the alarm says: ends by hand what nobody needs."""
    run.tell("the operator answers the alarm TooManyOrphans")
    alive = [each["id"] for each in house.cloud.machines().values() if each["state"] == "running" and each["id"] not in theirs]
    house.cloud.terminate(*alive)
