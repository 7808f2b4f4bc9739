"""What accepted gangs lean on beside their templates: claims, storage and runtime classes, devices. These come and change while a
gang waits, so its pods are read anew each time that it is planned; its templates and terms stay as they were accepted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kube import core
from kube.autoscaling import ProvisioningRequest
from kube.requests import PodSpecError
from provisioner.asking.acceptance import Accepted, Refused, offer
from provisioner.asking.authority import Look

Key = tuple[str, str]
"""(namespace, name)."""


@dataclass(frozen=True, slots=True)
class Leaning:
    """Of all gangs that wait: the `claims` that they name, and whether `any` leans on something."""

    claims: frozenset[Key] = frozenset()
    any: bool = False


def leaning(waiting: Iterable[Accepted]) -> Leaning:
    templates = [each for accepted in waiting for each in accepted.templates if _leans(each)]
    return Leaning(frozenset(key for each in templates for key in _claims(each)), bool(templates))


def renewed(known: Accepted, request: ProvisioningRequest, look: Look) -> Accepted | Refused:
    """The gang as its pods would be admitted now; Refused when what came contradicts their templates."""
    devices = any(name in look.device_resources for pod_set in known.gang.pod_sets for name in pod_set.requests)
    awaited = any(pod_set.awaits for pod_set in known.gang.pod_sets)
    if not devices and not awaited and not any(_leans(each) for each in known.templates):
        return known
    try:
        fresh = offer(request, known.templates, known.terms, look)
    except PodSpecError as error:
        return Refused("InvalidArgument", str(error))
    return replace(known, gang=fresh.gang, digest=fresh.digest)


def _leans(each: core.PodTemplate) -> bool:
    return bool(_spec(each).get("runtimeClassName")) or any(
        volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in _spec(each).get("volumes") or ()
    )


def _claims(each: core.PodTemplate) -> Iterator[Key]:
    for volume in _spec(each).get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield each.metadata.namespace, claim.get("claimName", "")


def _spec(each: core.PodTemplate) -> dict[str, Any]:
    return each.template.get("spec") or {}
