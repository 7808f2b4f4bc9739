"""A plain pod-by-pod scheduler with every rule that plans rest on, written apart from the planner, for random orders."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from capacity.model import HOSTNAME, Plan, PodSet
from capacity.requirements import LabelSelector


@dataclass
class Node:
    name: str
    labels: dict[str, str]
    free: dict[str, int]
    marks: frozenset[str]
    pods: list[tuple[str, dict[str, str]]] = field(default_factory=list)  # namespace, labels


def nodes(plan: Plan) -> list[Node]:
    """The plan's nodes, those to be bought as if they had joined, each under a name of its own."""
    found = []
    for use in plan.uses:
        free = {name: amount - use.node.requested.get(name, 0) for name, amount in use.node.allocatable.items()}
        running = [(pod.namespace, dict(pod.labels)) for pod in use.node.pods]
        found.append(Node(use.node.name, {HOSTNAME: use.node.name, **use.node.labels}, free, frozenset(use.pods), running))
    for number, purchase in enumerate(plan.purchases):
        shape = purchase.offering.shape
        free = {name: amount - shape.overhead.get(name, 0) for name, amount in shape.allocatable.items()}
        for copy in range(purchase.count):
            name = f"new-{number}-{copy}"
            labels = {**shape.labels, **purchase.offering.domain, HOSTNAME: name}
            found.append(Node(name, labels, dict(free), frozenset(purchase.pods)))
    return found


def binds_all(plan: Plan, seed: int) -> bool:
    """Pods in random order, each on any node where it may go; those that can't yet are tried again when others were bound."""
    dice, there = random.Random(seed), nodes(plan)
    waiting = [pod_set for pod_set in plan.gang.pod_sets for _ in range(pod_set.count)]
    dice.shuffle(waiting)
    while waiting:
        for pod in waiting:
            options = [node for node in there if may(pod, node, there)]
            if options:
                _bind(pod, dice.choice(options))
                waiting.remove(pod)
                break
        else:
            return False
    return True


def _bind(pod: PodSet, node: Node) -> None:
    for name, amount in {**pod.requests, "pods": 1}.items():
        node.free[name] = node.free.get(name, 0) - amount
    node.pods.append((pod.namespace, dict(pod.labels)))


def may(pod: PodSet, node: Node, there: list[Node]) -> bool:
    if pod.name not in node.marks or any(node.free.get(n, 0) < a for n, a in {**pod.requests, "pods": 1}.items() if a):
        return False
    return all((_affinity(pod, node, there), _anti_affinity(pod, node, there), _spread(pod, node, there)))


def _in_domain(node: Node, key: str, there: list[Node]) -> Iterator[tuple[str, dict[str, str]]]:
    for other in there:
        if key in node.labels and other.labels.get(key) == node.labels[key]:
            yield from other.pods


def _affinity(pod: PodSet, node: Node, there: list[Node]) -> bool:
    def matches(namespace: str, labels: dict[str, str]) -> bool:
        return all(term.selects(namespace, labels) for term in pod.near)

    if any(term.topology_key not in node.labels for term in pod.near):
        return False
    if not any(matches(*other) for one in there for other in one.pods):
        return not pod.near or matches(pod.namespace, dict(pod.labels))
    return all(any(matches(*other) for other in _in_domain(node, term.topology_key, there)) for term in pod.near)


def _anti_affinity(pod: PodSet, node: Node, there: list[Node]) -> bool:
    """The terms of these tests hold both ways, since all pods of a gang carry those of their pod set."""
    return not any(term.selects(*other) for term in pod.apart for other in _in_domain(node, term.topology_key, there))


def _spread(pod: PodSet, node: Node, there: list[Node]) -> bool:
    for spread in pod.spreads:
        counts: dict[str, int] = {}
        for other in there:
            if all(one.topology_key in other.labels for one in pod.spreads) and pod.name in other.marks:
                value = other.labels[spread.topology_key]
                counts[value] = counts.get(value, 0) + sum(_counts(spread.selector, pod, *one) for one in other.pods)
        value = node.labels.get(spread.topology_key)
        if value is None or value not in counts:
            return False
        least = min(counts.values()) if len(counts) >= spread.min_domains else 0
        mine = spread.selector is not None and spread.selector.selects(pod.labels)
        if counts[value] + mine - least > spread.max_skew:
            return False
    return True


def _counts(selector: LabelSelector | None, pod: PodSet, namespace: str, labels: dict[str, str]) -> bool:
    return bool(selector and selector.expressions) and namespace == pod.namespace and selector.selects(labels)
