"""Bases: waves and sums are whole-number contrasts that give exact answers without noise, and the noise they say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from session_checks import NoNoise, SeededNoise, Truth, counts_of, curator_of, numbers

import maquette as mq
from maquette.query import Marginal, helmert
from maquette.query.waves import waves
from maquette.schema import Schema
from maquette.session.precision.bases import (
    inverse,
    is_plain,
    plain,
    question_of,
    scale,
    summed,
    sums_key,
    waves_key,
    whole_kind,
)
from maquette.session.precision.view import View
from maquette.session.precision.view_of import view_of

SCHEMA = Schema(
    [mq.Integer("age", 0, 15), mq.Integer("hours", 0, 11), mq.Boolean("smoker"), mq.Category("town", ["a", "b", "c"])]
)
ROWS = 6_000
_rng = np.random.default_rng(3)
_age = np.minimum(_rng.geometric(0.15, ROWS) - 1, 15)
TABLE = {
    "age": _age.tolist(),
    "hours": ((_age + _rng.integers(0, 9, ROWS)) % 12).tolist(),
    "smoker": (_rng.random(ROWS) < 0.3).tolist(),
    "town": _rng.choice(["a", "b", "c"], ROWS).tolist(),
}
COUNTS = counts_of(SCHEMA, TABLE)
TRUTH = Truth(SCHEMA, COUNTS)
RARE = 1e-6


def view(text: str) -> View:
    return view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, text)))


@pytest.mark.parametrize("size", [8, 9, 16, 31, 32, 100])
def test_waves_are_whole_numbers_that_sum_to_zero_and_span_all_contrasts(size: int) -> None:
    rows = waves(size, 4096)
    assert rows.shape == (size - 1, size)
    assert (rows.sum(axis=1) == 0).all()
    assert np.linalg.matrix_rank(rows) == size - 1
    moved = (rows**2).sum(axis=0) / 4096**2
    assert moved.max() <= 1.01
    assert moved.min() >= 0.98  # wherever a row of the table lies


def test_every_range_of_levels_has_less_noise_in_waves_than_its_half_in_helmert_contrasts() -> None:
    size, most = 64, {}
    for name, rows in (("waves", waves(size, 4096)), ("helmert", helmert(size, 4096))):
        moved, back = (rows**2).sum(axis=0).max(), np.linalg.pinv(rows)
        ranges = [(np.arange(size) >= i) & (np.arange(size) < j) for i, j in itertools.combinations(range(size + 1), 2)]
        most[name] = max(float(((each @ back) ** 2).sum() * moved) for each in ranges)
    assert most["waves"] < 0.3 * most["helmert"]
    assert most["waves"] < 4.5  # counts


@pytest.mark.parametrize("key", [waves_key(("age",)), waves_key(("age", "smoker")), waves_key(("age", "hours"))])
def test_noiseless_waves_give_the_same_answers_as_the_part(key: tuple[str, ...]) -> None:
    part = plain(key)
    text = " AND ".join({"age": "age BETWEEN 3 AND 9", "hours": "hours >= 4", "smoker": "smoker"}[n] for n in part)
    of = view(text)
    exact = {kept: _coefficients(kept) for kept in of.gains}
    exact[key] = _measured(key) / scale(SCHEMA, key)

    def read(asked: tuple[str, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return exact[asked], np.ones(exact[asked].shape)

    plainly, _ = of.look(read)
    mixed, variance = of.look(read, mixed={part: {part: 0.25, key: 0.75}})
    assert float(mixed) == pytest.approx(float(plainly), rel=1e-9)
    gain, ratio = of.gains[part], of.others[part][key]
    rest = sum(of.gains.values()) - gain
    assert float(variance) == pytest.approx(rest + gain * (0.25**2 + 0.75**2 * ratio), rel=1e-9)


def _measured(key: tuple[str, ...]) -> np.ndarray[Any, Any]:
    question = question_of(SCHEMA, key)
    axes = tuple(i for i, name in enumerate(SCHEMA.names) if name not in plain(key))
    return np.asarray(question.combine(COUNTS.sum(axis=axes)), dtype=np.float64)


def _coefficients(part: tuple[str, ...]) -> np.ndarray[Any, Any]:
    from maquette.estimates.residuals import forward

    axes = tuple(i for i, name in enumerate(SCHEMA.names) if name not in part)
    cells = forward(COUNTS.sum(axis=axes).astype(np.float64))
    return np.asarray(cells[tuple(slice(1, None) for _ in part)])


def test_keys_name_their_part_and_no_column() -> None:
    part = ("age", "town")
    keys = [part, waves_key(part), sums_key(part, "age")]
    assert [plain(key) for key in keys] == [part] * 3
    assert [is_plain(key) for key in keys] == [True, False, False]
    assert [summed(key) for key in keys] == [None, None, "age"]
    with pytest.raises(mq.MaquetteError):
        mq.Integer("", 0, 1)


def test_sums_are_exact_multiples_of_the_declared_numbers() -> None:
    key = sums_key(("age", "town"), "age")
    question = question_of(SCHEMA, key)
    row = question.matrices[0][0]
    assert question.matrices[0].shape == (1, 16)
    assert np.array_equal(np.diff(row), np.full(15, row[1] - row[0]))
    weights = np.arange(16) / 15
    assert float((weights @ inverse(SCHEMA, key, "age"))[0]) == pytest.approx(0.5)  # of the largest, from the centre
    assert sums_key(("town",), "town") not in view("town = 'a'").others.get(("town",), {})


TEXTS = [
    *(f"SELECT count(*) FROM t WHERE age BETWEEN {i} AND {i + 6}" for i in range(1, 9)),
    *(f"SELECT count(*) FROM t WHERE age <= {i} AND hours >= {j}" for i in (3, 7, 11) for j in (2, 6)),
    *(f"SELECT avg(age), sum(age) FROM t WHERE town = '{town}'" for town in "abc"),
    "SELECT town, avg(hours), count(*) FROM t GROUP BY town",
    *(f"SELECT avg(age), sum(age), avg(hours) FROM t WHERE {group}" for group in ("smoker", "NOT smoker")),
    *(f"SELECT avg(age), avg(hours) FROM t WHERE smoker AND town = '{town}'" for town in "abc"),
]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_without_noise_every_answer_is_exact(simultaneous: bool) -> None:
    curator = curator_of(SCHEMA, TABLE, mq.Budget(rho=50.0), NoNoise(0))
    session = mq.online(curator, alpha=0.05, rows=ROWS, warm_start="none", simultaneous=simultaneous)
    for text in TEXTS:
        found = [one.value for one in numbers(session.ask(text))]
        np.testing.assert_allclose(found, TRUTH.of(text), rtol=1e-6, atol=1e-3)
    keys = session._record.transcript._states
    assert any(whole_kind(key) is not None for key in keys)
    assert any(summed(key) is not None for key in keys)
    assert simultaneous or waves_key(("age",)) in keys


def test_a_restart_gives_the_same_digits_and_charges_nothing(tmp_path: Any) -> None:
    told = []
    for _ in range(2):
        with curator_of(SCHEMA, TABLE, mq.Budget(rho=50.0), ledger=tmp_path / "ledger") as curator:
            session = mq.online(curator, alpha=0.05, rows=ROWS, warm_start="none", simultaneous=False)
            answers = [[(one.value, one.low, one.high) for one in numbers(session.ask(text))] for text in TEXTS]
            told.append((answers, curator.ledger.spent()))
            assert any(not is_plain(key) for key in session._record.transcript._states)
    assert told[0] == told[1]


def test_a_signed_sum_is_one_measurement_at_the_price_of_one_count() -> None:
    schema = Schema([mq.Integer("x", 0, 20), mq.Category("c", [str(i) for i in range(7)], nullable=True)])
    rows = {"x": [i % 21 for i in range(4_000)], "c": [str(i % 7) for i in range(4_000)]}
    prices = []
    for text in ("SELECT avg(x) FROM t WHERE c = '1' AND x <> 3", "SELECT count(*) FROM t WHERE c = '1' AND x <> 3"):
        with curator_of(schema, rows, mq.Budget(rho=50.0), NoNoise(0)) as curator:
            mq.online(curator, alpha=0.05, rows=4_000, simultaneous=False).ask(text)
            prices.append(curator.ledger.spent())
    assert prices[0] <= 2.02 * prices[1]


@pytest.mark.thorough
def test_a_batch_is_never_dearer_than_its_questions_one_by_one() -> None:
    schema = Schema([mq.Integer("x", 0, 31), mq.Boolean("s")])
    rng = np.random.default_rng(5)
    rows = {"x": rng.integers(0, 32, 8_000).tolist(), "s": (rng.random(8_000) < 0.3).tolist()}
    pairs = [pair for pair in itertools.combinations(range(32), 2) if pair != (0, 31)]
    texts = [f"SELECT count(*) FROM t WHERE x BETWEEN {i} AND {j}" for i, j in rng.permutation(pairs)[:80].tolist()]
    spent = []
    for size in (1, 8, 80):
        with curator_of(schema, rows, mq.Budget(rho=50.0), NoNoise(0)) as curator:
            session = mq.online(curator, alpha=0.05, rows=8_000, simultaneous=False, warm_start="none")
            for start in range(0, 80, size):
                session.ask_many(texts[start : start + size])
            spent.append(curator.ledger.spent())
    assert max(spent[1:]) <= spent[0] * 1.001


@pytest.mark.thorough
def test_intervals_from_waves_and_sums_hold_as_often_as_they_say() -> None:
    """Each answer at 0.2, over 150 sessions; a rate of 0.5 would be seen but for a chance of 1 in 100."""
    from scipy import stats

    runs, missed = 150, dict.fromkeys(TEXTS, 0)
    table = mq.open_table(TABLE, SCHEMA)
    for seed in range(runs):
        with mq.Curator(table, mq.Budget(rho=9e3), noise=SeededNoise(seed)) as curator:
            session = mq.online(
                curator, alpha=0.04, beta=0.2, rows=ROWS, simultaneous=False, warm_start="none", guard="never"
            )
            for text in TEXTS:
                one, exact = numbers(session.ask(text))[0], TRUTH.of(text)[0]
                missed[text] += not one.low - 1e-9 <= exact <= one.high + 1e-9
    for text, count in missed.items():
        assert stats.binom.sf(count - 1, runs, 0.2) > RARE / len(TEXTS), (text, count)
