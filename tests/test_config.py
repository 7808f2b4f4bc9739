"""The configuration files that config/ ships are read by the services that get them."""

from pathlib import Path

from admission.settings import AdmissionSettings
from provisioner.clouds.simulated.config import load as load_cloud
from provisioner.settings import ProvisionerSettings
from runtime.settings import load

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
