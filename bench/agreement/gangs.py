"""What makes a gang and where it may go: pod sets, levels, slices, and nodes that can be bought."""

from bench.agreement.cases import HOSTNAME, ID, Json, PodSet, template
from bench.agreement.demands import port
from bench.agreement.draft import RACK, ZONE, Draft, write_request


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
        draft.some_spec()["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": draft.rng.choice(("a", "b"))}]


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
            form["spec"]["containers"][0]["ports"] = [port(draft)]
        selector = {"matchLabels": {"app": f"{name}-{ID}"}}
        meta = {"name": name, "namespace": ID}
        daemon = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta,
            "spec": {"selector": selector, "template": form},
        }
        draft.daemon_sets.append(daemon)


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
