"""How answers become errors where the client's tests don't look: wait times and odd bodies."""

import pytest

from runtime.errors import ApiError, NotFound, TooManyRequests, from_response, from_status


@pytest.mark.parametrize(
    ("header", "body", "wait"),
    [
        pytest.param("3", b"{}", 3.0, id="header"),
        pytest.param("", b'{"details":{"retryAfterSeconds":7}}', 7.0, id="body"),
        pytest.param("3", b'{"details":{"retryAfterSeconds":7}}', 3.0, id="the header counts"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", b"{}", 0.0, id="a date is not understood, and does no harm"),
        pytest.param("-5", b"[]", 0.0, id="nonsense"),
        pytest.param("", b'{"details":null}', 0.0, id="none"),
    ],
)
def test_the_wait_that_a_server_asks_for(header: str, body: bytes, wait: float) -> None:
    error = from_response(429, body, header)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == wait


def test_errors_can_be_made_by_hand() -> None:
    error = NotFound("pods a")
    assert (error.status, error.reason, str(error)) == (404, "NotFound", "404 NotFound: pods a")


def test_an_error_without_a_code_in_the_stream_is_still_an_error() -> None:
    assert type(from_status({"message": "odd"}, 0)) is ApiError
