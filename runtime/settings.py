"""Settings of a service: one YAML file of kind Configuration, read once, in the shape that Kueue's users know.

Each service subclasses `Settings` with its own fields. Every field has a default, so that an empty file is a valid one.
"""

import os
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

BindAddress = Annotated[str, Field(pattern=r"^(0|[^\s]*:[0-9]{1,5})$")]


class SettingsError(ValueError):
    """The settings file can't be used; the message names file, field and remedy."""


class Section(BaseModel):
    """Base of every part of the file: camelCase on disk, immutable, unknown keys refused (a mistyped key is never ignored)."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class HealthSettings(Section):
    bind_address: BindAddress = ":8081"
    """host:port of /healthz and /readyz; "0" turns the server off."""


class MetricsSettings(Section):
    bind_address: BindAddress = ":8080"
    """host:port of /metrics; "0" turns it off; the same as health's shares one server."""


class LeaderElectionSettings(Section):
    leader_elect: bool = True
    """False for a single replica in development: work starts at once, nothing guards against a second one."""
    resource_name: str = ""
    """Name of the Lease; the service's name when empty."""
    resource_namespace: str = ""
    """Namespace of the Lease; when empty the pod's own (POD_NAMESPACE), else "default"."""
    lease_duration: float = Field(default=15.0, gt=0)
    """Seconds after which another replica may take over."""
    renew_deadline: float = Field(default=10.0, gt=0)
    """Seconds without a renewal after which the leader stops its work."""
    retry_period: float = Field(default=2.0, gt=0)
    """Seconds between attempts to acquire or renew."""

    @property
    def namespace(self) -> str:
        """The service's own."""
        return self.resource_namespace or os.environ.get("POD_NAMESPACE") or "default"


class ClientSettings(Section):
    kubeconfig: str = ""
    """Path of a kubeconfig; in-cluster configuration when empty."""
    context: str = ""
    """Context of the kubeconfig; its current one when empty."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds that one request may take."""
    attempts: int = Field(default=4, ge=1)
    """How often an idempotent request is tried in all when the server is busy (429) or failing (5xx)."""


class LoggingSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Settings(Section):
    """What every service has."""

    api_version: Literal["config.corral.dev/v1alpha1"] = "config.corral.dev/v1alpha1"
    kind: Literal["Configuration"] = "Configuration"
    health: HealthSettings = HealthSettings()
    metrics: MetricsSettings = MetricsSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    client_connection: ClientSettings = ClientSettings()
    logging: LoggingSettings = LoggingSettings()


S = TypeVar("S", bound=Settings)

_WORDS = {"extra_forbidden": "unknown key: remove it or correct its spelling", "model_type": "must be a map of keys and values"}


def load(path: str | Path, model: type[S]) -> S:
    """Reads and checks the file. Raises SettingsError: no such file, not YAML, unknown key, or a value out of range."""
    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: can't be read: {error}; give --config the path of a Configuration file") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: not valid YAML: {error}") from error
    try:
        return model.model_validate({} if raw is None else raw)
    except ValidationError as error:
        raise SettingsError(f"{path}: " + "; ".join(_explain(error))) from error


def _explain(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(map(str, part['loc'])) or 'document'}: {_WORDS.get(part['type'], part['msg'])}" for part in error.errors()
    ]
