"""`corral pools`: what could be had from the CapacityPools now, as tables, from their status alone."""

import asyncio
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from corral.reading import Reader
from corral.tables import console
from corral.why import TIME_LIMIT, WhyError, connect
from kube.ours import CapacityPool, OfferingStatus
from kube.resources import CAPACITY_POOLS
from provisioner.planning.offerings import UNTOLD
from runtime.errors import ApiError, TransportError

HEAD = ("source", "type", "zone", "place", "free", "of", "$/h each", "until", "why none")


async def run(names: Sequence[str], kubeconfig: str) -> int:
    """Prints the pools of these names, all when none is named. 1 when one isn't there. Raises WhyError."""
    client = await connect(kubeconfig)
    try:
        async with asyncio.timeout(TIME_LIMIT):
            pools = await Reader(client).all(CAPACITY_POOLS, CapacityPool)
    except (ApiError, TransportError, TimeoutError) as error:
        raise WhyError(f"the cluster can't be read: {str(error) or 'no answer in time'}") from error
    finally:
        await client.close()
    chosen = sorted((pool for pool in pools if not names or pool.metadata.name in names), key=lambda pool: pool.metadata.name)
    show(console(), chosen)
    missing = set(names) - {pool.metadata.name for pool in chosen}
    for name in sorted(missing):
        print(f"UNKNOWN pool/{name}: there is no such CapacityPool, or no right to read it")
    return int(bool(missing))


def show(screen: Console, pools: Sequence[CapacityPool]) -> None:
    """One table a pool, under a line with its mode and what stands in its way."""
    for pool in pools:
        screen.print("\n".join([f"{pool.metadata.name}: {pool.spec.mode}", *_trouble(pool)]))
        table = Table(*HEAD)
        for offering in pool.status.offerings:
            table.add_row(*row(offering))
        screen.print(table)


def row(offering: OfferingStatus) -> tuple[str, ...]:
    """The cells of one offering; a cloud that doesn't tell its stock has no total."""
    place = " ".join(value for key, value in offering.domain.items() if not key.endswith("/zone"))
    told = offering.total < UNTOLD
    return (
        f"{offering.source} {offering.reservation_id}".strip(),
        offering.shape,
        offering.zone,
        place,
        str(offering.available) if told else "not told",
        str(offering.total) if told else "",
        "prepaid" if offering.capacity_type != "on-demand" else offering.price_per_hour,
        offering.ends or "",
        offering.unavailable,
    )


def _trouble(pool: CapacityPool) -> Iterator[str]:
    for each in pool.status.conditions:
        if (each.status == "True") != (each.type == "Ready"):
            yield f"  {each.type} {each.reason}: {each.message}"
