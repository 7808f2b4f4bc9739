"""The provider against the stand-in for EC2: what every cloud must do."""

import pytest

from provisioner.clouds.base import Order
from tests.provisioner.clouds.contract import TAGS, CloudContract, MakeOrder

pytestmark = pytest.mark.realtime


class TestContract(CloudContract):
    @pytest.fixture
    def order(self) -> MakeOrder:
        def make(token: str, count: int) -> Order:
            return Order(token=token, shape="p5.48xlarge", zone="us-east-1a", capacity_type="on-demand", count=count, tags=TAGS)

        return make
