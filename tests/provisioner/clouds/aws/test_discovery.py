"""Where reservations stand, and which of them are UltraServers."""

from typing import Any

from kube.ours import AwsLaunchTemplate, AwsProvider
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.discovery import Discovery
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.reservations import Held

PROVIDER = AwsProvider(
    cluster_name="train", launch_template=AwsLaunchTemplate(id="lt-0a", version="1"), subnet_ids=("subnet-0a",)
)
ACTIVE = Held("cr-1", "reserved", "p5.48xlarge", "us-east-1a", "use1-az6", "active", 8, 5)
TO_COME = Held("cr-2", "capacity-block", "p6e-gb200.36xlarge", "us-east-1a", "use1-az6", "scheduled", 18, 0, block="cb-1")


class Told(Calls):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    async def pages(self, op: Op, result: str, **parameters: Any) -> list[Any]:
        if op is Op.BLOCKS:
            return [{"CapacityBlockId": "cb-1", "CapacityReservationIds": ["cr-2"], "UltraserverType": "u-p6e-gb200x72"}]
        self.asked.append(parameters["CapacityReservationIds"])
        return [{"CapacityReservationId": name, "NetworkNodes": ["n1"]} for name in parameters["CapacityReservationIds"]]


async def test_a_place_is_asked_for_where_there_is_one_and_an_ultraserver_is_known_before_it_starts() -> None:
    """DescribeCapacityReservationTopology tells of reservations that are pending or active (EC2 API Reference)."""
    told = Told()
    discovery = Discovery(told, PROVIDER)
    plain = await discovery.places([ACTIVE])
    both = await discovery.places([ACTIVE, TO_COME])
    alone = await discovery.places([TO_COME])
    assert told.asked == [["cr-1"], ["cr-1"]]
    assert plain.labels["cr-1"] == both.labels["cr-1"] == {"topology.k8s.aws/network-node-layer-1": "n1"}
    assert [each.ultraservers for each in (plain, both, alone)] == [frozenset(), frozenset({"cr-2"}), frozenset({"cr-2"})]
