"""Questions a little easier than the one that was asked: a gang, a snapshot or a policy with one thing changed."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from capacity.index.emptied import emptied
from capacity.index.fleet import stock_of
from capacity.index.view import changed
from capacity.model import Gang, Node, PodSet, Preferences, Shape, Snapshot
from capacity.neighbours import meets, places, spread_counts
from capacity.requirements import NodeSelectorTerm, Taint, Toleration
from capacity.topology import required_key

Question = tuple[Gang, Snapshot, Preferences]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def each(question: Question, change: Callable[[PodSet], PodSet]) -> Question:
    """With a change to every pod set."""
    gang, snapshot, preferences = question
    return replace(gang, pod_sets=tuple(map(change, gang.pod_sets))), snapshot, preferences


def rebound(question: Question, key: str, level: str | None) -> Question:
    """With one required level replaced; each pod set now carries its own."""
    gang, snapshot, preferences = question

    def change(pod_set: PodSet) -> PodSet:
        own = required_key(pod_set, preferences)
        return replace(pod_set, required_topology=level if own == key else own)

    return each((gang, snapshot, replace(preferences, required_topology=None)), change)


def unbound(question: Question) -> Question:
    """Without any required level."""
    gang, snapshot, preferences = question
    return each((gang, snapshot, replace(preferences, required_topology=None)), lambda one: replace(one, required_topology=None))


def scattered(question: Question) -> Question:
    """Without any required level or rule about where pods go with respect to others."""
    return each(unbound(question), lambda one: replace(one, near=(), apart=(), spreads=(), slices=None, exclusive=None))


def at_its_kindest(question: Question) -> Question:
    """Nothing in anybody's use, and no rule that pods which run now may help to keep: an affinity that some of them meet, a
    spread that counts some. What fails here can't be helped by waiting.
    """
    gang, snapshot, preferences = question
    empty = emptied(snapshot)
    if not any(pod_set.near or pod_set.spreads for pod_set in gang.pod_sets):
        return question if empty is snapshot else (gang, empty, preferences)
    there = {(pod.namespace, tuple(sorted(pod.labels.items()))): pod for place in places(snapshot) for pod in place.pods}

    def change(pod_set: PodSet) -> PodSet:
        met = any(meets(pod_set, pod.namespace, pod.labels) for pod in there.values())
        mine = [pod.labels for pod in there.values() if pod.namespace == pod_set.namespace]
        spreads = tuple(rule for rule in pod_set.spreads if not any(spread_counts(rule, labels) for labels in mine))
        return replace(pod_set, near=() if met else pod_set.near, spreads=spreads)

    return each((gang, empty, preferences), change)


def unwished(question: Question) -> Question:
    """Without what only makes some plans better than others: there is a plan just when there is one for this."""
    gang, snapshot, preferences = question
    plain = replace(preferences, preferred_topology=None, cross_zone_cost=0)
    return each((gang, snapshot, plain), lambda one: replace(one, preferred_topology=None))


def unlimited(question: Question) -> Question:
    """Without the limits that somebody set."""
    gang, snapshot, preferences = question
    return gang, replace(snapshot, budgets=tuple(budget for budget in snapshot.budgets if budget.same)), preferences


def without(question: Question, holder: str) -> Question:
    """With the nodes that one booking holds free again, but for what DaemonSets are known to take there."""
    gang, snapshot, preferences = question
    shapes = {(offering.pool, offering.shape.name): offering.shape for offering in snapshot.offerings}

    def freed(node: Node) -> Node:
        shape: Shape | None = shapes.get((node.pool, node.labels.get(INSTANCE_TYPE, "")))
        return replace(node, booked_by=None, requested=shape.overhead if shape else {}, pods=())

    stock = stock_of(snapshot)
    stock = changed(stock, {row: freed(node) for row, node in enumerate(stock.nodes) if node.booked_by == holder})
    return gang, replace(snapshot, nodes=stock.nodes, stock=stock), preferences


def unselective(question: Question, key: str) -> Question:
    """With no word about one label key in node selectors and required node affinity."""

    def change(pod_set: PodSet) -> PodSet:
        selector = {name: value for name, value in pod_set.node_selector.items() if name != key}
        terms = None if pod_set.affinity is None else _cut(pod_set.affinity, key)
        return replace(pod_set, node_selector=selector, affinity=terms)

    return each(question, change)


def _cut(terms: Iterable[NodeSelectorTerm], key: str) -> tuple[NodeSelectorTerm, ...] | None:
    """None, for anything, when a term asked for nothing else."""
    cut = [(term, replace(term, expressions=tuple(one for one in term.expressions if one.key != key))) for term in terms]
    if any(term != left and not left.expressions and not left.fields for term, left in cut):
        return None
    return tuple(left for _, left in cut)


def tolerant(question: Question, taint: Taint) -> Question:
    """With one taint tolerated."""
    added = Toleration(taint.key, "Equal", taint.value, taint.effect)
    return each(question, lambda one: replace(one, tolerations=(*one.tolerations, added)))


def resized(question: Question, counts: dict[str, int]) -> Question:
    return each(question, lambda one: replace(one, count=counts[one.name]))
