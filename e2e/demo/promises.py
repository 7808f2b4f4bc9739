"""Every promise of the demo, checked on all that was seen while it ran."""

from collections.abc import Iterator, Sequence

from e2e.demo.scene import GANGS
from e2e.demo.watch import Sample, last, said
from kube.core import Node

RACK = "topology.corral.dev/rack"
BOOKED = "corral.dev/booked"
MARK = ".booking.corral.dev/"
LLM_MACHINES = 4
ON_DEMAND_NEEDED = 2

History = Sequence[Sample]
Promise = tuple[bool, str]


def check(history: History) -> list[Promise]:
    """Whether each promise held, in words."""
    return [promise for part in (_whole, _placed, _cheap, _refused, _undisturbed, _returned) for promise in part(history)]


def settled(history: History) -> bool:
    """Whether nothing more will happen: two gangs ran, one is refused, one waits for quota, and all is given back."""
    states = {gang: said(last(history, gang), gang).split(" ")[0] for gang in GANGS}
    done = {"llm": "FINISHED", "ranker": "FINISHED", "mesh": "REJECTED", "giant": "WAITING"}
    return states == done and not _marked(history[-1]) and not history[-1].alive()


def _whole(history: History) -> Iterator[Promise]:
    half = [
        gang
        for sample in history
        for gang in ("llm", "ranker")
        if any(pod.spec.node_name for pod in sample.pods_of(gang)) and not _had_all(sample, gang)
    ]
    yield not half, "no pod of a gang was bound before the whole gang had its capacity"
    for gang, pods in (("llm", 4), ("ranker", 8)):
        most = max(sum(bool(pod.spec.node_name) for pod in sample.pods_of(gang)) for sample in history)
        yield most == pods, f"all {pods} pods of {gang} were bound by kube-scheduler ({most} seen)"


def _had_all(sample: Sample, gang: str) -> bool:
    workload, booking = sample.workloads.get(gang), sample.booking(gang)
    return bool(workload and (workload.admitted or workload.finished)) and (
        booking is None or booking.status.phase in ("Provisioned", "Releasing", "Released")
    )


def _placed(history: History) -> Iterator[Promise]:
    racks = {
        sample.nodes[pod.spec.node_name].metadata.labels.get(RACK)
        for sample in history
        for pod in sample.pods_of("llm")
        if pod.spec.node_name in sample.nodes
    }
    yield len(racks) == 1 and None not in racks, f"llm ran in one rack ({', '.join(sorted(map(str, racks)))})"


def _cheap(history: History) -> Iterator[Promise]:
    machines = {machine["id"]: machine for sample in history for machine in sample.machines}
    paid = [machine for machine in machines.values() if machine["capacityType"] == "on-demand"]
    reserved = len(machines) - len(paid)
    yield len(paid) == ON_DEMAND_NEEDED, f"on-demand was bought only beyond the reservation: {len(paid)} machines"
    yield reserved == 2 * LLM_MACHINES, f"the reservation was used to the last machine: {reserved} of 8"


def _refused(history: History) -> Iterator[Promise]:
    bought = [b for sample in history for b in sample.bookings if b.spec.workload and "mesh" in b.spec.workload.name]
    told = any("TopologyUnsatisfied" in said(sample, "mesh") for sample in history)
    yield not bought and told, "mesh was told TopologyUnsatisfied, and nothing was ever bought for it"
    asked = any(sample.requests_of("giant") for sample in history if "giant" in sample.workloads)
    quota = "QuotaInsufficient" in said(history[-1], "giant")
    yield quota and not asked, "giant waits for quota, and no capacity was asked for it"


def _undisturbed(history: History) -> Iterator[Promise]:
    def web(sample: Sample) -> dict[str, str]:
        return {p.metadata.uid: p.spec.node_name for p in sample.pods if p.metadata.labels.get("app") == "web" and not p.terminal}

    same = all(web(sample) == web(history[0]) for sample in history)
    yield same and len(web(history[0])) == 3, "the Deployment that is none of Kueue's business kept its pods and nodes"


def _returned(history: History) -> Iterator[Promise]:
    end = history[-1]
    yield not end.alive(), f"every machine was given back ({len(end.alive())} left)"
    yield not _marked(end), "no node carries a taint or label of a booking any more"
    left = [b.metadata.name for b in end.bookings if b.status.phase not in ("Released", "Failed")]
    yield not left, f"no booking is left open ({', '.join(left) or 'none'})"


def _marked(sample: Sample) -> list[str]:
    return [name for name, node in sample.nodes.items() if _is_marked(node)]


def _is_marked(node: Node) -> bool:
    return any(t.key == BOOKED for t in node.spec.taints) or any(MARK in key for key in node.metadata.labels)
