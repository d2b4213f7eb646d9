"""Quantities with units, read and written exactly: bandwidths, times and sizes.

A quantity is a number and a unit: ``50GB/s``, ``400Gb/s`` (bits), ``50GiB/s`` (binary prefix), ``0.5us``,
``1e-6s``, ``1/3us``, ``32KB``, ``1MiB``. Numbers are taken by their decimal text, as fractions, and never
pass through a float. Decimal prefixes (k, M, G, T, P: powers of 1000) and binary ones (Ki, Mi, ...: powers
of 1024) are distinct, and so are bits (``b``) and bytes (``B``). A number without a unit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tutti.topologies.errors import InputError, suggestion

MICRO = 10**6
"""Microseconds in a second."""
BITS_PER_BYTE = 8
MEGA = 10**6
GIGA = 10**9
"""Bytes in a GB, and nanoseconds in a second."""
GIBI = 2**30
MICROSECOND = 1e-6
"""A microsecond in seconds."""
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": MEGA, "G": GIGA, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": GIBI, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = _DECIMAL | _BINARY

_NUMBER = r"[+-]?(?:[0-9]+/[0-9]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[^\d.].*)?", re.DOTALL)
_MAX_LENGTH = 200
_MAX_EXPONENT = 60
"""Largest length and exponent of a number. A number beyond is a mistake, and takes long to write out."""


@dataclass(frozen=True)
class _Quantity:
    """A kind of quantity: its name, its units, and those in which it is printed, the preferred one first."""

    name: str
    units: Mapping[str, Fraction]
    printed: tuple[str, ...]
    examples: str
    zero: bool


_BANDWIDTH = _Quantity(
    name="bandwidth",
    units={
        f"{prefix}{letter}{per_second}": Fraction(scale, bits)
        for per_second in ("/s", "ps")
        for letter, bits in (("B", 1), ("b", BITS_PER_BYTE))
        for prefix, scale in _PREFIXES.items()
    },
    printed=("GB/s", "MB/s", "TB/s", "KB/s", "B/s", "GiB/s", "MiB/s", "TiB/s", "KiB/s"),
    examples="50GB/s, 400Gb/s or 50GiB/s",
    zero=False,
)
_TIME = _Quantity(
    name="time",
    units={
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "\N{MICRO SIGN}s": Fraction(1, 10**6),
        "\N{GREEK SMALL LETTER MU}s": Fraction(1, 10**6),
        "ms": Fraction(1, 10**3),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
    },
    printed=("us", "ns", "ms", "s"),
    examples="0.5us, 700ns or 60s",
    zero=True,
)
_SIZE = _Quantity(
    name="size",
    units={f"{prefix}B": Fraction(scale) for prefix, scale in _PREFIXES.items()},
    printed=("KB", "MB", "GB", "TB", "B", "KiB", "MiB", "GiB", "TiB"),
    examples="32KB, 1MiB or 1GB",
    zero=False,
)

MOST_BYTES = 10**18
"""Largest size. A larger one is a typing error."""

_LONG = ((172_800, 86_400, "d"), (7200, 3600, "h"), (600, 60, "min"), (0, 1, "s"))
"""Units of times from one second on: least seconds at which it is used, its seconds, its name."""

_SLOW = ((1e-2, 1, "GB/s"), (1e-5, 1e3, "MB/s"), (1e-8, 1e6, "KB/s"), (0, 1e9, "B/s"))
"""Units of bandwidths: least GB/s at which it is used, how many of it are one GB/s, its name."""


def parse_bandwidth(text: object) -> Fraction:
    """Return a bandwidth in bytes per second, exact.

    Parameters
    ----------
    text
        A number and ``B/s`` or ``b/s`` (8 bits to the byte; ``Bps`` and ``bps`` too) with a prefix or none.

    Raises
    ------
    InputError
        If it isn't text, has no unit or an unknown one, or isn't positive.

    Examples
    --------
    >>> parse_bandwidth("400Gb/s") == parse_bandwidth("50GB/s") == 50 * 10**9
    True
    """
    return _parse(text, _BANDWIDTH)


def parse_time(text: object) -> Fraction:
    """Return a time in seconds, exact; zero is allowed.

    Parameters
    ----------
    text
        A number and ``ns``, ``us`` (or ``µs``), ``ms``, ``s``, ``min`` or ``h``.

    Raises
    ------
    InputError
        If it isn't text, has no unit or an unknown one, or is negative.

    Examples
    --------
    >>> parse_time("0.5us")
    Fraction(1, 2000000)
    """
    return _parse(text, _TIME)


def parse_size(text: object) -> Fraction:
    """Return a size in bytes, exact.

    Parameters
    ----------
    text
        A number and ``B`` with a prefix or none.

    Raises
    ------
    InputError
        If it isn't text, has no unit or an unknown one, isn't positive, or is more than `MOST_BYTES`.

    Examples
    --------
    >>> parse_size("1KB"), parse_size("1KiB")
    (Fraction(1000, 1), Fraction(1024, 1))
    """
    return checked_size(_parse(text, _SIZE), text)


def checked_size(size: Fraction, given: object) -> Fraction:
    """Return a size in bytes after a check; an error shows it as `given`.

    Raises
    ------
    InputError
        If it isn't positive, or is more than `MOST_BYTES`.
    """
    if not 0 < size <= MOST_BYTES:
        raise InputError(f"size {given}; it must be positive and at most 10^18 bytes")
    return size


def whole_bytes(text: object) -> int:
    """Parse a size that is a whole number of bytes.

    Raises
    ------
    InputError
        If it is not a whole number.
    """
    size = parse_size(text)
    if size.denominator != 1:
        raise InputError(f"size {text}: a whole number of bytes is needed")
    return int(size)


def format_bandwidth(value: Fraction | int) -> str:
    """Return the shortest exact text of a bandwidth in bytes per second, such as ``50GB/s``.

    `parse_bandwidth` gives the value back.
    """
    return _format(Fraction(value), _BANDWIDTH)


def format_time(value: Fraction | int) -> str:
    """Return the shortest exact text of a time in seconds, such as ``0.5us`` or ``1/3us``.

    `parse_time` gives the value back.
    """
    return _format(Fraction(value), _TIME)


def format_size(value: Fraction | int) -> str:
    """Return the shortest exact text of a size in bytes, such as ``32KB`` or ``1MiB``.

    `parse_size` gives the value back.
    """
    return _format(Fraction(value), _SIZE)


def short(value: float) -> str:
    """Return a number with six significant digits."""
    return f"{value:.6g}"


def duration(microseconds: float) -> str:
    """Return a time as text: in microseconds, or from one second on in a larger unit.

    Examples
    --------
    >>> duration(213.333333), duration(2.5e6), duration(1e14)
    ('213.333 us', '2.5 s', '1157.41 d')
    """
    seconds = microseconds / 1e6
    if seconds < 1:
        return f"{short(microseconds)} us"
    scale, unit = next((scale, unit) for least, scale, unit in _LONG if seconds >= least)
    return f"{short(seconds / scale)} {unit}"


def throughput(gigabytes: float) -> str:
    """Return a bandwidth as text: in GB/s, or below 0.01 GB/s in a smaller unit.

    Examples
    --------
    >>> throughput(133.333333), throughput(0.05), throughput(3e-9)
    ('133.333 GB/s', '0.05 GB/s', '3 B/s')
    """
    scale, unit = next((scale, unit) for least, scale, unit in _SLOW if gigabytes >= least)
    return f"{short(gigabytes * scale)} {unit}"


def exact_number(text: str) -> Fraction:
    """Return the number that a decimal text (or ``p/q``) stands for, never through a float.

    Raises
    ------
    InputError
        If the text isn't a finite number, divides by zero or is absurdly long.

    Examples
    --------
    >>> exact_number("0.1"), exact_number("5e-7")
    (Fraction(1, 10), Fraction(1, 2000000))
    """
    if not re.fullmatch(_NUMBER, text):
        raise InputError(f"{text!r} is not a number")
    exponent = re.search(r"[eE]([+-]?[0-9]+)$", text)
    if len(text) > _MAX_LENGTH or (exponent and abs(int(exponent[1])) > _MAX_EXPONENT):
        raise InputError(
            f"the number {text[:20]}{'...' * (len(text) > 20)} is out of range: "
            f"at most {_MAX_LENGTH} characters and exponents up to {_MAX_EXPONENT}"
        )
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise InputError(f"{text!r} divides by zero") from None


def _parse(text: object, kind: _Quantity) -> Fraction:
    shown = f"{kind.name} {text!r}"
    like = f"write it like {kind.examples}"
    if not isinstance(text, str):
        bare = isinstance(text, int | float | Fraction) and not isinstance(text, bool)
        raise InputError(f"{shown} {'has no unit' if bare else 'is not a text'}; {like}")
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise InputError(f"{shown} is not a number with a unit; {like}")
    unit = match["unit"]
    if unit is None:
        raise InputError(f"{shown} has no unit; {like}")
    if "," in unit:
        raise InputError(f"{shown} has a comma; give one {kind.name}, and {like}")
    if unit not in kind.units:
        raise InputError(f"{shown} has an unknown unit {unit!r}{_unit_hint(unit, kind)}")
    number = exact_number(match["number"])
    if number < 0:
        raise InputError(f"{shown} is negative; it must {'not be' if kind.zero else 'be positive'}")
    if number == 0 and not kind.zero:
        raise InputError(f"{shown} is zero; it must be positive")
    return number * kind.units[unit]


def _unit_hint(unit: str, kind: _Quantity) -> str:
    """Return the unit that was meant, or examples: the whole list is too long to read."""
    cased = [f"'{known}'" for known in kind.units if known.lower() == unit.lower()]
    if cased:
        return f"; did you mean {' or '.join(cased)}?"  # such as gb/s: the user must say which
    alike = [known for known in kind.units if all((sign in known) == (sign in unit) for sign in ("b", "p"))]
    hint = suggestion(unit, alike)
    return hint if "did you mean" in hint else f"; write it like {kind.examples}"


def _format(value: Fraction, kind: _Quantity) -> str:
    def taste(unit: str) -> tuple[int, int]:
        """Prefer 2400/7GB/s to 12/35TB/s among fractions; then prefer the shortest text."""
        scaled = value / kind.units[unit]
        denominator, text = scaled.denominator if _decimals(scaled)[1] else 1, _number_text(scaled) + unit
        # A point after an integral part does not count: 3.125GB/s is as short as 3125MB/s.
        return denominator, len(text) - ("." in text and not text.startswith("0"))

    best = min(kind.printed, key=taste)  # the first of equals: units stand in order of preference
    return _number_text(value / kind.units[best]) + best


def _number_text(value: Fraction) -> str:
    """Return a finite decimal where there is one, otherwise ``p/q``."""
    places, endless = _decimals(value)
    if endless:
        return str(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + digits[: len(digits) - places] + ("." + digits[len(digits) - places :]) * (places > 0)


def _decimals(value: Fraction) -> tuple[int, bool]:
    """Return how many decimals the number has, and whether they never end."""
    places, denominator = 0, value.denominator
    for prime in (2, 5):
        power = 0
        while denominator % prime == 0:
            denominator //= prime
            power += 1
        places = max(places, power)
    return places, denominator != 1
