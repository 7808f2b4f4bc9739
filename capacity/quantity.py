"""Kubernetes quantities and money as exact integers.

The grammar, the rounding and the canonical form are those of k8s.io/apimachinery 0.36.3, pkg/api/resource: a number finer than
one nano is rounded away from zero, a binary one above 2^63-1 is capped, and reading at a coarser scale rounds away from zero as
well, so that a request never shrinks. Where apimachinery overflows silently (a decimal above 2^63-1), this module refuses it.
"""

import re
from functools import lru_cache

NANO = 10**9
MAX = 2**63 - 1
MICRO = 10**6

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_MONEY = re.compile(r"([0-9]+)(?:\.([0-9]+))?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_FINEST, _LARGEST = -400, 40  # exponents beyond these round to one nano or are out of range whatever the digits (texts are short)
_LONGEST = 256


def milli(text: str | int) -> int:
    """Thousandths, rounded away from zero: `milli("0.1") == 100`. Raises ValueError when `text` is no quantity."""
    return _scaled(text, NANO // 1000)


def value(text: str | int) -> int:
    """Whole units, rounded away from zero: `value("1.5Ki") == 1536`. Raises ValueError when `text` is no quantity."""
    return _scaled(text, NANO)


def amount(resource: str, text: str | int) -> int:
    """The integer in which kube-scheduler counts `resource`: milli-cores for `cpu`, whole units for all others."""
    return milli(text) if resource == "cpu" else value(text)


def show(resource: str, number: int) -> str:
    """A counted amount as people write it: `show("cpu", 1500) == "1500m"`, `show("memory", 2**30) == "1Gi"`."""
    if resource == "cpu":
        return _decimal(number * (NANO // 1000))
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _binary(number)
    return str(number)


def canonical(text: str | int) -> str:
    """The form in which the API server writes the quantity back: `canonical("1024Mi") == "1Gi"`, `canonical("0.5") == "500m"`."""
    nanos, form = _parse(str(text))
    if form == "binary" and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _binary(nanos // NANO)
    return _decimal(nanos, exponent=form == "exponent")


def money(text: str | int) -> int:
    """Micro-dollars from plain decimal dollars, a finer fraction rounded up. Raises ValueError for anything else."""
    match = _MONEY.fullmatch(str(text).strip())
    if match is None or len(str(text)) > _LONGEST:
        raise ValueError(f'"{str(text)[:40]}" is not an amount of dollars: write a plain decimal such as "98.32"')
    whole, fraction = match[1], match[2] or ""
    micros = int(whole) * MICRO + int(fraction[:6].ljust(6, "0"))
    return micros + (1 if fraction[6:].strip("0") else 0)


def dollars(micros: int) -> str:
    """Decimal dollars with two to six places: `dollars(98_320_000) == "98.32"`."""
    whole, rest = divmod(abs(micros), MICRO)
    places = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if micros < 0 else ''}{whole}.{places}"


def _scaled(text: str | int, unit: int) -> int:
    if isinstance(text, int):
        return text * (NANO // unit)
    nanos, _ = _parse(text)
    return _away(nanos, unit)


def _away(number: int, unit: int) -> int:
    return -(-number // unit) if number >= 0 else number // unit


@lru_cache(maxsize=16384)
def _parse(text: str) -> tuple[int, str]:
    """Nano-units and the family of the suffix: `decimal`, `binary` or `exponent`."""
    match = _TEXT.fullmatch(text)
    if match is None or not text or len(text) > _LONGEST:
        raise ValueError(f'"{text[:40]}" is not a quantity: write a number and a suffix such as 500m, 8Gi or 2e3')
    sign, whole, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    base, power, form = _suffix(text, suffix)
    digits = int(whole + fraction)
    nanos = _nanos(digits, len(fraction), base, power)
    if nanos > MAX * NANO and form == "binary":
        nanos = MAX * NANO
    if nanos > MAX * NANO:
        raise ValueError(f'"{text[:40]}" is out of range: a quantity is at most 2^63-1')
    return (-nanos if sign == "-" else nanos), form


def _nanos(digits: int, places: int, base: int, power: int) -> int:
    if base == 2:
        return _away(digits * (1 << power) * NANO, 10**places)
    scale = min(max(power, _FINEST), _LONGEST + _LARGEST) - places + 9
    return digits * 10**scale if scale >= 0 else _away(digits, 10**-scale)


def _suffix(text: str, suffix: str) -> tuple[int, int, str]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "decimal"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "binary"
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise ValueError(
            f'"{text[:40]}" is not a quantity: the suffix "{suffix}" is not one of n u m k M G T P E, Ki to Ei, or an exponent'
        )
    return 10, int(match[1]), "exponent"


def _decimal(nanos: int, *, exponent: bool = False) -> str:
    power = -9
    while nanos and nanos % 1000 == 0 and power < 18:
        nanos, power = nanos // 1000, power + 3
    if not nanos:
        return "0"
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_NAMES[power]}"


def _binary(number: int) -> str:
    names = ("", *_BINARY)
    step = 0
    while number and number % 1024 == 0 and step < len(_BINARY):
        number, step = number // 1024, step + 1
    return f"{number}{names[step]}"
