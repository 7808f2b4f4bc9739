"""Log lines as other programs read them."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from runtime import logging as ours


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_has_the_keys_of_a_kubernetes_controller(capsys: pytest.CaptureFixture[str]) -> None:
    ours.setup("info", "json")
    with structlog.contextvars.bound_contextvars(controller="c", namespace="ns", name="n", reconcileID="r"):
        ours.get_logger("provisioner").info("booked", nodes=12)
    (line,) = lines(capsys)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "msg": "booked",
        "logger": "provisioner",
        "controller": "c",
        "namespace": "ns",
        "name": "n",
        "reconcileID": "r",
        "nodes": 12,
    }


def test_lines_of_libraries_come_in_the_same_shape(capsys: pytest.CaptureFixture[str]) -> None:
    ours.setup("info", "json")
    logging.getLogger("aiohttp.access").warning("slow %s", "client")
    (line,) = lines(capsys)
    assert (line["msg"], line["level"], line["logger"]) == ("slow client", "warning", "aiohttp.access")


def test_levels_are_kept_and_response_bodies_never_logged(capsys: pytest.CaptureFixture[str]) -> None:
    ours.setup("debug", "json")
    ours.get_logger("x").debug("seen")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: secret")
    assert [line["msg"] for line in lines(capsys)] == ["seen"]
    ours.setup("warning", "json")
    ours.get_logger("x").info("unseen")
    assert lines(capsys) == []


def test_a_traceback_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ours.setup("info", "json")
    try:
        int("no")
    except ValueError:
        ours.get_logger("x").exception("failed")
    (line,) = lines(capsys)
    assert "ValueError: invalid literal" in line["exception"]
    assert line["level"] == "error"


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    ours.setup("info", "text")
    ours.get_logger("x").info("booked", nodes=12)
    assert "booked" in capsys.readouterr().err
