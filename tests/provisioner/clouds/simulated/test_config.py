"""The configuration file: what it fills in, and how it says what is wrong."""

from pathlib import Path
from typing import Any

import pytest

from provisioner.clouds.simulated.config import ConfigError, load, parse
from tests.provisioner.clouds.conftest import RAW

EXAMPLE = Path(__file__).parents[4] / "docs" / "simulated-cloud.example.yaml"


def test_example_of_the_documentation() -> None:
    config = load(EXAMPLE)
    assert [zone.name for zone in config.zones] == ["sim-1a", "sim-1b"]
    shape = config.shape("p5.48xlarge")
    assert shape is not None
    assert [taint.key for taint in shape.taints] == ["nvidia.com/gpu"]
    assert shape.devices == {"nvidia.com/gpu": 8}, "what the file doesn't name is as built in"
    assert config.place_labels("sim-1a", "rack-3") == {
        "topology.kubernetes.io/zone": "sim-1a",
        "topology.corral.dev/block": "block-2",
        "topology.corral.dev/rack": "rack-3",
    }
    assert config.place_labels("sim-1b", "") == {"topology.kubernetes.io/zone": "sim-1b"}


def test_shape_of_ones_own_and_other_label_keys() -> None:
    shape = {"name": "x.large", "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
    zones = [{"name": "z", "racks": [{"name": "r", "slots": {"x.large": 1}}]}]
    config = parse({"zones": zones, "shapes": [shape], "topologyLabels": {"rack": "example.com/rack"}})
    assert config.place_labels("z", "r") == {"topology.kubernetes.io/zone": "z", "example.com/rack": "r"}
    found = config.shape("x.large")
    assert found is not None
    assert config.shape_labels(found) == {
        "node.kubernetes.io/instance-type": "x.large",
        "topology.kubernetes.io/region": "sim-1",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"zone": []}, "unknown field `zone`"),
        ({"zones": None}, r"Expected `array`, got `null` - at `\$.zones`"),
        ({"zones": [{"name": "z1"}, {"name": "z1"}]}, "zone z1 is there 2 times"),
        ({"reservations": RAW["reservations"] * 2}, "reservation cr is there 2 times"),
        ({"shapes": [{"name": "x"}]}, "missing required field `allocatable`"),
        ({"shapes": ["x"]}, "Expected `object`, got `str`"),
        ({"shapes": {"x": {}}}, "Expected `array`, got `object`"),
        ({"shapes": [{"name": "p5.48xlarge", "allocatable": {"cpu": "many"}}]}, r"shape p5.48xlarge: allocatable.cpu: .*many"),
        ({"quotas": {"p9": 1}}, r"shape p9 is not known: add it to shapes, or use one of .*p5.48xlarge"),
        ({"delays": {"launch": "2 seconds"}}, r"at `\$.delays.launch`"),
        ({"devicePlugin": "nvidia"}, "must be namespace/name"),
        ({"port": 99999}, r"at `\$.port`"),
        ({"faults": [{"kind": "bang"}]}, "Invalid enum value 'bang'"),
        ({"reservations": [{**RAW["reservations"][0], "ends": "2027-01-01T00:00:00"}]}, "timezone"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse({**RAW, **change})


def test_racks_have_one_name_each_over_all_zones() -> None:
    with pytest.raises(ConfigError, match="rack r1 is there 2 times"):
        parse({"zones": [{"name": name, "racks": [{"name": "r1", "slots": {}}]} for name in ("a", "b")]})


@pytest.mark.parametrize("text", ["", "[]", "zones: [", "zones: {"])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cloud.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        load(path)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")
