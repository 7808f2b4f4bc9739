"""Terminations in batches. EC2 refuses a whole batch for one id it doesn't know or may not end, and ends none of it."""

import asyncio
import re
from collections.abc import Collection, Sequence

from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.base import CloudError, ErrorKind

AT_ONCE = 500
"""Half of what one call takes (EC2 API Reference, TerminateInstances)."""
TRIES, PAUSE = 10, 1.0
_PASSING = (ErrorKind.UNKNOWN, ErrorKind.THROTTLED)
_ID = re.compile(r"\bi-[0-9a-f]+\b")


async def terminate(calls: Calls, ids: Sequence[str], young: Collection[str] = ()) -> None:
    """Ends all that can be ended; then raises CloudError: NOT_FOUND naming those that aren't known, or another refusal.

    `young` are machines launched a moment ago, which EC2 may not know everywhere yet: those are tried again for a while.
    """
    refused = await _all(calls, ids)
    for _ in range(TRIES):
        again = [each for each, error in refused.items() if each in young and error.kind is ErrorKind.NOT_FOUND]
        if not again:
            break
        await asyncio.sleep(PAUSE)
        refused = {each: error for each, error in refused.items() if each not in again} | await _all(calls, again)
    other = next((error for error in refused.values() if error.kind is not ErrorKind.NOT_FOUND), None)
    if other is not None:
        raise other
    if refused:
        raise CloudError(ErrorKind.NOT_FOUND, f"not known to the cloud: {', '.join(refused)}")


async def _all(calls: Calls, ids: Sequence[str]) -> dict[str, CloudError]:
    refused: dict[str, CloudError] = {}
    for start in range(0, len(ids), AT_ONCE):
        refused |= await _batch(calls, ids[start : start + AT_ONCE])
    return refused


async def _batch(calls: Calls, ids: Sequence[str]) -> dict[str, CloudError]:
    """The ids that were refused. The error mostly names the culprits: those that aren't known need no second call, others are
    tried alone, and so is each where none is named."""
    if not ids:
        return {}
    try:
        await calls.call(Op.TERMINATE, InstanceIds=list(ids))
    except CloudError as error:
        if error.kind in _PASSING:
            raise
        if len(ids) == 1:
            return {ids[0]: error}
        named = sorted({*_ID.findall(error.message)} & {*ids})
        refused = await _batch(calls, [each for each in ids if each not in named]) if named else {}
        if named and error.kind is ErrorKind.NOT_FOUND:
            return refused | dict.fromkeys(named, error)
        for each in named or ids:
            refused |= await _batch(calls, [each])
        return refused
    return {}
