"""A cluster of a few objects, as one who asks `corral why` finds it."""

from collections.abc import Mapping
from typing import Any

from corral.reading import Reader
from corral.targets import target
from corral.why import why
from runtime.errors import Forbidden, NotFound

Json = dict[str, Any]
SINCE = "2026-09-01T10:00:00Z"


def condition(kind: str, status: str = "True", **fields: str) -> Json:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": SINCE} | fields


def meta(name: str, namespace: str = "team", **fields: Any) -> Json:
    return {"name": name, "namespace": namespace, "uid": f"{name}-uid", "creationTimestamp": SINCE, **fields}


def owner(kind: str, name: str, version: str, **fields: Any) -> Json:
    return {"kind": kind, "name": name, "uid": f"{name}-uid", "apiVersion": version, "controller": True, **fields}


def entry(name: str = "capacity", state: str = "Pending", message: str = "") -> Json:
    """Of `status.admissionChecks`."""
    return {"name": name, "state": state, "message": message, "lastTransitionTime": SINCE}


def workload(name: str, *owners: Json, checks: tuple[Json, ...] = (entry(),), **status: Any) -> Json:
    """One with quota, whose checks are to answer; `status` replaces what is said of it."""
    said = {"conditions": [condition("QuotaReserved")], "admissionChecks": list(checks)} | status
    return {"metadata": meta(name, ownerReferences=list(owners)), "spec": {"queueName": "q"}, "status": said}


def check(name: str = "capacity", controller: str = "corral.dev/capacity", config: str = "") -> Json:
    parameters = (
        {"parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": config}} if config else {}
    )
    return {"metadata": {"name": name}, "spec": {"controllerName": controller, **parameters}}


def request(name: str, *conditions: Json, of: str = "", for_: str = "capacity", **fields: Any) -> Json:
    """By Corral's admission for the Workload `of` and the check `for_`; a bare one if `of` is empty. `fields` are of metadata."""
    marks = {"corral.dev/workload": of, "corral.dev/admission-check": for_}
    ours = {"labels": {"corral.dev/workload-uid": f"{of}-uid"}, "annotations": marks} if of else {}
    return {
        "metadata": meta(name, **ours, **fields),
        "spec": {"provisioningClassName": "gang.corral.dev", "podSets": [{"podTemplateRef": {"name": "t"}, "count": 6}]},
        "status": {"conditions": list(conditions)},
    }


def waits(reason: str, message: str) -> Json:
    return condition("Provisioned", "False", reason=reason, message=message)


class Api:
    """Answers from a table; `closed` are the plurals that the user may not read, "workloads/*" those of all namespaces."""

    def __init__(self, objects: Mapping[str, list[Json]], *closed: str) -> None:
        self._objects, self._closed = objects, closed

    async def list(self, resource: Any, namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> list[Json]:
        if resource.plural in self._closed or (not namespace and f"{resource.plural}/*" in self._closed):
            raise Forbidden("no")
        key, _, value = label_selector.partition("=")
        found = [
            each
            for each in self._objects.get(resource.plural, [])
            if not key or each["metadata"].get("labels", {}).get(key) == value
        ]
        return [each for each in found if namespace in ("", each["metadata"].get("namespace", namespace))]

    async def get(self, resource: Any, name: str, namespace: str = "") -> Json:
        for each in await self.list(resource, namespace):
            if each["metadata"]["name"] == name:
                return each
        raise NotFound


async def told(objects: Mapping[str, list[Json]], text: str, *closed: str) -> list[str]:
    """The lines of the answer, in namespace team."""
    return (await why(Reader(Api(objects, *closed)), target(text), "team")).splitlines()  # type: ignore[arg-type]
