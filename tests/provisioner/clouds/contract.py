"""What every provider of machines must do, whatever its cloud: the tests that each one's own test class inherits.

A subclass gives two fixtures: `cloud`, freshly connected, and `order`, which makes a valid on-demand order from a token
and a count, of a shape of which the cloud can deliver at least four and no more than 999.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from provisioner.clouds.base import Cloud, CloudError, ErrorKind, Instance, InstanceState, Order, Wanted

MakeOrder = Callable[[str, int], Order]
TAGS = {"corral.dev/installation": "contract", "corral.dev/booking": "b1"}


async def settled(cloud: Cloud, condition: Callable[[tuple[Instance, ...]], bool], seconds: float = 60.0) -> tuple[Instance, ...]:
    """The instances of these tests once the condition holds: clouds are eventually consistent."""
    async with asyncio.timeout(seconds):
        while not condition(found := await cloud.instances(TAGS)):  # noqa: ASYNC110 a cloud tells only who asks
            await asyncio.sleep(0.05)
    return found


def states(found: tuple[Instance, ...], ids: set[str]) -> set[InstanceState]:
    return {each.state for each in found if each.id in ids}


class CloudContract:
    async def test_inventory_knows_what_can_be_ordered(self, cloud: Cloud, order: MakeOrder) -> None:
        inventory = await cloud.inventory(Wanted(shapes=(order("t", 1).shape,)))
        shapes = {each.shape.name: each for each in inventory.shapes}
        shape = shapes[order("t", 1).shape]
        assert shape.on_demand_price > 0
        assert shape.shape.allocatable["cpu"] >= 1000
        assert shape.shape.allocatable["pods"] > 0
        assert shape.shape.labels["node.kubernetes.io/instance-type"] == shape.shape.name
        assert {order("t", 1).shape} <= {stock.shape for stock in inventory.stock}

    async def test_reservations_add_up(self, cloud: Cloud) -> None:
        for reservation in (await cloud.inventory()).reservations:
            assert 0 <= reservation.used <= reservation.total
            if reservation.free_by_domain:
                assert sum(free for _, free in reservation.free_by_domain) == reservation.total - reservation.used
                assert sum(total for _, total in reservation.total_by_domain) == reservation.total

    async def test_launch_gives_machines_that_are_described_with_token_and_tags(self, cloud: Cloud, order: MakeOrder) -> None:
        bought = await cloud.launch(order("token-1", 3))
        ids = {each.id for each in bought}
        assert len(ids) == len({each.provider_id for each in bought}) == 3
        found = await settled(cloud, lambda found: ids <= {each.id for each in found})
        for each in found:
            assert (each.token, each.shape, each.zone) == ("token-1", order("t", 1).shape, order("t", 1).zone)
            assert each.tags.items() >= TAGS.items()
        await settled(cloud, lambda found: states(found, ids) == {InstanceState.RUNNING})

    async def test_same_token_never_buys_twice(self, cloud: Cloud, order: MakeOrder) -> None:
        first = await cloud.launch(order("token-1", 2))
        again = await cloud.launch(order("token-1", 2))
        at_once = await asyncio.gather(*(cloud.launch(order("token-2", 2)) for _ in range(3)))
        assert {each.id for each in first} == {each.id for each in again}
        assert len({each.id for answer in at_once for each in answer}) == 2
        await settled(cloud, lambda found: len(found) == 4)

    async def test_same_token_with_another_order_is_refused(self, cloud: Cloud, order: MakeOrder) -> None:
        await cloud.launch(order("token-1", 1))
        with pytest.raises(CloudError) as caught:
            await cloud.launch(order("token-1", 2))
        assert caught.value.kind is ErrorKind.CONFIG
        await settled(cloud, lambda found: len(found) == 1)

    async def test_token_whose_machines_were_terminated_buys_nothing(self, cloud: Cloud, order: MakeOrder) -> None:
        (bought,) = await cloud.launch(order("token-1", 1))
        await cloud.terminate([bought.id])
        await settled(cloud, lambda found: states(found, {bought.id}) <= {InstanceState.TERMINATED})
        with pytest.raises(CloudError) as caught:
            await cloud.launch(order("token-1", 1))
        assert caught.value.kind is ErrorKind.NOT_FOUND

    async def test_all_tags_must_match(self, cloud: Cloud, order: MakeOrder) -> None:
        await cloud.launch(order("token-1", 1))
        await settled(cloud, lambda found: len(found) == 1)
        assert await cloud.instances({**TAGS, "corral.dev/booking": "another"}) == ()

    async def test_terminated_machines_are_gone_in_the_end_and_may_be_terminated_again(
        self, cloud: Cloud, order: MakeOrder
    ) -> None:
        bought = await cloud.launch(order("token-1", 2))
        doomed, kept = bought[0].id, bought[1].id
        await cloud.terminate([doomed])
        await cloud.terminate([doomed])
        await settled(cloud, lambda found: states(found, {doomed}) <= {InstanceState.TERMINATED})
        await cloud.terminate([doomed])
        await settled(cloud, lambda found: states(found, {kept}) == {InstanceState.RUNNING})

    async def test_nothing_to_terminate_is_no_error(self, cloud: Cloud) -> None:
        await cloud.terminate([])

    async def test_unknown_machine_is_named_and_the_others_are_terminated(self, cloud: Cloud, order: MakeOrder) -> None:
        (bought,) = await cloud.launch(order("token-1", 1))
        with pytest.raises(CloudError, match="i-00000000000000000") as caught:
            await cloud.terminate(["i-00000000000000000", bought.id])
        assert caught.value.kind is ErrorKind.NOT_FOUND
        await settled(cloud, lambda found: states(found, {bought.id}) <= {InstanceState.TERMINATED})

    async def test_more_than_there_is_buys_nothing(self, cloud: Cloud, order: MakeOrder) -> None:
        with pytest.raises(CloudError) as caught:
            await cloud.launch(order("token-1", 1000))
        assert caught.value.kind in (ErrorKind.CAPACITY, ErrorKind.QUOTA)
        assert await cloud.instances(TAGS) == ()

    @pytest.mark.parametrize("change", [{"shape": "no-such-shape"}, {"zone": "nowhere"}, {"reservation": "cr-none"}])
    async def test_order_that_can_never_work_is_a_matter_of_configuration(
        self, cloud: Cloud, order: MakeOrder, change: dict[str, str]
    ) -> None:
        with pytest.raises(CloudError) as caught:
            await cloud.launch(replace(order("token-1", 1), **change))
        assert caught.value.kind is ErrorKind.CONFIG

    async def test_closed_twice(self, cloud: Cloud) -> None:
        await cloud.close()
        await cloud.close()
