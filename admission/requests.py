"""The objects that stand for one attempt: PodTemplates and a ProvisioningRequest, their names, owners and marks.

The templates belong to the Workload, the request to its first template: Kueue's in-tree controller deletes every request that
has an owner of the workload's name (v0.17.0, pkg/controller/admissionchecks/provisioning/controller.go).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admission.gang import Member
from admission.model import Condition, Request, State
from admission.terms import CLASS
from kube.autoscaling import ProvisioningRequest
from kube.kueue import AdmissionCheckState, Workload
from kube.request_marks import (
    ATTEMPT,
    BOOKING_DETAIL,
    CHECK,
    FINGERPRINT,
    MANAGED,
    POD_SET,
    POD_SETS,
    UNCOUNTED_DETAIL,
    WORKLOAD,
    WORKLOAD_UID,
)
from kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS
from kube.times import instant

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to get a workload's capacity for one check, before it is written."""

    workload: Workload
    check: str
    number: int
    fingerprint: str
    parameters: Mapping[str, str]
    members: Sequence[Member]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        """Of fixed length behind a readable prefix: 63 characters are never passed, equal content gives an equal name."""
        spec = {
            "parameters": dict(self.parameters),
            "members": [[each.name, each.count, each.template] for each in self.members],
        }
        return f"{_readable(self.workload.metadata.name)}-{_digest(self.fingerprint, spec)[:20]}"


def number(workload: Workload, entry: AdmissionCheckState, present: Iterable[ProvisioningRequest]) -> int:
    """Of the attempt under way: one more than failed before. After Ready the request says how many did, no longer the entry."""
    if entry.state == State.READY or workload.admitted:
        marks = (each.metadata.annotations for each in present)
        told = ((each.get(ATTEMPT, ""), each.get(FINGERPRINT)) for each in marks)
        numbers = ((int(text), mark) for text, mark in told if re.fullmatch(r"[1-9]\d{0,2}", text))
        found = next((made for made, mark in numbers if mark == fingerprint(workload, entry.name, made)), None)
        if found is not None:
            return found
    return (entry.retry_count or 0) + 1


def fingerprint(workload: Workload, check: str, attempt: int) -> str:
    """Names the attempt that belongs to the workload's present reservation of quota.

    Whatever makes capacity useless for the workload is in it: another reservation (its instant), other flavors or counts.
    What may change under a running attempt, policy and config, isn't.
    """
    reserved = workload.condition("QuotaReserved")
    admission = workload.status.admission
    assigned = [[a.name, sorted(a.flavors.items()), a.count] for a in admission.pod_set_assignments] if admission else []
    since = reserved.last_transition_time if reserved else None
    return _digest(workload.metadata.uid, check, attempt, since, assigned)[:32]


def pod_template(attempt: Attempt, index: int) -> Json:
    """The PodTemplate object of the attempt's member of this index."""
    member, workload = attempt.members[index], attempt.workload.metadata
    return {
        "apiVersion": POD_TEMPLATES.api_version,
        "kind": POD_TEMPLATES.kind,
        "metadata": {
            "name": template_name(attempt, index),
            "namespace": workload.namespace,
            "labels": {MANAGED: "true", WORKLOAD_UID: workload.uid, POD_SET: member.name},
            "ownerReferences": [_owner(WORKLOADS.api_version, WORKLOADS.kind, workload.name, workload.uid)],
        },
        "template": member.template,
    }


def template_name(attempt: Attempt, index: int) -> str:
    return f"{attempt.name}-{index}"


def provisioning_request(attempt: Attempt, first_template_uid: str) -> Json:
    """The ProvisioningRequest of the attempt, once its templates are there."""
    workload = attempt.workload.metadata
    return {
        "apiVersion": PROVISIONING_REQUESTS.api_version,
        "kind": PROVISIONING_REQUESTS.kind,
        "metadata": {
            "name": attempt.name,
            "namespace": workload.namespace,
            "labels": {MANAGED: "true", WORKLOAD_UID: workload.uid},
            "annotations": {
                WORKLOAD: workload.name,
                CHECK: attempt.check,
                ATTEMPT: str(attempt.number),
                FINGERPRINT: attempt.fingerprint,
                POD_SETS: ",".join(each.name for each in attempt.members),
                **attempt.annotations,
            },
            "ownerReferences": [
                _owner(POD_TEMPLATES.api_version, POD_TEMPLATES.kind, template_name(attempt, 0), first_template_uid)
            ],
        },
        "spec": {
            "provisioningClassName": CLASS,
            "parameters": dict(attempt.parameters),
            "podSets": [
                {"podTemplateRef": {"name": template_name(attempt, index)}, "count": member.count}
                for index, member in enumerate(attempt.members)
            ],
        },
    }


def same(wanted: Json, found: Json) -> bool:
    """Whether an existing request is the one that we would have written, and not on its way out."""
    metadata, present = wanted["metadata"], found.get("metadata") or {}
    marks = all((present.get(kind) or {}).get(k) == v for kind in ("labels", "annotations") for k, v in metadata[kind].items())
    owners = [(each.get("kind"), each.get("uid")) for each in present.get("ownerReferences") or ()]
    owned = owners == [(each["kind"], each["uid"]) for each in metadata["ownerReferences"]]
    return marks and owned and found.get("spec") == wanted["spec"] and not present.get("deletionTimestamp")


def seen(request: ProvisioningRequest) -> Request:
    """What the decision needs to know of a request."""
    meta = request.metadata
    return Request(
        name=meta.name,
        uid=meta.uid,
        fingerprint=meta.annotations.get(FINGERPRINT, ""),
        created=instant(meta.creation_timestamp or "1970-01-01T00:00:00Z"),
        pod_sets=tuple(filter(None, meta.annotations.get(POD_SETS, "").split(","))),
        templates=tuple(each.pod_template_ref.name for each in request.spec.pod_sets),
        deleting=meta.deletion_timestamp is not None,
        conditions={c.type: Condition(c.status == "True", c.reason, c.message) for c in request.status.conditions},
        booking=request.status.provisioning_class_details.get(BOOKING_DETAIL, ""),
        uncounted=request.status.provisioning_class_details.get(UNCOUNTED_DETAIL) == "true",
    )


def _owner(api_version: str, kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _readable(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name)[:30].rstrip("-")


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
