"""Read your own writes."""

import asyncio

import pytest

from runtime.expectations import Expectations

pytestmark = pytest.mark.looptime


def answer(version: int) -> dict[str, dict[str, str]]:
    return {"metadata": {"uid": "u", "resourceVersion": str(version)}}


async def test_a_store_behind_our_write_is_waited_for() -> None:
    expectations = Expectations()
    expectations.wrote(answer(10))
    assert expectations.lag("u", "9") == 0.1
    assert expectations.lag("other", "1") == 0
    assert expectations.lag("u", "10") == 0
    assert expectations.lag("u", "9") == 0  # caught up once: done


async def test_versions_are_numbers_not_words() -> None:
    expectations = Expectations()
    expectations.wrote(answer(100))
    assert expectations.lag("u", "99") > 0
    assert expectations.lag("u", "1000") == 0


async def test_patience_ends_after_five_seconds() -> None:
    expectations = Expectations()
    expectations.wrote(answer(10))
    await asyncio.sleep(4.95)
    assert expectations.lag("u", "9") == pytest.approx(0.05, abs=0.001)
    await asyncio.sleep(0.06)
    assert expectations.lag("u", "9") == 0


async def test_an_object_that_is_gone_is_forgotten() -> None:
    expectations = Expectations()
    expectations.wrote(answer(10))
    expectations.forget("u")
    assert expectations.lag("u", "") == 0
