"""Our side: the planner on the same problem, timed from a kept index, from its own records and from Kubernetes objects."""

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from bench.planner.problems import HOST, Ask, Machine, Offer, Pods, Problem, text
from capacity import model
from capacity.index.columns import Vector
from capacity.index.fleet import Fleet
from capacity.plan import plan
from capacity.snapshot import book
from kube import core, nodes, podspec
from kube.meta import decode

NOW = 1_800_000_000
PREFERENCES = model.Preferences()


@dataclass(slots=True)
class Counts:
    """What one plan did: node records looked at one by one, columns and their entries read, runs of the solver, its branches."""

    records: int = 0
    cells: int = 0
    columns: int = 0
    solves: int = 0
    branches: int = 0


@dataclass(slots=True)
class Ours:
    """The outcome for each gang and times in nanoseconds, 0 where not taken."""

    outcomes: list[model.Outcome]
    kept: int = 0  # on an index that is kept up; every repetition asks for something new after a node has changed
    again: int = 0  # the same, measured once more: what differs is noise
    change: int = 0  # one node changed in the index
    cold: int = 0  # from our records, with no index
    objects: int = 0  # from Kubernetes objects, decoded from JSON
    counts: Counts = field(default_factory=Counts)

    @property
    def feasible(self) -> bool:
        return all(isinstance(outcome, model.Plan) for outcome in self.outcomes)

    @property
    def cost(self) -> int:
        return sum(outcome.cost for outcome in self.outcomes if isinstance(outcome, model.Plan))

    @property
    def gap(self) -> int:
        return sum(outcome.gap for outcome in self.outcomes if isinstance(outcome, model.Plan))


# --- from a problem to the model ------------------------------------------------------------------------------------------


def snapshot(problem: Problem) -> model.Snapshot:
    kinds = {kind.name: model.Shape(kind.name, kind.allocatable, kind.labels) for kind in problem.kinds}
    there = tuple(node(machine) for machine in problem.nodes)
    return model.Snapshot(NOW, there, offerings(problem.offers, kinds), problem.levels)


def node(machine: Machine) -> model.Node:
    labels = {**machine.labels, HOST: machine.name}
    return model.Node(machine.name, "pool", machine.allocatable, machine.requested, labels)


def offerings(offers: Sequence[Offer], kinds: dict[str, model.Shape]) -> tuple[model.Offering, ...]:
    return tuple(
        model.Offering(
            one.name,
            "pool",
            one.type,
            kinds[one.kind],
            model.CapacityType(one.type),
            one.available,
            one.available,
            one.price,
            one.domain,
            one.name if one.type == "reserved" else None,
        )
        for one in offers
    )


def gang(ask: Ask, more: int = 0) -> model.Gang:
    """`more` bytes of memory for each pod make it a question that was not asked before."""
    return model.Gang(ask.name, tuple(pod_set(one, more) for one in ask.sets))


def pod_set(one: Pods, more: int) -> model.PodSet:
    requests = {**one.requests, "memory": one.requests["memory"] + more}
    required, preferred = one.required or None, one.preferred or None
    return model.PodSet(one.name, one.count, requests, one.selector, required_topology=required, preferred_topology=preferred)


# --- from Kubernetes objects ----------------------------------------------------------------------------------------------


def objects(problem: Problem) -> tuple[list[str], list[list[str]]]:
    """Nodes with the one pod of each that asks for all that is taken, and the pod templates of each gang, as JSON."""
    there = [json.dumps([_node_object(machine), _pod_object(machine)]) for machine in problem.nodes]
    return there, [[json.dumps(_template(one.requests, one)) for one in ask.sets] for ask in problem.gangs]


def from_objects(problem: Problem, there: list[str], templates: list[list[str]]) -> list[model.Outcome]:
    """Decode, translate, plan: all that it takes when nothing is kept."""
    known = tuple(_node(*json.loads(text)) for text in there)
    bare = snapshot(replace(problem, nodes=()))
    return planned(replace(bare, nodes=known), [_gang(ask, raw) for ask, raw in zip(problem.gangs, templates, strict=True)])


def _node(raw: dict[str, Any], pod: dict[str, Any]) -> model.Node:
    return nodes.node(decode(raw, core.Node), [decode(pod, core.Pod)], pool="pool")


def _gang(ask: Ask, templates: list[str]) -> model.Gang:
    sets = []
    for one, raw in zip(ask.sets, templates, strict=True):
        made = podspec.pod_set(one.name, one.count, podspec.template(json.loads(raw)))
        sets.append(replace(made, required_topology=one.required or None, preferred_topology=one.preferred or None))
    return model.Gang(ask.name, tuple(sets))


def _node_object(machine: Machine) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "uid": machine.name, "labels": {**machine.labels, HOST: machine.name}},
        "spec": {"providerID": f"bench:///{machine.name}"},
        "status": {"allocatable": text(machine.allocatable), "capacity": text(machine.allocatable), "conditions": ready},
    }


def _pod_object(machine: Machine) -> dict[str, Any]:
    taken = _template(machine.requested, None)
    status = {"phase": "Running"}
    metadata = {"name": f"taken-{machine.name}", "namespace": "default", "uid": machine.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": taken["spec"], "status": status}


def _template(requests: Any, one: Pods | None) -> dict[str, Any]:
    asked = text({name: amount for name, amount in requests.items() if name != "pods"})
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}
    if one is not None:
        spec["nodeSelector"] = dict(one.selector)
    return {"metadata": {}, "spec": spec}


# --- planning, measured ---------------------------------------------------------------------------------------------------


def planned(start: model.Snapshot, gangs: Sequence[model.Gang]) -> list[model.Outcome]:
    """One gang after the other, each on what the ones before left."""
    outcomes = []
    for one in gangs:
        outcomes.append(outcome := plan(one, start, PREFERENCES))
        if isinstance(outcome, model.Plan) and len(gangs) > 1:
            start = book(start, outcome, one.name)
    return outcomes


def measure(problem: Problem, repeat: int, *, kubernetes: bool = True) -> Ours:
    """All figures of one problem; the kept index is warm, and what it is asked is new to it each time."""
    start = snapshot(problem)
    began = time.perf_counter_ns()
    found = Ours(planned(start, [gang(ask) for ask in problem.gangs]))
    found.cold = time.perf_counter_ns() - began
    kept = Kept(problem, start)
    found.kept, found.again = kept.median(repeat), kept.median(repeat)
    found.change = kept.change
    found.counts = counted(problem, start)
    if kubernetes:
        texts = objects(problem)
        began = time.perf_counter_ns()
        outcomes = from_objects(problem, *texts)
        found.objects = time.perf_counter_ns() - began
        assert [type(one) for one in outcomes] == [type(one) for one in found.outcomes], problem.name
    return found


class Kept:
    """An index of the nodes that is kept up to date while gangs are planned on it."""

    def __init__(self, problem: Problem, start: model.Snapshot) -> None:
        self._problem, self._start = problem, start
        self._fleet = Fleet(start.nodes)
        self._asked = 0
        self._changes: list[int] = []
        self._once()

    def median(self, repeat: int) -> int:
        return int(statistics.median(self._once() for _ in range(repeat)))

    @property
    def change(self) -> int:
        """What it takes to tell the index of one node's change."""
        return int(statistics.median(self._changes or [0]))

    def _once(self) -> int:
        self._asked += 1
        if self._start.nodes:
            self._touch()
        gangs = [gang(ask, self._asked) for ask in self._problem.gangs]
        began = time.perf_counter_ns()
        stock = self._fleet.stock()
        planned(replace(self._start, nodes=stock.nodes, stock=stock), gangs)
        return time.perf_counter_ns() - began

    def _touch(self) -> None:
        """A node changes: a little of its room is taken."""
        old = self._start.nodes[self._asked * 7919 % len(self._start.nodes)]
        requested = {**old.requested, "ephemeral-storage": self._asked}
        began = time.perf_counter_ns()
        self._fleet.put(replace(old, requested=requested))
        self._changes.append(time.perf_counter_ns() - began)


# --- counting -------------------------------------------------------------------------------------------------------------


def counted(problem: Problem, start: model.Snapshot) -> Counts:
    """The operations of planning on a warm index something that was not asked before."""
    counts = Counts()
    fleet, records = CountingFleet(start.nodes), Records(start.nodes)
    fleet.counts = records.counts = Counts()
    stock = replace(fleet.stock(), nodes=records)
    now = replace(start, nodes=records, stock=stock)
    planned(now, [gang(ask, 1) for ask in problem.gangs])
    fleet.counts = records.counts = counts
    with solver_counted(counts):
        planned(now, [gang(ask) for ask in problem.gangs])
    return counts


class CountingFleet(Fleet):
    """Tells how much of the columns was read, as if each were read to its end."""

    counts: Counts

    def column(self, kind: str, name: str = "") -> Vector:
        found = super().column(kind, name)
        self.counts.columns += 1
        self.counts.cells += len(found)
        return found


class Records(tuple[model.Node, ...]):
    """Tells how many of the nodes were looked at."""

    counts: Counts

    def __iter__(self) -> Iterator[model.Node]:
        self.counts.records += len(self)
        return super().__iter__()

    def __getitem__(self, key: Any) -> Any:
        self.counts.records += 1
        return super().__getitem__(key)


@contextmanager
def solver_counted(counts: Counts) -> Iterator[None]:
    """Counts the runs of HiGHS and the nodes of its search trees."""
    highspy: Any = import_module("highspy")
    plain = highspy._Highs  # noqa: SLF001  # what the planner uses, too

    class Counting(plain):  # type: ignore[misc, valid-type]
        def run(self) -> Any:
            status = super().run()
            counts.solves += 1
            counts.branches += max(0, self.getInfo().mip_node_count)
            return status

    highspy._Highs = Counting  # noqa: SLF001
    try:
        yield
    finally:
        highspy._Highs = plain  # noqa: SLF001
