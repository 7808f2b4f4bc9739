"""The stand-in for EC2 as a process of a test, whose instances join the cluster."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e import ports
from e2e.clouds.ec2.control import Control
from e2e.served import Served


class Ec2Server(Served, Control):
    """One server with its files in `directory`. `state` is the content of its state file."""

    def __init__(self, directory: Path, state: Mapping[str, Any], kubeconfig: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port, path = ports.take()[0], directory / "ec2.yaml"
        path.write_text(yaml.safe_dump(dict(state)))
        command = [sys.executable, "-m", "e2e.clouds.ec2", "--port", str(port), "--state", str(path), "--nodes", str(kubeconfig)]
        endpoint = f"http://127.0.0.1:{port}"
        Served.__init__(self, "the stand-in for EC2", command, directory / "ec2.log", f"{endpoint}/_admin/healthz")
        Control.__init__(self, endpoint)
