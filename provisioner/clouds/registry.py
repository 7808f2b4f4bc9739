"""From a pool's provider to its cloud."""

from urllib.parse import urlsplit

from kube.ours import Provider, SimulatedProvider
from provisioner.clouds.adopted import AdoptedNodes
from provisioner.clouds.base import DEFAULT_TIMEOUTS, Cloud, CloudError, ErrorKind, Timeouts
from provisioner.clouds.simulated.client import SimulatedCloud
from runtime.fence import Fence


class Clouds:
    """One cloud an endpoint, shared by all pools that name it. `fence`: to be checked before calls that change something."""

    def __init__(self, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self.fence = Fence()
        self._timeouts = timeouts
        self._adopted = AdoptedNodes()
        self._simulated: dict[str, SimulatedCloud] = {}

    def connect(self, provider: Provider) -> Cloud:
        """Opens no connection yet. Raises CloudError of kind CONFIG when the provider can't be used, naming field and remedy."""
        if (provider.simulated is None) == (provider.adopted is None):
            raise CloudError(ErrorKind.CONFIG, "provider: set exactly one of simulated and adopted")
        return self._adopted if provider.simulated is None else self._at(provider.simulated)

    def _at(self, provider: SimulatedProvider) -> SimulatedCloud:
        endpoint = provider.endpoint.rstrip("/")
        if not _is_url(endpoint):
            raise CloudError(
                ErrorKind.CONFIG, f"provider.simulated.endpoint: {endpoint!r} must be a URL like http://127.0.0.1:8090"
            )
        return self._simulated.setdefault(endpoint, SimulatedCloud(endpoint, self._timeouts))

    async def close(self) -> None:
        """Closes all connections; the clouds can be used again after."""
        for cloud in self._simulated.values():
            await cloud.close()


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
