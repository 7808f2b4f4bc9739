"""From a provider to its cloud, and the provider that sells nothing."""

import subprocess
import sys
from typing import Any

import pytest

from kube.ours import AdoptedProvider, AwsLaunchTemplate, AwsProvider, Provider, SimulatedProvider
from provisioner.clouds.adopted import AdoptedNodes
from provisioner.clouds.base import CloudError, ErrorKind, Inventory, Order, Timeouts
from provisioner.clouds.registry import Clouds
from provisioner.clouds.simulated.client import SimulatedCloud


def aws(**more: Any) -> Provider:
    template = AwsLaunchTemplate(id="lt-0a", version="1")
    base = {"cluster_name": "train", "launch_template": template, "subnet_ids": ("subnet-0a",), "region": "us-east-1"}
    return Provider(aws=AwsProvider(**{**base, **more}))


def simulated(endpoint: str) -> Provider:
    return Provider(simulated=SimulatedProvider(endpoint=endpoint))


async def test_pools_of_one_endpoint_share_one_cloud() -> None:
    clouds = Clouds(Timeouts(read=1, launch=2))
    one, same = clouds.connect(simulated("http://127.0.0.1:1")), clouds.connect(simulated("http://127.0.0.1:1/"))
    other, adopted = clouds.connect(simulated("https://cloud.example")), clouds.connect(Provider(adopted=AdoptedProvider()))
    assert one is same
    assert len({id(one), id(other), id(adopted)}) == 3
    assert isinstance(one, SimulatedCloud)
    assert isinstance(adopted, AdoptedNodes)
    await clouds.close()


async def test_pools_of_one_aws_provider_share_a_cloud() -> None:
    clouds = Clouds()
    assert clouds.connect(aws()) is clouds.connect(aws())
    assert clouds.connect(aws(prices={"p5.48xlarge": "60"})) is not clouds.connect(aws())
    await clouds.close()


def test_boto3_is_not_imported_before_the_first_call() -> None:
    code = "import sys, provisioner.clouds.registry; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        pytest.param(aws(endpoint="host:80"), "provider.aws.endpoint", id="aws without scheme"),
        pytest.param(Provider(), "exactly one of", id="none"),
        pytest.param(
            Provider(simulated=SimulatedProvider(endpoint="http://x"), adopted=AdoptedProvider()), "exactly one of", id="two"
        ),
        pytest.param(simulated(""), "provider.simulated.endpoint", id="empty"),
        pytest.param(simulated("127.0.0.1:8090"), "must be a URL", id="no scheme"),
        pytest.param(simulated("ftp://host"), "must be a URL", id="other scheme"),
        pytest.param(simulated("http://"), "must be a URL", id="no host"),
        pytest.param(simulated("http://[::1"), "must be a URL", id="broken"),
    ],
)
def test_providers_that_can_not_be_used(provider: Provider, words: str) -> None:
    with pytest.raises(CloudError, match=words) as caught:
        Clouds().connect(provider)
    assert caught.value.kind is ErrorKind.CONFIG


async def test_adopted_nodes_are_neither_bought_nor_ended() -> None:
    cloud = AdoptedNodes()
    assert await cloud.inventory() == Inventory()
    assert await cloud.instances({"a": "b"}) == ()
    order = Order(token="t", shape="p5.48xlarge", zone="z", capacity_type="on-demand", count=1)
    for call in (cloud.launch(order), cloud.terminate(["node-1"])):
        with pytest.raises(CloudError) as caught:
            await call
        assert caught.value.kind is ErrorKind.CONFIG
    await cloud.terminate([])
    await cloud.close()
