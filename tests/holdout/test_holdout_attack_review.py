"""What an independent attack on the holdout found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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
