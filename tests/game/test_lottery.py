"""The lottery's door: exact laws on all neighbours, broken variants that must be caught, refusals before any charge."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from game_checks import ANSWERS, ASKED, CELLS, GATES, PURE, SCHEMA, ZCDP, Seeded, Watching, table

from gate_tools import one_contribution
from maquette.audit.reference import exponential_law, goodness_of_fit
from maquette.curator import Curator, cap, lottery
from maquette.curator.exact import sum_reaches
from maquette.curator.noise import ExactNoise
from maquette.curator.transaction import Transaction
from maquette.errors import BudgetError, BudgetExceeded, MaquetteError, QueryError
from maquette.query import Contrasts

ROWS = (((False, "x"),), ((True, "z"),), ((True, "z"),))
_scores, _through, _clipped = lottery.Lottery._scores, Transaction.through, cap.clipped


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("gate", GATES)
def test_the_lottery_passes_its_gates(gate: str) -> None:
    GATES[gate]()


def _reflected(scores: np.ndarray, scale: Fraction, limit: int) -> np.ndarray:
    level = int(_clipped(scores, scale, limit).max())
    return np.where(scores > level, 2 * level - scores, scores)


def _dropped(scores: np.ndarray, scale: Fraction, limit: int) -> np.ndarray:
    level = int(_clipped(scores, scale, limit).max())
    return np.where(scores > level, scores.min(), scores)


def _late(scores: np.ndarray, scale: Fraction, limit: int) -> np.ndarray:
    return np.minimum(scores, int(_clipped(scores, scale, limit).max() + 3 * scale))


def _paid_once(self: Transaction, door: str, **named: Any) -> Any:
    return _through(self, door, **{**named, "events": named["events"][:1]})


def _one_for_all(noise: Any, scores: np.ndarray, scale: Fraction, size: int) -> np.ndarray:
    return np.repeat(noise.exponential(scores, scale), size)


def _patch(target: Any, name: str, value: Any) -> Callable[[], Any]:
    return lambda: mock.patch.object(target, name, value)


MUTANTS = {
    "contributions ignored": (
        "lottery",
        one_contribution,
    ),
    "no factor two": ("lottery", _patch(lottery, "round_scale_up", lambda scale: scale / 2)),
    "weights not priced": ("lottery", _patch(lottery.Lottery, "_scores", lambda s, p: 2 * _scores(s, p))),
    "capped ones reflected": ("clip", _patch(cap, "clipped", _reflected)),
    "capped ones dropped": ("lottery", _patch(lottery, "clipped", _dropped)),
    "floats": ("lottery", _patch(lottery.Lottery, "_scores", lambda s, p: _scores(s, p) + 0.25)),
    "one draw for all": ("lottery", _patch(lottery, "exponentials", _one_for_all)),
    "one draw paid": ("lottery", _patch(Transaction, "through", _paid_once)),
    "rows in the scale": ("lottery", _patch(lottery.Lottery, "_scores", lambda s, p: _scores(s, p) * s._engine.rows)),
    "signs swapped": ("scores", _patch(lottery.Lottery, "_scores", lambda s, p: _scores(s, p)[::-1])),
    "cap too late": ("cap", _patch(cap, "clipped", _late)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_lottery_is_caught(name: str) -> None:
    gate, broken = MUTANTS[name]
    with broken(), pytest.raises(AssertionError):
        GATES[gate]()


def test_the_level_is_exact_where_floats_cannot_tell() -> None:
    """A term of exp(-10^4) decides whether the sum reaches the cap; only equality by whole numbers is equality."""
    assert sum_reaches([Fraction(0), Fraction(10**4)], [1, 1], 1)
    assert not sum_reaches([Fraction(1, 10**30), Fraction(10**4)], [1, 1], 1)
    assert sum_reaches([Fraction(0)], [3], 3)
    far = np.array([5, 5, -(10**9)], dtype=np.int64)
    assert cap.clipped(far, Fraction(1), 2).tolist() == far.tolist()
    scores = np.array([10**12, 0], dtype=np.int64)
    assert cap.clipped(scores, Fraction(1), 2).max() == 0


def test_capping_moves_other_queries_by_at_most_one_over_cap() -> None:
    rng = np.random.default_rng(2)
    for _ in range(400):
        size = int(rng.integers(6, 30))
        limit, scale = int(rng.integers(2, size // 2 + 1)), Fraction(1000)
        scores = np.rint(rng.normal(0, 3000, size)).astype(np.int64)
        other = scores.copy()
        other[0] = round(float(rng.normal(0, 3000)))
        one, two = (exponential_law(cap.clipped(s, scale, limit), 1000.0) for s in (scores, other))
        assert np.abs(one[1:] - two[1:]).sum() <= 1 / limit + 4e-3  # a level is a whole number: 1/scale off at most


@pytest.mark.thorough
def test_many_draws_have_the_law_of_one() -> None:
    scores = np.array([0, 3, 7, 7, -20, 5], dtype=np.int64)
    drawn = ExactNoise().exponentials(scores, Fraction(7, 3), 20_000)
    assert goodness_of_fit(np.bincount(drawn, minlength=6), exponential_law(scores, 7 / 3)) > 1e-6
    pairs = np.bincount(6 * drawn[::2] + drawn[1::2], minlength=36)
    law = exponential_law(scores, 7 / 3)
    assert goodness_of_fit(pairs, np.outer(law, law).ravel()) > 1e-6


def test_a_repeated_request_draws_and_charges_nothing() -> None:
    noise = Watching()
    with Curator(table(ROWS, 1), PURE, noise=noise) as curator:
        door = curator.lottery(ASKED)
        one = door.draw(ANSWERS[0], draws=4, epsilon=0.5, request="again")
        two = door.draw(ANSWERS[0], draws=4, epsilon=0.5, request="again")
        assert len(noise.seen) == 4
        assert np.array_equal(one.cells, two.cells)
        assert curator.spent.epsilon == pytest.approx(0.5)


def test_a_charge_says_what_was_done_in_few_words() -> None:
    with Curator(table(ROWS, 1), ZCDP, noise=Seeded(0)) as curator:
        door = curator.lottery(ASKED)
        assert curator.ledger.spent() == 0
        door.draw(ANSWERS[0], draws=100, rho=0.5)
        (charge,) = curator.ledger.charges()
        assert '"door": "lottery"' in charge.description
        assert len(charge.description) < 600
        assert "3 questions" in repr(door)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, "draws is 0"),
        ({"draws": 10**6}, "draws is 1000000"),
        ({"cap": 0}, "cap is 0"),
        ({"cap": 2 * CELLS + 1}, "cap is 19"),
        ({"answers": np.zeros(3)}, "expected one number for each of the 9 cells"),
        ({"answers": np.full(CELLS, math.nan)}, "finite"),
        ({"answers": np.full(CELLS, 1e30)}, "finite numbers of rows"),
        ({"rho": 1e-15}, "too little for 3 draws"),
        ({"rho": 5e3}, "remains"),
    ],
)
def test_bad_input_is_refused_before_any_charge(settings: dict[str, Any], words: str) -> None:
    with Curator(table(ROWS, 1), ZCDP) as curator:
        asked = {"answers": ANSWERS[0], "draws": 3, "rho": 0.1, **settings}
        with pytest.raises(MaquetteError, match=words) as caught:
            curator.lottery(ASKED).draw(asked.pop("answers"), **asked)
        assert isinstance(caught.value, QueryError | BudgetError | BudgetExceeded)
        assert curator.ledger.spent() == 0


def test_questions_that_are_no_cells_are_refused() -> None:
    with Curator(table(ROWS, 1), ZCDP) as curator:
        with pytest.raises(QueryError, match="cells of marginals"):
            curator.lottery([Contrasts(ASKED[0], [np.array([[1, -1, 0]]), np.array([[1, 1]])])])
        with pytest.raises(QueryError, match="between is"):
            curator.lottery(ASKED, between=(2.0, 1.0))
        assert curator.lottery([["a"], ["a", "b"]]).candidates == 2 * (2 + 6)
    assert SCHEMA.size == 6
