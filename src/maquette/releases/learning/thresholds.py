"""Marginals by learning f_D, after Hardt, Rothblum and Servedio: the database as a function of the query.

f_D(S) is the share of rows in which all columns of S hold. A few of these values are measured; for every threshold t
the concept "f_D(S) >= t" is then learned from them as a low-degree polynomial in the indicator of S, and a query is
answered by the largest threshold that its classifier accepts. For k-way conjunctions the concepts are thresholds of
sums of conjunctions, which polynomials of degree about sqrt(k) represent; the number of examples follows the degree,
not C(d, k).

Privacy: one `Curator.measure_many` of the examples; learning is post-processing. Accuracy: on average over queries
drawn as the examples were, as far as the learner generalises; no bound for the worst query, and at sizes that run here
the default release answers better. A demonstrator. Reference: Hardt, Rothblum and Servedio 2012; Mechanisms §8.6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.privacy import Loss
from maquette.query import LinearQuery, two_level_columns
from maquette.releases.opening import opening

Values = NDArray[np.float64]

MAX_FEATURES = 2000
RIDGE = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class LearnedConjunctions:
    """A function from sets of columns to the share of rows in which all of them hold; asking costs nothing."""

    columns: tuple[str, ...]
    k: int
    degree: int
    thresholds: Values
    weights: Values
    examples: int
    cost: Loss

    def answer(self, columns: Sequence[str]) -> float:
        """The middle between the largest threshold that is accepted and the next."""
        unknown = [name for name in columns if name not in self.columns]
        if unknown or len(set(columns)) != self.k:
            raise QueryError(
                f"the question is about {', '.join(columns) or 'nothing'}",
                expected=f"{self.k} different columns of {', '.join(self.columns)}",
            )
        held = tuple(sorted(self.columns.index(name) for name in columns))
        accepted = int((features([held], len(self.columns), self.degree) @ self.weights > 0).sum())
        edges = np.concatenate([[0.0], self.thresholds, [1.0]])
        return float(edges[accepted] + edges[accepted + 1]) / 2

    def __repr__(self) -> str:
        return f"LearnedConjunctions({len(self.columns)} columns, k = {self.k}, {self.examples} examples)"


def learned_conjunctions(
    curator: Curator,
    k: int,
    *,
    columns: Sequence[str] | None = None,
    degree: int = 2,
    levels: int = 20,
    examples: int | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> LearnedConjunctions:
    """All conjunctions of k of these two-level columns (their second levels), learned from some of them.

    `examples` queries (default: twice the features) are drawn by the public coins of `rng` and measured; `levels` - 1
    thresholds are learned by least squares on polynomials of `degree`. Privacy and accuracy: see the module.
    """
    names = tuple(two_level_columns(curator.schema, columns))
    many = sum(math.comb(len(names), size) for size in range(degree + 1))
    if not 1 <= degree <= k <= len(names) or levels < 2 or many > MAX_FEATURES:
        raise QueryError(
            f"got k={k}, degree={degree} and levels={levels} for {len(names)} columns, {many:,} features",
            expected=f"1 <= degree <= k <= columns, at least 2 levels and at most {MAX_FEATURES:,} features",
        )
    coins = np.random.default_rng() if rng is None else rng
    sets = _drawn(len(names), k, 2 * many if examples is None else examples, coins)
    asked = [LinearQuery.product(curator.schema, {names[i]: [0.0, 1.0] for i in held}) for held in sets]
    with curator.account("learned conjunctions") as account:
        begun = opening(curator, units_for(curator, epsilon, rho), rows=None, beta=0.05)
        measured = curator.measure_many(asked, units=begun.units)
    values = np.array([float(found.values) for found in measured]) / begun.rows
    thresholds = np.asarray(np.arange(1, levels) / levels, dtype=np.float64)
    shown = features(sets, len(names), degree)
    labels = np.where(values[:, None] >= thresholds[None, :], 1.0, -1.0)
    gram = shown.T @ shown + RIDGE * len(sets) * np.eye(shown.shape[1])
    weights = np.asarray(np.linalg.solve(gram, shown.T @ labels), dtype=np.float64)
    return LearnedConjunctions(names, k, degree, thresholds, weights, len(sets), account.loss)


def features(sets: Sequence[tuple[int, ...]], columns: int, degree: int) -> Values:
    """One row for each set: 1 for every subset of at most `degree` columns that it contains."""
    small = [held for size in range(degree + 1) for held in itertools.combinations(range(columns), size)]
    inside = np.zeros((len(sets), columns), dtype=bool)
    for row, held in enumerate(sets):
        inside[row, list(held)] = True
    return np.stack([inside[:, list(held)].all(axis=1) for held in small], axis=1).astype(np.float64)


def _drawn(columns: int, k: int, wanted: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Different k-subsets, uniformly; all of them if there are no more than wanted."""
    if wanted < 1:
        raise QueryError(f"examples is {wanted}", expected="at least 1, or None to choose")
    if math.comb(columns, k) <= wanted:
        return list(itertools.combinations(range(columns), k))
    found: dict[tuple[int, ...], None] = {}
    while len(found) < wanted:
        found[tuple(sorted(rng.choice(columns, size=k, replace=False).tolist()))] = None
    return list(found)
