"""Two clouds behind one face: the stand-in, and moto's server as its judge in what moto does right.

A test marked `judged` runs against both. Its expectations come from AWS's documents (the sections named are those of
cloud.md) or from its own arithmetic.
"""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from e2e import ports
from e2e.clouds.ec2 import Ec2

P5 = "p5.48xlarge"
ONCE = Config(retries={"total_max_attempts": 1})
STOCK = [{"type": P5, "zone": "us-east-1a", "count": 4}, {"type": P5, "zone": "us-east-1b", "count": 8}]


@dataclass(frozen=True)
class Stage:
    """A cloud and how to reach it. `settle` waits until instances just launched are known, and running."""

    arguments: Mapping[str, Any]
    settle: Callable[[], None]
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str = "ec2") -> Any:
        if service not in self.clients:
            self.clients[service] = boto3.client(service, **self.arguments, config=ONCE)
        return self.clients[service]

    def image(self) -> str:
        return "ami-03cf127a"  # one of moto's

    def subnet(self, zone: str = "us-east-1a") -> str:
        wanted = [{"Name": "availability-zone", "Values": [zone]}]
        found: str = self.client().describe_subnets(Filters=wanted)["Subnets"][0]["SubnetId"]
        return found

    def run(self, count: int = 1, **fields: Any) -> list[str]:
        """Launches, and gives the ids."""
        order = {"ImageId": self.image(), "InstanceType": P5, "SubnetId": self.subnet(), **fields}
        made = self.client().run_instances(MinCount=count, MaxCount=count, **order)
        return [each["InstanceId"] for each in made["Instances"]]


def refused(call: Callable[[], object]) -> tuple[str, int]:
    """Code and HTTP status of a call that must fail."""
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def message(call: Callable[[], object]) -> str:
    """The words of a call that must fail."""
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Message"])


@pytest.fixture
def ec2() -> Iterator[Ec2]:
    """The stand-in with a little stock, instances that run at once, and no limits to requests."""
    with Ec2({"stock": STOCK, "settings": {"throttled": False, "visible": 0, "running": 0}}) as server:
        yield server


@pytest.fixture
def stand_in(ec2: Ec2) -> Stage:
    return Stage(ec2.client_arguments, lambda: ec2.advance(10))


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """moto's server, as a process: the project's own tests turn warnings into errors, and moto has some."""
    port = ports.take()[0]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(f"{endpoint}/moto-api/", process)
        yield endpoint
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def moto(moto_endpoint: str) -> Stage:
    urllib.request.urlopen(urllib.request.Request(f"{moto_endpoint}/moto-api/reset", method="POST")).close()
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return Stage({"endpoint_url": moto_endpoint, "region_name": "us-east-1", **keys}, lambda: None)


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    found: Stage = request.getfixturevalue(request.param)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stage" in metafunc.fixturenames:
        judged = metafunc.definition.get_closest_marker("judged") is not None
        metafunc.parametrize("stage", ["stand_in", *(["moto"] if judged else [])], indirect=True)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            assert process.poll() is None, "moto's server ended"
            assert time.monotonic() < end, "moto's server did not start"
            time.sleep(0.1)
        else:
            return
