"""The line through measured times, against scipy's curve fitting and numbers known beforehand."""

import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t as student

from tutti.topologies import InputError
from tutti.topologies.measurements.regression import fit

SIZES = 2.0 ** np.arange(3, 31)


def test_a_line_is_found_exactly():
    # TACCL, Table 1: NVLink of NDv2, 0.7 us and 46 us/MB.
    line = fit(SIZES, 0.7e-6 + SIZES * 46e-12)
    assert line.alpha == pytest.approx(0.7e-6, rel=1e-9)
    assert line.beta == pytest.approx(46e-12, rel=1e-9)
    assert line.bandwidth == pytest.approx(1e6 / 46e-6, rel=1e-9)
    assert line.off == ()
    assert abs(line.worst) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_values_and_intervals_are_those_of_weighted_least_squares(seed):
    rng = np.random.default_rng(seed)
    size = np.repeat(SIZES, 3)
    seconds = (5e-6 + size / 20e9) * rng.normal(1, 0.03, len(size))
    line = fit(size, seconds)
    scaled = size / 1e6  # for curve_fit, which needs this scale
    values, covariance = curve_fit(lambda s, a, b: a + b * s, scaled, seconds, p0=[1e-6, 1e-4], sigma=seconds)
    width = student.ppf(0.975, len(size) - 2) * np.sqrt(np.diag(covariance))
    assert (line.alpha, line.beta * 1e6) == pytest.approx(tuple(values), rel=1e-5)
    assert line.alpha_interval == pytest.approx((values[0] - width[0], values[0] + width[0]), rel=1e-4)
    low, high = line.beta_interval
    assert (low * 1e6, high * 1e6) == pytest.approx((values[1] - width[1], values[1] + width[1]), rel=1e-4)
    assert line.bandwidth_interval == pytest.approx((1 / high, 1 / low))


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        line = fit(SIZES, (5e-6 + SIZES / 20e9) * rng.normal(1, 0.03, len(SIZES)))
        inside += line.alpha_interval[0] <= 5e-6 <= line.alpha_interval[1]
    assert 0.90 <= inside / 400 <= 0.99


def test_small_sizes_count():
    # Plain least squares would fit alpha to the largest times, which are 1 % off here.
    seconds = 5e-6 + SIZES / 20e9
    seconds[-1] *= 1.01
    assert fit(SIZES, seconds).alpha == pytest.approx(5e-6, rel=0.01)


def test_a_change_of_protocol_is_named():
    seconds = 5e-6 + SIZES / 20e9
    bump = SIZES == 2.0**16
    seconds[bump] *= 2
    line = fit(SIZES, seconds)
    assert [size for size, _ in line.off] == [2.0**16]
    assert line.off[0][1] == line.worst < -0.4  # the line predicts half of the measured time
    assert fit(SIZES, seconds, tolerance=0.6).off == ()


def test_nothing_is_negative():
    quick = fit(np.array([1e3, 1e6, 2e6]), np.array([1e-9, 5e-5, 1e-4]))
    assert quick.alpha >= 0
    below = fit(np.array([1e6, 2e6, 4e6]), np.array([0.9e-4, 2e-4, 4e-4]))
    assert (below.alpha, below.note) == (0, "alpha would be negative, so it is 0")
    assert below.bandwidth == pytest.approx(1e10, rel=0.1)
    flat = fit(np.array([1e3, 1e6, 2e6]), np.array([3e-6, 2e-6, 1e-6]))
    assert (flat.beta, flat.bandwidth, flat.note) == (0, None, "the times do not grow with size")


def test_two_samples_have_no_interval():
    line = fit(np.array([0.0, 1e6]), np.array([1e-6, 51e-6]))
    assert (line.alpha, line.bandwidth) == pytest.approx((1e-6, 20e9))
    assert line.alpha_interval is None


def test_chunks_apart_and_together_give_both_by_cramers_rule():
    """TACCL, 4.1 and Table 1, InfiniBand: two chunks of 32 KB are 17 % faster together than apart."""
    chunk, apart, together = 32e3, 2 * (1.7e-6 + 32e3 * 106e-12), 1.7e-6 + 2 * 32e3 * 106e-12
    assert round(1 - together / apart, 2) == 0.17
    line = fit(np.array([2 * chunk] * 2), np.array([apart, together]), messages=np.array([2.0, 1.0]))
    assert line.alpha == pytest.approx(apart - together, rel=1e-9)
    assert line.beta == pytest.approx((2 * together - apart) / (2 * chunk), rel=1e-9)
    assert line.worst == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_noisy_chunks_apart_and_together_are_fitted_as_scipy_does(seed):
    rng = np.random.default_rng(seed)
    chunk, number = np.repeat(2.0 ** np.arange(10, 24), 6), np.tile([2.0, 4, 8, 1, 1, 1], 14)
    size = chunk * np.tile([2.0, 4, 8, 2, 4, 8], 14)
    seconds = (1.7e-6 * number + size * 106e-12) * rng.normal(1, 0.03, len(size))
    line = fit(size, seconds, messages=number)
    scaled = np.stack([number, size / 1e6])
    values, _ = curve_fit(
        lambda x, a, b: a * x[0] + b * x[1], scaled, seconds, p0=[1e-6, 1e-4], sigma=seconds
    )
    assert (line.alpha, line.beta * 1e6) == pytest.approx(tuple(values), rel=1e-5)
    assert (line.alpha, line.beta) == pytest.approx((1.7e-6, 106e-12), rel=0.03)
    seconds[::17] *= 100  # something else ran on the machine
    spoilt = fit(size, seconds, messages=number)
    assert (spoilt.alpha, spoilt.beta) == pytest.approx((1.7e-6, 106e-12), rel=0.05)


def test_a_change_of_protocol_is_named_by_the_size_of_a_message():
    chunk = np.array([1e3, 1e4, 1e5, 1e6])
    size, number = np.concatenate([8 * chunk, 8 * chunk]), np.repeat([8.0, 1.0], 4)
    seconds = 1e-6 * number + size / 1e10
    seconds[1] *= 2  # eight messages of 10 kB
    assert [size for size, _ in fit(size, seconds, messages=number).off] == [1e4]


def test_messages_of_one_size_say_nothing_of_alpha():
    with pytest.raises(InputError, match="all times are of one size, 8 B: alpha and bandwidth can't be told"):
        fit(np.array([8.0, 16.0]), np.array([1e-6, 2e-6]), messages=np.array([1.0, 2.0]))


def test_one_size_says_nothing_of_alpha():
    with pytest.raises(InputError, match="all times are of one size, 8 B: alpha and bandwidth can't be told"):
        fit(np.array([8.0, 8.0]), np.array([1e-6, 2e-6]))


def test_a_million_times_take_a_second_or_so():
    size = np.arange(1.0, 10**6 + 1)
    assert fit(size, 1e-6 + size / 1e9).alpha == pytest.approx(1e-6)
