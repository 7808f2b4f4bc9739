"""Whom a request speaks for, in the words of whoever made it: Corral's admission, or Kueue's own provisioning check."""

from dataclasses import dataclass

from kube import kueue
from kube.autoscaling import ProvisioningRequest
from kube.request_marks import CHECK, MANAGED, WORKLOAD, WORKLOAD_UID

KUEUE_CONTROLLER = "kueue.x-k8s.io/provisioning-request"


@dataclass(frozen=True, slots=True)
class Stated:
    """What a request says of itself, none of it verified. `check` is "" where only its name tells, as in requests `by_kueue`."""

    workload: str
    uid: str
    check: str
    by_kueue: bool = False


def stated(request: ProvisioningRequest) -> Stated | None:
    """None for a bare request. Kueue v0.17.0 labels its requests as managed and makes the Workload their controller
    (pkg/controller/admissionchecks/provisioning/controller.go, syncOwnedProvisionRequest).
    """
    meta = request.metadata
    if WORKLOAD_UID in meta.labels or WORKLOAD in meta.annotations:
        name, uid = meta.annotations.get(WORKLOAD, ""), meta.labels.get(WORKLOAD_UID, "")
        return Stated(name, uid, meta.annotations.get(CHECK, ""))
    if meta.labels.get(MANAGED) == "true":
        for owner in meta.owner_references:
            if owner.controller and owner.kind == "Workload" and owner.api_version.startswith(f"{kueue.GROUP}/"):
                return Stated(owner.name, owner.uid, "", by_kueue=True)
    return None


def workload_uid(request: ProvisioningRequest) -> str:
    """Of the Workload that the request says it speaks for, "" for a bare one."""
    found = stated(request)
    return found.uid if found else ""


def check_of(request: ProvisioningRequest, workload: kueue.Workload) -> str:
    """The admission check that the request is for, "" when none is. Kueue names its requests `<workload>-<check>-<attempt>`."""
    found = stated(request)
    if found is None or not found.by_kueue:
        return found.check if found else ""
    prefix, _, attempt = request.metadata.name.rpartition("-")
    names = (each.name for each in workload.status.admission_checks)
    return next((name for name in names if attempt.isdigit() and prefix == f"{workload.metadata.name}-{name}"), "")


def pod_set_of(request: ProvisioningRequest, template: str) -> str:
    """The pod set that a PodTemplate of Kueue's is named after (`ppt-<request>-<pod set>`), "" for any other template."""
    prefix = f"ppt-{request.metadata.name}-"
    found = stated(request)
    return template.removeprefix(prefix) if found and found.by_kueue and template.startswith(prefix) else ""
