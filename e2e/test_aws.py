"""Gangs on the stand-in for AWS, with the real control plane: what issue after issue of users went wrong with elsewhere."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from e2e.aws import table
from e2e.aws.stack import FLEETS, LAYER, PLAIN, SHAPE, SLOW, ZONE_A, ZONE_B, AwsStack, Situation
from e2e.controlplane.cluster import ControlPlane
from e2e.scenario import until
from e2e.stack import ROOT

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def aws(controlplane: ControlPlane) -> Iterator[AwsStack]:
    with AwsStack(controlplane, controlplane.directory / f"aws-{os.getpid()}") as running:
        controlplane.kubectl("apply", "-f", str(ROOT / "e2e" / "demo" / "manifests" / "cluster.yaml"))
        yield running


@pytest.fixture
def here(aws: AwsStack, namespace: str, request: pytest.FixtureRequest) -> Iterator[Situation]:
    made = Situation(aws, namespace)
    made.settle()
    made.stock()
    yield made
    table.note(request.node.name.removeprefix("test_").replace("_", " "), made.counts(), made.lasted())
    made.clear()


def test_reservation_exactly_enough(here: Situation) -> None:
    held = here.hold(4)
    here.buy_from(held)
    here.job("gang", 4)
    here.runs("gang", 4)
    [launch] = here.made("RunInstances")
    assert (launch["parameters"]["MinCount"], launch["parameters"]["MaxCount"]) == (4, 4)
    assert launch["parameters"]["CapacityReservationSpecification"]["CapacityReservationTarget"] == {
        "CapacityReservationId": held
    }
    assert {each["reservation"] for each in here.machines()} == {held}
    assert {each["efa"] for each in here.machines()} == {32}
    here.given_back()


def test_one_short_is_made_up_on_demand_in_the_same_zone(here: Situation) -> None:
    held = here.hold(3)
    here.stock(a=2, b=8)
    here.buy_from(held, on_demand=True, template=FLEETS, topology={"required": "topology.kubernetes.io/zone"})
    here.job("gang", 4)
    here.runs("gang", 4)
    assert sorted(each["reservation"] for each in here.machines()) == ["", held, held, held]
    assert {each["zone"] for each in here.machines()} == {ZONE_A}
    assert (len(here.made("RunInstances")), len(here.made("CreateFleet"))) == (1, 1)
    here.given_back()


def test_one_short_with_nothing_on_demand_leaves_nothing_bought(here: Situation) -> None:
    held = here.hold(3)
    here.buy_from(held, on_demand=True, retry={"limit": 0}, timeouts={"queued": "20s", "provision": "60s", "booking": "60s"})
    here.job("gang", 4)
    until(lambda: here.made("RunInstances"), seconds=SLOW, what="a launch was tried")
    until(lambda: any(each["phase"] == "Failed" for each in statuses(here)), seconds=SLOW, what="the attempt ended")
    assert not here.bound("gang")
    until(lambda: not here.alive(), seconds=SLOW, what="all that was bought is given back")
    words = str([each["status"] for each in here.requests()]) + str(statuses(here))
    assert "InsufficientInstanceCapacity" in words


def test_two_capacity_blocks_of_one_type(here: Situation) -> None:
    end = datetime.now(UTC) + timedelta(hours=48)
    blocks = [here.hold(2, suffix=each, kind="capacity-block", block=f"cb-0{each}", end=end.isoformat()) for each in "ab"]
    here.buy_from(*blocks, kind="capacity-block", runDuration={"default": "1h"})
    here.job("gang", 4)
    here.runs("gang", 4)
    launches = here.made("RunInstances")
    assert [each["parameters"]["InstanceMarketOptions"] for each in launches] == [{"MarketType": "capacity-block"}] * 2
    assert sorted(each["reservation"] for each in here.machines()) == sorted(blocks * 2)
    here.given_back()


def test_reservation_that_lies_about_its_count(here: Situation) -> None:
    """It tells of four free places, and has two: the cloud's refusal counts, and the gang starts elsewhere."""
    liar = here.hold(4, broken=2)
    here.stock(b=4)
    here.buy_from(liar, on_demand=True)
    here.job("gang", 4)
    here.runs("gang", 4)
    assert {(each["reservation"], each["zone"]) for each in here.alive()} == {("", ZONE_B)}
    tries = [each for each in here.made("RunInstances") if each["outcome"] == "ReservationCapacityExceeded"]
    assert len(tries) == 1
    here.given_back()


def test_no_capacity_in_the_first_zone(here: Situation) -> None:
    here.stock(b=4)
    here.buy_from(on_demand=True)
    here.job("gang", 4)
    here.runs("gang", 4)
    outcomes = [each["outcome"] for each in here.made("RunInstances")]
    assert outcomes == ["InsufficientInstanceCapacity", "ok"]  # and none sent twice by the SDK
    assert {each["zone"] for each in here.alive()} == {ZONE_B}
    here.given_back()


def test_lost_reply(here: Situation) -> None:
    held = here.hold(4)
    here.buy_from(held)
    here.ec2.fault("RunInstances", drop="after", nth=1)
    here.job("gang", 2)
    here.runs("gang", 2)
    assert len(here.machines()) == 2
    here.given_back()


def test_tokens_are_new_after_a_rollback(here: Situation) -> None:
    first, second = here.hold(2, suffix="a"), here.hold(2, suffix="b", broken=2)
    here.buy_from(first, second)
    here.job("gang", 4)
    until(lambda: refused(here, second), seconds=SLOW, what="the second reservation has turned us away")
    here.ec2.change(reservations=[{"id": second, "type": SHAPE, "zone": ZONE_A, "total": 2}])
    here.runs("gang", 4, seconds=2 * SLOW)
    launches = here.made("RunInstances")
    done = [each["parameters"]["ClientToken"] for each in launches if each["outcome"] == "ok"]
    assert len(done) == len(set(done))
    assert not [each for each in launches if each["outcome"].startswith("Idempotent")]
    assert len(here.alive()) == 4
    here.given_back()


def test_leaked_instance_is_reaped(here: Situation) -> None:
    held = here.hold(2)
    here.buy_from(held)
    uid = here.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    tags = {"corral.dev/installation": uid, "corral.dev/pool": here.name, "corral.dev/booking": "long-gone"}
    client = boto3.client(
        "ec2", endpoint_url=here.ec2.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    listed = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]
    target = {"CapacityReservationTarget": {"CapacityReservationId": held}}
    client.run_instances(
        MinCount=1,
        MaxCount=1,
        InstanceType=SHAPE,
        LaunchTemplate={"LaunchTemplateId": PLAIN["id"], "Version": PLAIN["version"]},
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": "subnet-0a", "Groups": ["sg-0efa"]}],
        CapacityReservationSpecification=target,
        TagSpecifications=listed,
    )
    client.close()
    assert here.alive()
    until(lambda: not here.alive(), seconds=SLOW, what="the reaper has ended it")


def test_block_that_ends_before_the_run_would(here: Situation) -> None:
    end = datetime.now(UTC) + timedelta(hours=2)
    block = here.hold(2, kind="capacity-block", block="cb-0e", end=end.isoformat())
    here.stock(a=2)
    here.buy_from(block, kind="capacity-block", on_demand=True, runDuration={"default": "1h45m"})
    here.job("gang", 2)
    here.runs("gang", 2)
    assert {each["reservation"] for each in here.machines()} == {""}  # its instances are killed from half an hour before the end
    here.given_back()


def test_slots_that_come_back_only_minutes_after_termination(here: Situation) -> None:
    held = here.hold(2)
    here.ec2.change(settings={"releasing": 40})
    here.buy_from(held)
    here.job("first", 2)
    here.runs("first", 2)
    here.given_back()
    here.job("second", 2)
    here.runs("second", 2)
    here.ec2.change(settings={"releasing": 0})
    assert [each["outcome"] for each in here.made("RunInstances")] == ["ok", "ok"]  # no try while they are still held
    here.given_back()


def test_pool_is_told_as_a_table(here: Situation, aws: AwsStack) -> None:
    held = here.hold(4, outside=1)
    here.buy_from(held, on_demand=True)
    until(lambda: here.get("cpool", here.name)["status"].get("offerings"), seconds=SLOW)
    offered = {
        each["capacityType"]: each for each in here.get("cpool", here.name)["status"]["offerings"] if each["zone"] == ZONE_A
    }
    assert (offered["reserved"]["available"], offered["reserved"]["total"]) == (3, 4)
    assert LAYER in offered["reserved"]["domain"]
    assert offered["on-demand"]["pricePerHour"] == "55.04"
    table_ = subprocess.run(
        [sys.executable, "-m", "corral", "pools", here.name, "--kubeconfig", str(aws.plane.kubeconfig)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert held in table_
    assert "55.04" in table_
    told = {each["type"]: each["status"] for each in here.get("cpool", here.name)["status"]["conditions"]}
    checks = ("LaunchTemplateUnfit", "SubnetsUnfit", "SecurityGroupUnfit", "PermissionMissing", "QuotaShort", "OtherScaler")
    assert {told[name] for name in checks} == {"False"}


def statuses(here: Situation) -> list[dict[str, object]]:
    return [each.get("status", {}) for each in here.bookings()]


def refused(here: Situation, reservation: str) -> bool:
    wanted = {"CapacityReservationId": reservation}
    calls = [each for each in here.made("RunInstances") if each["outcome"] == "ReservationCapacityExceeded"]
    return any(each["parameters"]["CapacityReservationSpecification"]["CapacityReservationTarget"] == wanted for each in calls)
