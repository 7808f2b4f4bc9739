"""`python -m e2e.clouds.ec2 --port N [--state file.yaml] [--nodes kubeconfig]`: serves until it is told to stop."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import yaml

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.clock import Clock
from e2e.clouds.ec2.objects import Change
from e2e.clouds.ec2.server import Server
from e2e.clouds.ec2.service import Service


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.clouds.ec2", description="A stand-in for EC2.")
    parser.add_argument("--port", type=int, default=8091)
    parser.add_argument("--state", type=Path, help="YAML: what the account holds at the start")
    parser.add_argument("--rate", type=float, default=1.0, help="seconds of its clock to one of the wall's")
    parser.add_argument("--nodes", type=Path, metavar="KUBECONFIG", help="cluster that the instances join")
    arguments = parser.parse_args()
    clock = Clock(rate=arguments.rate)
    try:
        account = Account(_state(arguments.state), salt=str(clock.now()))
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        print(f"{arguments.state}: {error}", file=sys.stderr)
        return 2
    asyncio.run(_serve(Service(account, clock), arguments.port, arguments.nodes))
    return 0


def _state(path: Path | None) -> Change:
    return Change() if path is None else msgspec.convert(yaml.safe_load(path.read_text()) or {}, Change)


async def _serve(service: Service, port: int, kubeconfig: Path | None) -> None:
    server, stop = Server(service, port=port, kubeconfig=kubeconfig), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(await server.open(), flush=True)
    await stop.wait()
    await server.close()


if __name__ == "__main__":
    sys.exit(main())
