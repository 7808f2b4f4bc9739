"""A case that the two sides disagree on is made as small as it gets while they still do.

Whatever can be left out of its JSON is left out. Each part is tried alone, many cases in one wave; then as many as possible of
those that don't matter go together.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from bench.agreement.cases import CASE_LABEL, HOSTNAME, Case, Json, case
from bench.agreement.field import Field
from bench.agreement.results import Disagreement, Result
from bench.agreement.waves import Wave

_KEPT = {
    *("apiVersion", "kind", "name", "namespace", "image", "containers", "metadata", "spec", "status", "labels", "capacity"),
    *("nodeName", "operator", "topologyKey", "key", "effect", "claimRef", "csi", "accessModes", "storageClassName", "handler"),
    *("features", "id", "seed", "topology_keys", "nodes", "pod_sets", "template", "nodeSelector", CASE_LABEL, HOSTNAME),
    *("count", "limit", "price", "node", "startup_taints", "selector", "finalizers"),
    *("maxSkew", "whenUnsatisfiable", "terminationGracePeriodSeconds", "automountServiceAccountToken", "allocatable", "pod_set"),
}
_ROUNDS = 12
_AT_ONCE = 90

Path = tuple[str | int, ...]
Same = Callable[[Result], bool]


async def shrink(here: Field, original: Case, wanted: Disagreement) -> Case:
    """The smallest case found that still disagrees in the same question and the same way."""
    tried = _Tried(here, wanted.question == "Q1", lambda result: _still(result, wanted))
    best = original
    for _ in range(_ROUNDS):
        smaller = await _one_round(tried, best)
        if smaller is None:
            return best
        best = smaller
    return best


class _Tried:
    """Puts smaller cases to the cluster, only the question that matters."""

    def __init__(self, here: Field, probes: bool, same: Same) -> None:
        self._here, self._probes, self._same = here, probes, same

    async def holds(self, candidates: Sequence[Case]) -> list[bool]:
        found: list[bool] = []
        for start in range(0, len(candidates), _AT_ONCE):
            wave = Wave(self._here, candidates[start : start + _AT_ONCE], probes=self._probes, gangs=not self._probes)
            found += [not result.refused and self._same(result) for result in await wave.run()]
        return found


async def _one_round(tried: _Tried, best: Case) -> Case | None:
    """None when nothing more can go."""
    if found := [each for each in _fewer_pods(best) if (await tried.holds([each]))[0]]:
        return found[0]
    value = best.to_json()
    paths = list(_paths(value))
    held = await tried.holds([_without(value, [path]) for path in paths])
    free = sorted((path for path, good in zip(paths, held, strict=True) if good), key=lambda path: -len(str(_at(value, path))))
    if not free:
        return None
    sizes = sorted({len(free), *(len(free) * part // 8 for part in range(1, 8)), 1} - {0}, reverse=True)
    together = [_without(value, free[:size]) for size in sizes]
    return next((each for each, good in zip(together, await tried.holds(together), strict=True) if good), together[-1])


def _still(result: Result, wanted: Disagreement) -> bool:
    return any((each.question, each.what) == (wanted.question, wanted.what) for each in result.disagreements())


def _fewer_pods(best: Case) -> Iterator[Case]:
    for index, pod_set in enumerate(best.pod_sets):
        for count in sorted({1, pod_set.count // 2, pod_set.count - 1} - {0, pod_set.count}):
            smaller = best.to_json()
            smaller["pod_sets"][index]["count"] = count
            yield case(smaller)


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every part that may go: entries of lists, and keys that are not essential."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _KEPT and len(path) > 1:
                yield (*path, key)
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        least = 1 if path[-1:] in (("nodes",), ("pod_sets",), ("containers",), ("finalizers",)) else 0
        for index, item in enumerate(value):
            if len(value) > least and path[-1:] not in (("features",), ("topology_keys",)):
                yield (*path, index)
            yield from _paths(item, (*path, index))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _without(value: Json, paths: Sequence[Path]) -> Case:
    """The case without these parts; of a list the last entries go first, so that the others keep their places."""
    smaller = deepcopy(value)
    for path in _deepest_last_first(paths):
        holder = _at(smaller, path[:-1])
        del holder[path[-1]]
    return case(_consistent(smaller))


def _deepest_last_first(paths: Sequence[Path]) -> list[Path]:
    """A part comes before what holds it, and the end of a list before its beginning."""
    return sorted(paths, key=lambda path: [f"{step:06d}" if isinstance(step, int) else step for step in path], reverse=True)


def _consistent(value: Json) -> Json:
    """Without pods and probes of nodes and pod sets that are gone."""
    nodes = {node["metadata"]["name"] for node in value["nodes"]}
    sets = {pod_set["name"] for pod_set in value["pod_sets"]}
    value["pods"] = [pod for pod in value["pods"] if pod["spec"]["nodeName"] in nodes]
    value["probes"] = [probe for probe in value["probes"] if probe["node"] in {*nodes, ""} and probe["pod_set"] in sets]
    return value
