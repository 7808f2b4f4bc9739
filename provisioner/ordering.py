"""Whose turn it is: priority of the Workload, then age, then UID so that two passes never differ."""

from kube.autoscaling import ProvisioningRequest

Turn = tuple[int, str, str]


def turn(request: ProvisioningRequest, priority: int) -> Turn:
    """Sorts the next one first. Creation times are whole seconds of UTC in one format, so their text sorts as they do."""
    return (-priority, request.metadata.creation_timestamp or "", request.metadata.uid)
