"""What tests look at in requests."""

from typing import Any


def asked(request: dict[str, Any]) -> dict[str, int]:
    """Names and counts of the pod sets that a request asks capacity for."""
    names = request["metadata"]["annotations"]["corral.dev/pod-sets"].split(",")
    return dict(zip(names, (each["count"] for each in request["spec"]["podSets"]), strict=True))
