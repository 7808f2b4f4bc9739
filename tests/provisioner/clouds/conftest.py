"""A simulated cloud inside the test's process, on a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from provisioner.clouds.simulated.config import parse
from provisioner.clouds.simulated.server import running

RAW: dict[str, Any] = {
    "zones": [
        {
            "name": "z1",
            "racks": [
                {"name": "r1", "block": "b1", "slots": {"p5.48xlarge": 4}},
                {"name": "r2", "block": "b1", "slots": {"p5.48xlarge": 4}},
                {"name": "r3", "block": "b2", "slots": {"p5.48xlarge": 4}},
            ],
            "onDemand": [{"shape": "p5.48xlarge"}, {"shape": "m7i.4xlarge", "count": 20, "told": True}],
        },
        {"name": "z2", "onDemand": [{"shape": "p5.48xlarge", "count": 2}]},
    ],
    "reservations": [{"id": "cr", "shape": "p5.48xlarge", "zone": "z1", "racks": {"r1": 3, "r2": 2}, "outside": {"r1": 1}}],
    "delays": {"launch": "100ms", "join": "100ms", "devices": "100ms", "terminate": "100ms"},
}

Serve = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """`async with serve(throttle={...}) as url`: fields of the configuration replace those of RAW."""

    @asynccontextmanager
    async def server(**fields: Any) -> AsyncIterator[str]:
        config = parse({**RAW, "port": 0, "state": str(tmp_path / "cloud.db"), **fields})
        async with running(config) as url:
            yield url

    return server
