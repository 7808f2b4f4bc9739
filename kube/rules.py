"""What the API server checks beyond types and limits: CEL rules, list keys and formats, by model and field.

The field "" stands for the object itself. CEL: Kubernetes docs, "Common Expression Language in Kubernetes"; every rule must fit
the API server's cost budget, which is why the lists that rules walk through have small limits in the models.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from kube import autoscaling, bookings, meta, ours

Extras = Mapping[type, Mapping[str, Mapping[str, Any]]]


def _rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def _map_by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _one_of(model: type[meta.Record], what: str) -> tuple[str, str]:
    options = model.__struct_encode_fields__
    given = ", ".join(f"has(self.{option})" for option in options)
    return f"[{given}].filter(given, given).size() == 1", f"name exactly one {what}: {', '.join(options)}"


def _kept(model: type[meta.Record], path: str, what: str) -> tuple[str, str]:
    same = " && ".join(f"has(self.{path}.{o}) == has(oldSelf.{path}.{o})" for o in model.__struct_encode_fields__)
    return same, f"{what} can't change: make a new object"


def _settled(model: type[meta.Record], but: tuple[str, ...], words: str) -> tuple[str, str]:
    """No field changes, comes or goes, `but` these."""
    fields = {each.encode_name: each.required for each in structs.fields(model) if each.encode_name not in but}
    there = (f"has(self.{name}) == has(oldSelf.{name})" for name, required in fields.items() if not required)
    same = (f"{'' if required else f'!has(self.{name}) || '}self.{name} == oldSelf.{name}" for name, required in fields.items())
    return " && ".join([*there, *(f"({each})" for each in same)]), words


def _at_most(first: str, second: str) -> tuple[str, str]:
    return f"duration(self.{first}) <= duration(self.{second})", f"{first} must not be longer than {second}"


def _positive(field: str) -> tuple[str, str]:
    return f"!has(self.{field}) || duration(self.{field}) > duration('0s')", f"{field} must be longer than zero"


_SET = {"x-kubernetes-list-type": "set"}
_IMMUTABLE = _rules(("self == oldSelf", "Value is immutable"))
_UNIQUE = _rules(("self.all(x, self.exists_one(y, y == x))", "each value may be given once"))

_PREPAID = "self.capacityType in ['reserved', 'capacity-block']"
_IDS = "has(self.reservationIDs) && self.reservationIDs.size() > 0"
_ADOPTED = "has(self.provider.adopted)"
_SELECTS = "has(self.nodeSelector) && has(self.nodeSelector.matchLabels) && self.nodeSelector.matchLabels.size() > 0"
_SOURCELESS = "!has(self.sources) || self.sources.size() == 0"
_SAME_CLASS = "a.names.exists(name, name in b.names)"
_SHARED = "has(a.reservationIDs) && has(b.reservationIDs) && a.reservationIDs.exists(id, id in b.reservationIDs)"

_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
_CONDITION: Mapping[str, Mapping[str, Any]] = {  # metav1.Condition, apimachinery 0.36
    "type": {
        "maxLength": 316,
        "pattern": rf"^{_PREFIX}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    },
    "status": {"enum": ["True", "False", "Unknown"]},
    "reason": {"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
    "message": {"maxLength": 32768},
    "last_transition_time": {"format": "date-time"},
    "observed_generation": {"minimum": 0},
}

_LABEL_KEY = rf"^{_PREFIX}([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$"
_FREE_LABELS = (  # a kubelet may not give itself most of them (NodeRestriction), and the others are the cloud's or ours
    "self.all(key, !key.matches('(^|[.])(kubernetes[.]io|k8s[.]io|corral[.]dev)/'))",
    "labels of kubernetes.io, k8s.io and corral.dev are not the pool's to give",
)

_POOL: Extras = {
    ours.Provider: {"": _rules(_one_of(ours.Provider, "provider"))},
    ours.AwsProvider: {"subnet_ids": _SET, "devices": _SET},
    ours.Source: {
        "reservation_ids": _SET,
        "": _rules(
            (f"!({_PREPAID}) || ({_IDS})", "reserved and capacity-block sources need reservationIDs"),
            (f"{_PREPAID} || !({_IDS})", "reservationIDs go with capacityType reserved or capacity-block only"),
            ("!has(self.maxNodes) || self.spareNodes <= self.maxNodes", "spareNodes must not exceed maxNodes"),
        ),
    },
    ours.CapacityPoolSpec: {
        "shapes": _SET,
        "node_labels": _rules(
            (f"self.all(key, key.size() <= 316 && key.matches(r'{_LABEL_KEY}'))", "each key must be a label key"), _FREE_LABELS
        ),
        "topology_keys": _UNIQUE,
        "sources": {
            **_map_by("name"),
            **_rules(
                (f"self.all(a, self.all(b, a.name == b.name || !({_SHARED})))", "a reservation may stand in one source only")
            ),
        },
        "": _rules(
            (f"!{_ADOPTED} || ({_SELECTS})", "an adopted pool needs nodeSelector.matchLabels: it says which nodes are meant"),
            (f"!{_ADOPTED} || !has(self.nodeLabels)", "an adopted pool has no nodeLabels: nothing is launched for it"),
            (f"!{_ADOPTED} || {_SOURCELESS}", "an adopted pool has no sources: nothing is bought for it"),
            _kept(ours.Provider, "provider", "the kind of provider"),
        ),
    },
    ours.Readiness: {"required_daemon_sets": _SET, "unhealthy_conditions": _map_by("type"), "": _rules(_positive("timeout"))},
    ours.UnhealthyCondition: {"reasons": _SET},
    ours.HealthCheck: {"": _rules(_positive("timeout"))},
    ours.CapacityPoolStatus: {"conditions": _map_by("type")},
}

_POLICY: Extras = {
    ours.CapacityPolicySpec: {
        "pools": _SET,
        "capacity_order": _UNIQUE,
        "user_overrides": {
            **_SET,
            "items": {"type": "string", "enum": sorted(ours.OVERRIDES.values())},
        },
        "by_priority_class": {
            **_map_by("policy"),
            **_rules(
                (
                    f"self.all(a, self.all(b, a.policy == b.policy || !({_SAME_CLASS})))",
                    "a priority class may stand in one entry only",
                )
            ),
        },
    },
    ours.ByPriorityClass: {"names": _SET},
    ours.Timeouts: {"": _rules(*map(_positive, ours.Timeouts.__struct_encode_fields__))},
    ours.RetryPolicy: {"": _rules(_at_most("backoff", "maxBackoff"))},
    ours.BareRequests: {"namespaces": _SET},
    ours.CapacityPolicyStatus: {"conditions": _map_by("type")},
}

_BOOKING: Extras = {
    ours.Booking: {
        "": _rules(
            (
                "self.spec == oldSelf.spec || (has(self.status) && self.status.phase == 'Provisioned')",
                "a booking's plan changes only while it is Provisioned: make a new booking",
            )
        ),
        "spec": _rules(
            _settled(ours.BookingSpec, bookings.MENDED, "of a booking's plan only the nodes change: make a new booking")
        ),
    },
    ours.BookingSpec: {"pod_sets": _map_by("name"), "nodes": _map_by("name"), "purchases": _map_by("name")},
    ours.BookingStatus: {"conditions": _map_by("type")},
}

_REQUEST: Extras = {  # the upstream CRD's own rules, loophole for an absent `parameters` included
    autoscaling.ProvisioningRequestSpec: {
        "provisioning_class_name": _IMMUTABLE,
        "pod_sets": _IMMUTABLE,
        "parameters": _IMMUTABLE,
    },
    autoscaling.ProvisioningRequestStatus: {"conditions": _map_by("type")},
}

EXTRAS: Extras = {meta.Condition: _CONDITION, **_POOL, **_POLICY, **_BOOKING, **_REQUEST}
