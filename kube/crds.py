"""The CustomResourceDefinitions of `crds/`: `python -m kube.crds write` generates them, `check` fails if they have drifted."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kube import autoscaling, ours
from kube.meta import Record
from kube.resources import BOOKINGS, CAPACITY_POLICIES, CAPACITY_POOLS, PROVISIONING_REQUESTS, Kind
from kube.schema import OPEN, OURS, Bounds, schema

FOLDER = Path(__file__).resolve().parent.parent / "crds"


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; `wide` ones show with -o wide only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def to_json(self) -> dict[str, Any]:
        priority = {"priority": 1} if self.wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **priority}


@dataclass(frozen=True)
class Definition:
    """One kind. `deprecated` maps each older version that is still served, with the same schema, to the warning it gives."""

    kind: Kind
    model: type[Record]
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    bounds: Bounds = OURS
    deprecated: tuple[tuple[str, str], ...] = ()


def _status_of(condition: str) -> str:
    return f'.status.conditions[?(@.type=="{condition}")].status'


AGE = Column("Age", ".metadata.creationTimestamp", "date")

DEFINITIONS = (
    Definition(
        CAPACITY_POOLS,
        ours.CapacityPool,
        ("cpool",),
        (
            Column("Mode", ".spec.mode"),
            Column("Ready", _status_of("Ready")),
            Column("Launched", ".status.nodes.launched", "integer"),
            Column("Adopted", ".status.nodes.adopted", "integer"),
            Column("Booked", ".status.nodes.booked", "integer"),
            Column("Idle", ".status.nodes.idle", "integer"),
            Column("Quarantined", ".status.nodes.quarantined", "integer", wide=True),
            Column("Spend", ".status.spend.onDemand", wide=True),
            AGE,
        ),
    ),
    Definition(
        CAPACITY_POLICIES,
        ours.CapacityPolicy,
        ("cpolicy",),
        (
            Column("Ready", _status_of("Ready")),
            Column("Required", ".spec.topology.required"),
            Column("Preferred", ".spec.topology.preferred"),
            Column("Queued", ".spec.timeouts.queued"),
            Column("Provision", ".spec.timeouts.provision"),
            Column("Order", ".spec.capacityOrder", wide=True),
            AGE,
        ),
    ),
    Definition(
        BOOKINGS,
        ours.Booking,
        ("bk",),
        (
            Column("Namespace", ".spec.request.namespace"),
            Column("Request", ".spec.request.name"),
            Column("Phase", ".status.phase"),
            Column("Nodes", ".spec.nodeCount", "integer"),
            Column("Cost/h", ".spec.costPerHour"),
            Column("Reason", ".status.reason"),
            Column("Attempt", ".spec.attempt", "integer", wide=True),
            Column("Policy", ".spec.policy", wide=True),
            AGE,
        ),
    ),
    Definition(
        PROVISIONING_REQUESTS,
        autoscaling.ProvisioningRequest,
        ("provreq", "provreqs"),
        (
            Column("Class", ".spec.provisioningClassName"),
            Column("Accepted", _status_of("Accepted")),
            Column("Provisioned", _status_of("Provisioned")),
            Column("Failed", _status_of("Failed")),
            Column("Reason", '.status.conditions[?(@.type=="Provisioned")].reason'),
            AGE,
        ),
        bounds=OPEN,
        deprecated=(("v1beta1", f"{autoscaling.GROUP}/v1beta1 ProvisioningRequest is deprecated; use {autoscaling.GROUP}/v1"),),
    ),
)


def crd(definition: Definition) -> dict[str, Any]:
    """The whole CustomResourceDefinition as plain JSON."""
    kind = definition.kind
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    current = {**_version(definition, kind.version), "served": True, "storage": True}
    older = [
        {**_version(definition, name), "served": True, "storage": False, "deprecated": True, "deprecationWarning": warning}
        for name, warning in definition.deprecated
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {**names, "shortNames": list(definition.short_names)},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [current, *older],
        },
    }


def _version(definition: Definition, name: str) -> dict[str, Any]:
    body = schema(definition.model, definition.bounds)
    return {
        "name": name,
        "schema": {"openAPIV3Schema": body},
        "additionalPrinterColumns": [column.to_json() for column in definition.columns],
        "subresources": {"status": {}},
    }


def files() -> Iterator[tuple[Path, str]]:
    """Each file of `crds/` with the text that it must have."""
    for definition in DEFINITIONS:
        name = f"{definition.kind.group}_{definition.kind.plural}.yaml"
        text = yaml.safe_dump(crd(definition), sort_keys=False, width=130)
        yield FOLDER / name, f"# Generated from the models in kube/ by `python -m kube.crds write`.\n{text}"


def drifted() -> list[str]:
    """Names of the files that differ from what the models say, or are missing."""
    return [path.name for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    if arguments == ["write"]:
        FOLDER.mkdir(exist_ok=True)
        for path, text in files():
            path.write_text(text, encoding="utf-8")
        return 0
    if arguments == ["check"]:
        stale = drifted()
        if stale:
            sys.stderr.write(f"crds/ has drifted from kube/: {', '.join(stale)}: run `python -m kube.crds write`\n")
        return 1 if stale else 0
    sys.stderr.write("usage: python -m kube.crds write|check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
