"""What an independent attack on the holdout found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.holdout import Holdout


class Curious(float):
    """A guess that keeps what it is compared with: without care, the exact interval of the holdout's mean."""

    seen: list[Any] = []  # noqa: RUF012

    def __add__(self, other: Any) -> Any:
        return Curious(float(self) + other)

    __sub__ = __radd__ = __add__

    def __le__(self, other: Any) -> bool:
        self.seen.append(other)
        return True

    __ge__ = __le__


class Guesser:
    @property
    def terms(self) -> Mapping[str, Any]:
        return {"guesser": "curious"}

    def max_failures(self, *, queries: int, tolerance: float) -> int:
        return queries

    def guess(self, asked: Any) -> float | None:
        return Curious(0.5)

    def lesson(self, asked: Any, value: float) -> None:
        return None

    def learn(self, note: Mapping[str, Any]) -> None: ...


def test_a_guess_is_a_number_and_not_an_object_that_sees_the_exact_mean() -> None:
    rows = np.random.default_rng(1).random((1_000, 2)) < 0.3
    Holdout(rows, guesser=Guesser()).ask(lambda rows: rows[:, 0])
    assert Curious.seen == []


@pytest.mark.thorough
def test_intervals_cover_after_hundreds_of_refusals() -> None:
    """Every refusal says whether some row of the last question's share falls in a cell; the last counts the cells hit.

    The share of beta was never below exp(-700), so at more patterns of refusals than that the interval did not grow.
    """
    queries, share = 2_200, 800
    cells = queries - 1
    rows = np.random.default_rng(1).integers(0, cells, queries * share)
    holdout = Holdout(rows, method="splitting", queries=queries)
    last = holdout._method._order[-share:]  # type: ignore[attr-defined]  # public coins
    no = np.zeros(len(rows), dtype=np.bool_)
    hit = np.zeros(cells, dtype=np.bool_)
    for cell in range(cells):

        def ask(rows: Any, cell: int = cell) -> Any:
            if (rows[last] == cell).any():
                raise ValueError
            return no

        try:
            holdout.ask(ask)
        except QueryError:
            hit[cell] = True
    assert hit.sum() > 500
    answer = holdout.ask(lambda rows: hit[rows])
    assert answer.low <= hit.mean() <= answer.high


@pytest.mark.parametrize("transfer", ["jung", "bassily", "pure", "max-information", "thresholdout"])
def test_any_number_of_refusals_leaves_a_holdout_that_answers(transfer: str) -> None:
    """Past what a theorem can say, answers are not certified; the theorem's own refusal ended the holdout for good."""

    def fail(rows: Any) -> Any:
        raise ValueError

    settings = {"transfer": transfer} if transfer != "thresholdout" else {"hits": 5}
    method: Any = "thresholdout" if transfer == "thresholdout" else "gaussian"
    rows = np.zeros(20_000, dtype=np.bool_)
    holdout = Holdout(rows, method=method, queries=400, **settings)
    for _ in range(200):
        with pytest.raises(QueryError, match="failed on the rows of the holdout"):
            holdout.ask(fail, guess=0.5)
    answer = holdout.ask(lambda rows: rows, guess=0.5)
    assert answer.certificate == "none" or answer.low <= 0 <= answer.high
