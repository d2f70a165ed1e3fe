"""Bounds and tests on samples: evidence that a sampler violates its claim or its distribution."""

from __future__ import annotations

from math import inf, log

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray


def clopper_pearson(successes: int, trials: int, failure: float) -> tuple[float, float]:
    """Bounds on a probability, each wrong with probability at most `failure`."""
    low = scipy.stats.beta.ppf(failure, successes, trials - successes + 1) if successes else 0.0
    high = scipy.stats.beta.isf(failure, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def epsilon_lower_bound(first: int, second: int, trials: int, *, failure: float = 1e-6, delta: float = 0.0) -> float:
    """A lower bound on epsilon from how often one event happened on two neighbours, wrong with prob. <= `failure`.

    The event must be chosen before these samples are drawn; for each direction the two bounds share `failure`.
    """
    bound = 0.0
    for often, seldom in ((first, second), (second, first)):
        low = clopper_pearson(often, trials, failure / 4)[0] - delta
        high = clopper_pearson(seldom, trials, failure / 4)[1]
        bound = max(bound, log(low / high) if low > 0 else -inf)
    return bound


def lowest_bit(values: ArrayLike) -> NDArray[np.int64]:
    """Exponent of the lowest set bit of each float64 (2000 for zero): the event of Mironov's attack."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, 2000, exponent.astype(np.int64) - 53 + trailing)


def goodness_of_fit(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """p-value of a chi-square test of counts against probabilities; cells with expected count below 10 are pooled."""
    observed = np.asarray(counts, dtype=np.float64)
    expected = np.asarray(probabilities, dtype=np.float64) * observed.sum()
    rare = expected < 10
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], max(0.0, observed.sum() - expected[~rare].sum()))
    if expected[-1] < 10:
        # Too few for a separate cell: use the Poisson tail.
        tail = float(scipy.stats.poisson.sf(observed[-1] - 1, expected[-1])) if observed[-1] else 1.0
        observed, expected = observed[:-1], expected[:-1]
    else:
        tail = 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return min(tail, float(scipy.stats.chi2.sf(statistic, max(1, len(observed) - 1))))


def same_law(first: ArrayLike, second: ArrayLike, edges: ArrayLike) -> float:
    """p-value of a two-sample chi-square test of values binned at the edges."""
    bins = np.asarray(edges)
    cells = [
        np.bincount(np.searchsorted(bins, np.asarray(v), side="right"), minlength=len(bins) + 1)
        for v in (first, second)
    ]
    table = np.array(cells)
    return float(scipy.stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)
