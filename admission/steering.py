"""How pods are steered to what was booked for them: by a selector key for each pod set and a toleration, both ours alone."""

from collections.abc import Mapping, Sequence
from typing import Any

BOOKING_DOMAIN = "booking.corral.dev"
BOOKED_TAINT = "corral.dev/booked"


def booking_key(booking: str, pod_set: str) -> str:
    """The node label key that marks the nodes of one pod set of a booking."""
    return f"{booking}.{BOOKING_DOMAIN}/{pod_set}"


def pod_set_updates(booking: str, pod_sets: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Each pod set's own, as Kueue merges them into its pods."""
    toleration = {"key": BOOKED_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    return tuple(
        {"name": name, "nodeSelector": {booking_key(booking, name): "true"}, "tolerations": [toleration]} for name in pod_sets
    )
