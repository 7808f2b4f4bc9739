"""What a pod can ask of its node by itself: one function a feature, each changing a case in the making at its boundaries."""

from bench.agreement.cases import HOSTNAME, ID, Json, PodSet, container, required_affinity, template
from bench.agreement.draft import GPU, RACK, ZONE, Draft, write_request

_GENERATIONS = ("7", "7", "007", "8", "0", "x", "7_0", "9223372036854775807", "9223372036854775808", None)


def spec_of(draft: Draft) -> Json:
    """The spec of some pod set's template."""
    found: Json = draft.rng.choice(draft.sets).template["spec"]
    return found


def resources(draft: Draft) -> None:
    """One request exactly at what is free, or one unit off; written in any unit."""
    for pod_set in draft.sets:
        draft.forms[pod_set.name] = draft.rng.choice(("plain", "two", "limits", "rounded"))


def init_containers(draft: Draft) -> None:
    for pod_set in draft.sets:
        draft.forms[pod_set.name] = draft.rng.choice(("init", "sidecar", "sidecar-init"))


def pod_level(draft: Draft) -> None:
    for pod_set in draft.sets:
        draft.forms[pod_set.name] = "pod-level"


def overhead(draft: Draft) -> None:
    """A RuntimeClass with overhead, and sometimes a node selector and tolerations of its own."""
    rng = draft.rng
    fixed = {"cpu": "250m", **({"memory": "100Mi"} if draft.chance(50) else {})}
    runtime: Json = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"{ID}-vm"},
        "handler": "vm",
        "overhead": {"podFixed": fixed},
    }
    if draft.chance(40):
        on = draft.name_of_node()
        draft.labels(on)["vm"] = "yes"
        draft.taint(on, {"key": "vm", "value": "only", "effect": "NoSchedule"})
        tolerated = {"key": "vm", "operator": "Equal", "value": rng.choice(("only", "only", "")), "effect": "NoSchedule"}
        runtime["scheduling"] = {"nodeSelector": {"vm": "yes"}, "tolerations": [tolerated]}
    draft.others.append(runtime)
    for pod_set in draft.sets[:1]:
        pod_set.template["spec"]["runtimeClassName"] = f"{ID}-vm"
        draft.forms[pod_set.name] = rng.choice(("plain", "init", "sidecar", "pod-level", "overhead"))


def pods_count(draft: Draft) -> None:
    """A node that takes only so many pods, or tells no number at all; pods that ask for nothing count, too."""
    for name in draft.nodes:
        there = draft.rng.randrange(3)
        for _ in range(there):
            draft.run(name, {})
        room = draft.rng.choice((0, 1, 1, 2))
        allocatable = draft.nodes[name]["status"]["allocatable"]
        allocatable["pods"] = str(there + room)
        draft.free[name]["pods"] = room
        if draft.chance(10):
            del allocatable["pods"]
            draft.free[name]["pods"] = 0
    if draft.chance(60):
        draft.forms[draft.sets[0].name] = "nothing"


def extended(draft: Draft) -> None:
    """Devices, and huge pages, of which some nodes have none, 0, or all in use."""
    rng = draft.rng
    for name in draft.nodes:
        count = rng.choice((None, 0, 1, 4, 8))
        if count is not None:
            draft.nodes[name]["status"]["allocatable"][GPU] = str(count)
            draft.free[name][GPU] = count
        if count and draft.chance(50):
            draft.run(name, {GPU: rng.randrange(1, count + 1)})
    if draft.chance(25):
        for name in draft.nodes:
            draft.nodes[name]["status"]["allocatable"]["hugepages-2Mi"] = "64Mi"
            draft.free[name]["hugepages-2Mi"] = 64 << 20
        draft.asks[draft.sets[0].name] = {"hugepages-2Mi": rng.choice((32 << 20, 34 << 20, 64 << 20, 66 << 20)), "cpu": 1}
        draft.forms[draft.sets[0].name] = "plain"
        return
    for pod_set in draft.sets:
        draft.asks.setdefault(pod_set.name, {})[GPU] = rng.choice((1, 2, 3, 4, 5, 8))


def node_selector(draft: Draft) -> None:
    for name in draft.nodes:
        value = draft.rng.choice(("ssd", "hdd", "", None))
        if value is not None:
            draft.labels(name)["disk"] = value
    selector = spec_of(draft)["nodeSelector"]
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
    spec_of(draft)["affinity"] = required_affinity(*terms)


def match_fields(draft: Draft) -> None:
    """Nodes by name, alone and with labels; two terms make an OR of them."""
    _label_generations(draft)
    terms: list[Json] = []
    for _ in range(draft.rng.randrange(1, 3)):
        field = {"key": "metadata.name", "operator": draft.rng.choice(("In", "NotIn")), "values": [draft.name_of_node()]}
        fields = [field] if draft.chance(80) else [field, {**field, "values": [draft.name_of_node()]}]
        terms.append({"matchFields": fields, **({"matchExpressions": [_expression(draft)]} if draft.chance(30) else {})})
    spec_of(draft)["affinity"] = required_affinity(*terms)


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
        taints_ = [_taint(draft) for _ in range(draft.rng.randrange(3))]
        unique = {(taint["key"], taint["effect"]): taint for taint in taints_}  # the API server wants them so
        draft.taint(name, *unique.values())
    spec_of(draft).setdefault("tolerations", []).extend(_toleration(draft) for _ in range(draft.rng.randrange(1, 4)))


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
        spec_of(draft).setdefault("tolerations", []).append(draft.rng.choice(options))


_ADDRESSES = (None, "0.0.0.0", "10.0.0.1", "10.0.0.2", "127.0.0.1")


def _port(draft: Draft) -> Json:
    number = draft.rng.choice((29500, 29500, 29501))
    address = draft.rng.choice(_ADDRESSES)
    protocol = draft.rng.choice(({}, {"protocol": "TCP"}, {"protocol": "UDP"}))
    return {"containerPort": number, "hostPort": number, **protocol, **({"hostIP": address} if address else {})}


def host_ports(draft: Draft) -> None:
    """Ports that running pods and the gang bind on the host: by address, by protocol, of sidecars, and by hostNetwork."""
    for name in draft.nodes:
        for _ in range(draft.rng.randrange(2)):
            form = template()
            form["spec"]["containers"] = [container(ports=[_port(draft)])]
            draft.run(name, {}, of=form)
    for pod_set in draft.sets:
        spec = pod_set.template["spec"]
        if draft.chance(25):
            spec["hostNetwork"] = True
            spec["containers"][0]["ports"] = [{"containerPort": 29500}]
        elif draft.chance(25):
            spec["initContainers"] = [container(None, "beside", restartPolicy="Always", ports=[_port(draft)])]
            draft.forms[pod_set.name] = "plain"
        else:
            spec["containers"][0]["ports"] = [_port(draft)] if draft.chance(80) else [_port(draft), {"containerPort": 80}]


def volumes(draft: Draft) -> None:
    """A claim that is bound to a volume which only some nodes reach, by node affinity or by zone label."""
    rng = draft.rng
    for name in draft.nodes:
        if draft.chance(60):
            draft.labels(name)["topology.kubernetes.io/zone"] = f"v{rng.randrange(2)}"
    node = draft.name_of_node()
    options: tuple[Json, ...] = (
        {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]},
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [f"z{rng.randrange(2)}"]}]},
        {"matchExpressions": [{"key": RACK, "operator": "NotIn", "values": ["z0-r0", "z1-r1"]}]},
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["v0"]}]},
    )
    terms = rng.sample(options, rng.choice((1, 1, 2)))
    labels = {"topology.kubernetes.io/zone": rng.choice(("v0", "v1", "v0__v1"))} if draft.chance(40) else {}
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
        "claimRef": {"namespace": ID, "name": "data"},
    }
    if draft.chance(85):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{ID}-pv", "labels": labels}, "spec": spec}
    bound = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": ID, "annotations": bound},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": f"{ID}-pv",
        },
        "status": {"phase": "Bound"},
    }
    draft.others += [volume, claim]
    spec_of(draft)["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def several_pod_sets(draft: Draft) -> None:
    """Two or three pod sets that may share nodes."""
    while len(draft.sets) < draft.rng.choice((2, 2, 3)):
        add_set(draft)


def add_set(draft: Draft) -> None:
    name = ("worker", "launcher", "parameter")[len(draft.sets)]
    draft.sets.append(PodSet(name, 1, template(labels={"role": f"{name}-{ID}"})))


def purchases(draft: Draft) -> None:
    """One or two offerings, which the gang may need."""
    for _ in range(draft.rng.randrange(1, 3)):
        draft.add_offering(draft.rng.randrange(1, 3), draft.rng.choice((0, 1_000_000, 2_500_000)))


def startup_taints(draft: Draft) -> None:
    """Offerings whose nodes join with taints that go away, and with one that stays."""
    purchases(draft)
    for offering in draft.offerings:
        passing: list[Json] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        if draft.chance(70):
            passing.append({"key": "example.com/agent-not-ready", "effect": "NoExecute", "value": "true"})
            offering.startup_taints.append("example.com/agent-not-ready")
        staying = [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}] if draft.chance(50) else []
        offering.node["spec"]["taints"] = [*passing, *staying]
    if draft.chance(60):
        spec_of(draft)["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": draft.rng.choice(("a", "b"))}]


def daemon_sets(draft: Draft) -> None:
    """DaemonSets take room on bought nodes, if their selector and tolerations let them run there."""
    purchases(draft)
    for number in range(draft.rng.randrange(1, 3)):
        name = f"agent{number}"
        ask = {"cpu": draft.rng.choice((50, 100, 333)), "memory": draft.rng.choice((64 << 20, 100_000_000))}
        booked = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
        tolerations = draft.rng.choice(([booked], [booked], [{"operator": "Exists"}], []))
        form = template({}, {"app": f"{name}-{ID}"}, tolerations=tolerations)
        if draft.chance(40):
            form["spec"]["nodeSelector"]["kind"] = "o0"
        write_request(draft.rng, form["spec"], ask, draft.rng.choice(("plain", "init", "sidecar", "limits")))
        if draft.chance(30):
            form["spec"]["containers"][0]["ports"] = [_port(draft)]
        selector = {"matchLabels": {"app": f"{name}-{ID}"}}
        meta = {"name": name, "namespace": ID}
        daemon = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta,
            "spec": {"selector": selector, "template": form},
        }
        draft.daemon_sets.append(daemon)
        for offering in draft.offerings if tolerations else ():
            if form["spec"]["nodeSelector"].get("kind", offering.name) == offering.name:
                offering.daemons.append(name)
                for resource, amount in {**ask, "pods": 1}.items():
                    draft.free[offering.name][resource] -= amount


def required_level(draft: Draft) -> None:
    """All pods in one zone, one rack or on one host."""
    level = draft.rng.choice((ZONE, RACK, RACK, HOSTNAME))
    for pod_set in draft.sets[: draft.rng.choice((1, 3))]:
        pod_set.template["metadata"].setdefault("annotations", {})["corral.dev/required-topology"] = level


def slices(draft: Draft) -> None:
    """Pods in slices, each in one rack."""
    pod_set = draft.sets[0]
    notes = pod_set.template["metadata"].setdefault("annotations", {})
    notes |= {"corral.dev/slice-topology": draft.rng.choice((RACK, ZONE)), "corral.dev/slice-size": "2"}
    if draft.chance(40):
        notes["corral.dev/required-topology"] = ZONE
