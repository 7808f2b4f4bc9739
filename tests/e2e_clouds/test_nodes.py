"""Instances as Nodes: what their user data makes of them, and when they come, get devices, and go (cloud.md 1.10)."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.clock import Clock
from e2e.clouds.ec2.launch import run_instances
from e2e.clouds.ec2.nodes import Ec2Site, devices, due, node
from e2e.clouds.ec2.objects import Change, Stock
from e2e.clouds.ec2.service import Service
from e2e.clouds.ec2.userdata import registration
from provisioner.clouds.simulated.cluster import Cluster
from provisioner.clouds.simulated.wire import Taint
from tests.e2e_clouds.conftest import P5
from tests.provisioner.clouds.simulated.test_cluster import FakeClient

NODE_CONFIG = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: train}
  kubelet:
    config:
      registerWithTaints:
      - {key: a, effect: NoSchedule}
    flags: ["--node-labels=team=train,corral.dev/pool=p", "--register-with-taints=b=c:NoExecute"]
"""
SECOND = 'apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {flags: ["--node-labels=more=yes"]}}\n'
MIME = f"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="B"

--B
Content-Type: text/x-shellscript

#!/bin/bash
echo hello
--B
Content-Type: application/node.eks.aws

{NODE_CONFIG}
--B
Content-Type: application/node.eks.aws

{SECOND}
--B--
"""
SCRIPT = "#!/bin/sh\nexec kubelet --node-labels=team=train,more=yes --register-with-taints='a=b:NoSchedule'\n"
LABELS = {"team": "train", "corral.dev/pool": "p"}
TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "labels", "taints"),
    [
        pytest.param(NODE_CONFIG, LABELS, TAINTS, id="NodeConfig alone"),
        pytest.param(MIME, {**LABELS, "more": "yes"}, TAINTS, id="two NodeConfigs and a script"),
        pytest.param(
            SCRIPT, {"team": "train", "more": "yes"}, [{"key": "a", "value": "b", "effect": "NoSchedule"}], id="a script's flags"
        ),
    ],
)
def test_a_node_registers_as_its_user_data_says(text: str, labels: dict[str, str], taints: list[dict[str, str]]) -> None:
    made = registration(encoded(text))
    assert (made.labels, made.taints, made.problem) == (labels, taints, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "no user data", id="none"),
        pytest.param(NODE_CONFIG.replace("a, effect", "a, : effect"), "can't be used", id="no YAML"),
        pytest.param(SCRIPT.replace("a=b:NoSchedule", "a=b"), "key=value:effect", id="a taint without effect"),
        pytest.param(
            NODE_CONFIG.replace("team=", "kubernetes.io/team="), "kubernetes.io/team", id="a label that kubelet refuses"
        ),
    ],
)
def test_some_machines_never_become_nodes(text: str, words: str) -> None:
    assert words in registration(encoded(text)).problem


def launched(**fields: Any) -> Account:
    """An account with one instance, launched at START."""
    account = Account(Change(stock=(Stock(type=P5, zone="us-east-1a", count=1),)))
    order = {"ImageId": "ami-0a", "InstanceType": P5, "MinCount": 1, "MaxCount": 1, "UserData": encoded(NODE_CONFIG)}
    run_instances(account, {**order, "SubnetId": "subnet-0a", **fields}, START)
    return account


START = datetime(2026, 12, 1, tzinfo=UTC)


def what(account: Account, seconds: float) -> list[str]:
    work = due(account, START + timedelta(seconds=seconds))
    return [step for step in ("join", "await_plugin", "publish", "remove") if getattr(work, step)]


def test_a_node_is_known_by_its_provider_id_and_place() -> None:
    account = launched()
    (machine,) = account.instances.values()
    made = node(account, machine)
    labels = made["metadata"]["labels"]
    assert made["spec"]["providerID"] == f"aws:///us-east-1a/{machine.id}"
    assert made["metadata"]["name"] != machine.id, "a Node is not found by its name"
    assert labels["topology.kubernetes.io/zone"] == "us-east-1a"
    assert labels["topology.k8s.aws/zone-id"] == "use1-az6"
    assert labels["topology.k8s.aws/network-node-layer-3"] == account.node_hash(machine.nodes[2])
    assert labels["team"] == "train"
    assert made["spec"]["taints"] == TAINTS
    assert "nvidia.com/gpu" not in made["status"]["allocatable"], "devices come later"
    assert devices(machine) == {"nvidia.com/gpu": 8}


async def test_a_node_goes_through_its_life_step_by_step() -> None:
    account = launched()
    (machine,) = account.instances.values()
    site = Ec2Site(Service(account, Clock(START, rate=0)))
    assert (what(account, 4.9), what(account, 5)) == ([], ["join"]), "running at 3, joining takes 2"
    await site.note(machine, "joined")
    assert what(account, 6) == ["await_plugin"]
    machine.plugged = START + timedelta(seconds=10)
    assert (what(account, 12.9), what(account, 13)) == ([], ["publish"])
    await site.note(machine, "published")
    assert what(account, 14) == []
    account.stop(machine, START + timedelta(seconds=20), ("", ""))
    assert (what(account, 24.9), what(account, 25)) == ([], ["remove"])
    await site.note(machine, "removed")
    assert what(account, 26) == []


async def test_instances_join_a_cluster_and_leave_it() -> None:
    """Against an API server that is a dictionary."""
    account, client = launched(), FakeClient()
    account.settings = msgspec.structs.replace(account.settings, startup_taints=(Taint(key="a", effect="NoSchedule"),))
    (machine,), clock = account.instances.values(), Clock(START, rate=0)
    cluster = Cluster(Ec2Site(Service(account, clock)), client)  # type: ignore[arg-type]
    clock.advance(5)
    await cluster.step()
    (name,) = client.nodes
    client.run_plugin(name)
    await cluster.step()
    clock.advance(3)
    await cluster.step()
    assert client.nodes[name]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert [each["key"] for each in client.nodes[name]["spec"]["taints"]] == ["b"]
    account.stop(machine, clock.now(), ("", ""))
    clock.advance(5)
    await cluster.step()
    assert (client.nodes, client.pods) == ({}, {})


def test_efa_on_the_node_are_those_attached_at_launch() -> None:
    card = {"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa", "SubnetId": "subnet-0a"}
    account = launched(SubnetId="", NetworkInterfaces=[card])
    (machine,) = account.instances.values()
    assert devices(machine) == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 1}


def test_a_machine_without_user_data_runs_and_never_joins() -> None:
    account = launched(UserData="")
    assert what(account, 3600) == []
    (machine,) = account.instances.values()
    assert machine.problem == "it has no user data"
