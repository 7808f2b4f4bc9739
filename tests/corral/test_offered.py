"""`corral pools`: one row an offering, and what stands in a pool's way."""

import io

from rich.console import Console

from corral.offered import row, show
from kube.meta import Condition, ObjectMeta
from kube.ours import CapacityPool, CapacityPoolSpec, CapacityPoolStatus, OfferingStatus, Provider

RACK = "topology.k8s.aws/network-node-layer-3"
HELD = OfferingStatus(
    name="p/odcr/cr-1/z/n3", source="odcr", shape="p5.48xlarge", zone="z", capacity_type="reserved", available=3, total=4,
    reservation_id="cr-1", domain={"topology.kubernetes.io/zone": "z", RACK: "n3"},
)  # fmt: skip
OPEN = OfferingStatus(
    name="p/od", source="od", shape="p5.48xlarge", zone="z", capacity_type="on-demand", available=100_000, total=100_000,
    price_per_hour="55.04",
)  # fmt: skip


def test_a_reservation_and_a_market_that_does_not_tell_its_stock() -> None:
    assert row(HELD) == ("odcr cr-1", "p5.48xlarge", "z", "n3", "3", "4", "prepaid", "", "")
    assert row(OPEN) == ("od", "p5.48xlarge", "z", "", "not told", "", "55.04", "", "")


def test_what_stands_in_the_way_comes_first() -> None:
    def condition(type_: str, status: str) -> Condition:
        return Condition(type=type_, status=status, reason="Because", message=f"words on {type_}", last_transition_time="")

    told = (condition("Ready", "False"), condition("SubnetsUnfit", "True"), condition("QuotaShort", "False"))
    pool = CapacityPool(
        metadata=ObjectMeta(name="p"),
        spec=CapacityPoolSpec(provider=Provider(), mode="Active"),
        status=CapacityPoolStatus(offerings=(HELD,), conditions=told),
    )
    screen = Console(file=io.StringIO(), width=160)
    show(screen, [pool])
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert text.startswith("p: Active\n  Ready Because: words on Ready\n  SubnetsUnfit Because: words on SubnetsUnfit\n")
    assert "QuotaShort" not in text
    assert "cr-1" in text
