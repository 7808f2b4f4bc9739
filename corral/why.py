"""`corral why TARGET`: reads the objects that tell why a workload waits, or what is waited for, and prints the answer."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from corral import asked
from corral.answer import answer
from corral.facts import Facts, gathered, newest_bookings
from corral.holdings import Estate, tell
from corral.pools import allowed, figures
from corral.reading import Reader, left_out
from corral.search import Found, find
from corral.targets import HOLDINGS, NODE, Target, TargetError, target
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.core import Node, Pod
from kube.ours import Booking, CapacityPolicy, CapacityPool
from provisioner.asking.producers import stated
from provisioner.state import CLASS
from runtime.client import Client
from runtime.errors import ApiError, TransportError
from runtime.settings import ClientSettings, SettingsError

TIME_LIMIT = 20.0
MOST = 10
"""Workloads of one target that are told, those that wait first."""


class WhyError(ValueError):
    """There is no answer: the target is malformed or the cluster can't be read."""


async def run(text: str, namespace: str, kubeconfig: str) -> None:
    """Prints the answer. Raises WhyError."""
    try:
        wanted = target(text)
    except TargetError as error:
        raise WhyError(str(error)) from error
    client = await connect(kubeconfig)
    try:
        async with asyncio.timeout(TIME_LIMIT):
            told = await why(Reader(client), wanted, namespace)
    except (ApiError, TransportError, TimeoutError) as error:
        raise WhyError(f"the cluster can't be read: {str(error) or 'no answer in time'}") from error
    finally:
        await client.close()
    print(told)


async def connect(kubeconfig: str) -> Client:
    """By this kubeconfig, else by KUBECONFIG, else by the one at home. Raises WhyError."""
    path = kubeconfig or os.environ.get("KUBECONFIG", "") or _home()
    try:
        return await Client.connect(ClientSettings(kubeconfig=path))
    except SettingsError as error:
        raise WhyError(f"{error}; name a kubeconfig with --kubeconfig or KUBECONFIG") from error


def _home() -> str:
    path = Path.home() / ".kube" / "config"
    return str(path) if path.exists() else ""


async def why(reader: Reader, wanted: Target, namespace: str) -> str:
    """The answer. Raises ApiError and TransportError where nothing can be told."""
    if wanted.kind in HOLDINGS:
        return tell(await _estate(reader, wanted))
    found, now = await find(reader, wanted, namespace), datetime.now(UTC)
    if found.workloads:
        facts = await gathered(reader, found.workloads, now)
        return "\n".join(["\n\n".join(_answers(facts)), *_itself(found.request, facts)])
    return "\n".join([*found.missed, *(await _alone(reader, found, now)), *left_out(sorted(reader.hidden))])


def _answers(all_: Sequence[Facts]) -> Iterator[str]:
    """Of several Workloads each under its name."""
    if len(all_) == 1:
        yield answer(all_[0])
        return
    ordered = sorted(all_, key=lambda facts: facts.workload.admitted)
    for facts in ordered[:MOST]:
        yield f"workload/{facts.workload.metadata.name}\n{answer(facts)}"
    if len(ordered) > MOST:
        yield f"and {len(ordered) - MOST} more Workloads, of which {sum(f.workload.admitted for f in ordered[MOST:])} run"


def _itself(request: ProvisioningRequest | None, all_: Sequence[Facts]) -> Iterator[str]:
    """Of a request that was asked about and isn't one of those that were told."""
    if request and request not in [facts.request(state.name) for facts in all_ for state in facts.states]:
        class_, said = request.spec.provisioning_class_name, asked.standing(request)
        why = f"an earlier attempt: {said.reason}: {said.message}" if class_ == CLASS else f"class {class_}, not Corral's"
        yield f"  provreq/{request.metadata.name} itself is of {why}"


async def _alone(reader: Reader, found: Found, now: datetime) -> Sequence[str]:
    """A request without its Workload."""
    request = found.request
    if request is None:
        return ()
    pools = await reader.all(resources.CAPACITY_POOLS, CapacityPool)
    may = allowed(request, pools, await reader.all(resources.CAPACITY_POLICIES, CapacityPolicy))
    booking = (await newest_bookings(reader)).get(request.metadata.uid)
    said = stated(request)
    gone = [f"  Workload {said.workload}, for which it was made, is not there any more"] if said else []
    return [*asked.bare(request, now), *gone, *figures(asked.standing(request), may), *asked.held(booking)]


async def _estate(reader: Reader, wanted: Target) -> Estate:
    """What is to be had, by whom it is held and who waits; what the user may not read is left out and named."""
    node = wanted.kind == NODE
    return Estate(
        kind=wanted.kind,
        name=wanted.name,
        now=datetime.now(UTC),
        pools=await reader.all(resources.CAPACITY_POOLS, CapacityPool),
        policies=await reader.all(resources.CAPACITY_POLICIES, CapacityPolicy),
        bookings=await reader.all(resources.BOOKINGS, Booking),
        requests=await reader.all(resources.PROVISIONING_REQUESTS, ProvisioningRequest),
        node=await reader.get(resources.NODES, Node, wanted.name) if node else None,
        pods=await reader.all(resources.PODS, Pod, field_selector=f"spec.nodeName={wanted.name}") if node else (),
        hidden=tuple(sorted(reader.hidden)),
    )
