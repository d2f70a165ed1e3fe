"""Releases from learners: any private agnostic learner is a distinguisher of the iterative construction.

Rows are examples labelled 1, the public model's records examples labelled 0, each half of the weight. The risk of a
query f as a classifier is 1/2 - (f(x) - f(D)) / 2: the classifier with the least risk, or its complement, is the query
with the largest error. So a learner of excess e points at a query within F = 2 e of the largest error, and the
construction turns it into a release. Reference: Dwork and Roth, remark 5.1, section 5.3.2; Mechanisms §5.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS, Pointed
from maquette.estimates import units_for
from maquette.privacy import Accountant, Loss
from maquette.query import LinearQuery, Marginal


class Classifier(NamedTuple):
    """A query as a classifier, +1 if it labels rows 1, -1 if its complement does; None if the learner does not say."""

    query: LinearQuery
    sign: int | None
    cost: Loss


class Learner(Protocol):
    """A private agnostic learner of cells of tables, with the rows as positive and public counts as negative
    examples."""

    def learn(
        self, curator: Curator, tables: Sequence[Marginal], negatives: Sequence[ArrayLike], *, units: int
    ) -> Classifier:
        """The classifier with about the least risk."""

    def excess(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """The excess risk times the rows, but for gamma."""


@dataclass(frozen=True)
class ExponentialLearner:
    """Selects a classifier by the exponential mechanism on its empirical risk. Privacy: one `Curator.select_worst`."""

    def learn(
        self, curator: Curator, tables: Sequence[Marginal], negatives: Sequence[ArrayLike], *, units: int
    ) -> Classifier:
        """The classifier with about the least risk."""
        return Classifier(*_as_tuple(DISTINGUISHERS["signed"].point(curator, tables, negatives, units=units)))

    def excess(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """Half of the error of the selection: the risk moves half as fast as the query's error."""
        found = DISTINGUISHERS["signed"].error(accountant, units=units, queries=queries, moves=moves, gamma=gamma)
        return found / 2


@dataclass(frozen=True)
class ReleaseLearner:
    """Learns from a private release: noise on every cell, then the classifier that fits the noisy cells best.

    Privacy: one `Curator.measure_many`. Accuracy: all noises are within w, so the chosen error is within 2 w of the
    largest. A learner from a release, from which a distinguisher makes a release again: both ways at once, at a price
    that grows with the number of queries, as it must.
    """

    def learn(
        self, curator: Curator, tables: Sequence[Marginal], negatives: Sequence[ArrayLike], *, units: int
    ) -> Classifier:
        """The classifier with about the least risk."""
        with curator.account("learner from a release") as account:
            measured = curator.measure_many(tables, units=units)
        gaps: list[NDArray[np.float64]] = [
            np.asarray(found.values, dtype=np.float64) - np.asarray(public, dtype=np.float64)
            for found, public in zip(measured, negatives, strict=True)
        ]
        best = max(range(len(gaps)), key=lambda i: float(np.abs(gaps[i]).max()))
        cell = np.unravel_index(int(np.abs(gaps[best]).argmax()), gaps[best].shape)
        where = tuple(int(level) for level in cell)
        return Classifier(tables[best].query(where), 1 if gaps[best][where] > 0 else -1, account.loss)

    def excess(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """The width that all noises together keep: the two errors compared are off by one width each, risks by half."""
        if accountant.currency == "pure":
            scale = float(accountant.laplace_scale(units, Fraction(moves * queries)))
            return scale * math.log(queries / gamma) + 1
        variance = accountant.gaussian_variance(units, Fraction(moves**2 * queries))
        return math.sqrt(2 * variance * math.log(2 * queries / gamma)) + 1


@dataclass(frozen=True)
class LearnedDistinguisher:
    """A learner as the distinguisher of a construction: `iterative_construction(..., distinguisher=this)`."""

    learner: Learner = field(default_factory=ExponentialLearner)

    def point(
        self,
        curator: Curator,
        tables: Sequence[Marginal],
        answers: Sequence[ArrayLike],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
    ) -> Pointed:
        """Point at a cell of `tables` where the public `answers` (in counts) are wrong."""
        price = units_for(curator, epsilon, rho, units)
        return Pointed(*self.learner.learn(curator, tables, answers, units=price))

    def error(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """F = 2 e, in rows."""
        return 2 * self.learner.excess(accountant, units=units, queries=queries, moves=moves, gamma=gamma)


def _as_tuple(found: Pointed) -> tuple[LinearQuery, int | None, Loss]:
    return found.query, found.sign, found.cost
