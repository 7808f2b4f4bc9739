"""The provisioner's configuration file: the service settings of every manager, and a few of its own."""

from pydantic import Field

from runtime.settings import Settings


class ProvisionerSettings(Settings):
    """All times are in seconds. `installation` goes into the tags of all that is bought, so that two installations in one cloud
    account never touch each other's machines.
    """

    installation: str = Field(default="", max_length=63)
    """Empty: the uid of namespace kube-system."""
    inventory_seconds: float = Field(default=10.0, ge=0.1)
    """How often each cloud is asked what it has."""
    settle_seconds: float = Field(default=2.0, ge=0)
    """Between the mark on a free node and the second look at its pods."""
    retention_seconds: float = Field(default=60.0, ge=0)
    """How long a Booking that is over stays readable."""
    debounce_seconds: float = Field(default=0.2, ge=0)
    """Changes that come this close together are planned in one pass."""
    template_grace_seconds: float = Field(default=120.0, ge=0)
    """How long a PodTemplate may be missing before its request fails: stores lag, and producers create in any order."""
    reap_grace_seconds: float = Field(default=120.0, ge=0)
    """Age from which a machine that nobody claims may be terminated."""
    terminations_per_minute: int = Field(default=20, ge=1)
    """How many machines scale-in and the search for orphans may end in a minute together."""
