"""`python -m provisioner.clouds.aws.smoke POOL.yaml [INSTALLATION]`: what a pool's account has, what it would cost, and what
stands in its way.

It only looks (dry runs included), with the credentials of whoever runs it. No cluster is needed. INSTALLATION is what
`${INSTALLATION}` in config/aws/policy.json was filled in with: without it that policy refuses the dry runs.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from capacity.quantity import dollars
from kube.ours import CapacityPool
from provisioner.clouds.aws import calls
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.cloud import AwsCloud
from provisioner.clouds.base import CloudError, ErrorKind, Inventory, Wanted
from provisioner.state import TAG_INSTALLATION


def main() -> int:
    """0: purchases could begin; 1: something stops them; 2: the file or the account can't be read."""
    if len(sys.argv) not in (2, 3):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        pool = msgspec.convert(yaml.safe_load(Path(sys.argv[1]).read_text()), CapacityPool)
        found = asyncio.run(look(pool, *sys.argv[2:]))
    except (OSError, yaml.YAMLError, msgspec.ValidationError, CloudError) as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 2
    show(found)
    return int(any(check.blocks and not check.ok for check in found.checks))


async def look(pool: CapacityPool, installation: str = "") -> Inventory:
    """Raises CloudError."""
    provider, sources = pool.spec.provider.aws, pool.spec.sources
    if provider is None:
        raise CloudError(ErrorKind.CONFIG, "spec.provider.aws: not set")
    made = Calls(provider.region, provider.endpoint)
    named = tuple(name for source in sources for name in source.reservation_ids)
    try:
        cloud = AwsCloud(provider, made)
        if installation:
            await cloud.instances({TAG_INSTALLATION: installation})  # dry runs bear the tag of the installation last looked for
        return await cloud.inventory(Wanted(pool.spec.shapes, named, any(each.capacity_type == "on-demand" for each in sources)))
    finally:
        await made.close()


def show(found: Inventory) -> None:
    console = Console(highlight=False, markup=False)
    for title, head, rows in (
        ("what could be had", ("source", "type", "zone", "free", "of", "$/h each"), _offers(found)),
        ("checks", ("check", "", "what was found"), _checks(found)),
        ("calls made", ("operation", "outcome", "times"), _calls()),
    ):
        table = Table(*head, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _offers(found: Inventory) -> Iterator[tuple[str, ...]]:
    prices = {each.shape.name: dollars(each.on_demand_price) for each in found.shapes}
    for held in found.reservations:
        yield held.id, held.shape, held.zone, str(held.total - held.used), str(held.total), "prepaid"
    for stock in found.stock:
        free = "not told" if stock.available is None else f"quota: {stock.available}"
        yield "on demand", stock.shape, stock.zone, free, "", prices[stock.shape]


def _checks(found: Inventory) -> Iterator[tuple[str, ...]]:
    for check in found.checks:
        yield check.type, "ok" if check.ok else "stops purchases" if check.blocks else "trouble", check.message


def _calls() -> Iterator[tuple[str, ...]]:
    for (operation, outcome), count in sorted(calls.MADE.items()):
        yield operation, outcome, str(count)


if __name__ == "__main__":
    sys.exit(main())
