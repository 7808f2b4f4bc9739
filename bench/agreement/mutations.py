"""Seeded mistakes in the planner and in how it reads pods: an experiment that doesn't notice each of them would prove nothing."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from capacity import fit, neighbours, requirements
from capacity.model import PodSet
from capacity.programme import mixes
from capacity.proof import prove
from kube import nodes, podspec, requests

Anything = Callable[..., Any]
_OURS = ("capacity", "kube", "bench.agreement.planner")


@dataclass(frozen=True)
class Mutation:
    """`features` are those whose cases can show it; `apply` a context in which the planner has the fault."""

    name: str
    features: tuple[str, ...]
    apply: Callable[[], Any]


@contextmanager
def _instead(original: Anything, make: Callable[[Anything], Anything]) -> Iterator[None]:
    """`make(original)` wherever the planner has imported the original by name."""
    substitute = make(original)
    holders = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith(_OURS)
        for name, value in list(vars(module).items())
        if value is original
    ]
    assert holders, f"{original} is used nowhere"
    for module, name in holders:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        for module, name in holders:
            setattr(module, name, original)


def _operator(name: str, check: Callable[[tuple[str, ...], str | None], bool]) -> Callable[[], Any]:
    return lambda: patch.dict(requirements._OPERATORS, {name: check})


def _reading(change: Callable[[PodSet], Mapping[str, Any]]) -> Callable[[], Any]:
    """Pod sets that are read from templates with something changed."""
    return lambda: _instead(podspec.pod_set, lambda real: lambda *args, **more: _changed(real(*args, **more), change))


def _changed(pod_set: PodSet, change: Callable[[PodSet], Mapping[str, Any]]) -> PodSet:
    return replace(pod_set, **change(pod_set))


def _needs_without(name: str) -> Callable[[], Any]:
    def make(real: Anything) -> Anything:
        return lambda pod_set: {each: number for each, number in real(pod_set).items() if each != name} or real(pod_set)

    return lambda: _instead(fit.needs, make)


def _one_more_slot() -> Any:
    def make(real: Anything) -> Anything:
        return lambda requests, free: real(requests, free) + (1 if real(requests, free) else 0)

    return _instead(fit.slots, make)


def _summed_init_containers() -> Any:
    """All containers at once, those of the initialisation, too."""

    def make(real: Anything) -> Anything:
        def summed(spec: Any, asked: Any) -> Any:
            return real(structs.replace(spec, containers=(*spec.containers, *spec.init_containers), init_containers=()), asked)

        return summed

    return _instead(requests._aggregate, make)


def _any_effect() -> Any:
    return _instead(requirements.tolerates, lambda real: lambda one, taint: real(replace(one, effect=""), taint))


def _without_overhead() -> Any:
    def make(real: Anything) -> Anything:
        return lambda spec, classes: structs.replace(real(spec, classes), overhead={})

    return _instead(podspec._with_runtime_class, make)


def _one_way_anti_affinity() -> Any:
    return _instead(nodes.running, lambda real: lambda *args, **more: replace(real(*args, **more), apart=()))


def _same_address_only() -> Any:
    """0.0.0.0 as an address like any other."""

    def make(_: Anything) -> Anything:
        return lambda ports: {f"port/{port.protocol}/{port.port}/{port.address}": 1 for port in ports}

    return _instead(fit._claims, make)


@contextmanager
def _others_forgotten() -> Iterator[None]:
    """A node is marked for each pod set that has room there by itself, and nobody proves that all find theirs."""

    def alone(_requests: object, most: tuple[int, ...], _free: object, chosen: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(count if role in chosen else 0 for role, count in enumerate(most))

    with _instead(mixes._sure, lambda _: alone), _instead(prove.prove, lambda _: lambda *_: ()):
        yield


def _daemons_forgotten() -> Any:
    def make(real: Anything) -> Anything:
        return lambda offering, keys: real(replace(offering, shape=replace(offering.shape, overhead={})), keys)

    return _instead(fit.new_host, make)


def _affinity_ignored() -> Any:
    return _instead(neighbours.meets, lambda _: lambda *_: True)


_SPREAD = ("spread",)

MUTATIONS = (
    Mutation(
        "NotIn wants the label to be there",
        ("node-affinity", "match-fields"),
        _operator("NotIn", lambda values, found: found is not None and found not in values),
    ),
    Mutation(
        "Gt lets the bound itself pass",
        ("node-affinity", "match-fields"),
        _operator("Gt", lambda values, found: requirements._compare(values, found, 1) or found == values[0]),
    ),
    Mutation("memory is forgotten", ("resources", "init-containers", "pod-level"), _needs_without("memory")),
    Mutation("the number of pods is ignored", ("pods-count",), _needs_without("pods")),
    Mutation("init containers are added up", ("init-containers",), _summed_init_containers),
    Mutation("the effect of a toleration is ignored", ("taints",), _any_effect),
    Mutation("one slot too many", ("resources", "extended", "purchases"), _one_more_slot),
    Mutation("overhead is dropped", ("overhead",), _without_overhead),
    Mutation("anti-affinity of running pods is forgotten", ("symmetric-anti-affinity",), _one_way_anti_affinity),
    Mutation(
        "the skew may be one more",
        _SPREAD,
        _reading(lambda one: {"spreads": tuple(replace(each, max_skew=each.max_skew + 1) for each in one.spreads)}),
    ),
    Mutation("0.0.0.0 is an address like others", ("host-ports",), _same_address_only),
    Mutation("marks are too wide", ("several-pod-sets", "purchases"), _others_forgotten),
    Mutation("DaemonSets on new nodes are forgotten", ("daemon-sets",), _daemons_forgotten),
    Mutation("volumes are ignored", ("volumes",), _reading(lambda _: {"volumes": ()})),
    Mutation("required levels are ignored", ("required-level",), _reading(lambda _: {"required_topology": None})),
    Mutation("every running pod meets an affinity", ("pod-affinity", "exclusive"), _affinity_ignored),
)
