"""Objects from YAML files, and the gangs that workload manifests stand for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capacity.model import Gang, PodSet
from kube import podspec
from kube.kueue import Workload
from kube.meta import Record, decode
from kube.requests import PodSpecError

Object = Mapping[str, Any]
R = TypeVar("R", bound=Record)

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
ROLE = "kueue.x-k8s.io/role-hash"
MOST_PODS = 16_384
"""Pods that a gang may have; the provisioner holds to the same."""


class InputError(ValueError):
    """A file or object that can't be used; the text names the file or object, the field and the remedy."""


def load(paths: Sequence[Path]) -> list[Object]:
    """All objects of the files, in order; Lists are opened. Raises InputError."""
    return [item for path in paths for document in _documents(path) for item in _opened(document, path)]


def named(item: Object) -> str:
    """`Job team/llm`, for messages; an object that names no namespace goes without."""
    meta = item.get("metadata") or {}
    name = meta.get("name") or meta.get("generateName") or "?"
    return f"{item['kind']} {meta['namespace']}/{name}" if meta.get("namespace") else f"{item['kind']} {name}"


def of_kind(items: Iterable[Object], kind: str, type_: type[R]) -> list[R]:
    """The objects of one kind as views. Raises InputError naming object and field."""
    return [_view(item, type_) for item in items if item.get("kind") == kind]


def gangs(items: Sequence[Object]) -> list[Gang]:
    """One gang for each Job, JobSet, Workload and pod group among the objects, in order. Raises InputError."""
    found: dict[str, Gang] = {}
    for item in items:
        gang = _gang(item, items)
        if gang:
            found.setdefault(gang.name, gang)
    return list(found.values())


def _documents(path: Path) -> Iterator[Any]:
    try:
        with path.open() as file:
            yield from yaml.safe_load_all(file)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text in UTF-8") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {error}") from None


def _opened(document: Any, path: Path) -> Iterator[Object]:
    if document is None:
        return
    if not _is_object(document):
        raise InputError(
            f"{path}: holds something that is no Kubernetes object: each document needs apiVersion, kind and metadata"
        )
    if not document["kind"].endswith("List"):
        yield document
        return
    for item in document.get("items") or ():
        yield from _opened(item, path)


def _is_object(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        return False
    return isinstance(document.get("metadata") or {}, dict) and isinstance(document.get("items") or [], list)


def _view(item: Object, type_: type[R]) -> R:
    try:
        return decode(item, type_)
    except ValueError as error:
        raise InputError(f"{named(item)}: {error}") from None


def _gang(item: Object, items: Sequence[Object]) -> Gang | None:
    try:
        pod_sets = _pod_sets(item, items)
        name = _gang_name(item) if pod_sets else ""
    except (PodSpecError, _CountError) as error:
        raise InputError(f"{named(item)}: {error}") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{named(item)}: its spec is not one of its kind ({error!r})") from None
    wanted = tuple(pod_set for pod_set in pod_sets if pod_set.count)
    if pod_sets and not wanted:
        raise InputError(f"{named(item)}: asks for no pod at all: ask for 1 to {MOST_PODS}")
    return Gang(name, wanted) if wanted else None


def _gang_name(item: Object) -> str:
    meta = item["metadata"]
    group = (meta.get("labels") or {}).get(GROUP_NAME)
    if item["kind"] == "Pod" and group:
        return f"podgroup/{group}"
    return f"{item['kind'].lower()}/{meta.get('name', '')}"


def _pod_sets(item: Object, items: Sequence[Object]) -> list[PodSet]:
    match item["kind"]:
        case "Job":
            return [_pod_set("main", _job_count(item["spec"]), item["spec"]["template"])]
        case "JobSet":
            return [_replicated(job) for job in item["spec"]["replicatedJobs"]]
        case "Workload":
            view = _view(item, Workload)
            return [_pod_set(p.name, p.count, p.template) for p in view.spec.pod_sets]
        case "Pod" if not item["spec"].get("nodeName"):
            return _group(item, items)
        case _:
            return []


class _CountError(ValueError):
    """A number of pods that can't be; the text names it."""


def _pod_set(name: str, count: int, template: Object) -> PodSet:
    if not 0 <= count <= MOST_PODS:
        raise _CountError(f"pod set {name} has {count} pods: ask for 1 to {MOST_PODS}")
    return podspec.pod_set(name, count, podspec.template(template))


def _number(spec: Object, field: str, default: int) -> int:
    value = spec.get(field)
    if value is not None and (not isinstance(value, int) or value < 0):
        raise _CountError(f"{field} is {str(value)[:40]!r}: write a whole number of 0 or more")
    return default if value is None else value


def _job_count(spec: Object) -> int:
    """How many pods run at once: `parallelism`, but no more than there are completions (Kubernetes docs, "Jobs")."""
    parallelism = _number(spec, "parallelism", 1)
    return min(parallelism, _number(spec, "completions", parallelism))


def _replicated(job: Object) -> PodSet:
    spec = job["template"]["spec"]
    return _pod_set(job["name"], _number(job, "replicas", 1) * _job_count(spec), spec["template"])


def _group(item: Object, items: Sequence[Object]) -> list[PodSet]:
    """The pods of the item's group by role (Kueue's annotation), else by equal requests; a pod alone is a gang of one."""
    group = (item["metadata"].get("labels") or {}).get(GROUP_NAME)
    members = [other for other in items if group and _member(other, group)] or [item]
    roles: dict[str, list[Object]] = {}
    for pod in members:
        role = (pod["metadata"].get("annotations") or {}).get(ROLE)
        roles.setdefault(role or str(pod["spec"]), []).append(pod)
    names = {key: key if len(key) < 64 else f"role-{number}" for number, key in enumerate(roles)}
    return [_pod_set(names[key], len(pods), pods[0]) for key, pods in roles.items()]


def _member(item: Object, group: str) -> bool:
    return item["kind"] == "Pod" and (item["metadata"].get("labels") or {}).get(GROUP_NAME) == group
