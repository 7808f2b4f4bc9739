"""What is put to the scheduler for each question: pods in their order, marks of a plan, machines that are bought."""

from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from random import Random

from bench.agreement.cases import CASE_LABEL, HOSTNAME, Case, Json, Offering, Probe, pod
from bench.agreement.truth.reading import daemon_sets
from capacity.fit import BOOKED_TAINT
from capacity.model import Plan

Placement = Mapping[str, str]
"""Pod name -> node name."""


def probe_pod(case: Case, number: int) -> Json:
    """One pod of a probe's pod set, pinned to its node unless it names none."""
    probe = case.probes[number]
    return pod(f"probe{number}", probe_template(case, probe), namespace=case.id)


def probe_template(case: Case, probe: Probe) -> Json:
    found = deepcopy(case.pod_set(probe.pod_set).template)
    if probe.node:
        found["spec"]["nodeSelector"][HOSTNAME] = probe.node
    return found


def gang_pods(case: Case, rng: Random, *, steered: bool) -> list[Json]:
    """All pods of the gang in random order; steered as by the provisioner, with a label key for each pod set and a toleration."""
    pods = []
    for pod_set in case.pod_sets:
        form = deepcopy(pod_set.template)
        if steered:
            form["spec"]["nodeSelector"][mark(case, pod_set.name)] = "true"
            booked = {"key": BOOKED_TAINT, "operator": "Exists", "effect": "NoSchedule"}
            form["spec"]["tolerations"] = [*form["spec"].get("tolerations", []), booked]
        pods += [pod(f"{pod_set.name}-{number}", form, namespace=case.id) for number in range(pod_set.count)]
    rng.shuffle(pods)
    return pods


def mark(case: Case, pod_set: str) -> str:
    return f"{case.id}.booking.corral.dev/{pod_set}"


def machines(case: Case, offering: Offering, count: int, first: int = 0) -> list[Json]:
    """Nodes of an offering as they are once ready: with a name, without the taints that pass."""
    made = []
    for number in range(first, first + count):
        node = deepcopy(offering.node)
        name = f"{case.id}-{offering.name}-{number}"
        node["metadata"] |= {"name": name, "labels": {**node["metadata"]["labels"], HOSTNAME: name}}
        passing = ("node.kubernetes.io/", *offering.startup_taints)
        node["spec"]["taints"] = [t for t in node["spec"].get("taints", []) if not t["key"].startswith(passing)]
        made.append(node)
    return made


def daemons(case: Case, nodes: list[Json]) -> list[Json]:
    """The DaemonSet pods of bought nodes, put there as by their controller."""
    running = {offering.name: daemon_sets(case, offering) for offering in case.offerings}
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        for each in running[name.removeprefix(f"{case.id}-").rpartition("-")[0]]:
            own = f"{name}-{each['metadata']['name']}"
            found.append(pod(own, each["spec"]["template"], node_name=name, namespace=case.id))
    return found


def bought(case: Case, plan: Plan) -> tuple[list[Json], dict[str, list[str]]]:
    """The plan's new nodes, and the pod sets that every node of the plan is marked for, by node name."""
    marked = {use.node.name: list(use.pods) for use in plan.uses}
    by_name = {offering.name: offering for offering in case.offerings}
    taken: dict[str, int] = defaultdict(int)
    nodes: list[Json] = []
    for purchase in plan.purchases:
        name = purchase.offering.name
        new = machines(case, by_name[name], purchase.count, taken[name])
        taken[name] += purchase.count
        nodes += new
        marked |= {node["metadata"]["name"]: list(purchase.pods) for node in new}
    return nodes, marked


def all_machines(case: Case) -> list[Json]:
    """Every node that could be bought."""
    return [node for offering in case.offerings for node in machines(case, offering, offering.limit)]


def marks(case: Case, nodes: list[Json], marked: Mapping[str, list[str]]) -> dict[str, Json]:
    """Merge patches that mark the plan's nodes."""
    taints = {node["metadata"]["name"]: node["spec"].get("taints", []) for node in (*case.nodes, *nodes)}
    booked = {"key": BOOKED_TAINT, "effect": "NoSchedule"}
    return {
        name: {
            "metadata": {"labels": dict.fromkeys((mark(case, each) for each in pod_sets), "true")},
            "spec": {"taints": [*taints[name], booked]},
        }
        for name, pod_sets in marked.items()
    }


def unmarks(case: Case, nodes: list[Json], marked: Mapping[str, list[str]]) -> dict[str, Json]:
    """Merge patches that take the marks off again."""
    taints = {node["metadata"]["name"]: node["spec"].get("taints", []) for node in (*case.nodes, *nodes)}
    return {
        name: {
            "metadata": {"labels": dict.fromkeys(mark(case, each) for each in pod_sets)},
            "spec": {"taints": taints[name]},
        }
        for name, pod_sets in marked.items()
    }


def closed(case: Case) -> dict[str, Json]:
    """Merge patches that keep a gang off cordoned nodes, which no plan may use even if its pods tolerate the cordon."""
    gone: Json = {"metadata": {"labels": {CASE_LABEL: None}}}
    return {node["metadata"]["name"]: gone for node in case.nodes if node["spec"].get("unschedulable")}
