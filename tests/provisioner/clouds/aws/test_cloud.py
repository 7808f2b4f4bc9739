"""The provider against the stand-in for EC2, where it matters which calls are made and what they leave behind."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clouds.ec2.harness import Ec2
from kube.ours import AwsLaunchTemplate, AwsProvider
from provisioner.clouds.aws import calls as made
from provisioner.clouds.aws import launching, smoke
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.cloud import AwsCloud
from provisioner.clouds.base import CloudError, ErrorKind, InstanceState, Order, Timeouts, Wanted
from runtime.fence import Deposed, Fence

pytestmark = pytest.mark.realtime

PATIENT = Timeouts(read=20, launch=20)
SHAPE, ZONE = "p5.48xlarge", "us-east-1a"
MINE = {"corral.dev/installation": "here"}


def order(token: str, count: int, reservation: str | None = None, **more: Any) -> Order:
    kind = "reserved" if reservation else "on-demand"
    return Order(token=token, shape=SHAPE, zone=ZONE, capacity_type=kind, count=count, reservation=reservation, tags=MINE, **more)


def counted(ec2: Ec2) -> Counter[str]:
    return Counter(each["operation"] for each in ec2.calls())


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await check():  # noqa: ASYNC110 a cloud tells only who asks
            await asyncio.sleep(0.1)


async def refusal(call: Awaitable[object]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await call
    return caught.value


async def test_a_lack_of_capacity_is_told_at_once_though_it_comes_as_http_500(ec2: Ec2, cloud: AwsCloud) -> None:
    error = await refusal(cloud.launch(order("t", 100)))
    assert error.kind is ErrorKind.CAPACITY
    assert counted(ec2)["RunInstances"] == 1  # cml-1440, runs-on-29: no SDK repeats it


async def test_a_lost_reply_is_met_again_by_its_token_and_by_its_tag(ec2: Ec2, cloud: AwsCloud) -> None:
    ec2.fault("RunInstances", drop="after")
    error = await refusal(cloud.launch(order("t", 2, "cr-1")))
    assert error.kind is ErrorKind.UNKNOWN

    async def adopted() -> bool:
        return {each.token for each in await cloud.instances(MINE)} == {"t"}

    await until(adopted)
    again = await cloud.launch(order("t", 2, "cr-1"))
    assert {each.id for each in again} == {each.id for each in await cloud.instances(MINE)}
    assert len(ec2.instances()) == 2


async def test_a_full_reservation_counts_as_full_until_it_is_looked_at_anew(ec2: Ec2, cloud: AwsCloud) -> None:
    ec2.change(reservations=[{"id": "cr-1", "type": SHAPE, "zone": ZONE, "total": 8, "broken": 8}])
    wanted = Wanted(reservations=("cr-1",), on_demand=False)
    [before] = (await cloud.inventory(wanted)).reservations
    error = await refusal(cloud.launch(order("t", 2, "cr-1")))
    [after] = (await cloud.inventory(wanted)).reservations
    assert (before.total - before.used, error.kind) == (8, ErrorKind.RESERVATION_FULL)
    assert after.total - after.used == 0
    assert "sufficient compatible and available capacity" in error.message


async def test_a_fleet_where_the_template_lets_it(ec2: Ec2, cloud: AwsCloud, provider: AwsProvider) -> None:
    efas = [
        {"NetworkCardIndex": n, "DeviceIndex": min(n, 1), "InterfaceType": "efa-only" if n else "efa", "Groups": ["sg-0efa"]}
        for n in range(32)
    ]
    [plain] = ec2.service.account.launch_templates["lt-01"].versions
    whole = {**plain, "NetworkInterfaces": efas, "CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    ec2.change(launchTemplates=[{"id": "lt-01", "name": "nodes", "versions": [plain, whole]}])
    second = AwsProvider(
        cluster_name="train",
        launch_template=AwsLaunchTemplate(id="lt-01", version="2"),
        subnet_ids=provider.subnet_ids,
        region=provider.region,
        endpoint=provider.endpoint,
    )
    calls = Calls(provider.region, provider.endpoint, PATIENT)
    fleets = AwsCloud(second, calls)
    found = await fleets.launch(order("t", 3))
    again = await fleets.launch(order("t", 3))
    assert {each.id for each in found} == {each.id for each in again}
    assert {each["efa"] for each in ec2.instances()} == {32}
    error = await refusal(fleets.launch(order("u", 500)))
    assert (error.kind, "InsufficientInstanceCapacity" in error.message) == (ErrorKind.CAPACITY, True)

    async def listed() -> bool:
        return {(each.token, each.zone) for each in await fleets.instances(MINE)} == {("t", ZONE)}

    await until(listed)
    assert counted(ec2)["RunInstances"] == 0
    await calls.close()


async def test_the_next_subnet_of_the_zone_where_the_first_has_no_address_left(ec2: Ec2, provider: AwsProvider) -> None:
    ec2.change(
        subnets=[
            {"id": "subnet-01", "zone": ZONE, "cidr": "10.1.0.0/20", "addresses": 1},
            {"id": "subnet-02", "zone": ZONE, "cidr": "10.2.0.0/24", "addresses": 200},
        ]
    )
    two = AwsProvider(
        cluster_name="train",
        launch_template=provider.launch_template,
        subnet_ids=("subnet-02", "subnet-01"),
        region=provider.region,
        endpoint=provider.endpoint,
    )
    calls = Calls(provider.region, provider.endpoint, PATIENT)
    found = await AwsCloud(two, calls).launch(order("t", 3))
    assert {each.token for each in found} == {"t"}
    assert {each["subnet"] for each in ec2.instances()} == {"subnet-02"}
    await calls.close()


async def test_bookings_that_look_at_once_share_one_listing(ec2: Ec2, cloud: AwsCloud) -> None:
    await cloud.launch(order("t", 2))
    before = counted(ec2)["DescribeInstances"]
    tags = [{**MINE, "corral.dev/booking": f"b{number}"} for number in range(20)]
    await asyncio.gather(*(cloud.instances(each) for each in tags))
    assert counted(ec2)["DescribeInstances"] == before + 1


async def test_a_look_at_a_pool_that_nothing_happens_in_costs_two_calls(ec2: Ec2, cloud: AwsCloud) -> None:
    wanted = Wanted(shapes=(SHAPE,), reservations=("cr-1",))
    await cloud.instances(MINE)
    await cloud.inventory(wanted)
    first = counted(ec2)
    await asyncio.sleep(5.1)  # as old as an answer on reservations may be
    await cloud.instances(MINE)
    await cloud.inventory(wanted)
    assert counted(ec2) - first == Counter(DescribeInstances=1, DescribeCapacityReservations=1)
    assert first.total() < 20


async def test_all_machines_of_a_quota_count_against_it(ec2: Ec2, cloud: AwsCloud) -> None:
    """2536 vCPUs, 8 * 192 of them in a reservation, 192 by the one that runs: 808 are 4 more of it, or 8 p4d.24xlarge of 96."""
    ec2.change(quotas=[{"code": "L-417A185B", "value": 2536, "name": "Running On-Demand P instances"}])
    await cloud.launch(order("t", 1))

    async def counted_in() -> bool:
        await cloud.instances(MINE)
        stock = (await cloud.inventory(Wanted(shapes=(SHAPE, "p4d.24xlarge")))).stock
        return {each.shape: each.available for each in stock} == {SHAPE: 4, "p4d.24xlarge": 8}

    await until(counted_in)


async def test_a_place_in_the_network_that_is_not_the_ordered_one(ec2: Ec2, cloud: AwsCloud) -> None:
    domain = {"topology.k8s.aws/network-node-layer-1": "nn-elsewhere"}
    await cloud.launch(order("t", 1, domain=domain))

    async def told() -> bool:
        return any("instead of nn-elsewhere" in each.wrong for each in await cloud.instances(MINE))

    await until(told)


async def test_what_can_be_ended_is_ended_though_one_can_not(ec2: Ec2, cloud: AwsCloud) -> None:
    found = await cloud.launch(order("t", 3))
    ids = [each.id for each in found]

    async def seen() -> bool:
        return len(await cloud.instances(MINE)) == 3

    await until(seen)
    error = await refusal(cloud.terminate([*ids, "i-00000000000000000", "i-00000000000000001"]))
    assert error.message == "not known to the cloud: i-00000000000000000, i-00000000000000001"
    assert counted(ec2)["TerminateInstances"] == 2  # all, then those that are known

    async def gone() -> bool:
        states = {each.state for each in await cloud.instances(MINE)}
        return states == {InstanceState.TERMINATED}

    await until(gone)


async def test_a_process_that_does_not_lead_makes_no_change(ec2: Ec2, provider: AwsProvider) -> None:
    calls = Calls(provider.region, provider.endpoint, PATIENT, Fence().check)
    cloud = AwsCloud(provider, calls)
    with pytest.raises(Deposed):
        await cloud.launch(order("t", 1))
    assert not ec2.instances()
    assert (await cloud.inventory(Wanted(shapes=(SHAPE,)))).checks  # a dry run is no change
    await calls.close()


async def test_two_installations_that_need_the_same_two_reservations_come_one_after_the_other(
    ec2: Ec2, provider: AwsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both need 3 of 4 in each: in the same order, whoever has the first gets the second, and the other loses nothing."""
    monkeypatch.setattr(launching, "JITTER", 0.5)
    reservations = [{"id": name, "type": SHAPE, "zone": ZONE, "total": 4} for name in ("cr-a", "cr-b")]
    ec2.change(reservations=reservations, settings={"throttled": False})  # attempts follow each other faster than any gang's
    failed: Counter[tuple[str, ErrorKind]] = Counter()

    async def installation(name: str) -> None:
        calls = Calls(provider.region, provider.endpoint, PATIENT)
        cloud, tags = AwsCloud(provider, calls), {"corral.dev/installation": name}
        for attempt in range(40):
            bought = await attempted(cloud, name, attempt, tags)
            if bought:
                await asyncio.sleep(0.5)  # the gang runs
            await ended(cloud, tags)
            if bought:
                break
        else:
            pytest.fail(f"{name} never got both")
        await calls.close()

    async def attempted(cloud: AwsCloud, name: str, attempt: int, tags: dict[str, str]) -> bool:
        for reservation in ("cr-a", "cr-b"):
            try:
                await cloud.launch(replace(order(f"{name}-{attempt}-{reservation}", 3, reservation), tags=tags))
            except CloudError as error:
                failed[reservation, error.kind] += 1
                return False
        return True

    async def ended(cloud: AwsCloud, tags: dict[str, str]) -> None:
        async def gone() -> bool:
            there = [each for each in await cloud.instances(tags) if each.state is not InstanceState.TERMINATED]
            await cloud.terminate([each.id for each in there if each.state is InstanceState.RUNNING])
            return not there

        await until(gone)

    async with asyncio.timeout(240):
        await asyncio.gather(installation("one"), installation("two"))
    assert set(failed) == {("cr-a", ErrorKind.RESERVATION_FULL)}


async def test_credentials_that_come_late_are_found(
    ec2: Ec2, provider: AwsProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made, "_sessions", [])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    calls = Calls(provider.region, provider.endpoint, PATIENT)
    cloud = AwsCloud(provider, calls)
    error = await refusal(cloud.instances(MINE))
    assert (error.kind, error.message[:18]) == (ErrorKind.CONFIG, "NoCredentialsError")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    assert await cloud.instances(MINE) == ()
    await calls.close()


async def test_calls_are_counted_by_operation_and_outcome(ec2: Ec2, cloud: AwsCloud) -> None:
    before = made.MADE.copy()
    await refusal(cloud.launch(order("t", 100)))
    after = made.MADE - before
    assert after["RUN", ErrorKind.CAPACITY] == 1
    assert after["TEMPLATES", "ok"] == 1


async def test_a_machine_that_ec2_does_not_know_yet_is_ended_all_the_same(ec2: Ec2, cloud: AwsCloud) -> None:
    ec2.change(settings={"visible": 2.5})
    [born] = await cloud.launch(order("t", 1))
    await cloud.terminate([born.id])
    assert {each["state"] for each in ec2.instances()} <= {"shutting-down", "terminated"}


async def test_the_smoke_run_prints_what_could_be_had_and_what_stands_in_the_way(
    ec2: Ec2, provider: AwsProvider, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2.change(securityGroups=[{"id": "sg-0efa", "toItself": False}])
    sources = [
        {"name": "odcr", "capacityType": "reserved", "reservationIDs": ["cr-1"]},
        {"name": "od", "capacityType": "on-demand"},
    ]
    spec = {"provider": {"aws": provider.to_json()}, "shapes": [SHAPE], "sources": sources}
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump({"metadata": {"name": "p"}, "spec": spec}))
    monkeypatch.setattr("sys.argv", ["smoke", str(file), "here"])
    code = await asyncio.to_thread(smoke.main)
    told = capsys.readouterr().out
    assert code == 1
    assert "cr-1" in told
    assert "55.04" in told
    assert "SecurityGroupUnfit" in told
    assert not ec2.instances()
    [dry] = [each["parameters"] for each in ec2.calls("RunInstances")]
    [tags, *_] = dry["TagSpecifications"]
    assert dry["DryRun"]
    assert {"Key": "corral.dev/installation", "Value": "here"} in tags["Tags"]
