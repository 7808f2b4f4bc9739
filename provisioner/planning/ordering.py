"""Whose turn it is: priority of the Workload, then its age, then the age of the request, then UID so that passes never differ."""

from kube.autoscaling import ProvisioningRequest

Turn = tuple[int, str, str, str]


def turn(request: ProvisioningRequest, priority: int, waits_since: str = "") -> Turn:
    """Sorts the next one first. `waits_since` is when its Workload was made, "" for a bare request: an attempt that is made anew
    keeps its place. Such times are whole seconds of UTC in one format, so their text sorts as they do.
    """
    created = request.metadata.creation_timestamp or ""
    return (-priority, waits_since or created, created, request.metadata.uid)
