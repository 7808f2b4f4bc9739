"""The configuration file: defaults, camelCase, and one clear error each."""

from pathlib import Path

import pytest

from runtime.settings import Settings, SettingsError, load


class Own(Settings):
    batch_window: float = 1.0


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_an_empty_file_is_a_valid_one(tmp_path: Path) -> None:
    settings = load(written(tmp_path, ""), Own)
    assert settings == Own()
    assert (settings.health.bind_address, settings.metrics.bind_address) == (":8081", ":8080")
    election = settings.leader_election
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15.0, 10.0, 2.0)


def test_keys_are_camel_case_and_services_add_their_own(tmp_path: Path) -> None:
    text = """
apiVersion: config.corral.dev/v1alpha1
kind: Configuration
health: {bindAddress: "127.0.0.1:0"}
leaderElection: {leaderElect: false, resourceName: l, resourceNamespace: ns}
clientConnection: {kubeconfig: /k}
logging: {level: debug, format: text}
batchWindow: 2.5
"""
    settings = load(written(tmp_path, text), Own)
    assert settings.health.bind_address == "127.0.0.1:0"
    assert not settings.leader_election.leader_elect
    assert settings.client_connection.kubeconfig == "/k"
    assert settings.batch_window == 2.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("kind: Deployment", "kind: Input should be 'Configuration'", id="wrong kind"),
        pytest.param("leaderElection: {leaderElekt: true}", "leaderElection.leaderElekt: unknown key: remove", id="mistyped key"),
        pytest.param("health: {bindAddress: everywhere}", "health.bindAddress: String should match", id="bad address"),
        pytest.param("logging: {level: loud}", "logging.level: Input should be 'debug'", id="bad value"),
        pytest.param("clientConnection: {timeout: -1}", "clientConnection.timeout: Input should be greater than 0", id="range"),
        pytest.param("- 1", "document: must be a map", id="a list"),
        pytest.param("a: [", "not valid YAML", id="no yaml"),
    ],
)
def test_a_bad_file_gets_one_error_that_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(path, Own)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't be read"):
        load(tmp_path / "absent.yaml", Own)
