"""What a pod can ask of a node's labels, taints and volumes: one function a feature, each changing a case in the making."""

from bench.agreement.cases import HOSTNAME, ID, Json, required_affinity
from bench.agreement.draft import RACK, ZONE, Draft

_VOLUME_ZONE = "topology.kubernetes.io/zone"
_GENERATIONS = ("7", "7", "007", "8", "0", "x", "7_0", "9223372036854775807", "9223372036854775808", None)


def node_selector(draft: Draft) -> None:
    for name in draft.nodes:
        value = draft.rng.choice(("ssd", "hdd", "", None))
        if value is not None:
            draft.labels(name)["disk"] = value
    selector = draft.some_spec()["nodeSelector"]
    selector["disk"] = draft.rng.choice(("ssd", "ssd", ""))
    if draft.chance(20):
        selector[HOSTNAME] = draft.name_of_node()
    if draft.chance(20):
        selector[ZONE] = f"z{draft.rng.randrange(2)}"


def _label_generations(draft: Draft) -> None:
    for name in draft.nodes:
        value = draft.rng.choice(_GENERATIONS)
        if value is not None:
            draft.labels(name)["gen"] = value


def _expression(draft: Draft) -> Json:
    operator = draft.rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": draft.rng.choice(("gen", "gen", "none")), "operator": operator}
    if operator in ("Gt", "Lt"):
        values = [draft.rng.choice(("6", "7", "7", "8", "007", "06", "9223372036854775806", "9223372036854775808", "x"))]
        return {"key": draft.rng.choice(("gen", "gen", "gen", "none")), "operator": operator, "values": values}
    values = draft.rng.sample(["7", "007", "8", "x", "70"], draft.rng.randrange(1, 3))
    return {"key": draft.rng.choice(("gen", "gen", "gen", "none")), "operator": operator, "values": values}


def node_affinity(draft: Draft) -> None:
    """One to three terms; a term may be empty."""
    _label_generations(draft)
    terms: list[Json] = []
    for _ in range(draft.rng.randrange(1, 4)):
        many = draft.rng.choice((0, 1, 1, 1, 2, 2))
        terms.append({"matchExpressions": [_expression(draft) for _ in range(many)]} if many else {})
    if draft.chance(30):  # a bound that some node's label is exactly at
        draft.labels(draft.name_of_node())["gen"] = "7"
        terms = [{"matchExpressions": [{"key": "gen", "operator": draft.rng.choice(("Gt", "Lt")), "values": ["7"]}]}]
    draft.some_spec()["affinity"] = required_affinity(*terms)


def match_fields(draft: Draft) -> None:
    """Nodes by name, alone and with labels; two terms make an OR of them."""
    _label_generations(draft)
    terms: list[Json] = []
    for _ in range(draft.rng.randrange(1, 3)):
        field = {"key": "metadata.name", "operator": draft.rng.choice(("In", "NotIn")), "values": [draft.name_of_node()]}
        fields = [field] if draft.chance(80) else [field, {**field, "values": [draft.name_of_node()]}]
        terms.append({"matchFields": fields, **({"matchExpressions": [_expression(draft)]} if draft.chance(30) else {})})
    draft.some_spec()["affinity"] = required_affinity(*terms)


def _taint(draft: Draft) -> Json:
    effect = draft.rng.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
    value = draft.rng.choice(({}, {"value": "a"}, {"value": "b"}))
    return {"key": draft.rng.choice(("dedicated", "gpu")), **value, "effect": effect}


def _toleration(draft: Draft) -> Json:
    rng = draft.rng
    effect = rng.choice(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}, {"effect": "PreferNoSchedule"}))
    if draft.chance(8):
        return {"operator": "Exists", **effect}
    key = {"key": rng.choice(("dedicated", "gpu"))}
    seconds = {"tolerationSeconds": 30} if effect.get("effect") == "NoExecute" and draft.chance(50) else {}
    if draft.chance(40):
        return {**key, "operator": "Exists", **effect, **seconds}
    operator = rng.choice(({}, {"operator": "Equal"}))
    return {**key, **operator, **rng.choice(({}, {"value": "a"}, {"value": "b"})), **effect, **seconds}


def taints(draft: Draft) -> None:
    for name in draft.nodes:
        draft.taint(name, *(_taint(draft) for _ in range(draft.rng.randrange(3))))
    draft.some_spec().setdefault("tolerations", []).extend(_toleration(draft) for _ in range(draft.rng.randrange(1, 4)))


def cordon(draft: Draft) -> None:
    """Some nodes take no new pods; with the taint that the node controller adds, or still without."""
    for name in draft.nodes:
        if draft.chance(50):
            draft.nodes[name]["spec"]["unschedulable"] = True
            if draft.chance(50):
                draft.taint(name, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    key = {"key": "node.kubernetes.io/unschedulable"}
    options: tuple[Json, ...] = (
        {**key, "operator": "Exists"},
        {**key, "operator": "Exists", "effect": "NoSchedule"},
        {**key, "operator": "Exists", "effect": "NoExecute"},
        {**key},
        {**key, "value": "true"},
        {"operator": "Exists"},
    )
    if draft.chance(80):
        draft.some_spec().setdefault("tolerations", []).append(draft.rng.choice(options))


def volumes(draft: Draft) -> None:
    """A claim that is bound to a volume which only some nodes reach, by node affinity or by zone label."""
    for name in draft.nodes:
        if draft.chance(60):
            draft.labels(name)[_VOLUME_ZONE] = f"v{draft.rng.randrange(2)}"
    draft.others += [_volume(draft), _claim()]
    draft.some_spec()["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def _volume(draft: Draft) -> Json:
    rng = draft.rng
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
        "claimRef": {"namespace": ID, "name": "data"},
    }
    if draft.chance(85):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": rng.sample(_reaches(draft), rng.choice((1, 1, 2)))}}
    labels = {_VOLUME_ZONE: rng.choice(("v0", "v1", "v0__v1"))} if draft.chance(40) else {}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{ID}-pv", "labels": labels}, "spec": spec}


def _reaches(draft: Draft) -> list[Json]:
    options = (
        (HOSTNAME, "In", [draft.name_of_node()]),
        (ZONE, "In", [f"z{draft.rng.randrange(2)}"]),
        (RACK, "NotIn", ["z0-r0", "z1-r1"]),
        (_VOLUME_ZONE, "In", ["v0"]),
    )
    return [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]} for key, operator, values in options]


def _claim() -> Json:
    bound = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    storage = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "resources": storage, "storageClassName": "", "volumeName": f"{ID}-pv"}
    meta = {"name": "data", "namespace": ID, "annotations": bound}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": {"phase": "Bound"}}
