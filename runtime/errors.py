"""What can go wrong between a controller and the API server, as one tree.

Exception
├── ApiError(status, reason, message)   the server answered, and refused
│   ├── Invalid            400, 422     the request can never succeed as it is
│   ├── Unauthorized       401          (the client has re-read its credentials once already)
│   ├── Forbidden          403
│   ├── NotFound           404
│   ├── Conflict           409          stale resourceVersion, uid precondition, or another field owner
│   ├── AlreadyExists      409
│   ├── Gone               410          resourceVersion or continue token too old
│   ├── TooManyRequests    429          retry_after in seconds
│   └── ServerError        5xx          retry_after in seconds; a write may or may not have happened
├── TransportError                      no answer: timeout, reset, refused; a write may or may not have happened
└── Terminal                            a reconciler gives up on a key: counted, not requeued
"""

# ruff: noqa: N818  Kubernetes' own words, not "…Error"

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec


class ApiError(Exception):
    """The API server answered with an error. `status` is the HTTP code, `reason` the machine word of metav1.Status."""

    default_status: ClassVar[int] = 500

    def __init__(self, message: str = "", *, status: int | None = None, reason: str = "", retry_after: float = 0.0) -> None:
        self.status = self.default_status if status is None else status
        self.reason = reason or type(self).__name__
        self.message = message
        self.retry_after = retry_after
        """Seconds that the server asks to wait before the next attempt; 0 when it names none."""
        super().__init__(f"{self.status} {self.reason}: {message}")


class Invalid(ApiError):
    default_status = 422


class Unauthorized(ApiError):
    default_status = 401


class Forbidden(ApiError):
    default_status = 403


class NotFound(ApiError):
    default_status = 404


class Conflict(ApiError):
    default_status = 409


class AlreadyExists(ApiError):
    default_status = 409


class Gone(ApiError):
    default_status = 410


class TooManyRequests(ApiError):
    default_status = 429


class ServerError(ApiError):
    default_status = 500


class TransportError(Exception):
    """No usable answer came (timeout, reset, refused, not JSON): the outcome of a write is unknown."""


class Terminal(Exception):
    """Raised by a reconciler: trying this key again is pointless until something changes. Counted, logged, no requeue."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_response(status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error that an HTTP answer stands for. `body` is a metav1.Status, or anything at all (a proxy's page)."""
    try:
        detail: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        detail = None
    if not isinstance(detail, Mapping):
        detail = {"message": body[:200].decode(errors="replace")}
    return from_status(detail, status, retry_after)


def from_status(detail: Mapping[str, Any], status: int, retry_after: str = "") -> ApiError:
    """The error that a metav1.Status object stands for; also used for ERROR events of a watch."""
    reason = str(detail.get("reason") or "")
    details = detail.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    wait = _seconds(retry_after) or _seconds(seconds)
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return kind(str(detail.get("message") or ""), status=status, reason=reason, retry_after=wait)


def _seconds(value: object) -> float:
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return 0.0
