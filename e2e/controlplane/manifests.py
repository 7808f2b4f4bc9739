"""Kueue's own manifests, changed so that its manager can run as a plain process beside the API server."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane import build, operators

NAMESPACE = "kueue-system"
WEBHOOK_SERVICE = "kueue-webhook-service"
WEBHOOK_SECRET = "kueue-webhook-server-cert"
MANAGER = "kueue-controller-manager"  # its service account
CRDS = build.HERE.parent.parent / "crds"
_LEFT_OUT = {"Deployment", "APIService"}  # the manager runs outside, and so serves no aggregated API

Manifest = dict[str, Any]


def kueue(kubectl: Path, webhook_port: int) -> list[Manifest]:
    """What `config/default` of the pinned Kueue builds, with the webhooks reached on this machine.

    The API server dials the external name of a Service of that type, and still checks the certificate against the
    Service's own name: so no root, no hosts file and no change of the certificate are needed.
    """
    kept = [manifest for manifest in _kustomized(kubectl) if manifest["kind"] not in _LEFT_OUT]
    return [_localised(manifest, webhook_port) for manifest in kept]


def crds() -> list[Manifest]:
    """Corral's CRDs, and the upstream ProvisioningRequest if Corral's own isn't among them."""
    ours = [manifest for file in sorted(CRDS.glob("*.yaml")) for manifest in _load(file.read_text())]
    ours = [manifest for manifest in ours if manifest.get("kind") == "CustomResourceDefinition"]
    if any(manifest["metadata"]["name"] == "provisioningrequests.autoscaling.x-k8s.io" for manifest in ours):
        return ours
    upstream = build.autoscaler_apis_module() / "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"
    return [*ours, *_load(upstream.read_text())]


def operators_crds() -> list[Manifest]:
    """The CRDs of the operators whose kinds Kueue admits, without descriptions: they are most of it, and cost a minute."""
    crds = _kept("operators.json", lambda: [each for file in operators.files() for each in _load(file.read_text())])
    for version in (version for crd in crds for version in crd["spec"]["versions"]):
        version["schema"]["openAPIV3Schema"] = _terse(version["schema"]["openAPIV3Schema"])
    return crds


def as_list(manifests: list[Manifest]) -> str:
    """One JSON List that kubectl takes on stdin."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def _terse(schema: Any) -> Any:
    """Without the texts of descriptions; a field of that name is a schema itself, and stays."""
    if isinstance(schema, list):
        return [_terse(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _terse(value) for key, value in schema.items() if key != "description" or isinstance(value, dict)}


def _localised(manifest: Manifest, port: int) -> Manifest:
    if manifest["kind"] == "Service" and manifest["metadata"]["name"] == WEBHOOK_SERVICE:
        return manifest | {"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}
    for webhook in manifest.get("webhooks", []):
        webhook["clientConfig"]["service"]["port"] = port
    conversion = manifest.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        conversion["webhook"]["clientConfig"]["service"]["port"] = port
    return manifest


def _kustomized(kubectl: Path) -> list[Manifest]:
    def build_all() -> list[Manifest]:
        folder = build.kueue_module() / "config/default"
        command = [str(kubectl), "kustomize", str(folder)]
        return _load(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)

    return _kept("manifests.json", build_all)


def _kept(name: str, made: Callable[[], list[Manifest]]) -> list[Manifest]:
    """Read once a version of Kueue, since kustomize and YAML take seconds."""
    kept = build.binaries().kueue.with_name(name)
    if not kept.exists():
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(made()))
        draft.rename(kept)
    manifests: list[Manifest] = json.loads(kept.read_text())
    return manifests


def _load(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]
