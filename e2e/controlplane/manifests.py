"""Kueue's own manifests, changed so that its manager can run as a plain process beside the API server."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane import build

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


def as_list(manifests: list[Manifest]) -> str:
    """One JSON List that kubectl takes on stdin."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


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
    """Built once a version, since kustomize takes seconds."""
    kept = build.binaries().kueue.with_name("manifests.json")
    if not kept.exists():
        folder = build.kueue_module() / "config/default"
        built = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=True).stdout
        draft = kept.with_suffix(".new")
        draft.write_text(json.dumps(_load(built)))
        draft.rename(kept)
    manifests: list[Manifest] = json.loads(kept.read_text())
    return manifests


def _load(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]
