"""An account of the stand-in for EC2, and one pool's provider in it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.clouds.ec2.harness import Ec2
from kube.ours import AwsLaunchTemplate, AwsProvider
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.cloud import AwsCloud
from provisioner.clouds.base import Timeouts
from tests.provisioner.clouds.aws.make import TEMPLATE

STATE: dict[str, Any] = {
    "stock": [
        {"type": "p5.48xlarge", "zone": "us-east-1a", "count": 20},
        {"type": "p5.48xlarge", "zone": "us-east-1b", "count": 4},
    ],
    "reservations": [{"id": "cr-1", "type": "p5.48xlarge", "zone": "us-east-1a", "total": 8}],
    "launchTemplates": [{"id": "lt-01", "name": "nodes", "versions": [TEMPLATE]}],
    "settings": {"visible": 0.2, "running": 0.3, "terminating": 0.3, "counting": 0.2},
}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def ec2(credentials: None) -> Iterator[Ec2]:
    with Ec2(STATE) as running:
        yield running


@pytest.fixture
def provider(ec2: Ec2) -> AwsProvider:
    return AwsProvider(
        cluster_name="train",
        launch_template=AwsLaunchTemplate(id="lt-01", version="1"),
        subnet_ids=("subnet-0a", "subnet-0b"),
        region="us-east-1",
        endpoint=ec2.endpoint,
    )


@pytest.fixture
async def cloud(provider: AwsProvider) -> AsyncIterator[AwsCloud]:
    calls = Calls(provider.region, provider.endpoint, Timeouts(read=20, launch=20))
    yield AwsCloud(provider, calls)
    await calls.close()
