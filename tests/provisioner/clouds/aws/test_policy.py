"""config/aws/policy.json allows what the code calls, and nothing else."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.clouds.aws.operations import Op

ROOT = Path(__file__).parents[4]
CODE = ROOT / "provisioner" / "clouds" / "aws"
POLICY = ROOT / "config" / "aws" / "policy.json"
TAG = "corral.dev/installation"
TAGGED = ("instance/", "volume/", "network-interface/", "fleet/")


def statements() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(POLICY.read_text())["Statement"]
    return found


def actions(statement: dict[str, Any]) -> set[str]:
    named = statement["Action"]
    return {named} if isinstance(named, str) else set(named)


def resources(statement: dict[str, Any]) -> list[str]:
    named = statement["Resource"]
    return [named] if isinstance(named, str) else list(named)


def parsed() -> list[ast.AST]:
    return [node for path in CODE.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]


def test_every_call_is_allowed_and_nothing_else() -> None:
    assert set().union(*map(actions, statements())) == {action for op in Op for action in op.value.actions}


def test_every_operation_of_the_list_is_called_somewhere() -> None:
    named = {
        node.attr
        for node in parsed()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Op"
    }
    assert named == {op.name for op in Op}


def test_boto3_is_used_in_one_place() -> None:
    importing = {
        path.name
        for path in CODE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and "boto" in ast.unparse(node)
    }
    assert importing == {"calls.py"}


def test_actions_are_those_of_the_methods() -> None:
    for op in Op:
        action = "".join(word.capitalize() for word in op.value.method.split("_"))
        service = op.value.service.replace("-", "")
        assert f"{service}:{action}" in op.value.actions


def test_nothing_is_named_by_a_wildcard() -> None:
    assert not [action for each in statements() for action in actions(each) if "*" in action]
    assert all(each["Effect"] == "Allow" for each in statements())


@pytest.mark.parametrize(
    ("action", "key"),
    [
        pytest.param("ec2:RunInstances", f"aws:RequestTag/{TAG}", id="launch"),
        pytest.param("ec2:CreateFleet", f"aws:RequestTag/{TAG}", id="fleet"),
        pytest.param("ec2:CreateTags", f"aws:RequestTag/{TAG}", id="tag"),
        pytest.param("ec2:TerminateInstances", f"aws:ResourceTag/{TAG}", id="end"),
    ],
)
def test_what_is_made_or_ended_bears_the_installations_tag(action: str, key: str) -> None:
    for statement in statements():
        touches = any(kind in name for name in resources(statement) for kind in (*TAGGED, "*/*"))
        if action in actions(statement) and touches:
            assert statement["Condition"]["StringEquals"][key] == "${INSTALLATION}"
