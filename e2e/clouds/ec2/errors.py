"""Errors as EC2 answers them: a code, a message, and the HTTP status that botocore's retries look at."""

from collections.abc import Iterable

STATUSES = {
    "DryRunOperation": 412,
    "InsufficientInstanceCapacity": 500,
    "InternalError": 500,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "UnauthorizedOperation": 403,
    "Unavailable": 503,
}
"""Statuses other than 400 (cloud.md 1.8; DryRunOperation: cloud.md 3.1)."""


class AwsError(Exception):
    """A refused call. `status` is the table's if not given."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or STATUSES.get(code, 400)


def invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterValue", message)


def conflict(message: str) -> AwsError:
    """Parameters that can't stand together."""
    return AwsError("InvalidParameterCombination", message)


def missing(parameter: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {parameter}")


def no_capacity(instance_type: str, zone: str, others: Iterable[str] = ()) -> AwsError:
    """The pool is dry. `others` are zones that have some, which the message suggests (cloud.md 1.8)."""
    hint = ", ".join(sorted(others))
    remedy = f" You can currently get {instance_type} capacity by choosing {hint}." if hint else ""
    text = f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone})."
    return AwsError("InsufficientInstanceCapacity", text + remedy)


def reservation_full() -> AwsError:
    return AwsError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )
