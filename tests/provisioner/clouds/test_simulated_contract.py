"""The simulated cloud keeps the contract of all clouds, also when it describes new machines late."""

from collections.abc import AsyncIterator

import pytest

from provisioner.clouds.base import Cloud, Order
from provisioner.clouds.simulated.client import SimulatedCloud
from tests.provisioner.clouds.conftest import Serve
from tests.provisioner.clouds.contract import TAGS, CloudContract, MakeOrder


class TestSimulatedCloud(CloudContract):
    @pytest.fixture
    async def cloud(self, serve: Serve) -> AsyncIterator[Cloud]:
        async with serve() as url:
            cloud = SimulatedCloud(url)
            yield cloud
            await cloud.close()

    @pytest.fixture
    def order(self) -> MakeOrder:
        def make(token: str, count: int) -> Order:
            return Order(token=token, shape="m7i.4xlarge", zone="z1", capacity_type="on-demand", count=count, tags=TAGS)

        return make
