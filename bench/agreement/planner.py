"""The planner's side of a case: the same JSON, read as the services read it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bench.agreement.cases import Case, Json, Offering
from capacity import model
from capacity.model import CapacityType, Gang, Outcome, Preferences, Snapshot
from capacity.plan import plan
from capacity.verdict import Verdict, verdict
from kube import core, nodes, podspec
from kube.meta import R, decode
from kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kube.volumes import Volumes
from provisioner.planning.daemons import BOOKED_TAINT, alongside, daemon_pods, runs_on

_NAME_LABEL = "kubernetes.io/metadata.name"
_NEW_NODE = "a-node-that-is-not-there-yet"


def answer(case: Case) -> Outcome:
    """The plan for the whole gang, or why there is none."""
    gang = Gang(case.id, tuple(pod_set(case, each.name, each.count, each.template) for each in case.pod_sets))
    return plan(gang, snapshot(case), Preferences())


def probe(case: Case, name: str, template: Json, node: str) -> Verdict:
    """Whether one pod of a template may go on one node."""
    here = snapshot(case)
    where = next(each for each in here.nodes if each.name == node)
    return verdict(pod_set(case, name, 1, template), where, here)


def pod_set(case: Case, name: str, count: int, template: Json) -> model.PodSet:
    return podspec.pod_set(
        name,
        count,
        podspec.template(template),
        namespace=case.id,
        runtime_classes={each.metadata.name: each for each in _views(case, "RuntimeClass", core.RuntimeClass)},
        namespaces=_namespaces(case),
        volumes=_volumes(case),
    )


def snapshot(case: Case) -> Snapshot:
    running: dict[str, list[core.Pod]] = defaultdict(list)
    for pod in case.pods:
        running[pod["spec"]["nodeName"]].append(decode(pod, core.Pod))
    views = [decode(node, core.Node) for node in case.nodes]
    spaces = _namespaces(case)
    return Snapshot(
        now=0,
        nodes=tuple(nodes.node(view, running[view.metadata.name], pool="p", namespaces=spaces) for view in views),
        offerings=tuple(_offering(case, each) for each in case.offerings),
        topology_keys=tuple(case.topology_keys),
    )


def _views(case: Case, kind: str, type_: type[R]) -> list[R]:
    return [decode(each, type_) for each in case.others if each["kind"] == kind]


def _namespaces(case: Case) -> dict[str, Mapping[str, str]]:
    """The labels of the case's namespaces; the API server gives each its own name as one."""
    found = {case.id: {_NAME_LABEL: case.id}}
    for each in case.others:
        if each["kind"] == "Namespace":
            name = each["metadata"]["name"]
            found[name] = {_NAME_LABEL: name, **each["metadata"].get("labels", {})}
    return dict(found)


def _volumes(case: Case) -> Volumes:
    claims = _views(case, "PersistentVolumeClaim", PersistentVolumeClaim)
    return Volumes(
        claims={(each.metadata.namespace, each.metadata.name): each for each in claims},
        volumes={each.metadata.name: each for each in _views(case, "PersistentVolume", PersistentVolume)},
        classes={each.metadata.name: each for each in _views(case, "StorageClass", StorageClass)},
    )


def _offering(case: Case, offering: Offering) -> model.Offering:
    view = decode(offering.node, core.Node)
    bare = nodes.shape(offering.name, view, per_node_labels=case.topology_keys, startup_taints=offering.startup_taints)
    daemons = daemon_pods(decode(each, core.DaemonSet) for each in case.daemon_sets)
    labels = view.metadata.labels
    there = [pod for pod in daemons if runs_on(pod, labels, (*bare.taints, BOOKED_TAINT), _NEW_NODE)]
    return model.Offering(
        name=offering.name,
        pool="p",
        source="s",
        shape=replace(bare, overhead=_sum(pod.requests for pod in there), pods=tuple(map(alongside, there))),
        capacity_type=CapacityType.ON_DEMAND if offering.price else CapacityType.RESERVED,
        available=offering.limit,
        total=offering.limit,
        price=offering.price,
        domain={key: labels[key] for key in case.topology_keys if key in labels},
    )


def _sum(parts: Iterable[model.Resources]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)
