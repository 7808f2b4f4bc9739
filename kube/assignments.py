"""Kueue's topology assignment of a pod set, which it writes in a short form (kueue.x-k8s.io/v1beta2, TopologyAssignment)."""

from collections.abc import Iterator, Mapping
from typing import Any

from capacity.model import HOSTNAME

Json = Mapping[str, Any]


def pods_by_host(assignment: Json) -> Mapping[str, int]:
    """How many pods are pinned to each node, by hostname; none where the lowest level is no host."""
    levels = assignment.get("levels") or ()
    if not levels or levels[-1] != HOSTNAME:
        return {}
    found: dict[str, int] = {}
    for part in assignment.get("slices") or ():
        for host, count in zip(_values(part, len(levels) - 1), _counts(part), strict=True):
            found[host] = found.get(host, 0) + count
    return found


def _values(part: Json, level: int) -> Iterator[str]:
    """One value a domain: the same for all, or what stands between a common beginning and end."""
    values = part["valuesPerLevel"][level]
    if "universal" in values:
        yield from [values["universal"]] * part["domainCount"]
    else:
        one = values["individual"]
        yield from (f"{one.get('prefix') or ''}{root}{one.get('suffix') or ''}" for root in one["roots"])


def _counts(part: Json) -> Iterator[int]:
    counts = part["podCounts"]
    yield from [counts["universal"]] * part["domainCount"] if "universal" in counts else counts["individual"]
