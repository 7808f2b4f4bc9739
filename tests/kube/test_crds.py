"""The files in crds/ are what the models say, and every field of ours has words."""

import re
from typing import Any

import pytest

from kube import crds
from kube.autoscaling import ProvisioningRequest
from kube.schema import OPEN, OURS, schema


def test_files_have_not_drifted() -> None:
    assert crds.drifted() == []


def test_drift_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(crds, "FOLDER", tmp_path)
    assert crds.main(["check"]) == 1
    assert "corral.dev_bookings.yaml" in capsys.readouterr().err
    assert crds.main(["write"]) == 0
    assert crds.main(["check"]) == 0


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["please"]) == 2
    assert "write|check" in capsys.readouterr().err


def walk(node: dict[str, Any], path: str = "") -> Any:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], f"{path}[]")


MODELS = [pytest.param(d, id=d.kind.plural) for d in crds.DEFINITIONS]


@pytest.mark.parametrize("definition", MODELS)
def test_every_field_is_described(definition: crds.Definition) -> None:
    nodes = walk(schema(definition.model, definition.bounds))
    missing = [path for path, node in nodes if not path.endswith("[]") and path != ".metadata" and not node.get("description")]
    assert missing == []


@pytest.mark.parametrize("definition", [d for d in MODELS if d.id != "provisioningrequests"])
def test_everything_of_ours_is_bounded(definition: crds.Definition) -> None:
    limit = {"array": "maxItems", "string": "maxLength"}
    nodes = list(walk(schema(definition.model, definition.bounds)))
    open_ended = [
        path
        for path, node in nodes
        if (key := limit.get(node.get("type", ""))) and key not in node and not {"enum", "format"} & set(node)
    ]
    assert open_ended == []


def test_columns_of_requests() -> None:
    definition = crds.crd(next(d for d in crds.DEFINITIONS if d.model is ProvisioningRequest))
    current, older = definition["spec"]["versions"]
    assert [column["name"].upper() for column in current["additionalPrinterColumns"]] == [
        "CLASS", "ACCEPTED", "PROVISIONED", "FAILED", "REASON", "AGE",
    ]  # fmt: skip
    assert (current["name"], current["storage"], older["name"], older["storage"]) == ("v1", True, "v1beta1", False)
    assert current["schema"] == older["schema"]


def test_columns_read_fields_that_exist() -> None:
    for definition in crds.DEFINITIONS:
        known = {path for path, _ in walk(schema(definition.model, definition.bounds))}
        for column in definition.columns:
            path = re.sub(r"\[\?.*\]", "[]", column.path)
            assert path in known or path.startswith(".metadata."), column


def test_bounds_apply_only_where_the_model_names_none() -> None:
    spec = schema(ProvisioningRequest, OPEN)["properties"]["spec"]["properties"]
    assert (spec["podSets"]["maxItems"], spec["parameters"]["maxProperties"]) == (32, 100)
    assert schema(ProvisioningRequest, OURS)["properties"]["spec"]["properties"]["podSets"]["maxItems"] == 32
