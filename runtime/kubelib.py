"""The five names of kubernetes-asyncio that we use, without the rest of it.

Its packages import every model and API class there is as soon as one name is asked for: with 36.1.0 that takes 1.8 s of CPU and
70 MB, in each service and each `corral why`, for code that we never call. So while its modules are loaded here, the two packages
that do it stand empty. One that is loaded already stays as it is; one imported later is whole, but for `new_client_from_config`.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

PACKAGES = {"kubernetes_asyncio": "", "kubernetes_asyncio.client": "/client"}


@contextlib.contextmanager
def _standing_empty() -> Iterator[ModuleType]:
    """Gives the package `client`, for the names that modules look for in it."""
    missing = [name for name in PACKAGES if name not in sys.modules]
    spec = importlib.util.find_spec("kubernetes_asyncio") if missing else None
    for name in missing:
        sys.modules[name] = module = ModuleType(name)
        module.__path__ = [f"{folder}{PACKAGES[name]}" for folder in (spec and spec.submodule_search_locations) or ()]
    try:
        yield sys.modules["kubernetes_asyncio.client"]
    finally:
        for name in missing:
            del sys.modules[name]


with _standing_empty() as client:
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.client.rest import RESTClientObject

    if not hasattr(client, "ApiClient"):
        # kube_config.py imports both by name; the second is for functions that we don't call.
        client.Configuration, client.ApiClient = Configuration, object  # type: ignore[attr-defined]
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

__all__ = ["ConfigException", "Configuration", "RESTClientObject", "load_incluster_config", "load_kube_config"]
