"""Quantities with units are read exactly, printed so that they can be read back, or refused in one line."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep import for_each
from tutti.topologies import (
    InputError,
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_size,
    parse_time,
)
from tutti.topologies.units import exact_number, whole_bytes

positive = st.fractions(min_value=Fraction(1, 10**12), max_value=10**18, max_denominator=10**12)
nonnegative = st.fractions(min_value=0, max_value=10**9, max_denominator=10**12)


@for_each(
    ("text", "value"),
    [
        ("50GB/s", 50 * 10**9),
        ("400Gb/s", 50 * 10**9),  # 8 bits per byte
        ("400Gbps", 50 * 10**9),
        ("50GiB/s", 50 * 2**30),
        ("8Kib/s", 1024),
        ("1b/s", Fraction(1, 8)),
        ("1 TB/s", 10**12),
        ("2.5kB/s", 2500),
        ("2.5KB/s", 2500),
        ("1e3MB/s", 10**9),
        (" 7/3 B/s ", Fraction(7, 3)),
    ],
)
def test_a_bandwidth_is_bytes_per_second(text, value):
    assert parse_bandwidth(text) == value


@for_each(
    ("text", "value"),
    [
        ("0.5us", Fraction(1, 2_000_000)),
        ("1.5us", Fraction(3, 2_000_000)),
        ("1.5\u00b5s", Fraction(3, 2_000_000)),  # micro sign
        ("1.5\u03bcs", Fraction(3, 2_000_000)),  # Greek mu
        ("700ns", Fraction(7, 10**7)),
        ("1e-6s", Fraction(1, 10**6)),
        ("0us", 0),
        (".1ms", Fraction(1, 10**4)),
        ("60s", 60),
        ("2min", 120),
        ("1h", 3600),
        ("1/3us", Fraction(1, 3_000_000)),
    ],
)
def test_a_time_is_seconds(text, value):
    assert parse_time(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16B", 16),
        ("1KB", 1000),
        ("32KB", 32000),
        ("1KiB", 1024),
        ("1MiB", 2**20),
        ("1GB", 10**9),
        ("1e3B", 1000),
    ],
)
def test_a_size_is_bytes(text, value):
    assert parse_size(text) == value


def test_no_number_passes_through_a_float():
    assert parse_time("0.1s") == Fraction(1, 10) != Fraction(0.1)
    assert parse_bandwidth("9007199254740993B/s") == 2**53 + 1
    assert exact_number("0.30000000000000004") == Fraction(30000000000000004, 10**17)


@given(positive)
def test_a_printed_bandwidth_reads_back(value):
    assert parse_bandwidth(format_bandwidth(value)) == value


@given(nonnegative)
def test_a_printed_time_reads_back(value):
    assert parse_time(format_time(value)) == value


@given(positive)
def test_a_printed_size_reads_back(value):
    assert parse_size(format_size(value)) == value


@for_each(
    ("show", "value", "text"),
    [
        (format_bandwidth, 50 * 10**9, "50GB/s"),
        (format_bandwidth, 16 * 2**30, "16GiB/s"),
        (format_bandwidth, 25 * 10**9 // 8, "3.125GB/s"),
        (format_bandwidth, Fraction(2400 * 10**9, 7), "2400/7GB/s"),
        (format_time, Fraction(1, 2_000_000), "0.5us"),
        (format_time, Fraction(1, 3_000_000), "1/3us"),
        (format_time, Fraction(1, 20_000_000), "50ns"),
        (format_time, 60, "60s"),
        (format_time, 0, "0s"),
        (format_size, 32000, "32KB"),
        (format_size, 2**20, "1MiB"),
        (format_size, 10**9, "1GB"),
        (format_size, 16, "16B"),
        (format_size, 1500, "1.5KB"),
    ],
)
def test_the_shortest_exact_text_is_printed(show, value, text):
    assert show(value) == text


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bandwidth, "50", r"^bandwidth '50' has no unit; write it like 50GB/s, 400Gb/s or 50GiB/s$"),
        (parse_bandwidth, 50, r"^bandwidth 50 has no unit; write it like 50GB/s"),
        (parse_bandwidth, 5e10, r"^bandwidth 50000000000.0 has no unit; write it like 50GB/s"),
        (parse_time, "1e-6", r"^time '1e-6' has no unit; write it like 0.5us, 700ns or 60s$"),
        (parse_size, "1000", r"^size '1000' has no unit; write it like 32KB, 1MiB or 1GB$"),
        (parse_size, True, r"^size True is not a text; write it like"),
        (parse_size, None, r"^size None is not a text; write it like"),
        (parse_bandwidth, "50GX/s", r"unknown unit 'GX/s'; did you mean 'GB/s'\?$"),
        (parse_bandwidth, "50gb/s", r"unknown unit 'gb/s'; did you mean 'GB/s' or 'Gb/s'\?$"),
        (parse_bandwidth, "50GB", r"unknown unit 'GB'; did you mean 'GB/s'\?$"),
        (parse_bandwidth, "5 parsecs", r"unknown unit 'parsecs'; write it like 50GB/s"),
        (parse_size, "1mb", r"unknown unit 'mb'; did you mean 'MB'\?$"),
        (parse_time, "5sec", r"unknown unit 'sec'; write it like 0.5us"),
        (parse_bandwidth, "-5GB/s", r"^bandwidth '-5GB/s' is negative; it must be positive$"),
        (parse_bandwidth, "0GB/s", r"^bandwidth '0GB/s' is zero; it must be positive$"),
        (parse_size, "0B", r"^size '0B' is zero; it must be positive$"),
        (whole_bytes, "1.0005KB", r"^size 1.0005KB: a whole number of bytes is needed$"),
        (parse_time, "-1us", r"^time '-1us' is negative; it must not be$"),
        (parse_bandwidth, "nanGB/s", r"^bandwidth 'nanGB/s' is not a number with a unit; write it like"),
        (parse_bandwidth, "infGB/s", r"^bandwidth 'infGB/s' is not a number with a unit; write it like"),
        (parse_time, "", r"^time '' is not a number with a unit; write it like"),
        (parse_time, "5.0.0us", r"^time '5.0.0us' is not a number with a unit; write it like"),
        (parse_size, "1e30B", r"^size 1e30B; it must be positive and at most 10\^18 bytes$"),
        (parse_size, "1/0B", r"^'1/0' divides by zero$"),
        (parse_size, "1e999999999B", r"^the number 1e999999999 is out of range: .* exponents up to 60$"),
        (parse_size, f"{'9' * 300}B", r"^the number 9{20}\.\.\. is out of range: at most 200 characters"),
        (parse_size, "1\nB\nB", r"unknown unit 'B\\nB'; write it like"),
        (parse_size, "1MB,1GB", r"^size '1MB,1GB' has a comma; give one size, and write it like 32KB"),
        (parse_size, "1,000MB", r"^size '1,000MB' has a comma; give one size, and write it like 32KB"),
    ],
)
def test_a_wrong_quantity_is_refused_in_one_line(parse, text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
