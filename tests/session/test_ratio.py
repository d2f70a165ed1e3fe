"""Ratios: Fieller's set covers as stated, and both kinds of bounds do the right thing where little is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st
from session_checks import NoNoise, curator_of

import maquette as mq
from maquette.schema import Schema
from maquette.session.precision.reading import Reading, corners, fieller, ratio, total
from maquette.session.precision.width import STEP

Values = np.typing.NDArray[np.float64]


def reading(values: Values, variance: float, widths: float = 0.0) -> Reading:
    return Reading(values, np.full(values.shape, variance), np.full(values.shape, widths))


def drawn(top: float, bottom: float, covariance: Values, runs: int, seed: int) -> tuple[Reading, Reading]:
    noise = np.random.default_rng(seed).multivariate_normal([top, bottom], covariance, runs)
    return reading(noise[:, 0], float(covariance[0, 0])), reading(noise[:, 1], float(covariance[1, 1]))


@pytest.mark.parametrize(
    ("top", "bottom", "correlation"),
    [(300.0, 1000.0, 0.0), (300.0, 1000.0, 0.9), (0.0, 1000.0, 0.3), (1000.0, 1000.0, 0.99), (-80.0, 100.0, -0.5)],
)
def test_fiellers_interval_covers_as_often_as_stated(top: float, bottom: float, correlation: float) -> None:
    runs, beta = 20_000, 0.1
    covariance = np.array([[400.0, correlation * 600.0], [correlation * 600.0, 900.0]])
    low, high, known = fieller(
        *drawn(top, bottom, covariance, runs, 1), np.full(runs, covariance[0, 1]), float(scipy.stats.norm.isf(beta / 2))
    )
    covered = int((~known | ((low <= top / bottom) & (top / bottom <= high))).sum())
    assert scipy.stats.binom.cdf(covered, runs, 1 - beta) > 1e-6
    # Not much wider than needed either: a step is 0.5 of deviations of about 15.
    assert scipy.stats.binom.sf(covered, runs, 1 - beta * 0.7) > 1e-6


@given(
    st.floats(-1e4, 1e4),
    st.floats(-1e3, 1e4),
    st.floats(0.0, 1e3),
    st.floats(0.0, 1e3),
    st.floats(-1, 1),
    st.floats(1, 9),
)
def test_fiellers_ends_are_where_the_question_is_at_its_half_width(  # noqa: PLR0917
    top: float, bottom: float, above: float, below: float, correlation: float, multiplier: float
) -> None:
    covariance = correlation * above * below
    (low,), (high,), (known,) = fieller(
        reading(np.array([top]), above**2), reading(np.array([bottom]), below**2), np.array([covariance]), multiplier
    )
    assert known == (bottom**2 - multiplier**2 * below**2 > 0 and bottom > 0)
    if known:

        def width(r: float) -> float:
            return multiplier * math.sqrt(max(0.0, above**2 - 2 * r * covariance + r**2 * below**2))

        slack = 1e-6 * (1 + abs(top) + above) * (1 + bottom / (bottom - multiplier * below))
        step = min(STEP, width(top / bottom))
        for end in (low, high):
            assert abs(abs(top - end * bottom) - width(end) - step) <= slack
        assert low - slack <= top / bottom <= high + slack


def test_where_the_number_below_may_be_zero_only_the_declared_range_is_known() -> None:
    top, bottom = reading(np.array([5.0, 5.0, 5.0]), 9.0, 6.0), reading(np.array([0.0, -4.0, 3.0]), 9.0, 6.0)
    for bounds in (fieller(top, bottom, np.zeros(3), 2.0), corners(top, bottom)):
        assert not bounds[2].any()
        column = ratio(top, bottom, bounds, scale=10.0, centre=50.0, lowest=40.0, highest=60.0, guarantee=None)
        assert (column.low == 40.0).all()
        assert (column.high == 60.0).all()
        assert np.isfinite(column.value).all()
        assert ((column.value >= 40.0) & (column.value <= 60.0)).all()


def test_a_public_number_below_leaves_a_plain_interval() -> None:
    top = reading(np.array([300.0]), 16.0)
    (low,), (high,), (known,) = fieller(top, reading(np.array([1000.0]), 1e-30), np.zeros(1), 3.0)
    assert known
    assert (low, high) == (pytest.approx((300 - 12 - STEP) / 1000), pytest.approx((300 + 12 + STEP) / 1000))


@given(st.floats(-500, 500), st.floats(0, 500), st.floats(1, 900), st.floats(0, 500))
def test_corners_hold_every_ratio_of_numbers_within_their_widths(
    top: float, above: float, bottom: float, below: float
) -> None:
    (low,), (high,), (known,) = corners(reading(np.array([top]), 1.0, above), reading(np.array([bottom]), 1.0, below))
    assert known == (bottom > below)
    if known:
        ends = [(top + a * above) / (bottom + b * below) for a in (-1, -0.3, 0, 1) for b in (-1, 0, 0.6, 1)]
        assert low <= min(ends) * (1 + 1e-12 * np.sign(min(ends))) + 1e-9
        assert high >= max(ends) * (1 - 1e-12 * np.sign(max(ends))) - 1e-9


def test_totals_of_what_is_never_negative_have_no_negative_interval() -> None:
    counted = total(reading(np.array([-3.0, 40.0]), 1.0, 5.0), 2.0, (0.0, math.inf), None)
    assert counted.low.tolist() == [0.0, 70.0]
    assert counted.high.tolist() == [4.0, 90.0]
    assert total(reading(np.array([-30.0]), 1.0, 5.0), 2.0, (-math.inf, math.inf), None).low.tolist() == [-70.0]
    owed = total(reading(np.array([3.0, -40.0]), 1.0, 5.0), 2.0, (-math.inf, 0.0), None)
    assert (owed.low.tolist(), owed.high.tolist()) == ([-4.0, -90.0], [0.0, -70.0])


def test_public_rows_give_fractions_of_exactly_that_many() -> None:
    schema = Schema([mq.Boolean("smoker"), mq.Integer("age", 0, 3)])
    rows = {"smoker": [True] * 30 + [False] * 70, "age": [0, 1, 2, 3] * 25}
    curator = curator_of(schema, rows, mq.Budget(rho=900.0), NoNoise(0), relation="replace")
    session = mq.online(curator, alpha=0.05)
    assert session.rows == 100
    answer = session.ask("smoker")
    assert isinstance(answer, mq.Answer)
    assert answer.value == pytest.approx(0.3)
    assert answer.high - answer.low <= 0.11
    whole = session.ask("TRUE")
    assert isinstance(whole, mq.Answer)
    assert (whole.low, whole.high) == (1.0, 1.0)
