"""The provisioner's configuration file: the service settings of every manager, and a few of its own."""

from pydantic import Field

from runtime.settings import Settings


class ProvisionerSettings(Settings):
    """Times are in seconds.

    `installation` and `cluster` go into the tags of all that is bought, so that two installations in one cloud account never touch each
    other's machines; an empty `installation` means the uid of namespace kube-system.
    """

    installation: str = ""
    cluster: str = "default"
    inventory_seconds: float = Field(default=10.0, gt=0, alias="inventorySeconds")
    settle_seconds: float = Field(default=2.0, ge=0, alias="settleSeconds")
    retention_seconds: float = Field(default=60.0, ge=0, alias="retentionSeconds")
    debounce_seconds: float = Field(default=0.2, ge=0, alias="debounceSeconds")
    reap_grace_seconds: float = Field(default=120.0, ge=30, alias="reapGraceSeconds")
