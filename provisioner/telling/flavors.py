"""ResourceFlavors that no node of a pool can serve: told on the pools before anybody waits for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacity.model import HOSTNAME, Labels
from capacity.requirements import Taint, untolerated
from kube import kueue, ours
from kube.podspec import taints, tolerations
from provisioner.asking.producers import KUEUE_CONTROLLER
from provisioner.planning.daemons import BOOKED_TAINT, lasting
from provisioner.planning.offerings import offers
from provisioner.planning.snapshots import market
from provisioner.state import CLASS, CONTROLLER, State
from provisioner.view import View

Found = dict[str, dict[str, str]]
"""Pool -> flavor -> a sentence."""


@dataclass(frozen=True, slots=True)
class Use:
    """A flavor of a queue with a check that leads to us: ours, or Kueue's own for our class. `levels` are its Topology's."""

    flavor: kueue.ResourceFlavor
    levels: tuple[str, ...] = ()
    by_ours: bool = True
    by_kueues: bool = False

    @property
    def name(self) -> str:
        return self.flavor.metadata.name


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is there or can be had, with the taints that it is sure to keep."""

    labels: Labels
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """A pool and all its places."""

    pool: ours.CapacityPool
    places: Sequence[Place]

    def bearing(self, flavor: kueue.ResourceFlavor) -> list[Place]:
        return [place for place in self.places if flavor.spec.node_labels.items() <= place.labels.items()]


Grounds = Mapping[str, Ground]


def used(state: State) -> tuple[Use, ...]:
    """Others are none of our business."""
    by_ours = set(_names(state, lambda check: check.spec.controller_name == CONTROLLER))
    by_kueues = set(_names(state, lambda check: check.spec.controller_name == KUEUE_CONTROLLER and _class(state, check) == CLASS))
    levels = {each.metadata.name: tuple(level.node_label for level in each.spec.levels) for each in state.topologies.values()}
    return tuple(
        Use(each, levels.get(each.spec.topology_name or "", ()), each.metadata.name in by_ours, each.metadata.name in by_kueues)
        for each in state.flavors.values()
        if each.metadata.name in by_ours | by_kueues
    )


def _names(state: State, wanted: Callable[[kueue.AdmissionCheck], bool]) -> Iterator[str]:
    checks = {check.metadata.name for check in state.checks.values() if wanted(check)}
    for queue in state.cluster_queues.values():
        for rule in queue.checks:
            if rule.name in checks:
                yield from rule.on_flavors or (each.name for group in queue.spec.resource_groups for each in group.flavors)


def _class(state: State, check: kueue.AdmissionCheck) -> str:
    reference = check.spec.parameters
    config = state.configs.get(("", reference.name)) if reference else None
    return config.spec.provisioning_class_name if config else ""


def grounds(view: View) -> Grounds:
    return {name: Ground(pool, tuple(_places(view, pool))) for name, pool in view.pools.items()}


def _places(view: View, pool: ours.CapacityPool) -> Iterator[Place]:
    for node in view.managed.get(pool.metadata.name, ()):
        yield Place(node.metadata.labels, lasting(node))
    found = market(view, pool, ())
    for offering in offers(found).offerings if found else ():
        yield Place({**offering.shape.labels, **offering.domain}, tuple(offering.shape.taints))


def missing(uses: Iterable[Use], there: Grounds) -> Found:
    """Flavors whose labels nothing in any pool bears.

    Named are the pools whose nodes come nearest, all of them when none bears even one of the labels.
    """
    found: Found = {name: {} for name in there}
    for use in uses:
        nearness = {name: max((_matches(use.flavor, each.labels) for each in g.places), default=0) for name, g in there.items()}
        wanted = len(use.flavor.spec.node_labels)
        best = max(nearness.values(), default=0)
        if not wanted or best == wanted:
            continue
        shown = ", ".join(f"{key}={value}" for key, value in sorted(use.flavor.spec.node_labels.items()))
        for name in (pool for pool, near in nearness.items() if near == best):
            found[name][use.name] = (
                f"ResourceFlavor {use.name} asks for {shown}, which no node or shape of a pool bears: "
                f"correct its spec.nodeLabels, or give the labels to the pool's nodes by its own nodeLabels"
            )
    return found


def _matches(flavor: kueue.ResourceFlavor, labels: Labels) -> int:
    return sum(labels.get(key) == value for key, value in flavor.spec.node_labels.items())


def unfit(uses: Iterable[Use], there: Grounds) -> Found:
    """Flavors whose labels nodes bear, but whose pods could not run there, or would never get there."""
    found: Found = {name: {} for name in there}
    for use in uses:
        near = {name: places for name, ground in there.items() if (places := ground.bearing(use.flavor))}
        everywhere = _intolerant(use, [place for places in near.values() for place in places])
        for name in near:
            words = everywhere or _trap(use, there[name].pool) or _levels(use, there[name].pool, near[name])
            if words:
                found[name][use.name] = f"ResourceFlavor {use.name} {words}"
    return found


def _intolerant(use: Use, places: Sequence[Place]) -> str:
    """Kueue lets only pods in that tolerate the flavor's own nodeTaints (Kueue docs, "Resource Flavor")."""
    flavor = use.flavor.spec
    borne = tolerations(flavor.tolerations)
    if use.by_kueues and untolerated((BOOKED_TAINT,), borne):
        return (
            f"does not tolerate taint {BOOKED_TAINT.key}, and Kueue's own check adds no toleration: add "
            f"{{key: {BOOKED_TAINT.key}, operator: Exists, effect: {BOOKED_TAINT.effect}}} to its spec.tolerations"
        )
    named = set(taints(flavor.node_taints))
    bad = [untolerated((taint for taint in place.taints if taint not in named), borne) for place in places]
    first = bad[0] if bad and all(bad) else None
    if first is None:
        return ""
    shown = f"{first.key}{'=' if first.value else ''}{first.value}:{first.effect}"
    return (
        f"neither tolerates nor names taint {shown}, and each node with its labels has such a one: "
        f"add it to its spec.tolerations, or to its spec.nodeTaints if pods are to tolerate it themselves"
    )


def _trap(use: Use, pool: ours.CapacityPool) -> str:
    if not (use.flavor.spec.topology_name and use.by_ours and pool.spec.sources):
        return ""
    return (
        f"has a topologyName: with a check of {CONTROLLER} Kueue reserves quota only on nodes that are there already, "
        f"and nothing is bought for it: use a flavor without topologyName, or Kueue's own check with class {CLASS}"
    )


def _levels(use: Use, pool: ours.CapacityPool, places: Sequence[Place]) -> str:
    unknown = [key for key in use.levels if key not in (HOSTNAME, *pool.spec.topology_keys)]
    lost = [key for key in unknown if not any(key in place.labels for place in places)]
    if not lost:
        return ""
    return (
        f"has Topology {use.flavor.spec.topology_name} with level {', '.join(lost)}, which no node of the pool "
        f"is known to carry: add it to the pool's topologyKeys if they do, or correct the Topology"
    )
