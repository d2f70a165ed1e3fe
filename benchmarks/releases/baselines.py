"""What any method should beat: Gaussian noise, and nothing clever after it.

"product": every one-way table with Gaussian noise; columns are taken to be independent. "noisy tables": every table
asked for with Gaussian noise, each by itself. A row is in one cell of each of m tables, so adding or removing one moves
them by sqrt(m) in L2: with noise of scale sqrt(m) / mu the whole is mu-GDP, and mu is the largest that epsilon and
delta allow. Noisy counts are projected (Euclidean) onto tables that are not negative and sum to one: rounding each up
to zero instead is far worse. In their favour: the number of rows is given. Noise is numpy's: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maquette.privacy.conversion import gaussian_mu
from releases.distance import Codes, Values, counted

Answers = Callable[[tuple[int, ...]], Values]


def projected(values: Values) -> Values:
    """The nearest probabilities."""
    ordered = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, ordered.size + 1)
    kept = int(np.count_nonzero(ordered > excess))
    projection: Values = np.maximum(values - excess[kept - 1], 0.0)
    return projection


def noisy(
    rows: Codes,
    sizes: list[int],
    sets: list[tuple[int, ...]],
    epsilon: float,
    delta: float,
    *,
    paid: int | None = None,
) -> dict[tuple[int, ...], Values]:
    """Each of these marginals, with noise, as probabilities; `paid` is how many are paid for, if not only these."""
    rng = np.random.default_rng()
    scale = np.sqrt(paid or len(sets)) / gaussian_mu(epsilon, delta)
    tables = {columns: counted(rows, sizes, columns) for columns in sets}
    return {key: projected((each + rng.normal(0.0, scale, each.shape)) / len(rows)) for key, each in tables.items()}


def product(rows: Codes, sizes: list[int], epsilon: float, delta: float) -> tuple[Answers, Codes]:
    """Independent columns: their marginals, and as many synthetic rows."""
    each = noisy(rows, sizes, [(i,) for i in range(len(sizes))], epsilon, delta)
    rng = np.random.default_rng()
    made = np.stack([rng.choice(size, len(rows), p=each[(i,)]) for i, size in enumerate(sizes)], axis=1)

    def marginal(columns: tuple[int, ...]) -> Values:
        found: Values = np.ones(())
        for i in columns:
            found = np.multiply.outer(found, each[(i,)])
        return found

    return marginal, made
