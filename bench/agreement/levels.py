"""What a gang asks of its places beyond the scheduler's filters: required levels and slices, checked on where its pods went."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from bench.agreement.cases import Case, Json

_PREFIX = "corral.dev/"


def broken(case: Case, places: Mapping[str, list[Json]]) -> list[str]:
    """`places` are the labels of the nodes of each pod set's pods. Returns what isn't kept, empty when all is."""
    return [*_levels(case, places), *_slices(case, places)]


def _note(case: Case, pod_set: str, name: str) -> str:
    return str(case.pod_set(pod_set).template["metadata"].get("annotations", {}).get(_PREFIX + name, ""))


def _levels(case: Case, places: Mapping[str, list[Json]]) -> list[str]:
    domains: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for name, labels in places.items():
        if key := _note(case, name, "required-topology"):
            domains[key, _note(case, name, "topology-group")] |= {each.get(key) for each in labels}
    return [
        f"{key} isn't one domain: {sorted(map(str, found))}"
        for (key, _), found in domains.items()
        if len(found) > 1 or None in found
    ]


def _slices(case: Case, places: Mapping[str, list[Json]]) -> list[str]:
    found = []
    for name, labels in places.items():
        if key := _note(case, name, "slice-topology"):
            size = int(_note(case, name, "slice-size"))
            counts = Counter(each.get(key) for each in labels)
            if None in counts or any(count % size for count in counts.values()):
                found.append(f"{name}: slices of {size} are not each in one {key}: {dict(counts)}")
    return found
