"""The stand-in as a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import boto3

from tests.e2e_clouds.conftest import ONCE

COMMAND = [sys.executable, "-m", "e2e.clouds.ec2", "--port", "0", "--state"]
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


def test_it_serves_what_its_state_file_holds_until_it_is_told_to_stop(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    state.write_text("reservations: [{id: cr-0a, type: p5.48xlarge, zone: us-east-1a, total: 3}]\n")
    with subprocess.Popen([*COMMAND, str(state)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = boto3.client("ec2", endpoint_url=process.stdout.readline().strip(), config=ONCE, **KEYS)
        (told,) = client.describe_capacity_reservations()["CapacityReservations"]
        assert (told["CapacityReservationId"], told["AvailableInstanceCount"]) == ("cr-0a", 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_a_bad_state_file_is_told(tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    state.write_text("reservation: []\n")
    ended = subprocess.run([*COMMAND, str(state)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "reservation" in ended.stderr
    assert str(state) in ended.stderr
