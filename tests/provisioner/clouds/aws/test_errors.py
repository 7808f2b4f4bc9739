"""What AWS's errors mean; each row is a report of a user or a page of AWS's documentation."""

from typing import Any

import pytest

from provisioner.clouds.aws import errors
from provisioner.clouds.base import CloudError, ErrorKind


@pytest.mark.parametrize(
    ("code", "message", "status", "kind"),
    [
        pytest.param("InsufficientInstanceCapacity", "We currently do not have", 500, ErrorKind.CAPACITY, id="cml-1440"),
        pytest.param("UnfulfillableCapacity", "Unable to fulfill", 200, ErrorKind.CAPACITY, id="parallelcluster-node-673"),
        pytest.param("Unsupported", "Your requested instance type is not supported", 400, ErrorKind.CAPACITY, id="not in zone"),
        pytest.param(
            "ReservationCapacityExceeded",
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
            400,
            ErrorKind.RESERVATION_FULL,
            id="scylla-8839",
        ),
        pytest.param(
            "",
            "The requested reservation does not have sufficient compatible and available capacity for this request.",
            400,
            ErrorKind.RESERVATION_FULL,
            id="text alone",
        ),
        pytest.param(
            "InvalidCapacityReservationState.Unavailable", "being reclaimed", 400, ErrorKind.RESERVATION_FULL, id="taken"
        ),
        pytest.param("InvalidCapacityReservationId.NotFound", "does not exist", 400, ErrorKind.CONFIG, id="wrong account"),
        pytest.param("VcpuLimitExceeded", "You have requested more vCPU capacity", 400, ErrorKind.QUOTA, id="quota"),
        pytest.param("MaxFleetCountExceeded", "", 400, ErrorKind.QUOTA, id="fleets"),
        pytest.param("NetworkInterfaceLimitExceeded", "", 400, ErrorKind.QUOTA, id="a quota of something else"),
        pytest.param("InsufficientVolumeCapacity", "", 500, ErrorKind.CAPACITY, id="a lack of something else"),
        pytest.param("ExpiredToken", "", 400, ErrorKind.UNKNOWN, id="credentials that are renewed"),
        pytest.param("InsufficientFreeAddressesInSubnet", "", 400, ErrorKind.QUOTA, id="subnet"),
        pytest.param("RequestLimitExceeded", "Request limit exceeded.", 503, ErrorKind.THROTTLED, id="runs-on-29"),
        pytest.param("IdempotentParameterMismatch", "", 400, ErrorKind.CONFIG, id="runs-on-251"),
        pytest.param("IdempotentInstanceTerminated", "", 400, ErrorKind.NOT_FOUND, id="boto3-4406"),
        pytest.param("InvalidInstanceID.NotFound", "", 400, ErrorKind.NOT_FOUND, id="unknown machine"),
        pytest.param("UnauthorizedOperation", "You are not authorized", 403, ErrorKind.CONFIG, id="permission"),
        pytest.param("AuthFailure", "AWS was not able to validate", 401, ErrorKind.CONFIG, id="credentials"),
        pytest.param("InternalError", "An internal error has occurred", 500, ErrorKind.UNKNOWN, id="may have worked"),
        pytest.param("NewFangledError", "", 400, ErrorKind.CONFIG, id="refused for a new reason"),
        pytest.param("NewFangledError", "", 502, ErrorKind.UNKNOWN, id="failed for a new reason"),
    ],
)
def test_kinds(code: str, message: str, status: int, kind: ErrorKind) -> None:
    assert errors.classify(code, message, status) is kind


class RefusedError(Exception):
    def __init__(self, code: str, message: str, status: int) -> None:
        self.response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}


class NoCredentialsError(Exception):
    """Like botocore's, which is known by its name."""


class ConnectionClosedError(Exception):
    pass


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        pytest.param(
            RefusedError("VcpuLimitExceeded", "too many", 400), ErrorKind.QUOTA, "VcpuLimitExceeded: too many", id="answer"
        ),
        pytest.param(NoCredentialsError("none"), ErrorKind.CONFIG, "NoCredentialsError: none", id="never sent"),
        pytest.param(ConnectionClosedError("cut"), ErrorKind.UNKNOWN, "ConnectionClosedError: cut", id="lost reply"),
    ],
)
def test_what_boto3_raises(raised: Exception, kind: ErrorKind, words: str) -> None:
    error = errors.of_exception(raised)
    assert (error.kind, error.message) == (kind, words)


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        pytest.param([("InsufficientInstanceCapacity", "a"), ("InsufficientInstanceCapacity", "a")], ErrorKind.CAPACITY,
                     "InsufficientInstanceCapacity: a", id="once"),
        pytest.param([("InsufficientInstanceCapacity", "a"), ("VcpuLimitExceeded", "b")], ErrorKind.QUOTA,
                     "InsufficientInstanceCapacity: a; VcpuLimitExceeded: b", id="the cause that waiting won't mend"),
        pytest.param([], ErrorKind.CAPACITY, "no instance and no error", id="silent"),
    ],
)  # fmt: skip
def test_a_fleet_fails_in_an_answer_that_is_no_error(told: list[tuple[str, str]], kind: ErrorKind, words: str) -> None:
    error = errors.of_fleet({"ErrorCode": code, "ErrorMessage": message} for code, message in told)
    assert error.kind is kind
    assert words in error.message


def test_the_zones_that_the_cloud_suggests_are_named_where_the_pool_has_them() -> None:
    words = "You can currently get p5.48xlarge capacity by choosing us-east-1a, us-east-1b, us-east-1d."
    ours: Any = ("us-east-1a", "us-east-1b", "us-east-1c")
    hinted = errors.hinted(CloudError(ErrorKind.CAPACITY, words), "us-east-1a", ours)
    assert hinted.message == f"{words} (of the pool's zones it suggests us-east-1b)"
    full = CloudError(ErrorKind.QUOTA, "InsufficientFreeAddressesInSubnet: not enough free addresses in subnet 'subnet-0a'.")
    assert errors.hinted(full, "us-east-1a", ours).message.endswith("add a subnet of us-east-1a to provider.aws.subnetIDs.")
    quota = CloudError(ErrorKind.QUOTA, words)
    assert errors.hinted(quota, "us-east-1a", ours) is quota
