"""The pod that we count is the pod that the API server admits: chance templates count the same before and after a dry run."""

from random import Random
from typing import Any

import pytest

from e2e.api import Api
from kube.core import Pod, PodTemplateSpec, TemplateMeta
from kube.meta import decode
from kube.podspec import pod_set

Json = dict[str, Any]

SEED = 20260912
CASES = 250
CPU = ["0.0001", "1m", "999.5m", "1", "1.5", "2e0", "0"]
MEMORY = ["1500m", "1", "1G", "1Gi", "0.5Gi", "1e9", "128974848"]
GPU = ["0", "1", "8"]
NAMESPACES = {"kube-system": {}, "a": {"k": "v"}, "b": {}}


def resources(random: Random) -> Json:
    asks: Json = {"requests": {}, "limits": {}}
    for name, values in (("cpu", CPU), ("memory", MEMORY)):
        if random.random() < 0.6:
            asks[random.choice(["requests", "limits"])][name] = random.choice(values)
    if random.random() < 0.5:
        asks["limits"]["nvidia.com/gpu"] = random.choice(GPU)
    return asks


def container(random: Random, name: str, **more: Any) -> Json:
    ports = [port(random)] if random.random() < 0.3 else []
    return {"name": name, "image": "x", "resources": resources(random), "ports": ports, **more}


def port(random: Random) -> Json:
    bound: Json = random.choice([{}, {"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}])
    protocol: Json = random.choice([{}, {"protocol": "UDP"}])
    return {"containerPort": 80, **bound, **protocol}


def selecting(random: Random, *kinds: str) -> Json:
    """A topology key, a selector, and keys of labels to be merged into it."""
    selector: Json = random.choice([{}, {"labelSelector": {}}, {"labelSelector": {"matchLabels": {"app": "x"}}}])
    keys = {kind: random.sample(["rev", "none"], random.randrange(1, 3)) for kind in kinds if selector and random.random() < 0.4}
    return {"topologyKey": random.choice(["rack", "zone"]), **selector, **keys}


def term(random: Random) -> Json:
    selected = {"matchLabels": {"k": "v"}}
    where: Json = random.choice([{}, {"namespaces": ["a"]}, {"namespaceSelector": {}}, {"namespaceSelector": selected}])
    return {**selecting(random, random.choice(["matchLabelKeys", "mismatchLabelKeys"])), **where}


def spread(random: Random) -> Json:
    least: Json = random.choice([{}, {"minDomains": 2}])
    policies: Json = random.choice([{}, {"nodeAffinityPolicy": "Ignore"}, {"nodeTaintsPolicy": "Honor"}])
    return {**selecting(random, "matchLabelKeys"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **least, **policies}


def template(random: Random) -> Json:
    init = [
        container(random, f"i{i}", **({"restartPolicy": "Always"} if random.random() < 0.5 else {}))
        for i in range(random.randrange(4))
    ]
    spec: Json = {"containers": [container(random, f"c{i}") for i in range(random.randrange(1, 3))], "initContainers": init}
    if random.random() < 0.5:
        level: Json = {"cpu": random.choice(["50", "99.5"]), "memory": "1Ti"}
        spec["resources"] = {random.choice(["requests", "limits"]): level}
    if random.random() < 0.4:
        effect = random.choice([{}, {"effect": "NoExecute"}, {"effect": "NoSchedule"}])
        key = random.choice(["", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "other"])
        spec["tolerations"] = [{"key": key, "operator": "Exists", **effect}]
    spec["hostNetwork"] = random.random() < 0.2
    for kind in ("podAffinity", "podAntiAffinity"):
        if random.random() < 0.4:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term(random)]}
            spec.setdefault("affinity", {})[kind] = required
    if random.random() < 0.4:
        spec["topologySpreadConstraints"] = [spread(random)]
    return {"metadata": {"labels": {"app": "x", "rev": "7"}}, "spec": spec}


@pytest.mark.timeout(120)
def test_admission_changes_nothing_that_we_counted(api: Api) -> None:
    random = Random(SEED)
    seen = 0
    for number in range(CASES):
        made = template(random)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", **made["metadata"]}, "spec": made["spec"]}
        answer = api.call("POST", "/api/v1/namespaces/kube-system/pods", body, dryRun="All")
        if not answer.accepted:
            assert answer.status == 422, answer.body
            continue
        seen += 1
        admitted = decode(answer.body, Pod)
        labels = TemplateMeta(labels=admitted.metadata.labels)
        before = pod_set("main", 1, decode(made, PodTemplateSpec), namespace="kube-system", namespaces=NAMESPACES)
        admitted_template = PodTemplateSpec(metadata=labels, spec=admitted.spec)
        after = pod_set("main", 1, admitted_template, namespace="kube-system", namespaces=NAMESPACES)
        assert before.requests == after.requests, made
        assert set(before.tolerations) == set(after.tolerations), made
        assert (before.near, before.apart, before.spreads) == (after.near, after.apart, after.spreads), made
        assert before.ports == after.ports, made
    assert seen > CASES // 2, "too few of the templates were valid to prove anything"
