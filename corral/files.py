"""Objects from YAML files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kube.meta import Record, decode

Object = Mapping[str, Any]
R = TypeVar("R", bound=Record)


class InputError(ValueError):
    """A file or object that can't be used; the text names the file or object, the field and the remedy."""


def load(paths: Sequence[Path]) -> list[Object]:
    """All objects of the files, in order, each once; Lists are opened. Raises InputError, for two that differ, too."""
    found: dict[object, Object] = {}
    for item in (item for path in paths for document in _documents(path) for item in _opened(document, path)):
        meta = item.get("metadata") or {}
        name = meta.get("name")
        key = (item["kind"], str(meta.get("namespace") or ""), name) if isinstance(name, str) and name else len(found)
        if found.setdefault(key, item) != item:
            raise InputError(f"{named(item)}: is in the files twice, and not the same: leave one of them")
    return list(found.values())


def named(item: Object) -> str:
    """`Job team/llm`, for messages; an object that names no namespace goes without."""
    meta = item.get("metadata") or {}
    name = meta.get("name") or meta.get("generateName") or "?"
    return f"{item['kind']} {meta['namespace']}/{name}" if meta.get("namespace") else f"{item['kind']} {name}"


def of_kind(items: Iterable[Object], kind: str, type_: type[R]) -> list[R]:
    """The objects of one kind as views. Raises InputError naming object and field."""
    return [view(item, type_) for item in items if item.get("kind") == kind]


def view(item: Object, type_: type[R]) -> R:
    try:
        return decode(item, type_)
    except ValueError as error:
        raise InputError(f"{named(item)}: {error}") from None


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
