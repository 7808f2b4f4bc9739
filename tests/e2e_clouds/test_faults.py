"""Throttles, faults on demand, permissions, and the log of calls (cloud.md 1.8, 1.9, 3.3)."""

import time
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from e2e.clouds.ec2 import Ec2
from e2e.clouds.ec2.control import AdminError
from tests.e2e_clouds.conftest import P5, Stage, refused


def test_launches_are_throttled_at_five_and_two_a_second(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"throttled": True})
    ec2.admin("POST", "clock", {"rate": 0})
    for _ in range(5):
        refused(lambda: stand_in.run(9, SubnetId="subnet-0a"))
    assert refused(lambda: stand_in.run(SubnetId="subnet-0a")) == ("RequestLimitExceeded", 503)
    ec2.advance(1)
    stand_in.run(SubnetId="subnet-0a")
    stand_in.run(SubnetId="subnet-0a")
    assert refused(lambda: stand_in.run(SubnetId="subnet-0a")) == ("RequestLimitExceeded", 503)


def test_a_thousand_instances_are_a_bucket_too(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"throttled": True}, stock=[{"type": P5, "zone": "us-east-1a", "count": 2000}])
    ec2.change(quotas=[{"code": "L-417A185B", "value": 1_000_000}])
    ec2.admin("POST", "clock", {"rate": 0})
    stand_in.run(999, SubnetId="subnet-0a")
    assert refused(lambda: stand_in.run(2, SubnetId="subnet-0a")) == ("RequestLimitExceeded", 503)
    ec2.advance(1)
    stand_in.run(2, SubnetId="subnet-0a")


def test_topology_is_asked_once_a_second(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"throttled": True})
    ec2.admin("POST", "clock", {"rate": 0})
    client = stand_in.client()
    client.describe_instance_topology()
    assert refused(client.describe_instance_topology) == ("RequestLimitExceeded", 503)
    ec2.advance(1)
    client.describe_instance_topology()


def test_the_nth_call_is_struck(ec2: Ec2, stand_in: Stage) -> None:
    ec2.fault("RunInstances", nth=2, times=2, error="InsufficientInstanceCapacity")
    stand_in.run()
    for _ in range(2):
        assert refused(stand_in.run) == ("InsufficientInstanceCapacity", 500)
    stand_in.run()
    assert len(ec2.instances()) == 2


def test_a_fault_may_mean_certain_calls(ec2: Ec2, stand_in: Stage) -> None:
    ec2.fault("RunInstances", error="InternalError", match={"SubnetId": "subnet-0b"})
    stand_in.run(SubnetId="subnet-0a")
    assert refused(lambda: stand_in.run(SubnetId="subnet-0b")) == ("InternalError", 500)


@pytest.mark.parametrize(
    ("when", "there"), [pytest.param("after", 1, id="done, reply lost"), pytest.param("before", 0, id="never done")]
)
def test_a_lost_connection(ec2: Ec2, stand_in: Stage, when: str, there: int) -> None:
    ec2.fault("RunInstances", drop=when)
    with pytest.raises(ConnectionClosedError):
        stand_in.run(ClientToken="t")
    found = stand_in.client().describe_instances(Filters=[{"Name": "client-token", "Values": ["t"]}])["Reservations"]
    assert len(found) == there
    stand_in.run(ClientToken="t")
    assert len(ec2.instances()) == 1


def test_a_slow_call_is_done_though_its_caller_has_gone(ec2: Ec2, stand_in: Stage) -> None:
    hasty = Config(retries={"total_max_attempts": 1}, read_timeout=0.2)
    client = boto3.client("ec2", **ec2.client_arguments, config=hasty)
    ec2.fault("RunInstances", delay=1)
    order = {"ImageId": stand_in.image(), "InstanceType": P5, "SubnetId": "subnet-0a"}
    with pytest.raises(ReadTimeoutError):
        client.run_instances(MinCount=1, MaxCount=1, **order)
    end = time.monotonic() + 20
    while not ec2.instances():
        assert time.monotonic() < end, "the launch was not done"
        time.sleep(0.1)


def test_botocore_sends_a_dry_pool_again_unless_told(ec2: Ec2) -> None:
    """The trap of cloud.md 1.8: capacity errors are HTTP 500, and the default client retries them with one token."""
    patient = Config(retries={"mode": "standard", "total_max_attempts": 3})
    client = boto3.client("ec2", **ec2.client_arguments, config=patient)
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        client.run_instances(ImageId="ami-0a", InstanceType=P5, SubnetId="subnet-0a", MinCount=9, MaxCount=9)
    sent = ec2.calls("RunInstances")
    assert len(sent) == 3
    assert len({each["parameters"]["ClientToken"] for each in sent}) == 1


def test_calls_are_logged_with_what_became_of_them(ec2: Ec2, stand_in: Stage) -> None:
    subnet = {"SubnetId": "subnet-0a"}
    stand_in.run(**subnet)
    refused(lambda: stand_in.run(9, **subnet))
    ec2.fault("RunInstances", drop="before")
    with pytest.raises(ConnectionClosedError):
        stand_in.run(**subnet)
    told = [(each["outcome"], each["status"], each["fault"]) for each in ec2.calls("RunInstances")]
    assert told == [("ok", 200, ""), ("InsufficientInstanceCapacity", 500, ""), ("not done", 0, "drop before")]
    assert ec2.calls("RunInstances")[0]["parameters"]["InstanceType"] == P5
    assert ec2.admin("GET", "calls?count")["RunInstances"] == 3


def test_permissions_may_be_missing(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(settings={"denied": ["CreatePlacementGroup"]})
    call = stand_in.client().create_placement_group
    assert refused(lambda: call(GroupName="pg", Strategy="cluster", DryRun=True)) == ("UnauthorizedOperation", 403)
    ec2.change(settings={"denied": []})
    assert refused(lambda: call(GroupName="pg", Strategy="cluster", DryRun=True)) == ("DryRunOperation", 412)


def test_an_unknown_operation_is_no_server_error(stand_in: Stage) -> None:
    assert refused(stand_in.client().describe_vpn_gateways) == ("InvalidAction", 400)


def test_groups_of_instances_and_their_processes(ec2: Ec2, stand_in: Stage) -> None:
    (identity,) = stand_in.run()
    group = {"name": "g", "instances": [identity], "zones": ["us-east-1a"], "suspended": ["AZRebalance"], "tags": {"k": "v"}}
    ec2.change(autoScalingGroups=[group])
    (told,) = stand_in.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert [each["ProcessName"] for each in told["SuspendedProcesses"]] == ["AZRebalance"]
    assert [each["InstanceId"] for each in told["Instances"]] == [identity]
    assert {each["Key"]: each["Value"] for each in told["Tags"]} == {"k": "v"}
    other = [{"Name": "tag-key", "Values": ["x"]}]
    assert not stand_in.client("autoscaling").describe_auto_scaling_groups(Filters=other)["AutoScalingGroups"]


def test_quotas_are_vcpus(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(quotas=[{"code": "L-417A185B", "value": 768}])
    client = stand_in.client("service-quotas")
    assert client.get_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]["Value"] == 768.0
    assert len(client.list_service_quotas(ServiceCode="ec2")["Quotas"]) == 4


def test_objects_may_be_taken_away(ec2: Ec2, stand_in: Stage) -> None:
    ec2.change(reservations=[{"id": "cr-0a", "type": P5, "zone": "us-east-1a", "total": 1}])
    state = ec2.admin("GET", "state")
    assert [(each["id"], each["free"]) for each in state["reservations"]] == [("cr-0a", 1)]
    ec2.admin("DELETE", "reservations/cr-0a")
    assert stand_in.client().describe_capacity_reservations()["CapacityReservations"] == []
    with pytest.raises(AdminError, match="cr-0a"):
        ec2.admin("DELETE", "reservations/cr-0a")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        pytest.param("state", {"stocks": []}, "stocks", id="a mistyped kind"),
        pytest.param("state", {"settings": {"visibel": 1}}, "visibel", id="a mistyped setting"),
        pytest.param(
            "state", {"reservations": [{"id": "cr-0a", "type": P5, "zone": "a", "total": -1}]}, "total", id="below zero"
        ),
        pytest.param("faults", {"operation": "RunInstances", "nth": 0}, "nth", id="calls are counted from one"),
        pytest.param("kill", {"ids": ["i-0"]}, "i-0", id="nobody to kill"),
    ],
)
def test_bad_orders_are_told(ec2: Ec2, path: str, body: dict[str, Any], words: str) -> None:
    with pytest.raises(AdminError, match=words):
        ec2.admin("PUT" if path == "state" else "POST", path, body)
