"""The end of a run: everything heals, gangs finish, users leave, and what is left over then is named."""

import time
from collections.abc import Callable, Sequence

from e2e.api import Api
from e2e.chaos.house import House
from e2e.chaos.play import Party, settled
from e2e.chaos.run import GONE, Run
from e2e.chaos.scenery import CHECK
from kube import resources

FINISH, LEAVE = 420.0, 300.0
"""Seconds for the last gangs, and for all to be given back; on a busy machine, else a fourth is enough."""


def let_finish(run: Run, parties: Sequence[Party]) -> None:
    """Returns when all that could run have finished, or time is up."""

    def waiting() -> list[str]:
        return [name for party in parties for name in settled(party.ledger, party.gangs)]

    if late := _wait(waiting, FINISH):
        run.tell(f"not finished in time: {', '.join(late)}")


def left_over(house: House, parties: Sequence[Party], theirs: Sequence[str]) -> list[str]:
    """What is still there though nobody needs it, in words, after the time that giving back may take."""
    apis = [Api(party.kubeconfig) for party in parties]

    def remains() -> list[str]:
        try:
            return [*_machines(house, theirs), *(words for api in apis for words in _objects(api))]
        except (*GONE, LookupError) as error:
            return [f"not to be seen: {error}"]

    return _wait(remains, LEAVE)


def missing(house: House, theirs: Sequence[str]) -> list[str]:
    """Machines of others that are not there any more."""
    there = house.cloud.machines()
    return [f"{each} of another installation is {there[each]['state']}" for each in theirs if there[each]["state"] != "running"]


def _wait(look: Callable[[], list[str]], seconds: float) -> list[str]:
    """The last answer of a look that should be empty: asked every second until it is, or time is up."""
    end_at = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < end_at:
        time.sleep(1.0)
    return found


def _machines(house: House, theirs: Sequence[str]) -> list[str]:
    return [
        f"machine {each['id']} of booking {each['tags'].get('corral.dev/booking')}: {each['state']}"
        for each in house.cloud.machines().values()
        if each["id"] not in theirs and each["state"] != "terminated"
    ]


def _objects(api: Api) -> list[str]:
    found = []
    for kind in (resources.BOOKINGS, resources.PROVISIONING_REQUESTS, resources.POD_TEMPLATES, resources.WORKLOADS):
        items = [each for each in api.get(kind)["items"] if each["metadata"]["name"] != CHECK]
        found += [f"{kind.kind} {each['metadata']['name']} {each.get('status', {}).get('phase', '')}" for each in items]
    for node in api.get(resources.NODES)["items"]:
        labels = node["metadata"]["labels"]
        marks = [key for key in labels if "booking.corral.dev" in key or key in ("corral.dev/request", "corral.dev/pool")]
        if marks:
            found.append(f"Node {node['metadata']['name']} with {marks}")
    return found
