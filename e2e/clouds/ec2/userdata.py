"""What an instance's user data makes its kubelet register with (cloud.md 1.10).

Parts for nodeadm are merged in order and their kubelet flags added up; a script's flags count where they stand in its text.
"""

import base64
import email
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

LABELS, TAINTS = "--node-labels", "--register-with-taints"
NODEADM = "application/node.eks.aws"
_FLAG = re.compile(rf"({LABELS}|{TAINTS})[= ]['\"]?([^\s'\",\\]+(?:,[^\s'\",\\]+)*)")
_TAINT = re.compile(r"([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)")
_ALLOWED = ("node.kubernetes.io/", "kubelet.kubernetes.io/", "node-restriction.kubernetes.io/")
_KNOWN = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "kubernetes.io/os"}


@dataclass(slots=True)
class Registration:
    """`problem`: why the machine never becomes a Node, "" if it does."""

    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    problem: str = ""


def registration(user_data: str) -> Registration:
    """Of user data in base64. Without any the machine belongs to no cluster."""
    text = base64.b64decode(user_data).decode(errors="replace")
    if not text.strip():
        return Registration(problem="it has no user data")
    made = Registration()
    try:
        for content_type, body in _parts(text):
            _take(made, body, nodeadm=content_type == NODEADM)
    except (yaml.YAMLError, ValueError) as error:
        return Registration(problem=f"its user data can't be used: {error}")
    if wrong := [key for key in made.labels if not _may_be_set(key)]:
        made.problem = f"kubelet doesn't start with the labels {', '.join(sorted(wrong))}"  # kubelet app/options, v1.36
    return made


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Content type and text of each part; what is no MIME message is one part: a NodeConfig or a script."""
    if not text.lstrip().lower().startswith(("mime-version:", "content-type:")):
        yield NODEADM if "node.eks.aws" in text else "text/x-shellscript", text
        return
    for part in email.message_from_string(text.lstrip()).walk():
        if not part.is_multipart():
            yield part.get_content_type(), str(part.get_payload())


def _take(made: Registration, body: str, *, nodeadm: bool) -> None:
    if not nodeadm:
        for name, value in _FLAG.findall(body):
            _flag(made, name, value)
        return
    for config in yaml.safe_load_all(body):
        kubelet: Mapping[str, Any] = ((config or {}).get("spec") or {}).get("kubelet") or {}
        made.taints += [dict(each) for each in (kubelet.get("config") or {}).get("registerWithTaints", ())]
        for each in kubelet.get("flags") or ():
            name, _, value = each.partition("=")
            _flag(made, name, value)


def _flag(made: Registration, name: str, value: str) -> None:
    if name == LABELS:
        made.labels.update(_pairs(value.split(",")))
    elif name == TAINTS:
        made.taints += [_taint(each) for each in value.split(",") if each]


def _pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in filter(None, texts):
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{LABELS}: {text!r} must be key=value")
        yield key, value


def _taint(text: str) -> dict[str, str]:
    found = _TAINT.fullmatch(text)
    if found is None:
        raise ValueError(f"{TAINTS}: {text!r} must be key=value:effect")
    key, value, effect = found.groups()
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _may_be_set(key: str) -> bool:
    """kubelet refuses labels of Kubernetes' own namespaces, but for a few."""
    prefix = key.rpartition("/")[0]
    reserved = prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io"))
    return not reserved or key in _KNOWN or f"{prefix}/".endswith(_ALLOWED)
