"""A case: a small cluster and one gang, as the plain Kubernetes JSON that planner, oracle and API server read alike.

Every name, label value that pods are selected by, and topology key of a case contains its id, so that many cases stand in one
cluster without seeing each other; `renamed` gives the same case another id.
"""

import json
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]

ID = "c0c0"
"""The id that generated and kept cases bear; it occurs nowhere else in them."""
CASE_LABEL = "case"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED_LEVEL = "corral.dev/required-topology"


@dataclass
class PodSet:
    """`template` is a PodTemplateSpec without namespace; the case's namespace is `id`. All pods carry the label case=<id>."""

    name: str
    count: int
    template: Json


@dataclass
class Offering:
    """`node` is a Node as it will join (labels of its place included, no name, no hostname label), of which up to `limit` can be
    had at `price` micro-dollars an hour each. `startup_taints` are keys of its taints that go away before any pod comes."""

    name: str
    node: Json
    limit: int
    price: int = 0
    startup_taints: list[str] = field(default_factory=list)


@dataclass
class Probe:
    """The first question: may one pod of `pod_set` go on `node`, the others standing by. An empty `node` leaves the choice to the
    scheduler.
    """

    pod_set: str
    node: str = ""


@dataclass
class Case:
    """`others` are cluster objects in order of creation: namespaces, RuntimeClasses, StorageClasses, volumes, claims.

    `pods` run already (spec.nodeName set): one with a phase is over, one with a deletionTimestamp is being deleted and held by a
    finalizer. `topology_keys` run from the widest level to the narrowest, host excluded.
    """

    features: list[str]
    nodes: list[Json]
    pod_sets: list[PodSet]
    pods: list[Json] = field(default_factory=list)
    others: list[Json] = field(default_factory=list)
    daemon_sets: list[Json] = field(default_factory=list)
    offerings: list[Offering] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    topology_keys: list[str] = field(default_factory=list)
    id: str = ID
    seed: str = ""

    def to_json(self) -> Json:
        return asdict(self)

    def pod_set(self, name: str) -> PodSet:
        return next(pod_set for pod_set in self.pod_sets if pod_set.name == name)


def case(value: Json) -> Case:
    """The inverse of `Case.to_json`."""
    lists = {"pod_sets": PodSet, "offerings": Offering, "probes": Probe}
    read = {name: [kind(**item) for item in value.get(name, [])] for name, kind in lists.items()}
    return Case(**{**value, **read})


def renamed(original: Case, id_: str) -> Case:
    """The same case under another id, sharing nothing with the original."""
    return case(json.loads(json.dumps(original.to_json()).replace(original.id, id_)))


def without_cordoned(original: Case) -> Case:
    """The case as a gang may use it: no plan takes a cordoned node, even if the pods tolerate the cordon. Such nodes stand by
    without their case label, so that no pod of the gang goes there.
    """
    if not any(node["spec"].get("unschedulable") for node in original.nodes):
        return original
    found = renamed(original, original.id)
    for node in found.nodes:
        if node["spec"].get("unschedulable"):
            del node["metadata"]["labels"][CASE_LABEL]
    return found


# --- short ways to write objects ------------------------------------------------------------------------------------------


def node(
    name: str, allocatable: Json, labels: Json | None = None, taints: list[Json] | None = None, *, cordoned: bool = False
) -> Json:
    """A Node; without a name one of an offering."""
    own = {HOSTNAME: name} if name else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**({"name": name} if name else {}), "labels": {CASE_LABEL: ID, **own, **(labels or {})}},
        "spec": {**({"taints": taints} if taints else {}), **({"unschedulable": True} if cordoned else {})},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def container(requests: Json | None = None, name: str = "main", **more: Any) -> Json:
    """A container; an extended resource (with a slash) must be asked for as a limit, too."""
    asked = requests or {}
    limits = {key: value for key, value in asked.items() if "/" in key or key.startswith("hugepages-")}
    resources = {"requests": asked, **({"limits": limits} if limits else {})} if asked else {}
    return {"name": name, "image": "none", **({"resources": resources} if resources else {}), **more}


def template(requests: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    """A pod template that stays on nodes of its own case; `spec` fields are added as they are."""
    selector = {CASE_LABEL: ID, **spec.pop("nodeSelector", {})}
    base = {"containers": [container(requests)], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"metadata": {"labels": {CASE_LABEL: ID, **(labels or {})}}, "spec": {**base, "nodeSelector": selector, **spec}}


def pod(name: str, of: Json, *, node_name: str = "", namespace: str = ID) -> Json:
    """A pod of a template; with a node name one that runs there already."""
    spec = {**deepcopy(of["spec"]), **({"nodeName": node_name} if node_name else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**deepcopy(of["metadata"]), "name": name, "namespace": namespace},
        "spec": spec,
    }


def required_affinity(*terms: Json) -> Json:
    """`spec.affinity` with these node selector terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
