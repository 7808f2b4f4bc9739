"""Parameters of a request: every key and value that is wrong is named, with the remedy."""

from typing import Any

import pytest
from msgspec import structs

from capacity.model import CapacityType
from kube import ours
from provisioner.parameters import ParameterError, Terms, terms
from tests.provisioner.make import policy

OPEN = {"userOverrides": ["topology.required", "topology.preferred", "runDuration"]}


def agreed(given: dict[str, str], *policies: ours.CapacityPolicy) -> Terms:
    return terms(given, {each.metadata.name: each for each in policies}.get)


def test_the_policy_named_default_serves_those_that_name_none() -> None:
    found = agreed({}, policy(timeouts={"queued": "24h", "provision": "40m", "booking": "15m"}))
    assert (found.policy, found.queued, found.provision, found.booking) == ("default", 86_400, 2400, 900)
    assert found.run_duration is None
    assert found.one_zone


def test_the_policy_sets_the_preferences() -> None:
    spec = {
        "capacityOrder": ["on-demand", "reserved"],
        "topology": {"required": "zone", "preferred": "rack"},
        "priceCeilingPerHour": "98.5",
        "pools": ["p"],
        "crossZone": {"policy": "Allow"},
        "runDuration": {"default": "90m"},
    }
    found = agreed({"policy": "big"}, policy("big", **spec))
    assert found.preferences.capacity_order == (CapacityType.ON_DEMAND, CapacityType.RESERVED)
    assert (found.preferences.required_topology, found.preferences.preferred_topology) == ("zone", "rack")
    assert (found.preferences.price_ceiling, found.pools, found.one_zone, found.run_duration) == (98_500_000, ("p",), False, 5400)


@pytest.mark.parametrize(
    ("spec", "cost"),
    [
        pytest.param({"policy": "Allow"}, 0, id="free by default"),
        pytest.param({"policy": "Allow", "costPerNodeHour": "1.5"}, 1_500_000, id="a cost"),
        pytest.param({"policy": "Forbid", "costPerNodeHour": "1.5"}, 0, id="where zones are not crossed nothing is weighed"),
    ],
)
def test_what_crossing_zones_counts_for(spec: dict[str, str], cost: int) -> None:
    assert agreed({}, policy(crossZone=spec)).preferences.cross_zone_cost == cost


def test_overrides_that_the_policy_opens() -> None:
    given = {"requiredTopology": "example.com/rack", "preferredTopology": "host", "runDuration": "1h30m"}
    found = agreed(given, policy(**OPEN, topology={"required": "zone"}))
    assert (found.preferences.required_topology, found.preferences.preferred_topology) == ("example.com/rack", "host")
    assert found.run_duration == 5400


def test_a_duration_may_be_unknown() -> None:
    assert agreed({"runDuration": "Unknown"}, policy(**OPEN, runDuration={"default": "1h"})).run_duration is None


@pytest.mark.parametrize(
    ("given", "spec", "text"),
    [
        pytest.param(
            {"provisionTimeout": "1h"}, {}, 'parameter "provisionTimeout" is unknown: remove it; known are policy,', id="unknown"
        ),
        pytest.param({"run_duration": "1h"}, OPEN, 'parameter "run_duration" is unknown', id="python-name"),
        pytest.param({"policy": "none"}, {}, 'parameter policy: there is no CapacityPolicy "none"', id="no-such-policy"),
        pytest.param(
            {"runDuration": "soon"}, OPEN, 'parameter runDuration = "soon": "soon" is not a duration', id="bad-duration"
        ),
        pytest.param({"runDuration": "0s"}, OPEN, "must be Unknown or a duration of a second or more", id="no-time"),
        pytest.param({"requiredTopology": "no spaces"}, OPEN, "must be a node label key", id="bad-key"),
        pytest.param({"requiredTopology": ""}, OPEN, "must be a node label key", id="empty-key"),
        pytest.param({"runDuration": "1h"}, {}, "add runDuration to userOverrides of the policy", id="not-opened"),
        pytest.param(
            {"requiredTopology": "zone"},
            {"userOverrides": ["topology.preferred"]},
            'parameter requiredTopology: CapacityPolicy "default" does not open it',
            id="another-one-is-opened",
        ),
        pytest.param({"x" * 1000: "1"}, {}, "is unknown", id="a-long-key-is-cut"),
    ],
)
def test_what_is_refused(given: dict[str, str], spec: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        agreed(given, policy(**spec))
    assert text in str(caught.value)
    assert len(str(caught.value)) < 300


def test_no_policy_at_all() -> None:
    with pytest.raises(ParameterError, match="parameter policy is missing and there is no CapacityPolicy"):
        agreed({})


def test_a_policy_that_cannot_be_read_is_named() -> None:
    made = policy()
    bad = structs.replace(made, spec=structs.replace(made.spec, price_ceiling_per_hour="much"))
    with pytest.raises(ParameterError, match='CapacityPolicy "default": "much" is not an amount of dollars'):
        agreed({}, bad)
