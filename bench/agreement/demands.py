"""What a pod can ask for of a node's amounts: one function a feature, each changing a case in the making at its edges."""

from bench.agreement.cases import ID, Json, container, template
from bench.agreement.draft import GPU, Draft


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
        if draft.chance(10):
            del allocatable["pods"]
    if draft.chance(60):
        draft.forms[draft.sets[0].name] = "nothing"


def extended(draft: Draft) -> None:
    """Devices, and huge pages, of which some nodes have none, 0, or all in use."""
    rng = draft.rng
    for name in draft.nodes:
        count = rng.choice((None, 0, 1, 4, 8))
        if count is not None:
            draft.nodes[name]["status"]["allocatable"][GPU] = str(count)
        if count and draft.chance(50):
            draft.run(name, {GPU: rng.randrange(1, count + 1)})
    if draft.chance(25):
        for name in draft.nodes:
            draft.nodes[name]["status"]["allocatable"]["hugepages-2Mi"] = "64Mi"
        draft.asks[draft.sets[0].name] = {"hugepages-2Mi": rng.choice((32 << 20, 34 << 20, 64 << 20, 66 << 20)), "cpu": 1}
        draft.forms[draft.sets[0].name] = "plain"
        return
    for pod_set in draft.sets:
        draft.asks.setdefault(pod_set.name, {})[GPU] = rng.choice((1, 2, 3, 4, 5, 8))


_ADDRESSES = (None, "0.0.0.0", "10.0.0.1", "10.0.0.2", "127.0.0.1")


def port(draft: Draft) -> Json:
    """A host port of a container, in one of the ways that can clash."""
    number = draft.rng.choice((29500, 29500, 29501))
    address = draft.rng.choice(_ADDRESSES)
    protocol = draft.rng.choice(({}, {"protocol": "TCP"}, {"protocol": "UDP"}))
    return {"containerPort": number, "hostPort": number, **protocol, **({"hostIP": address} if address else {})}


def host_ports(draft: Draft) -> None:
    """Ports that running pods and the gang bind on the host: by address, by protocol, of sidecars, and by hostNetwork."""
    for name in draft.nodes:
        for _ in range(draft.rng.randrange(2)):
            form = template()
            form["spec"]["containers"] = [container(ports=[port(draft)])]
            draft.run(name, {}, of=form)
    for pod_set in draft.sets:
        spec = pod_set.template["spec"]
        if draft.chance(25):
            spec["hostNetwork"] = True
            spec["containers"][0]["ports"] = [{"containerPort": 29500}]
        elif draft.chance(25):
            spec["initContainers"] = [container(None, "beside", restartPolicy="Always", ports=[port(draft)])]
            draft.forms[pod_set.name] = "plain"
        else:
            spec["containers"][0]["ports"] = [port(draft)] if draft.chance(80) else [port(draft), {"containerPort": 80}]
