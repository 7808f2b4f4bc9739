"""Expected values from apimachinery's documented grammar (resource.Quantity) and from arithmetic by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.quantity import amount, canonical, dollars, milli, money, show, value


@pytest.mark.parametrize(
    ("text", "thousandths", "whole"),
    [
        pytest.param("0", 0, 0, id="zero"),
        pytest.param("1", 1000, 1, id="one"),
        pytest.param("100m", 100, 1, id="milli"),
        pytest.param("0.1", 100, 1, id="tenth"),
        pytest.param(".5", 500, 1, id="no leading digit"),
        pytest.param("1.", 1000, 1, id="no trailing digit"),
        pytest.param("+2", 2000, 2, id="plus"),
        pytest.param("-1500m", -1500, -2, id="negative rounds away from zero"),
        pytest.param("0.9991", 1000, 1, id="finer than a milli-core rounds up"),
        pytest.param("100u", 1, 1, id="micro"),
        pytest.param("1n", 1, 1, id="nano"),
        pytest.param("1000001n", 2, 1, id="nano rounds up to the next milli"),
        pytest.param("1k", 1_000_000, 1000, id="kilo"),
        pytest.param("1M", 10**9, 10**6, id="mega"),
        pytest.param("1G", 10**12, 10**9, id="giga"),
        pytest.param("1T", 10**15, 10**12, id="tera"),
        pytest.param("1P", 10**18, 10**15, id="peta"),
        pytest.param("1E", 10**21, 10**18, id="E alone is exa"),
        pytest.param("1E2", 100_000, 100, id="E with digits is an exponent"),
        pytest.param("12e6", 12 * 10**9, 12 * 10**6, id="exponent"),
        pytest.param("12e+2", 1_200_000, 1200, id="exponent with plus"),
        pytest.param("25e-1", 2500, 3, id="negative exponent"),
        pytest.param("1e-400", 1, 1, id="below a nano rounds up to something"),
        pytest.param("1e-999999999", 1, 1, id="absurdly small"),
        pytest.param("0e999999999", 0, 0, id="zero times anything"),
        pytest.param("1Ki", 1024 * 1000, 1024, id="kibi"),
        pytest.param("1.5Gi", 1536 * 2**20 * 1000, 1536 * 2**20, id="fraction of gibi"),
        pytest.param("1Ei", 2**60 * 1000, 2**60, id="exbi"),
        pytest.param("0.0001Ki", 103, 1, id="small binary"),
        pytest.param("8Ei", (2**63 - 1) * 1000, 2**63 - 1, id="binary above the maximum is capped"),
        pytest.param("m", 0, 0, id="apimachinery reads a missing number as zero"),
    ],
)
def test_scales(text: str, thousandths: int, whole: int) -> None:
    assert (milli(text), value(text)) == (thousandths, whole)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        "1e",
        "1KI",
        "1ki",
        "1mm",
        "--1",
        "\u0661",
        "1" * 300,
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        value(text)


@pytest.mark.parametrize("text", ["1e19", "9223372036854775808", "1e999999999", "10E"])
def test_refuses_what_would_overflow(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1.5", "1500m", id="documented example"),
        pytest.param("1.5Gi", "1536Mi", id="documented binary example"),
        pytest.param("1024Mi", "1Gi", id="larger suffix"),
        pytest.param("1000", "1k", id="decimal thousand"),
        pytest.param("1000Ki", "1000Ki", id="binary thousand"),
        pytest.param("0.5Ki", "512", id="below 1024 is decimal"),
        pytest.param("1024", "1024", id="family kept"),
        pytest.param("12000e3", "12e6", id="exponent"),
        pytest.param("1e0", "1", id="exponent of nothing"),
        pytest.param("0.0Gi", "0", id="zero"),
        pytest.param("-2000m", "-2", id="negative"),
        pytest.param("1024.0005Ki", "1048576512m", id="no precision lost"),
        pytest.param(7, "7", id="number"),
    ],
)
def test_canonical(text: str | int, expected: str) -> None:
    assert canonical(text) == expected


def test_amount_counts_cpu_in_milli() -> None:
    assert (amount("cpu", "2"), amount("memory", "2Ki"), amount("nvidia.com/gpu", 8), amount("cpu", 8)) == (2000, 2048, 8, 8000)


@pytest.mark.parametrize(
    ("resource", "number", "expected"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1000, "1000"),
        ("nvidia.com/gpu", 8000, "8000"),
        ("cpu", 0, "0"),
    ],
)
def test_show(resource: str, number: int, expected: str) -> None:
    assert show(resource, number) == expected
    assert amount(resource, show(resource, number)) == number


@pytest.mark.parametrize(
    ("text", "micros", "back"),
    [
        ("98.32", 98_320_000, "98.32"),
        ("0", 0, "0.00"),
        ("5000", 5_000_000_000, "5000.00"),
        ("0.0345671", 34_568, "0.034568"),
        (3, 3_000_000, "3.00"),
    ],
)
def test_money(text: str | int, micros: int, back: str) -> None:
    assert (money(text), dollars(money(text))) == (micros, back)


@pytest.mark.parametrize("text", ["", "-1", "$5", "1e3", "1,000", ".", "1.", "NaN"])
def test_money_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="dollars"):
        money(text)


_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "Mi": Fraction(2**20),
    "e2": Fraction(100),
}


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.sampled_from(sorted(_SUFFIXES)))
def test_rounds_up_by_less_than_one_unit(whole: int, fraction: int, suffix: str) -> None:
    exact = Fraction(f"{whole}.{fraction}") * _SUFFIXES[suffix]
    text = f"{whole}.{fraction}{suffix}"
    assert 0 <= value(text) - exact < 1
    assert 0 <= milli(text) - exact * 1000 < 1


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.sampled_from(sorted(_SUFFIXES)))
def test_canonical_is_stable_and_keeps_the_value(whole: int, fraction: int, suffix: str) -> None:
    text = f"{whole}.{fraction}{suffix}"
    assert canonical(canonical(text)) == canonical(text)
    assert milli(canonical(text)) == milli(text)


@given(st.integers(0, 10**15))
def test_money_round_trip(micros: int) -> None:
    assert money(dollars(micros)) == micros
