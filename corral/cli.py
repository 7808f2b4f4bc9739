"""The command line: two services, the simulated cloud, and two questions that users ask."""

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """The whole command line; each command names the function that runs it in `run`."""
    top = argparse.ArgumentParser(prog="corral", description="Secures capacity for whole GPU workloads before Kueue admits them.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    for name, run, text in (
        ("admission", _admission, "run the Kueue AdmissionCheck controller"),
        ("provisioner", _provisioner, "run the ProvisioningRequest provisioner"),
        ("simulated-cloud", _simulated_cloud, "run the simulated cloud"),
    ):
        service = commands.add_parser(name, help=text)
        service.add_argument("--config", type=Path, required=True, help="YAML file of kind Configuration")
        service.set_defaults(run=run)

    plan = commands.add_parser("plan", help="plan workloads offline, from files alone")
    plan.add_argument(
        "-f",
        "--filename",
        dest="files",
        type=Path,
        action="append",
        required=True,
        help="YAML: workloads, pools, policies, nodes, pods, and what pods refer to (claims, volumes, classes, namespaces)",
    )
    plan.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text")
    plan.set_defaults(run=_plan)

    why = commands.add_parser("why", help="tell why a workload waits, or who holds capacity, from the cluster's objects")
    kinds = "job/NAME or any KIND/NAME that Kueue admits, pod, podgroup, workload, provreq; reservation/ID, pool/NAME, node/NAME"
    why.add_argument("target", help=kinds)
    why.add_argument("-n", "--namespace", default="default")
    why.add_argument("--kubeconfig", default="", help="default: KUBECONFIG, then ~/.kube/config")
    why.set_defaults(run=_why)

    pools = commands.add_parser("pools", help="tell what could be had from the pools now")
    pools.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    pools.add_argument("--kubeconfig", default="", help="default: KUBECONFIG, then ~/.kube/config")
    pools.set_defaults(run=_pools)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0 done, 1 the answer is no, 2 bad input (told on standard error)."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


# Each command imports what it needs when it runs: `corral plan` answers in well under a second.


def _admission(arguments: argparse.Namespace) -> int:
    from admission.main import run

    return _serve("admission", run(arguments.config))


def _provisioner(arguments: argparse.Namespace) -> int:
    from provisioner.main import run

    return _serve("provisioner", run(arguments.config))


def _simulated_cloud(arguments: argparse.Namespace) -> int:
    from provisioner.clouds.simulated.config import ConfigError
    from provisioner.clouds.simulated.server import serve

    try:
        return _serve("simulated-cloud", serve(arguments.config))
    except ConfigError as error:
        return _complain("simulated-cloud", error)


def _serve(command: str, service: Coroutine[None, None, None]) -> int:
    """Runs a service to its end. 2: its file or kubeconfig can't be used; 1: the API server didn't answer at its start, or the
    lease was lost. Anything else is a fault of ours and keeps its traceback."""
    from runtime.errors import ApiError, TransportError
    from runtime.lease import LeadershipLost
    from runtime.manager import NeverReady
    from runtime.settings import SettingsError

    try:
        asyncio.run(service)
    except Exception as error:
        match _alone(error):
            case SettingsError() as cause:
                return _complain(command, cause)
            case ApiError() | TransportError() | NeverReady() | LeadershipLost() as cause:
                return _complain(command, cause, code=1)
        raise
    return 0


def _alone(error: Exception) -> Exception:
    """What a group of one holds, however deep."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _complain(command: str, error: Exception, code: int = 2) -> int:
    """One line, whatever the error's own words look like: parsers spread theirs over several."""
    print(f"corral {command}: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _plan(arguments: argparse.Namespace) -> int:
    from corral.files import InputError
    from corral.offline import run

    try:
        return run(arguments.files, arguments.output)
    except InputError as error:
        return _complain("plan", error)


def _why(arguments: argparse.Namespace) -> int:
    from corral.why import WhyError, run

    try:
        asyncio.run(run(arguments.target, arguments.namespace, arguments.kubeconfig))
    except WhyError as error:
        return _complain("why", error)
    return 0


def _pools(arguments: argparse.Namespace) -> int:
    from corral.offered import run
    from corral.why import WhyError

    try:
        return asyncio.run(run(arguments.names, arguments.kubeconfig))
    except WhyError as error:
        return _complain("pools", error)
