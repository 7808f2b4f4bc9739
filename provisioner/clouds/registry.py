"""From a pool's provider to its cloud."""

from urllib.parse import urlsplit

import msgspec

from kube.ours import AwsProvider, Provider, SimulatedProvider
from provisioner.clouds.adopted import AdoptedNodes
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.cloud import AwsCloud
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
        self._accounts: dict[tuple[str, str], Calls] = {}
        self._aws: dict[bytes, AwsCloud] = {}

    def connect(self, provider: Provider) -> Cloud:
        """Opens no connection yet. Raises CloudError of kind CONFIG when the provider can't be used, naming field and remedy."""
        options = Provider.__struct_fields__
        if [getattr(provider, name) is None for name in options].count(False) != 1:
            raise CloudError(ErrorKind.CONFIG, f"provider: set exactly one of {', '.join(options)}")
        if provider.simulated is not None:
            return self._at(provider.simulated)
        return self._adopted if provider.aws is None else self._ec2(provider.aws)

    def _at(self, provider: SimulatedProvider) -> SimulatedCloud:
        endpoint = _url("simulated", provider.endpoint)
        return self._simulated.setdefault(endpoint, SimulatedCloud(endpoint, self._timeouts))

    def _ec2(self, provider: AwsProvider) -> AwsCloud:
        """One for each provider that differs; those of one region share their connections."""
        endpoint = _url("aws", provider.endpoint) if provider.endpoint else ""
        account = provider.region, endpoint
        if account not in self._accounts:
            self._accounts[account] = Calls(provider.region, endpoint, self._timeouts, self.fence.check)
        key = msgspec.json.encode(provider, order="sorted")
        return self._aws.setdefault(key, AwsCloud(provider, self._accounts[account]))

    async def close(self) -> None:
        """Closes all connections; the clouds can be used again after."""
        for cloud in self._simulated.values():
            await cloud.close()
        for account in self._accounts.values():
            await account.close()


def _url(kind: str, text: str) -> str:
    endpoint = text.rstrip("/")
    if not _is_url(endpoint):
        raise CloudError(ErrorKind.CONFIG, f"provider.{kind}.endpoint: {endpoint!r} must be a URL like http://127.0.0.1:8090")
    return endpoint


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
