"""From a case's JSON to a world: the nodes that are there, those that will have joined, the pods of the gang."""

from collections.abc import Mapping
from dataclasses import replace

from bench.agreement.cases import HOSTNAME, Case, Json, Offering
from bench.agreement.truth.admitted import Admitted, admit
from bench.agreement.truth.amounts import counted, resource_list
from bench.agreement.truth.matching import blocked, on_node
from bench.agreement.truth.world import Site, World

Bought = Mapping[str, int]
"""How many nodes of each offering."""

# Taints that say how a node is at the moment: Kubernetes docs, "Well-Known Labels, Annotations and Taints".
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_BORNE_BY_DAEMONS = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
_BOOKED = {"key": "corral.dev/booked", "effect": "NoSchedule"}


def world(case: Case, bought: Bought) -> World:
    kinds = [admitted(case, pod_set.template) for pod_set in case.pod_sets]
    return World(sites(case, bought), kinds, [pod_set.count for pod_set in case.pod_sets], _namespaces(case))


def sites(case: Case, bought: Bought) -> list[Site]:
    """The nodes that are there, then those that join."""
    found = [_standing(case, node) for node in case.nodes]
    for offering in case.offerings:
        found += [_joining(case, offering, number) for number in range(bought.get(offering.name, 0))]
    return found


def daemon_sets(case: Case, offering: Offering) -> list[Json]:
    """Those with a pod on every node bought of the offering."""
    bare = _bare(offering, 0)
    return [each for each in case.daemon_sets if _runs(_daemon(case, each), bare)]


def admitted(case: Case, template: Json) -> Admitted:
    return admit(case.id, template["metadata"], template["spec"], case.others)


def _namespaces(case: Case) -> dict[str, Mapping[str, str]]:
    """All bear their own name as a label."""
    metas = [each["metadata"] for each in case.others if each["kind"] == "Namespace"]
    known = {case.id: {}} | {meta["name"]: meta.get("labels") or {} for meta in metas}
    return {name: {**labels, "kubernetes.io/metadata.name": name} for name, labels in known.items()}


def _standing(case: Case, node: Json) -> Site:
    name = node["metadata"]["name"]
    here = [pod for pod in case.pods if pod["spec"]["nodeName"] == name and not _over(pod)]
    running = tuple(admit(pod["metadata"]["namespace"], pod["metadata"], pod["spec"], case.others) for pod in here)
    return _site(node, name, node["metadata"].get("labels") or {}, running)


def _over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _joining(case: Case, offering: Offering, number: int) -> Site:
    """The node that will have joined, its DaemonSets there."""
    running = tuple(_daemon(case, each) for each in daemon_sets(case, offering))
    return replace(_bare(offering, number), running=running)


def _bare(offering: Offering, number: int) -> Site:
    name = f"{offering.name}-bought-{number}"
    labels = {**(offering.node["metadata"].get("labels") or {}), HOSTNAME: name}
    site = _site(offering.node, name, labels, ())
    gone = [taint for taint in site.taints if taint["key"] in offering.startup_taints or taint["key"].startswith(_PASSING)]
    return replace(site, taints=tuple(taint for taint in site.taints if taint not in gone), offering=offering.name)


def _daemon(case: Case, daemon_set: Json) -> Admitted:
    """Its pod with the tolerations that the controller adds (Kubernetes docs, "DaemonSet": Taints and tolerations)."""
    form = daemon_set["spec"]["template"]
    added = ({"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in _BORNE_BY_DAEMONS)
    spec = {**form["spec"], "tolerations": [*(form["spec"].get("tolerations") or []), *added]}
    return admit(daemon_set["metadata"]["namespace"], form["metadata"], spec, case.others)


def _runs(daemon: Admitted, site: Site) -> bool:
    """One that does not bear the mark of booked nodes never comes there."""
    return on_node(daemon.spec, site.name, site.labels) and not blocked((*site.taints, _BOOKED), daemon.tolerations)


def _site(node: Json, name: str, labels: Mapping[str, str], running: tuple[Admitted, ...]) -> Site:
    spec = node.get("spec") or {}
    allocatable = counted(resource_list(node["status"].get("allocatable")))
    return Site(name, labels, tuple(spec.get("taints") or ()), spec.get("unschedulable", False), allocatable, running)
