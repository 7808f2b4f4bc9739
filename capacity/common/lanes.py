"""How many pods of one form each node of a fleet holds, and each offering: kept from plan to plan, brought up to date by what has
changed since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from capacity.fit import host, needs, new_host, refusal, slots
from capacity.index.catalogue import Catalogue, Sort
from capacity.index.columns import MOST, Vector
from capacity.index.fleet import Fleet
from capacity.lens import Lens
from capacity.model import Offering, PodSet

_LANES = 64
"""Forms of pods of which a fleet remembers the slots, those asked for last."""
_WIDE = 1 << 20


@dataclass(slots=True)
class Lane:
    """`slots[row]` pods fit on a node, however many the gang has, never more than `most`; `version` is the fleet's that they are
    of.
    """

    pod_set: PodSet
    requests: Mapping[str, int]
    keys: tuple[str, ...]
    slots: Vector
    version: int
    most: int = 0
    _shapes: dict[tuple[object, ...], int] = field(default_factory=dict)
    _sold: tuple[Catalogue, Vector] | None = None

    def sold(self, catalogue: Catalogue) -> Vector:
        """How many pods a node of each offering will hold: judged once for each shape and what the pods ask of the place."""
        if self._sold is None or self._sold[0] is not catalogue:
            first, sorts = catalogue.sorts(self.keys)
            found = [self._offer(one, sort, catalogue.topology_keys) for sort, one in first.items()]
            self._sold = catalogue, np.array(found, np.int64)[sorts]
        return self._sold[1]

    def _offer(self, offering: Offering, sort: Sort, topology_keys: tuple[str, ...]) -> int:
        key = (*sort, topology_keys if self.keys else ())
        found = self._shapes.get(key)
        if found is None:
            where = new_host(offering, topology_keys)
            found = self._shapes[key] = 0 if refusal(self.pod_set, where) else slots(self.requests, where.free)
        return found


def lane(fleet: Fleet, pod_set: PodSet) -> Lane | None:
    """The current slots for pods like these; None where nodes are asked for by name, or for amounts beyond any reason."""
    requests = needs(pod_set)
    selector = tuple(sorted(pod_set.node_selector.items())) if pod_set.node_selector else ()
    form = (*sorted(requests.items()), selector, pod_set.affinity, pod_set.tolerations, pod_set.volumes)
    found: Lane | None = fleet.memo.pop(form, None)
    if found is None:
        lens = Lens((pod_set,))
        if lens.named or max(requests.values()) > MOST:
            return None
        found = Lane(pod_set, requests, lens.labels, np.zeros(0, np.int64), -1)
        while len(fleet.memo) >= _LANES:
            fleet.memo.pop(next(iter(fleet.memo)))
    fleet.memo[form] = found
    _refresh(found, fleet)
    return found


def _refresh(lane: Lane, fleet: Fleet) -> None:
    if lane.version == fleet.version:
        return
    rows = fleet.changed(lane.version)
    if rows is None or len(rows) > len(fleet) // 4:
        lane.slots = _slots(lane, fleet, slice(None))
        lane.most = int(lane.slots.max(initial=0))
    else:
        _patch(lane, fleet, rows)
    lane.version = fleet.version


def _patch(lane: Lane, fleet: Fleet, changed: Sequence[int]) -> None:
    if len(fleet) > len(lane.slots):
        lane.slots = np.concatenate([lane.slots, np.zeros(len(fleet) - len(lane.slots), np.int64)])
    lane.slots = lane.slots[: len(fleet)]
    rows = np.unique(np.array([row for row in changed if row < len(fleet)], np.int64))
    lane.slots[rows] = fresh = _slots(lane, fleet, rows)
    lane.most = max(lane.most, int(fresh.max(initial=0)))


def _slots(lane: Lane, fleet: Fleet, rows: "Vector | slice") -> Vector:
    least: Vector | None = None
    for name, amount in sorted(lane.requests.items()):
        free = fleet.column("free", name)[rows]
        fit = free if amount == 1 else free // amount
        least = fit if least is None else np.minimum(least, fit)
    assert least is not None  # each pod asks for itself as one
    return np.maximum(least, 0) * _admitted(lane, fleet, rows)


def _admitted(lane: Lane, fleet: Fleet, rows: "Vector | slice") -> Vector:
    """1 where taints and labels let the pods in: judged once for each class of nodes alike in them, with one entry for all where
    there is just one class.
    """
    classes = fleet.column("taints")[rows]
    if not lane.keys and len(classes) and not classes.any():
        return np.array([not refusal(lane.pod_set, host(fleet.node(int(np.arange(len(fleet))[rows][0]))))], np.int64)
    for key in lane.keys:
        codes = fleet.column("label", key)[rows]
        classes = classes * len(fleet.codes(key)) + codes
        if len(classes) and classes.max() > _WIDE:
            classes = np.unique(classes, return_inverse=True)[1]
    seen = np.zeros(int(classes.max(initial=0)) + 1, np.int64)
    seen[classes] = np.arange(len(fleet))[rows]  # one node of each class
    verdict = np.zeros(len(seen), np.int64)
    for one in np.bincount(classes, minlength=len(seen)).nonzero()[0].tolist():
        verdict[one] = not refusal(lane.pod_set, host(fleet.node(int(seen[one]))))
    return verdict[classes]
