"""RunInstances: template and call merged, checked, given machines, and remembered under its token."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from e2e.clouds.ec2 import views
from e2e.clouds.ec2.account import Account, Operation, Params, Use
from e2e.clouds.ec2.checks import resolve
from e2e.clouds.ec2.errors import AwsError, invalid
from e2e.clouds.ec2.instances import Instance, Spec
from e2e.clouds.ec2.room import Slot, allocate
from e2e.clouds.ec2.templates import merged


def run_instances(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    whole = merged(account, params)
    spec = resolve(account, whole)
    least, most = params["MinCount"], params["MaxCount"]
    if not 1 <= least <= most:
        raise invalid(f"Value ({least}) for parameter minCount is invalid: it must be between 1 and maxCount ({most})")
    scope = spec.zone if _names_zone(whole) else ""  # tokens are zonal if the call names a zone (cloud.md 1.9)
    token = params.get("ClientToken", "")
    used = seen(account, ("RunInstances", scope, token), params)
    if used is not None:
        return views.call(account, _again(account, used, now), now)
    if params.get("DryRun"):
        raise dry_run()
    made = launch(account, spec, least, most, token, now)
    answer = views.call(account, made, now)
    remember(account, ("RunInstances", scope, token), params, [each.id for each in made], answer)
    return answer


def launch(account: Account, spec: Spec, least: int, most: int, token: str, now: datetime) -> list[Instance]:
    """Between `least` and `most` instances, or AwsError and none."""
    slots = allocate(account, spec, least, most, now)
    room = account.free_addresses(account.subnets[spec.subnet], now) // max(spec.addresses, 1)
    if room < least:
        text = f"There are not enough free addresses in subnet '{spec.subnet}' to satisfy the requested number of instances."
        raise AwsError("InsufficientFreeAddressesInSubnet", text)
    call = account.new_id("r")
    made = [_instance(account, spec, slot, call, index, token, now) for index, slot in enumerate(slots[:room])]
    account.instances.update({each.id: each for each in made})
    return made


def seen(account: Account, key: tuple[str, str, str], params: Params) -> Use | None:
    """What the token was used for before. Raises IdempotentParameterMismatch (cloud.md 1.9)."""
    used = account.tokens.get(key) if key[2] else None
    if used is None:
        return None
    if used.fingerprint != _fingerprint(params):
        text = f"The client token '{key[2]}' was used before, with other parameters"
        raise AwsError("IdempotentParameterMismatch", text)
    return used


def remember(account: Account, key: tuple[str, str, str], params: Params, ids: list[str], answer: dict[str, Any]) -> None:
    if key[2]:
        account.tokens[key] = Use(_fingerprint(params), tuple(ids), answer)


def dry_run() -> AwsError:
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")


def _again(account: Account, used: Use, now: datetime) -> list[Instance]:
    """The same instances once more. Raises IdempotentInstanceTerminated when one has gone (cloud.md 1.9)."""
    there = [account.instances[each] for each in used.ids if each in account.instances]
    dead = {*used.ids} - {each.id for each in there if each.state(now) != "terminated"}
    if dead and account.settings.token_of_terminated == "error":
        raise AwsError("IdempotentInstanceTerminated", f"Instances of the client token are terminated: {', '.join(sorted(dead))}")
    return there


def _names_zone(whole: Mapping[str, Any]) -> bool:
    placement = whole.get("Placement", {})
    return any(
        [
            whole.get("SubnetId"),
            whole.get("NetworkInterfaces"),
            *(placement.get(k) for k in ("AvailabilityZone", "AvailabilityZoneId")),
        ]
    )


def _fingerprint(params: Params) -> str:
    asked = {key: value for key, value in params.items() if key not in ("ClientToken", "DryRun")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _instance(account: Account, spec: Spec, slot: Slot, call: str, index: int, token: str, now: datetime) -> Instance:
    settings, reservation = account.settings, slot.reservation
    return Instance(
        id=account.new_id("i"),
        spec=spec,
        call=call,
        index=index,
        token=token,
        source=slot.source,
        nodes=slot.nodes,
        address=account.new_address(),
        launched=now,
        runs=now + timedelta(seconds=settings.running),
        visible=now + timedelta(seconds=settings.visible),
        tags=dict(spec.tags.get("instance", {})),
        reservation=reservation.id if reservation else "",
        block=reservation.block if reservation else "",
    )


OPERATIONS: dict[str, Operation] = {"RunInstances": run_instances}
