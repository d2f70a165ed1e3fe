"""Sums and averages of a binned column: intervals hold for the values, wherever in their bins these lie."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.schema import Boolean, Integer, Number, Schema

SCHEMA = Schema([
    Number("paid", 0, 10_000, bins=5, precision=2, atoms=[0]),
    Integer("change", -500, 499, width=250, nullable=True),
    Boolean("a"),
])  # fmt: skip
ROWS = 20_000
RNG = np.random.default_rng(8)
A = RNG.random(ROWS) < 0.4
PAID = np.where(RNG.random(ROWS) < 0.5, 0.0, np.where(A, 40.0, 10.0))  # all near the lower end of a bin of 2,000
CHANGE = np.where(RNG.random(ROWS) < 0.5, -260, 490)  # near the upper ends
MISSING = RNG.random(ROWS) < 0.1
TRUTH = {
    "SELECT sum(paid) FROM t": PAID.sum(),
    "SELECT avg(paid) FROM t": PAID.mean(),
    "SELECT avg(paid) FROM t WHERE a": PAID[A].mean(),
    "SELECT sum(paid) FROM t WHERE a AND paid > 0": PAID[A].sum(),
    "SELECT avg(paid) FROM t WHERE change < 0": PAID[(CHANGE < 0) & ~MISSING].mean(),
    "SELECT avg(change) FROM t": CHANGE[~MISSING].mean(),
    "SELECT sum(change) FROM t WHERE NOT a": CHANGE[~MISSING & ~A].sum(),
    "SELECT sum(change) FROM t WHERE change < 0": CHANGE[~MISSING & (CHANGE < 0)].sum(),
}


@cache
def made(*sums: str) -> mq.Release:
    change = [None if missing else int(value) for missing, value in zip(MISSING, CHANGE, strict=True)]
    table = mq.open_table({"paid": PAID, "change": change, "a": A}, SCHEMA)
    with mq.Curator(table, mq.Budget(epsilon=4.0, delta=1e-9)) as curator:
        return mq.release(curator, mq.marginals(SCHEMA, k=2, sums=sums))


def asked(release: mq.Release, text: str) -> mq.Answer:
    answer = release.answer(text, confidence=0.9999)
    assert isinstance(answer, mq.Answer)
    return answer


@pytest.mark.parametrize("text", TRUTH)
def test_an_interval_holds_for_values_at_the_ends_of_their_bins(text: str) -> None:
    answer = asked(made(), text)
    assert answer.low <= TRUTH[text] <= answer.high
    assert answer.low <= answer.value <= answer.high


def test_an_interval_is_no_wider_than_bins_and_noise() -> None:
    """Half the rows are in a bin of 2,000, the others have a level of their own."""
    answer = asked(made(), "SELECT avg(paid) FROM t")
    assert answer.low == pytest.approx(0, abs=30)
    assert answer.high == pytest.approx(1_000, abs=100)
    assert answer.bound == "measured"


def test_a_sum_that_was_bought_says_where_in_their_bins_values_lie() -> None:
    """Also for groups whose own sums were not bought; a tenth of a bin is the most that differs here."""
    bins, bought = (asked(release, "SELECT avg(paid) FROM t WHERE change < 0") for release in (made(), made("paid")))
    truth = TRUTH["SELECT avg(paid) FROM t WHERE change < 0"]
    assert bins.value == pytest.approx(500, abs=100), "the middle of the bin, for half of the rows"
    assert abs(bought.value - truth) < 40 < abs(bins.value - truth)
    assert bought.low <= truth <= bought.high


def test_a_sum_with_more_noise_than_bins_leave_open_says_nothing() -> None:
    """Noise must not move values to an end of their bins."""
    release = made("paid")
    (whole,) = (table for table in release.sums if table.by is None)
    noisy = type(whole)(whole.column, None, whole.values + 1e9, 1e9, whole.gaussian)
    loud = mq.Release(SCHEMA, release.model, release.evidence, release.certificate, sums=[noisy])
    text = "SELECT avg(paid) FROM t WHERE a AND change < 0"
    assert asked(loud, text).value == pytest.approx(asked(made(), text).value, rel=0.2)


def test_a_column_of_zeros_has_a_sum_of_zero() -> None:
    zeros: dict[str, Any] = {"paid": np.zeros(50), "change": [None] * 50, "a": [True] * 50}
    with mq.Curator(mq.open_table(zeros, SCHEMA), mq.Budget(epsilon=10.0, delta=1e-9)) as curator:
        release = mq.release(curator, mq.marginals(SCHEMA, k=1, sums=["paid", "change"]))
    for text in (
        "SELECT sum(paid) FROM t",
        "SELECT avg(change) FROM t WHERE a",
        "SELECT sum(change) FROM t WHERE NOT a",
    ):
        answer = asked(release, text)
        assert answer.low <= 0 <= answer.high
        assert np.isfinite([answer.low, answer.value, answer.high]).all()
