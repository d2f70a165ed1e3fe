"""Guessers: public models that guess for the analyst and learn from the holdout's answers alone.

The certificate holds for any guesses; wrong guesses make the intervals wider.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from maquette.errors import QueryError
from maquette.holdout.api import Note
from maquette.holdout.sample import Sample
from maquette.holdout.statistic import Asked
from maquette.hypothesis import MultiplicativeWeights
from maquette.query import LinearQuery, Term
from maquette.schema import Schema
from maquette.theory.holdout import guesser_failures

MAX_NET = 2**24


class WeightsGuesser:
    """Multiplicative weights over the cells of a schema; guesses for conditions over it, not for other statistics.

    With a tolerance eta it takes steps of 4 eta, and at most ln N / (2 eta^2) of its guesses miss by more than eta if
    answers are within eta / 4; use this with `queries=` and `tolerance=`. Without a tolerance it steps to the answer
    itself, which has no such bound but learns faster. Mechanisms §9.3.
    """

    def __init__(self, schema: Schema, *, tolerance: float | None = None) -> None:
        self._schema, self._tolerance = schema, tolerance
        self._model = MultiplicativeWeights(schema, alpha=tolerance, step="exact" if tolerance is None else "theory")

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Guesser`."""
        return {"guesser": "weights", "schema": self._schema.digest, "step": self._tolerance}

    def max_failures(self, *, queries: int, tolerance: float) -> int:
        """ln N / (2 eta^2), for steps made for this tolerance."""
        if self._tolerance != tolerance:
            raise QueryError(
                f"the guesser's steps are for a tolerance of {self._tolerance}, the holdout's is {tolerance}",
                advice=f"use WeightsGuesser(schema, tolerance={tolerance}), or say failures=",
            )
        return guesser_failures(guesser="weights", universe=self._schema.size, queries=queries, tolerance=tolerance)

    def guess(self, asked: Asked) -> float | None:
        """The model's answer, clamped to [0, 1]."""
        return None if asked.query is None else min(1.0, max(0.0, self._model.answer(asked.query)))

    def lesson(self, asked: Asked, value: float) -> Note | None:
        """The condition and the answer."""
        return None if asked.query is None else {"terms": _terms(asked.query), "value": value}

    def learn(self, note: Mapping[str, Any]) -> None:
        """One step towards the answer."""
        self._model.update(_query(self._schema, note["terms"]), note["value"])


class MedianGuesser:
    """The median over all small databases that agree with the answers given until now; for toy universes.

    Candidates are the multisets of `rows` points of the universe, which is given in the same form as the sample's rows.
    An answer removes those off by more than eta / 2. If guesses are checked at eta and answers are within eta / 4,
    every failure removes half of them, and a candidate within eta / 4 of the sample stays. So at most log2 of their
    number fail; for k questions ceil(8 ln(4k) / eta^2) rows have such a candidate (Stemmer). Mechanisms §9.3.
    """

    def __init__(self, universe: Any, *, rows: int, tolerance: float) -> None:
        self._universe = Sample(universe, what="universe")
        points = self._universe.size
        count = math.comb(points + rows - 1, rows) if points * rows <= MAX_NET else math.inf
        if rows < 1 or count * points > MAX_NET:
            raise QueryError(
                f"databases of {rows:,} rows over {points:,} points are {count:.3g}",
                expected=f"at least one row and at most {MAX_NET:,} numbers in all",
                advice="Take fewer rows, or WeightsGuesser over a schema",
            )
        if not 0 < tolerance <= 1:
            raise QueryError(f"tolerance is {tolerance}", expected="a fraction, the holdout's own")
        self._tolerance, self._rows = tolerance, rows
        chosen = np.array(list(combinations_with_replacement(range(points), rows)))
        self._net = np.stack([(chosen == point).sum(axis=1) for point in range(points)], axis=1) / rows
        self._alive = np.ones(len(self._net), dtype=np.bool_)

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Guesser`."""
        return {"guesser": "median", "net": self._rows, "step": self._tolerance, "universe": self._universe.fingerprint}

    @property
    def alive(self) -> int:
        """How many candidates agree with every answer until now."""
        return int(self._alive.sum())

    def max_failures(self, *, queries: int, tolerance: float) -> int:
        """floor(log2 of the number of candidates)."""
        if self._tolerance != tolerance:
            raise QueryError(f"the guesser is for a tolerance of {self._tolerance}, the holdout's is {tolerance}")
        return len(self._net).bit_length() - 1

    def guess(self, asked: Asked) -> float | None:
        """The lower median of the candidates' answers."""
        answers = self._net[self._alive] @ asked.on(self._universe).numbers
        return float(np.partition(answers, (len(answers) - 1) // 2)[(len(answers) - 1) // 2])

    def lesson(self, asked: Asked, value: float) -> Note | None:
        """The statistic's value on every point, and the answer."""
        return {"weights": asked.on(self._universe).numbers.astype(np.float64).tolist(), "value": value}

    def learn(self, note: Mapping[str, Any]) -> None:
        """Remove the candidates that contradict the answer; ignore it if it removes all, which no valid answer does."""
        answers = self._net @ np.array(note["weights"], dtype=np.float64)
        kept = self._alive & (np.abs(answers - note["value"]) <= self._tolerance / 2 + 1e-12)
        if kept.any():
            self._alive = kept


def _terms(query: LinearQuery) -> list[Any]:
    return [[term.coefficient, {str(p): factor.tolist() for p, factor in term.factors.items()}] for term in query.terms]


def _query(schema: Schema, stored: list[Any]) -> LinearQuery:
    return LinearQuery(
        schema,
        [
            Term(coefficient, {int(position): np.array(factor) for position, factor in factors.items()})
            for coefficient, factors in stored
        ],
    )
