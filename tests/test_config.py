"""The configuration files that config/ ships are read by the services that get them; the roles give the right to watch what they
watch, and no more."""

from pathlib import Path

import pytest
import yaml

from admission import main as admission
from admission.settings import AdmissionSettings
from provisioner import main as provisioner
from provisioner.clouds.registry import Clouds
from provisioner.clouds.simulated.config import load as load_cloud
from provisioner.settings import ProvisionerSettings
from runtime.client import Client
from runtime.manager import Manager
from runtime.settings import load
from tests.runtime.fakes import Wire

CONFIG = Path(__file__).parent.parent / "config"


def test_admission_reads_its_file() -> None:
    settings = load(CONFIG / "manager/admission_config.yaml", AdmissionSettings)
    assert (settings.leader_election.resource_name, settings.health.bind_address) == ("corral-admission", ":8081")


def test_provisioner_reads_its_file() -> None:
    settings = load(CONFIG / "manager/provisioner_config.yaml", ProvisionerSettings)
    assert (settings.leader_election.resource_name, settings.metrics.bind_address) == ("corral-provisioner", ":8080")


def test_the_simulated_cloud_reads_its_file() -> None:
    config = load_cloud(CONFIG / "simulated-cloud/simulated_cloud_config.yaml")
    assert (config.host, config.port, config.kubeconfig) == ("0.0.0.0", 8090, "")


def services() -> dict[str, Manager]:
    client = Client(Wire())
    return {
        "admission": admission.build(AdmissionSettings(), client),
        "provisioner": provisioner.build(ProvisionerSettings(), client, "here", Clouds()),
    }


@pytest.mark.parametrize("service", ["admission", "provisioner"])
async def test_roles_let_watch_what_is_watched_and_no_more(service: str) -> None:
    reflectors = services()[service]._reflectors
    everywhere = {(each.resource.group, each.resource.plural) for each in reflectors if not each._namespace}
    assert _watchable(f"{service}_role.yaml") == everywhere
    at_home = {(each.resource.group, each.resource.plural) for each in reflectors if each._namespace}
    assert at_home == (_watchable("health_check_role.yaml") if service == "provisioner" else set())


def _watchable(file: str) -> set[tuple[str, str]]:
    role, _ = yaml.safe_load_all((CONFIG / "rbac" / file).read_text())
    rules = [rule for rule in role["rules"] if "watch" in rule["verbs"]]
    return {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}


def test_viewers_may_read_what_why_tells() -> None:
    """The calls of `corral why`: `get` by name, `list` of the rest."""
    viewer, *_ = yaml.safe_load_all((CONFIG / "rbac/user_roles.yaml").read_text())
    granted = {(resource, verb) for rule in viewer["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    read = (
        "workloads",
        "provisioningrequests",
        "bookings",
        "capacitypools",
        "capacitypolicies",
        "admissionchecks",
        "provisioningrequestconfigs",
        "resourceflavors",
        "events",
        "pods",
    )
    assert {(each, "list") for each in read} <= granted
    assert {(each, "get") for each in ("nodes", "workloads", "provisioningrequests", "localqueues", "clusterqueues")} <= granted


@pytest.mark.parametrize("service", ["admission", "provisioner"])
def test_two_replicas_of_which_a_drain_leaves_one(service: str) -> None:
    deployment = yaml.safe_load((CONFIG / f"manager/{service}.yaml").read_text())
    budgets = {
        each["metadata"]["name"]: each["spec"]
        for each in yaml.safe_load_all((CONFIG / "manager/disruption_budgets.yaml").read_text())
    }
    budget = budgets[deployment["metadata"]["name"]]
    assert deployment["spec"]["replicas"] - budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["spec"]["selector"]
    assert budget["selector"]["matchLabels"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
