"""Priority, then age, then UID."""

from provisioner.ordering import turn
from tests.provisioner.make import request


def test_the_order_of_turns() -> None:
    old = request("old", created="2026-09-01T08:00:00Z")
    young = request("young", created="2026-09-01T09:00:00Z")
    twin = request("a-twin", created="2026-09-01T09:00:00Z")
    entries = [(young, 0), (twin, 0), (old, 0), (request("high", created="2026-09-01T09:30:00Z"), 100), (old, -5)]
    ordered = sorted(entries, key=lambda entry: turn(*entry))
    assert [(each.metadata.name, priority) for each, priority in ordered] == [
        ("high", 100),
        ("old", 0),
        ("a-twin", 0),
        ("young", 0),
        ("old", -5),
    ]
