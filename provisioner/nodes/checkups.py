"""The pool's health-check Job: what is made for a node, and what its end says of it.

A Job runs one pod of the pool's PodTemplate on a node, put there by name: no scheduler looks at taints and selectors then.
But the kubelet refuses a pod whose selector or affinity its node doesn't match, and taints with effect NoExecute end it
(predicates of the kubelet and the taint eviction controller of Kubernetes 1.36). A pod that is evicted says nothing of its
node: the Job makes another (docs of Kubernetes, "Pod failure policy").
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any

from kube import core, ours
from kube.resources import JOBS
from kube.times import seconds
from provisioner.nodes.refusals import remedy
from provisioner.state import TAG_BOOKING, State
from runtime.client import Client, Resource
from runtime.errors import AlreadyExists, ApiError, TransportError
from runtime.logging import get_logger

CHECKUP = "corral.dev/health-check"
"""Label of the Jobs that check a node's health, and of their pods; these may be ended with the node."""
TTL = 86_400
"""Seconds that an ended Job can be looked at; longer than any booking waits for its nodes."""
_PLACING = ("nodeSelector", "affinity", "topologySpreadConstraints", "schedulingGates")
_IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
_KUBERNETES = "node.kubernetes.io/"
_log = get_logger("checkups")


def _digest(node: str) -> str:
    return hashlib.sha256(node.encode()).hexdigest()[:10]


def name(booking: str, node: str) -> str:
    """The same for the same booking and node: what was made already is not made again."""
    return f"{booking}-{_digest(node)}"


def is_checkup(pod: core.Pod, home: str) -> bool:
    """Whether a health check of ours runs in it: in the provisioner's own namespace `home`, by the Job that was made for its
    node. The label alone can be set by anybody, on a pod that must not be ended.
    """
    made = f"-{_digest(pod.spec.node_name)}"
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    by_job = owner is not None and (owner.api_version, owner.kind) == ("batch/v1", "Job") and owner.name.endswith(made)
    return by_job and pod.metadata.namespace == home and CHECKUP in pod.metadata.labels


def job(
    booking: str, node: str, check: ours.HealthCheck, template: core.PodTemplate, taints: Iterable[core.Taint] = ()
) -> dict[str, Any]:
    """Its pod is known by label, namespace and Job for one of ours, and so is no reason against the node. It stays under the
    `taints` of the node that would end it, but for those by which Kubernetes itself tells of trouble. The booked taint ends none.
    """
    meta, spec = template.template.get("metadata", {}), template.template.get("spec", {})
    tolerations = [*spec.get("tolerations", ()), *_tolerations(taints)]
    kept = {key: value for key, value in spec.items() if key not in _PLACING}
    return {
        "metadata": {
            "name": name(booking, node),
            "namespace": template.metadata.namespace,
            "labels": {TAG_BOOKING: booking, CHECKUP: "true"},
        },
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [_IGNORE]},
            "activeDeadlineSeconds": seconds(check.timeout),
            "ttlSecondsAfterFinished": TTL,
            "template": {
                "metadata": {**meta, "labels": {**meta.get("labels", {}), CHECKUP: "true"}},
                "spec": {**kept, "tolerations": tolerations, "restartPolicy": "Never", "nodeName": node},
            },
        },
    }


def _tolerations(taints: Iterable[core.Taint]) -> list[Mapping[str, str]]:
    keys = {each.key for each in taints if each.effect == "NoExecute" and not each.key.startswith(_KUBERNETES)}
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in sorted(keys)]


def result(found: core.Job, namespace: str) -> tuple[bool | None, str]:
    """Whether the check was passed, None while it isn't over or says nothing of the node, and words.

    When a Job ends, pods that run count as failed: one without any never had a pod, as when a quota or a rule of the namespace
    forbids them, or lost all to evictions.
    """
    for condition in found.status.conditions:
        if condition.status == "True" and condition.type == "Complete":
            return True, ""
        if condition.status == "True" and condition.type == "Failed":
            why = ": ".join(filter(None, (condition.reason, condition.message)))
            if not found.status.failed:
                return (
                    None,
                    f"no pod of its health check came to an end: look at the events of Job {namespace}/{found.metadata.name}",
                )
            return False, f"its health check failed: {why}"
    if found.spec.suspend:
        return None, f"its health check is suspended: keep Kueue off Jobs of namespace {namespace} (managedJobsNamespaceSelector)"
    return None, "its health check runs"


def stuck(found: core.Job) -> bool:
    """Whether it can't tell anything, whatever the node is like."""
    return found.spec.suspend or any(each.type == "Failed" and each.status == "True" for each in found.status.conditions)


def version(check: ours.HealthCheck, template: core.PodTemplate) -> str:
    """Another one after each change of what Jobs are made of."""
    return f"{template.metadata.uid}/{template.metadata.resource_version}/{check.timeout}"


# --- what keeps it from beginning -----------------------------------------------------------------------------------------


def hindrance(state: State, pool: ours.CapacityPool, check: ours.HealthCheck, now: datetime) -> tuple[str, bool]:
    """Why no Job can be made for a node of the pool ("" if nothing is known against it), and whether to try now."""
    template = state.checkup(check)
    if template is None:
        return f"there is no PodTemplate {state.home}/{check.pod_template_ref.name} for its health check", False
    refusal = state.refusals.of(pool.metadata.name, version(check, template))
    if refusal is None:
        return "", True
    return f"its health check can't begin: {refusal.words or 'no answer'}", refusal.until <= now


def trouble(state: State, pool: ours.CapacityPool) -> tuple[str, str] | None:
    """(reason, message) for the author of the pool, None while its health check can begin for all that is known."""
    check = pool.spec.readiness.health_check
    if check is None:
        return None
    named = f"PodTemplate {state.home}/{check.pod_template_ref.name}"
    template = state.checkup(check)
    field, waiting = "spec.readiness.healthCheck.podTemplateRef", "gangs wait with their new nodes until then"
    if template is None:
        return "PodTemplateMissing", f"{field}: there is no {named}: make it or correct the name; {waiting}"
    refusal = state.refusals.of(pool.metadata.name, version(check, template))
    if refusal is None or not refusal.reason:
        return None
    return refusal.reason, f"{field}: the Job made of {named} is refused: {refusal.words}: {remedy(refusal.reason)}; {waiting}"


# --- beginning it ---------------------------------------------------------------------------------------------------------


async def begin(client: Client, state: State, booking: str, nodes: Iterable[tuple[str, str]], now: datetime) -> None:
    """Makes the Jobs for nodes (name, pool). What is refused is noted for its pool, and keeps nothing else from being done."""
    for name_, each in groupby(sorted(nodes, key=lambda pair: pair[::-1]), key=lambda pair: pair[1]):
        pool = state.pool(name_)
        check = pool.spec.readiness.health_check if pool else None
        template = state.checkup(check) if check else None
        if check is None or template is None:
            continue
        try:
            for node, _ in each:
                await _make(client, job(booking, node, check, template, _taints(state, node)))
        except (ApiError, TransportError) as error:
            _log.warning("a health check can't begin", pool=name_, booking=booking, error=str(error))
            state.refusals.note(name_, version(check, template), error, now)
        else:
            state.refusals.clear(name_)


async def _make(client: Client, body: Mapping[str, Any]) -> None:
    try:
        await client.create(Resource(*JOBS), body)
    except AlreadyExists:
        return


def _taints(state: State, node: str) -> Iterable[core.Taint]:
    found = state.nodes.get(("", node))
    return found.spec.taints if found else ()
