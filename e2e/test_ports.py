"""Ports for programs that are killed and started again."""

import socket
import subprocess
import sys
from pathlib import Path

from e2e import ports


def test_no_port_is_one_that_the_kernel_gives_to_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(1024 < port < lowest for port in (ports.FIRST, ports.LAST, *ports.take(20)))


def test_two_processes_never_get_the_same_port_though_nobody_listens() -> None:
    command = [sys.executable, "-c", "from e2e import ports; print(*ports.take(200))"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    taken = [port for run in runs for port in run.communicate()[0].split()]
    assert len(set(taken)) == len(taken) == 600


def test_a_port_in_use_is_passed_over() -> None:
    (near,) = ports.take()
    with socket.create_server(("127.0.0.1", near + 3)):
        assert near + 3 not in ports.take(10)
