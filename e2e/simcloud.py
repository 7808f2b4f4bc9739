"""The simulated cloud as a process of a test: started, asked, spoilt, killed and started again."""

import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e import ports
from e2e.served import Served


class SimCloud(Served):
    """One server with its files in `directory`, which it needs for itself. All calls block.

    `config` is the configuration file's content; port, state and kubeconfig are filled in. A context manager: started on entry.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any], *, kubeconfig: Path | None = None) -> None:
        self.directory = directory
        self.port = ports.take()[0]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        cluster = {} if kubeconfig is None else {"kubeconfig": str(kubeconfig)}
        own = {"kind": "SimulatedCloud", "port": self.port, "state": str(directory / "cloud.db"), **cluster}
        path = directory / "simulated-cloud.yaml"
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({**config, **own}))
        command = [sys.executable, "-m", "provisioner.clouds.simulated", "--config", str(path)]
        super().__init__("the simulated cloud", command, directory / "simulated-cloud.log", f"{self.endpoint}/healthz")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        """Kills it and starts it again on the same state and port."""
        self.kill()
        self.start()

    def get(self, path: str) -> Any:
        """The decoded answer. Raises urllib.error.HTTPError."""
        return self._send("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """`post("/v1/launch", {...})`, `post("/control/faults", {...})`."""
        return self._send("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """`put("/control/stock", {...})`, `put("/control/reservations", {...})`."""
        return self._send("PUT", path, body)

    def delete(self, path: str) -> Any:
        """`delete("/control/faults")` clears all faults."""
        return self._send("DELETE", path)

    def launch(self, token: str, **order: Any) -> list[dict[str, Any]]:
        """Instances; on demand, one machine, if the order doesn't say otherwise."""
        body = {"token": token, "capacityType": "on-demand", "count": 1, **order}
        instances: list[dict[str, Any]] = self.post("/v1/launch", body)["instances"]
        return instances

    def terminate(self, *ids: str) -> None:
        self.post("/v1/terminate", {"ids": ids})

    def fault(self, kind: str, **fields: Any) -> str:
        """Adds a fault and returns its id."""
        identity: str = self.post("/control/faults", {"kind": kind, **fields})["id"]
        return identity

    def machines(self) -> dict[str, dict[str, Any]]:
        """All that the cloud knows of every machine, by id."""
        return {each["id"]: each for each in self.get("/control/instances")["instances"]}

    def calls(self, call: str = "") -> list[dict[str, Any]]:
        """The log of calls, all or of one name."""
        return [each for each in self.get("/control/calls")["calls"] if call in ("", each["call"])]

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.endpoint + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
