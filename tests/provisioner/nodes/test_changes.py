"""Nodes that changed since the store showed them, as the reconciler leaves them."""

from typing import Any

import pytest
from msgspec import structs

from kube.ours import BookedNode
from provisioner.nodes import marks
from tests.provisioner import fake_api
from tests.provisioner.test_bookings import KEY, Setting
from tests.provisioner.world import booking, purchase

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("now", "words"),
    [
        pytest.param({"labels": {"x.booking.corral.dev/main": "true"}}, "node a belongs to booking x", id="another booking's"),
        pytest.param({"provider": "sim://new"}, "node a is gone", id="another machine"),
    ],
)
async def test_a_node_that_is_another_by_now_is_not_marked(now: dict[str, Any], words: str) -> None:
    """The store doesn't show it yet; when it does, the booking plans again."""
    here = Setting(nodes=("a",))
    here.api.lag.add("nodes")
    here.api.put("nodes", fake_api.node("a", **now))
    for _ in range(3):
        await here.turn()
    there = here.api.of("nodes", "a")
    assert KEY not in there.metadata.labels
    assert there.metadata.labels.items() >= now.get("labels", {}).items()

    here.api.lag.clear()
    here.api.put("nodes", here.api.objects["nodes", "", "a"])
    await here.until("Failed")
    assert (here.status.reason, here.status.message) == ("NodeTaken", words)


async def test_a_node_that_is_taken_over_loses_the_keys_of_its_giver_when_it_is_marked() -> None:
    given = BookedNode(name="a", pool="p", pods={"main": 1}, provider_id="sim://a", taken_over="x")
    made = booking(nodes=("a",))
    here = Setting(nodes=("a",))
    here.api.put("nodes", fake_api.node("a", labels={"x.booking.corral.dev/main": "true", marks.REQUEST: "x"}))
    raw = here.api.objects["bookings", "", "b"]
    here.api.put("bookings", {**raw, "spec": structs.replace(made.spec, nodes=(given,)).to_json()})

    await here.until("Provisioned")
    assert marks.bookings_on(here.api.of("nodes", "a").metadata.labels) == {"b"}


async def test_a_node_that_has_the_name_of_a_bad_one_is_not_quarantined() -> None:
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Joining")
    here.api.put(
        "nodes",
        {
            **fake_api.node("n-i0", gpus=7, labels=here.api.of("nodes", "n-i0").metadata.labels),
            "spec": {"providerID": "sim://i0"},
        },
    )
    for _ in range(20):
        if any(each.state == "Bad" for each in here.status.instances):
            break
        await here.turn()
    here.api.lag.add("nodes")
    here.api.put("nodes", fake_api.node("n-i0", "sim://new"))
    for _ in range(3):
        await here.turn()

    there = here.api.of("nodes", "n-i0")
    assert "corral.dev/quarantined" not in there.metadata.labels
    assert not there.spec.unschedulable
