"""From AWS's error codes, and its texts where there is no code, to the kinds that callers decide by. Pure.

Codes: EC2 API Reference, "Error codes"; what each is followed by was learnt from users' reports (see the tests).
InsufficientInstanceCapacity comes as HTTP 500 and is nevertheless a plain answer; any other 5xx may have done its work.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from provisioner.clouds.base import CloudError, ErrorKind

NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
_CODES: Mapping[ErrorKind, frozenset[str]] = {
    ErrorKind.CAPACITY: frozenset(
        {
            "InsufficientCapacityOnHost",
            "UnfulfillableCapacity",
            "Unsupported",  # the type isn't offered in this zone: another may do
        }
    ),
    ErrorKind.RESERVATION_FULL: frozenset({"ReservationCapacityExceeded", "InsufficientReservedInstanceCapacity"}),
    ErrorKind.QUOTA: frozenset({"MaxFleetCountExceeded", NO_ADDRESSES}),
    ErrorKind.THROTTLED: frozenset(
        {
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "TooManyRequestsException",
            "EC2ThrottledException",
        }
    ),
    ErrorKind.NOT_FOUND: frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "IdempotentInstanceTerminated"}),
    ErrorKind.UNKNOWN: frozenset(
        {
            "InternalError",
            "InternalFailure",
            "ServerInternal",
            "ServiceUnavailable",
            "Unavailable",
            "RequestTimeout",
            "RequestExpired",  # with credentials that are renewed by themselves, as the next two
            "ExpiredToken",
            "ExpiredTokenException",
        }
    ),
}
_KIND = {code: kind for kind, codes in _CODES.items() for code in codes}
DRY_RUN_ALLOWED = "DryRunOperation"
"""An error that is none: the call would have been allowed."""
_RESERVATION_GONE = "InvalidCapacityReservationState"  # .Unavailable: being reclaimed, or ended between our look and our call

_FAMILIES: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (re.compile(r"Insufficient\w*Capacity"), ErrorKind.CAPACITY),  # Instance, Host, Address, Volume
    (re.compile(r"\w*LimitExceeded"), ErrorKind.QUOTA),  # Vcpu, Instance, Volume, NetworkInterface
)
_TEXTS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (re.compile(r"does not have sufficient compatible and available capacity", re.IGNORECASE), ErrorKind.RESERVATION_FULL),
    (re.compile(r"do not have sufficient .* capacity|insufficient capacity", re.IGNORECASE), ErrorKind.CAPACITY),
    (re.compile(r"vcpu (capacity|limit)|limit exceeded", re.IGNORECASE), ErrorKind.QUOTA),
    (re.compile(r"rate exceeded", re.IGNORECASE), ErrorKind.THROTTLED),
)
_SETTINGS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "NoRegionError",
        "InvalidRegionError",
        "ProfileNotFound",
        "ConfigParseError",
        "ParamValidationError",
        "ValidationError",
        "TokenRetrievalError",
        "SSOTokenLoadError",
        "UnauthorizedSSOTokenError",
    }
)
"""botocore's exceptions about what was never sent (botocore.exceptions)."""

_ZONE = re.compile(r"\b[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b")


def classify(code: str, message: str, status: int = 400) -> ErrorKind:
    """The kind of an error answer. A code that isn't known is CONFIG when the request was refused (4xx), else UNKNOWN."""
    if code in _KIND:
        return _KIND[code]
    if code.startswith(_RESERVATION_GONE):
        return ErrorKind.RESERVATION_FULL
    for pattern, kind in _FAMILIES:
        if pattern.fullmatch(code):
            return kind
    for pattern, kind in _TEXTS:
        if pattern.search(message):
            return kind
    return ErrorKind.UNKNOWN if status >= 500 or not code else ErrorKind.CONFIG


def of_exception(error: Exception) -> CloudError:
    """What boto3 raised, in the cloud's own words. The caller chains the original."""
    response: Mapping[str, Any] | None = getattr(error, "response", None)
    if response is not None and "Error" in response:
        told = response["Error"]
        code, message = str(told.get("Code", "")), str(told.get("Message", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
        return CloudError(classify(code, message, status), f"{code}: {message}")
    name = type(error).__name__
    return CloudError(ErrorKind.CONFIG if name in _SETTINGS else ErrorKind.UNKNOWN, f"{name}: {error}")


def of_fleet(errors: Iterable[Mapping[str, Any]]) -> CloudError:
    """Why a fleet that was answered with HTTP 200 has no instances: the first error other than a lack of capacity."""
    told = [(str(each.get("ErrorCode", "")), str(each.get("ErrorMessage", ""))) for each in errors]
    kinds = [(classify(code, message), f"{code}: {message}") for code, message in dict.fromkeys(told)]
    if not kinds:
        return CloudError(ErrorKind.CAPACITY, "CreateFleet delivered no instance and no error")
    kind = next((kind for kind, _ in kinds if kind is not ErrorKind.CAPACITY), ErrorKind.CAPACITY)
    return CloudError(kind, "; ".join(words for _, words in kinds))


def hinted(error: CloudError, zone: str, zones: Iterable[str]) -> CloudError:
    """The same error; where the cloud suggests other zones, the message says which of them are among `zones`, the pool's own, and
    where a subnet is full, what to do."""
    if NO_ADDRESSES in error.message:
        return CloudError(error.kind, f"{error.message} Free some, or add a subnet of {zone} to provider.aws.subnetIDs.")
    ours = sorted({*_ZONE.findall(error.message)} & {*zones} - {zone})
    if error.kind is not ErrorKind.CAPACITY or not ours:
        return error
    return CloudError(error.kind, f"{error.message} (of the pool's zones it suggests {', '.join(ours)})")
