"""Reconciles one AdmissionCheck: tells Kueue whether it can be used, and people why not."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from admission.terms import Terms, Unusable
from admission.view import Stores, is_own, terms_of
from admission.writer import MANAGER
from kube.kueue import AdmissionCheck
from kube.resources import ADMISSION_CHECKS
from runtime.client import Client, Resource
from runtime.conditions import set_condition
from runtime.controller import DONE, Result
from runtime.errors import NotFound
from runtime.events import Recorder
from runtime.store import Key

ACTIVE = "Active"
_CHECKS = Resource(*ADMISSION_CHECKS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The condition Active, as Kueue v0.17.0 words it for its own checks."""

    active: bool
    reason: str
    message: str


def verdict(conditions: Terms | Unusable) -> Verdict:
    """Pure: what to say of a check with these terms."""
    if isinstance(conditions, Unusable):
        return Verdict(False, "BadParametersRef", conditions.why)
    note = f": {conditions.note}" if conditions.note else ""
    return Verdict(True, "Active", f"The admission check is active{note}")


def said(check: AdmissionCheck, wanted: Verdict) -> bool:
    """Whether the check's status says so already, about its present generation."""
    found = next((each for each in check.status.conditions if each.type == ACTIVE), None)
    return found is not None and (found.status, found.reason, found.message, found.observed_generation) == (
        str(wanted.active),
        wanted.reason,
        wanted.message,
        check.metadata.generation,
    )


class Checks:
    """The reconciler."""

    def __init__(self, client: Client, stores: Stores, recorder: Recorder, now: Callable[[], datetime]) -> None:
        self._client, self._stores, self._recorder, self._now = client, stores, recorder, now

    async def reconcile(self, key: Key) -> Result:
        """Writes the condition Active if it is not as it should be."""
        check = self._stores.checks.get(key)
        if check is None or not is_own(check):
            return DONE
        wanted = verdict(terms_of(self._stores, check))
        if not said(check, wanted):
            await self._write(check, wanted)
        return DONE

    async def _write(self, check: AdmissionCheck, wanted: Verdict) -> None:
        meta = check.metadata
        before = [each.to_json() for each in check.status.conditions if each.type == ACTIVE]
        conditions = set_condition(
            before, ACTIVE, wanted.active, wanted.reason, wanted.message, generation=meta.generation, now=self._now()
        )
        body = {"metadata": {"name": meta.name, "uid": meta.uid}, "status": {"conditions": conditions}}
        try:
            await self._client.apply(_CHECKS, body, manager=MANAGER, subresource="status")
        except NotFound:
            return
        if not any((each["status"], each["message"]) == (str(wanted.active), wanted.message) for each in before):
            kind = {"apiVersion": ADMISSION_CHECKS.api_version, "kind": ADMISSION_CHECKS.kind}
            regarding = {**kind, "metadata": {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}}
            await self._recorder.event(regarding, "Normal" if wanted.active else "Warning", wanted.reason, wanted.message)
