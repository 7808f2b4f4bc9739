"""What a node is told at boot so that it registers with its labels and taints. Pure.

The launch template's own user data is kept. Where it is EKS's NodeConfig (AL2023, nodeadm), another NodeConfig follows it:
nodeadm merges them, and kubelet flags are added up (amazon-eks-ami docs, "nodeadm"). Anything else must hold two placeholders,
which are filled in: it may be a script that starts kubelet or kubeadm.
"""

import json
from collections.abc import Iterable, Mapping

from capacity.requirements import Taint

LABELS = "${CORRAL_NODE_LABELS}"
TAINTS = "${CORRAL_REGISTER_WITH_TAINTS}"
NODEADM = "node.eks.aws"
MOST = 16 * 1024
"""Bytes of user data that EC2 takes, before base64."""
_BOUNDARY = "==corral=="
_KUBELET_MAY = ("node.kubernetes.io/", "kubelet.kubernetes.io/")


def problem(template: str) -> str:
    """Why nodes with this user data would not be ours, "" if they would."""
    if NODEADM in template or (LABELS in template and TAINTS in template):
        return ""
    if LABELS in template or TAINTS in template:
        return f"its user data has {LABELS if LABELS in template else TAINTS} alone: it must hold both {LABELS} and {TAINTS}"
    return f"its user data is neither a NodeConfig of {NODEADM} nor has it the placeholders {LABELS} and {TAINTS}"


def render(template: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> str:
    """The user data of one launch. Raises ValueError when there is no way to tell the node, or too much to tell."""
    if why := problem(template):
        raise ValueError(why)
    told, kept = _labels(labels), ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints)
    text = template.replace(LABELS, told).replace(TAINTS, kept) if LABELS in template else _with_node_config(template, told, kept)
    if len(text.encode()) > MOST:
        raise ValueError(f"user data of {len(text.encode())} bytes: EC2 takes {MOST}; shorten the launch template's own")
    return text


def _labels(labels: Mapping[str, str]) -> str:
    """Those that kubelet may set: it refuses to start with others of kubernetes.io (kubelet options.go, v1.36)."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if _allowed(key))


def _allowed(key: str) -> bool:
    prefix = key.partition("/")[0] if "/" in key else ""
    reserved = prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io"))
    return not reserved or key.startswith(_KUBELET_MAY)


def _with_node_config(template: str, labels: str, taints: str) -> str:
    flags = [f"--node-labels={labels}", *([f"--register-with-taints={taints}"] if taints else [])]
    config = {"apiVersion": f"{NODEADM}/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": {"flags": flags}}}
    parts = [*_parts(template), _part(f"application/{NODEADM}", json.dumps(config, indent=1))]
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    return head + "".join(f"--{_BOUNDARY}\n{part}\n" for part in parts) + f"--{_BOUNDARY}--\n"


def _parts(template: str) -> list[str]:
    """The parts of the template's user data, headers included; a bare NodeConfig is one part."""
    if not template.lstrip().lower().startswith(("mime-version:", "content-type: multipart")):
        return [_part(f"application/{NODEADM}", template.strip())]
    marker = template.partition("boundary=")[2].split("\n")[0].strip().strip(';"')
    return [part.strip("\r\n") for part in template.split(f"--{marker}")[1:] if part.strip() not in ("", "--")]


def _part(kind: str, text: str) -> str:
    return f"Content-Type: {kind}\n\n{text}"
