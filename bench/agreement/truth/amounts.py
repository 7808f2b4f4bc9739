"""Quantities as exact fractions, and what a pod asks of its node (component-helpers 0.36.3, resource.PodRequests)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Exact = dict[str, Fraction]
Amounts = dict[str, int]
"""Milli-cores of cpu; whole units of everything else."""

_SHAPE = re.compile(r"([+-]?[0-9]*\.?[0-9]*)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_POWERS = {suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)}
_POWERS |= {suffix: Fraction(1000) ** (rank + 1) for rank, suffix in enumerate("kMGTPE")}
_POWERS |= {f"{suffix}i": Fraction(1024) ** (rank + 1) for rank, suffix in enumerate("KMGTPE")}
_AT_POD_LEVEL = ("cpu", "memory", "hugepages-")


def exact(text: str | int) -> Fraction:
    """The number that a quantity stands for, rounded up to thousandths as the API server stores it. Raises ValueError."""
    found = _SHAPE.fullmatch(str(text))
    if not found or not re.search("[0-9]", found[1]):
        raise ValueError(f"no quantity: {text!r}")
    value = Fraction(found[1]) * (Fraction(10) ** int(found[2][1:]) if found[2] else _POWERS.get(found[3], Fraction(1)))
    return Fraction(math.ceil(value * 1000), 1000)


def counted(amounts: Mapping[str, Fraction]) -> Amounts:
    """What the scheduler counts: nothing is ever rounded down."""
    return {name: math.ceil(value * 1000 if name == "cpu" else value) for name, value in amounts.items()}


def resource_list(texts: Mapping[str, str | int] | None) -> Exact:
    return {name: exact(text) for name, text in (texts or {}).items()}


def pod_amounts(spec: Json, overhead: Mapping[str, str] | None = None) -> Amounts:
    """One pod's requests with `pods: 1`. `overhead` is that of its RuntimeClass."""
    total = _with_pod_level(spec, _peak(spec))
    return {**counted(_sum((total, resource_list(overhead)))), "pods": 1}


def _peak(spec: Json) -> Exact:
    """The most that is asked for at any time: by each init container with the sidecars started before it, then by the rest."""
    beside: list[Exact] = []
    phases: list[Exact] = []
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            beside.append(_container(container))
        else:
            phases.append(_sum((*beside, _container(container))))
    phases.append(_sum((*beside, *map(_container, spec["containers"]))))
    return {name: max(phase.get(name, Fraction(0)) for phase in phases) for phase in phases for name in phase}


def _container(container: Json) -> Exact:
    resources = container.get("resources") or {}
    return resource_list({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _with_pod_level(spec: Json, total: Exact) -> Exact:
    """The pod's own requests count instead of its containers'; its limits stand in where nobody asks (PodLevelResources)."""
    resources = spec.get("resources") or {}
    limits, requests = resource_list(resources.get("limits")), resource_list(resources.get("requests"))
    own = {name: value for name, value in {**limits, **total, **requests}.items() if name.startswith(_AT_POD_LEVEL)}
    return {**total, **own}


def _sum(parts: Iterable[Mapping[str, Fraction]]) -> Exact:
    total: Counter[str] = Counter()
    for part in parts:
        for name, value in part.items():
            total[name] += value  # type: ignore[assignment]
    return dict(total)  # type: ignore[arg-type]
