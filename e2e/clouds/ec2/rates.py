"""Request limits: token buckets, on the stand-in's clock."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.errors import AwsError
from e2e.clouds.ec2.wire import Call

_COUNTS = {
    "RunInstances": lambda params: int(params.get("MaxCount", 1)),
    "TerminateInstances": lambda params: len(params.get("InstanceIds", ())),
}


class Rates:
    """What is left in each bucket."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._left: dict[str, tuple[float, datetime]] = {}

    def take(self, call: Call, now: datetime) -> None:
        """Raises RequestLimitExceeded; a refused request takes nothing."""
        if not self._account.settings.throttled or call.service != "ec2":
            return
        needs = {call.operation: 1}
        if call.operation in _COUNTS:
            needs[f"{call.operation}/resources"] = _COUNTS[call.operation](call.params)
        left = {name: self._in(name, call, now) for name in needs}
        if any(left[name] < need for name, need in needs.items()):
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.")
        self._left.update({name: (left[name] - need, now) for name, need in needs.items()})

    def _in(self, name: str, call: Call, now: datetime) -> float:
        bucket = self._account.buckets.get(name) or self._account.buckets[_class(call.operation, call.params)]
        tokens, at = self._left.get(name, (bucket.size, now))
        return min(bucket.size, tokens + max((now - at).total_seconds(), 0) * bucket.refill)


def _class(operation: str, params: Mapping[str, Any]) -> str:
    """The bucket of operations that have none of their own; each operation is counted for itself all the same."""
    if not operation.startswith(("Describe", "Get")):
        return "writing"
    narrowed = any(key in ("Filters", "MaxResults") or key.endswith(("Ids", "Names", "InstanceTypes")) for key in params)
    return "reading" if narrowed else "reading everything"
