"""The status of a pool: numbers that add up, conditions that name the trouble and its remedy."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kube import ours
from kube.meta import decode
from provisioner.clouds.base import Check
from provisioner.planning import daemons
from provisioner.planning.offerings import Offers, offers
from provisioner.planning.snapshots import market
from provisioner.telling import poolstatus
from provisioner.view import View
from tests.provisioner.make import NOW, booking, daemon_set, instance, inventory, known, node, pool, reservation, source, view


def status(seen: View, *, error: str = "", **flavors: Any) -> ours.CapacityPoolStatus:
    of = seen.pools["p"]
    pods = daemons.daemon_pods(seen.daemon_sets)
    found = market(seen, of, pods)
    look = poolstatus.look(seen, of, found, offers(found) if found else Offers(), pods, error)
    return poolstatus.pool_status(seen, of, replace(look, **flavors))


def condition(found: ours.CapacityPoolStatus, type_: str) -> tuple[str, str, str]:
    each = next(c for c in found.conditions if c.type == type_)
    return each.status, each.reason, each.message


@pytest.mark.parametrize(
    ("of", "more", "error", "expected", "text"),
    [
        pytest.param(pool(), {}, "", ("True", "Ready"), "serves requests", id="ready"),
        pytest.param(pool(mode="Observe"), {}, "", ("True", "Observing"), "set spec.mode to Active", id="observing"),
        pytest.param(pool(mode="Paused"), {}, "", ("True", "Paused"), "what runs goes on", id="paused"),
        pytest.param(
            pool(shapes=["h100", "h200"]),
            {},
            "",
            ("False", "UnknownShape"),
            "no h200: correct or remove it; it knows cpu, h100",
            id="unknown-shape",
        ),
        pytest.param(
            pool("p", source(reservationIDs=["cr-1", "cr-9"])), {}, "", ("False", "UnknownReservation"), "no cr-9 now", id="no-cr"
        ),
        pytest.param(pool(), {"known": {}}, "", ("False", "ProviderUnreachable"), "not reached yet", id="never-reached"),
        pytest.param(
            pool(), {}, "refused", ("False", "ProviderUnreachable"), "refused; what it said at 10:00Z still counts", id="lost"
        ),
        pytest.param(
            pool(provider={"adopted": {}}, shapes=["x"]), {}, "", ("True", "Ready"), "serves", id="adopted-has-no-shapes"
        ),
    ],
)
def test_ready(of: ours.CapacityPool, more: dict[str, Any], error: str, expected: tuple[str, str], text: str) -> None:
    found = condition(status(view(of, **more), error=error), "Ready")
    assert found[:2] == expected
    assert text in found[2]


def test_daemon_sets_blocked() -> None:
    found = condition(status(view(daemon_sets=(daemon_set("d", {"key": "gpu", "operator": "Exists"}),))), "DaemonSetsBlocked")
    assert found[:2] == ("True", "TolerationMissing")
    assert "none of them is required, so the pool goes on" in found[2]
    required = pool(readiness={"requiredDaemonSets": ["kube-system/d"]})
    assert condition(status(view(required)), "DaemonSetsBlocked")[:2] == ("True", "RequiredDaemonSets")
    assert condition(status(view()), "DaemonSetsBlocked")[:2] == ("False", "AllTolerate")


def test_overlaps_name_nodes_and_pools() -> None:
    pools = [pool(name, nodeSelector={"matchLabels": {"team": "train"}}) for name in ("p", "q")]
    found = condition(status(view(*pools, nodes=tuple(node(f"n{i}") for i in range(7)))), "Overlaps")
    assert found[:2] == ("True", "NodesSelectedTwice")
    assert "n0 by p, q" in found[2]
    assert "and 2 more" in found[2]


def test_numbers() -> None:
    of = pool("p", nodeSelector={"matchLabels": {"team": "train"}})
    nodes = (
        node("free"),
        node("taken"),
        node("sick", labels={"corral.dev/quarantined": "true"}),
        node("ailing", conditions=[{"type": "Ready", "status": "True"}, {"type": "KernelDeadlock", "status": "True"}]),
        node("idle", provider_id="sim:///east/i-1", labels={"corral.dev/pool": "p"}),
    )
    there = known(instance(1, reservation="cr-1"), inventory=inventory(reservation(used=3, free=(1, 4))))
    found = status(view(of, nodes=nodes, bookings=(booking("b", nodes=("taken",)),), known={"p": there}, spent={"p": 1_500_000}))
    assert found.nodes == ours.NodeCounts(launched=1, adopted=4, booked=1, idle=2, quarantined=2)
    assert found.spend == ours.Spend(day="2026-09-01", on_demand="1.50")
    (use,) = found.reservations
    assert (use.id, use.source, use.total, use.booked, use.outside, use.free) == ("cr-1", "res", 8, 0, 2, 6)
    assert [(o.name, o.available) for o in found.offerings if o.capacity_type == "reserved"] == [
        ("p/res/cr-1/east/a", 1),
        ("p/res/cr-1/east/b", 4),
    ]
    (shape,) = found.shapes
    assert shape.allocatable == {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    assert shape.on_demand_price_per_hour == "10.00"


def test_conditions_keep_their_times() -> None:
    first = status(view())
    raw = {**pool().to_json(), "status": first.to_json()}
    again = status(view(decode(raw, ours.CapacityPool), now=NOW + timedelta(hours=1)))
    assert again.conditions == first.conditions


def test_missing_labels_are_a_condition() -> None:
    found = condition(status(view(), missing={"f": "ResourceFlavor f asks for gpu=h200"}), "LabelsMissing")
    assert found == ("True", "FlavorLabels", "ResourceFlavor f asks for gpu=h200")


def test_flavors_that_do_not_fit_are_a_condition() -> None:
    assert condition(status(view()), "FlavorsUnfit")[:2] == ("False", "AllFit")
    found = condition(status(view(), unfit={"f": "ResourceFlavor f has a topologyName"}), "FlavorsUnfit")
    assert found == ("True", "FlavorMismatch", "ResourceFlavor f has a topologyName")


def test_a_refused_health_check_is_a_condition() -> None:
    assert condition(status(view()), "HealthCheckRefused")[:2] == ("False", "NoneRefused")
    found = condition(status(view(), checkup=("Invalid", "containers: Required value")), "HealthCheckRefused")
    assert found == ("True", "Invalid", "containers: Required value")


def test_what_the_cloud_checked_is_told_and_may_stop_purchases() -> None:
    checks = (
        Check("SubnetsUnfit", ok=True, reason="AllFit", message="fine"),
        Check("SecurityGroupUnfit", ok=False, reason="NoSelfRule", message="sg-1 must allow itself", blocks=True),
    )
    of = pool("p", source())
    seen = view(of, known={"p": known(inventory=replace(inventory(), checks=checks))})
    found = status(seen)
    assert condition(found, "SubnetsUnfit") == ("False", "AllFit", "fine")
    assert condition(found, "SecurityGroupUnfit") == ("True", "NoSelfRule", "sg-1 must allow itself")
    assert {each.unavailable for each in found.offerings} == {"SecurityGroupUnfit in pool p: sg-1 must allow itself"}
