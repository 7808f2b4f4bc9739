"""Tags: given at launch, or later."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.errors import AwsError, invalid

MOST, KEY, VALUE = 50, 128, 256
"""Tags of a resource, characters of a key and of a value (EC2 user guide, tag restrictions)."""


def by_resource(specifications: Iterable[Mapping[str, Any]], allowed: Sequence[str]) -> dict[str, dict[str, str]]:
    """Tags by resource type; later ones win. Raises AwsError."""
    found: dict[str, dict[str, str]] = {}
    for each in specifications:
        kind = each.get("ResourceType", "")
        if kind not in allowed:
            raise invalid(f"'{kind}' is not a valid taggable resource type for this operation.")
        found.setdefault(kind, {}).update(as_map(each.get("Tags", ())))
    for tags in found.values():
        _check(tags)
    return found


def as_map(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {each["Key"]: each.get("Value", "") for each in tags}


def create(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """CreateTags on instances, reservations and placement groups; others are let pass unseen."""
    tags = as_map(params["Tags"])
    instances = account.shown([each for each in params["Resources"] if each.startswith("i-")], now)
    for instance in instances:
        _check({**instance.tags, **tags})
    for instance in instances:
        instance.tags.update(tags)
    for identity in params["Resources"]:
        _tag_reservation(account, identity, tags)
    return {}


def _tag_reservation(account: Account, identity: str, tags: Mapping[str, str]) -> None:
    if identity in account.reservations:
        there = account.reservations[identity]
        account.reservations[identity] = msgspec.structs.replace(there, tags={**there.tags, **tags})


def _check(tags: Mapping[str, str]) -> None:
    if len(tags) > MOST:
        raise AwsError("TagLimitExceeded", f"A resource may have {MOST} tags at most")
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            raise invalid(f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
        if not 1 <= len(key) <= KEY or len(value) > VALUE:
            raise invalid(f"Tag '{key}': keys have 1 to {KEY} characters, values {VALUE} at most")


OPERATIONS: dict[str, Operation] = {"CreateTags": create}
