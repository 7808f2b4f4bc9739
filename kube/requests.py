"""What one pod asks of a node, counted as kube-scheduler 1.36.3 counts it.

Sources: `component-helpers/resource/helpers.go` (PodRequests) and the defaulting of pods (`SetDefaults_Pod`): limits stand
in for missing requests, sidecars add to what runs beside them, overhead comes on top. All sums are made in thousandths, to which
the API server rounds every amount up, and only the total is rounded up to whole units.
"""

from collections.abc import Callable, Iterable, Mapping

from capacity.model import Resources
from capacity.quantity import milli
from kube.core import Container, ContainerStatus, PodSpec, PodStatus, ResourceList, ResourceRequirements

Amounts = dict[str, int]  # thousandths of each resource


class PodSpecError(ValueError):
    """A pod spec that the API server would refuse; the text names the field and the remedy."""


def pod_requests(spec: PodSpec, status: PodStatus | None = None) -> Resources:
    """The amounts one pod takes (cpu in milli-cores, others in base units), `pods: 1` included; zero amounts are left out.

    With `status`, a resize in flight counts as the scheduler counts it: the most of what is asked, allocated and in force. Raises
    PodSpecError for an amount that is no quantity or negative.
    """
    total = _aggregate(spec, _effective(status) if status else _asked)
    total.update(_pod_level(spec, status, total))
    _add(total, _amounts("spec.overhead", spec.overhead))
    counted = {name: amount if name == "cpu" else -(-amount // 1000) for name, amount in total.items() if amount}
    return {**counted, "pods": 1}


def _asked(container: Container) -> Amounts:
    where = f"container {container.name}"
    return {
        **_amounts(f"{where}: limits", container.resources.limits),
        **_amounts(f"{where}: requests", container.resources.requests),
    }


def _aggregate(spec: PodSpec, asked: Callable[[Container], Amounts]) -> Amounts:
    """The containers and sidecars together, or the hungriest moment of initialisation if that is more."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, asked(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        needs = asked(container) if container.restart_policy == "Always" else _asked(container)
        if container.restart_policy == "Always":
            _add(total, needs)
            _add(sidecars, needs)
            _raise(peak, sidecars)
        else:
            _add(needs, sidecars)
            _raise(peak, needs)
    _raise(total, peak)
    return total


def _pod_level(spec: PodSpec, status: PodStatus | None, aggregate: Amounts) -> Amounts:
    """The pod-level requests, which replace the containers' sum for cpu, memory and huge pages."""
    if spec.resources is None:
        return {}
    requests = _amounts("spec.resources.requests", spec.resources.requests)
    limits = _amounts("spec.resources.limits", spec.resources.limits)
    if limits:
        requests = {**limits, **{name: aggregate[name] for name in ("cpu", "memory") if name in aggregate}, **requests}
    if status and status.resources:
        actual = _amounts("status.resources.requests", status.resources.requests)
        requests = _most(status, requests, actual, _amounts("status.allocatedResources", status.allocated_resources))
    return {name: amount for name, amount in requests.items() if name in ("cpu", "memory") or name.startswith("hugepages-")}


def _effective(status: PodStatus) -> Callable[[Container], Amounts]:
    resized = {
        each.name: (each, each.resources)
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    }
    return lambda container: _in_force(container, status, resized.get(container.name))


def _in_force(container: Container, status: PodStatus, found: tuple[ContainerStatus, ResourceRequirements] | None) -> Amounts:
    if found is None:
        return _asked(container)
    reported, resources = found
    where = f"status of container {container.name}"
    actual, allocated = _amounts(where, resources.requests), _amounts(where, reported.allocated_resources)
    return _most(status, _asked(container), actual, allocated)


def _most(status: PodStatus, asked: Amounts, actual: Amounts, allocated: Amounts) -> Amounts:
    pending = next((c for c in status.conditions if c.type == "PodResizePending"), None)
    infeasible = pending is not None and pending.reason == "Infeasible"
    return _maximum([actual, allocated] if infeasible else [asked, actual, allocated])


def _maximum(lists: Iterable[Mapping[str, int]]) -> Amounts:
    most: Amounts = {}
    for each in lists:
        _raise(most, each)
    return most


def _amounts(where: str, resources: ResourceList) -> Amounts:
    return {name: _amount(where, name, text) for name, text in resources.items()}


def _amount(where: str, name: str, text: str | int) -> int:
    try:
        amount = milli(text)
    except ValueError as error:
        raise PodSpecError(f"{where}: {name}: {error}") from None
    if amount < 0:
        raise PodSpecError(f"{where}: {name}: {text} is negative: an amount must be zero or more")
    return amount


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)
