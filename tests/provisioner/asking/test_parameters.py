"""Parameters of a request: every key and value that is wrong is named, with the remedy."""

from typing import Any

import pytest
from msgspec import structs

from capacity.model import CapacityType
from kube import ours
from provisioner.asking.parameters import ParameterError, PolicyMissingError, Terms, terms
from tests.provisioner.make import policy

OPEN = {"userOverrides": ["topology.required", "topology.preferred", "runDuration"]}


ALL = {"userOverrides": [*ours.OVERRIDES.values()]}


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
        pytest.param({"timout": "1h"}, {}, 'parameter "timout" is unknown: remove it; known are policy,', id="unknown"),
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
        pytest.param({"capacityOrder": "spot"}, ALL, "must be some of reserved, capacity-block, on-demand", id="unknown-type"),
        pytest.param({"capacityOrder": "reserved,reserved"}, ALL, "each once", id="type-twice"),
        pytest.param({"priceCeilingPerHour": "1e9"}, ALL, "is not an amount of dollars", id="bad-price"),
        pytest.param({"queuedTimeout": "0s"}, ALL, "must be a duration of a second or more", id="no-time-in-queue"),
        pytest.param({"provisionTimeout": "Unknown"}, ALL, '"Unknown" is not a duration', id="unknown-timeout"),
        pytest.param({"retryLimit": "-1"}, ALL, "must be a whole number", id="negative-retries"),
        pytest.param(
            {"queuedTimeout": "24h1s"},
            ALL,
            'parameter queuedTimeout = "24h1s": CapacityPolicy "default" allows 24h at most: ask for no more, '
            "or raise timeouts.queued of the policy",
            id="longer-in-queue",
        ),
        pytest.param({"provisionTimeout": "41m"}, ALL, "allows 40m at most", id="longer-for-machines"),
        pytest.param({"retryLimit": "6"}, ALL, "allows 5 at most", id="more-retries"),
        pytest.param({"priceCeilingPerHour": "10.01"}, {**ALL, "priceCeilingPerHour": "10"}, "allows 10 at most", id="dearer"),
        pytest.param(
            {"capacityOrder": "reserved,on-demand"},
            {**ALL, "capacityOrder": ["reserved"]},
            'parameter capacityOrder = "reserved,on-demand": CapacityPolicy "default" allows reserved at most',
            id="another-capacity-type",
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


def test_a_request_may_ask_for_less_than_its_policy_gives() -> None:
    """The bounds themselves may be asked for, and any ceiling where the policy has none."""
    given = {
        "capacityOrder": "on-demand,reserved",
        "priceCeilingPerHour": "7.5",
        "queuedTimeout": "24h",
        "provisionTimeout": "90s",
        "retryLimit": "0",
    }
    found = agreed(given, policy(**ALL))
    assert found.preferences.capacity_order == (CapacityType.ON_DEMAND, CapacityType.RESERVED)
    assert (found.preferences.price_ceiling, found.queued, found.provision) == (7_500_000, 86_400, 90)


BY_CLASS = {"byPriorityClass": [{"policy": "urgent", "names": ["high", "highest"]}]}


@pytest.mark.parametrize(
    ("priority_class", "name", "pools"),
    [
        pytest.param("", "default", (), id="none"),
        pytest.param("low", "default", (), id="a class that no entry names"),
        pytest.param("highest", "urgent", ("reserved",), id="a class that is handed on"),
    ],
)
def test_a_priority_class_may_be_served_on_the_terms_of_another_policy(
    priority_class: str, name: str, pools: tuple[str, ...]
) -> None:
    """The other one's own list doesn't count: it would lead back here."""
    back = [{"policy": "default", "names": ["high", "highest"]}]
    there = {"default": policy(**BY_CLASS), "urgent": policy("urgent", pools=["reserved"], byPriorityClass=back)}
    found = terms({}, there.get, priority_class)
    assert (found.policy, found.pools) == (name, pools)


def test_overrides_are_bounded_by_the_policy_that_serves() -> None:
    there = {"default": policy(**BY_CLASS, **ALL), "urgent": policy("urgent")}
    assert terms({"retryLimit": "0"}, there.get).policy == "default"
    with pytest.raises(ParameterError, match='parameter retryLimit: CapacityPolicy "urgent" does not open it'):
        terms({"retryLimit": "0"}, there.get, "high")


def test_a_policy_that_is_to_serve_a_class_and_is_not_there() -> None:
    there = {"default": policy(**BY_CLASS)}
    with pytest.raises(PolicyMissingError, match='byPriorityClass hands high to CapacityPolicy "urgent", which is not there'):
        terms({}, there.get, "high")
