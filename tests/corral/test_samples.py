"""The examples in docs/cli.md are what the samples in config/samples/plan give."""

import re
import shlex
from pathlib import Path

import pytest

from capacity.model import Constraint
from corral.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```\n\$ corral (plan .*)\n((?:.+\n)+?)```", PAGE)


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command.split("/")[-1] for command, _ in EXAMPLES])
def test_an_example_shows_what_the_command_prints(
    command: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)) == 1
    assert capsys.readouterr().out == output


def test_the_examples_explain_three_kinds_of_shortfall() -> None:
    told = [re.match(r"WAITS job/[-\w]+: (\w+): ", output) for _, output in EXAMPLES]
    assert [match and match[1] for match in told] == ["TopologyUnsatisfied", "ReservationMismatch", "GangIncomplete"]


def test_each_constraint_is_explained() -> None:
    assert [kind.value for kind in Constraint if f"`{kind.value}`" not in PAGE] == []
