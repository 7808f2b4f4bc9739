"""The error codes of the simulated cloud, as EC2 words them: one table for the server's status and the client's class."""

from dataclasses import dataclass

from provisioner.clouds.base import ErrorKind


@dataclass(frozen=True, slots=True)
class Code:
    """`status` is the HTTP status. InsufficientInstanceCapacity is a 500 on EC2 too: the status alone tells nothing."""

    status: int
    kind: ErrorKind


CODES = {
    "InsufficientInstanceCapacity": Code(500, ErrorKind.CAPACITY),
    "InsufficientFreeAddressesInSubnet": Code(400, ErrorKind.CAPACITY),
    "ReservationCapacityExceeded": Code(400, ErrorKind.RESERVATION_FULL),
    "InstanceLimitExceeded": Code(400, ErrorKind.QUOTA),
    "VcpuLimitExceeded": Code(400, ErrorKind.QUOTA),
    "Unsupported": Code(400, ErrorKind.CONFIG),
    "InvalidParameterValue": Code(400, ErrorKind.CONFIG),
    "InvalidParameterCombination": Code(400, ErrorKind.CONFIG),
    "InvalidCapacityReservationId.NotFound": Code(400, ErrorKind.CONFIG),
    "InvalidCapacityReservationState.Unavailable": Code(400, ErrorKind.CONFIG),
    "IncorrectState": Code(409, ErrorKind.CONFIG),
    "UnauthorizedOperation": Code(403, ErrorKind.CONFIG),
    "IdempotentParameterMismatch": Code(400, ErrorKind.CONFIG),
    "IdempotentInstanceTerminated": Code(400, ErrorKind.NOT_FOUND),
    "InvalidInstanceID.NotFound": Code(400, ErrorKind.NOT_FOUND),
    "ResourceNotFound": Code(404, ErrorKind.NOT_FOUND),
    "RequestLimitExceeded": Code(429, ErrorKind.THROTTLED),
    "InternalError": Code(500, ErrorKind.UNKNOWN),
    "Unavailable": Code(503, ErrorKind.UNKNOWN),
}


class Refused(Exception):  # noqa: N818 an answer of the cloud, not a failure of the program
    """A call that the cloud answers with an error; `code` is a key of CODES."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return CODES[self.code].status


def classify(code: str, status: int) -> ErrorKind:
    """The class of an answer. An unlisted code counts by its status: 429, other 4xx, all else unknown."""
    if code in CODES:
        return CODES[code].kind
    if status == 429:
        return ErrorKind.THROTTLED
    return ErrorKind.CONFIG if 400 <= status < 500 else ErrorKind.UNKNOWN
