"""Reusing a holdout, by privacy: answers that reveal little about any single row of a sample cannot overfit it.

k adaptive statistical queries on `rows` independent rows, answered by a mechanism that is private for the *sample*
under relation "replace". A transfer theorem turns its error on the sample into one on the population, for all answers
together, with probability 1 - beta. The theorems hold for any parameters; each function searches for the best ones.
Noise is treated as continuous; exact discrete noise on the grid of rows is within one row of it. Mechanisms §10.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from maquette.privacy import gaussian_epsilon, zcdp_epsilon
from maquette.theory.arguments import checked

Accounting = Literal["gaussian", "zcdp"]

_SAMPLE_SHARE = 0.2  # share of beta for sample_beta / c; the rest is for delta / d, whose logarithm matters more


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Every answer within `alpha` of the population with probability 1 - beta, and the noise that reaches it.

    `scale` is the standard deviation of Gaussian noise or the scale of Laplace noise, a fraction of rows; the answers
    together are (epsilon, delta)-DP for the sample, relation "replace", and within `sample_error` of the sample except
    with probability `sample_beta`.
    """

    alpha: float
    scale: float
    epsilon: float
    delta: float
    sample_error: float
    sample_beta: float


@checked()
def jung(*, sample_error: float, epsilon: float, c: float, d: float) -> float:
    """Population error alpha + (e^epsilon - 1) + c + 2d, with probability 1 - sample_beta / c - delta / d.

    For an (epsilon, delta)-DP mechanism within alpha of the sample with probability 1 - sample_beta, and any c, d > 0.
    Answers are within alpha + c of the posterior mean except with probability sample_beta / c, since the sample is
    distributed as a fresh one from the posterior; and the posterior mean is within e^epsilon - 1 + 2d of the population
    except with probability delta / d. Jung et al. 2020, theorem 3.5; Mechanisms §10.2.
    """
    return sample_error + (math.expm1(epsilon) if epsilon < 700 else math.inf) + c + 2 * d


@checked()
def gaussian(
    *, rows: int, queries: int, beta: float, accounting: Accounting = "gaussian", scale: float | None = None
) -> Transfer:
    """k Gaussian answers through `jung`, at the best noise unless its `scale` is given.

    The error is about 7.6 k^(1/4) / sqrt(n) for beta 0.05.
    They are mu-Gaussian DP with mu = sqrt(k) / (n sigma), exactly converted, or mu^2/2-zCDP. The way beta is shared
    and c and d are chosen is within 0.5% of the optimum (see the tests). Mechanisms §14.9.
    """

    def choose(scale: float) -> Transfer:
        c = scale / _normal_quantile(_SAMPLE_SHARE * beta * scale / (12 * queries))  # z is about 6 there: c = scale / 6
        sample_beta = _SAMPLE_SHARE * beta * c
        sample_error = scale * _normal_quantile(sample_beta / (2 * queries))
        d, delta, epsilon = _posterior(math.sqrt(queries) / (rows * scale), beta, accounting)
        return Transfer(
            alpha=jung(sample_error=sample_error, epsilon=epsilon, c=c, d=d),
            scale=scale,
            epsilon=epsilon,
            delta=delta,
            sample_error=sample_error,
            sample_beta=sample_beta,
        )

    return choose(scale) if scale is not None else _least(choose, 1 / rows)


def _posterior(mu: float, beta: float, accounting: Accounting) -> tuple[float, float, float]:
    """d, delta and epsilon for `jung`, of a mechanism with this mu, if delta / d takes most of beta.

    epsilon falls with delta like mu sqrt(2 ln(1 / delta)), so epsilon + 2d is least near d = mu / (2 z), z that root;
    the best factor is 0.8 rather than 0.5, as epsilon is a sum of two terms.
    """
    share = (1 - _SAMPLE_SHARE) * beta
    z = math.sqrt(2 * math.log(1 / (share * min(mu / 6, 0.1))))
    d = 0.8 * mu / z
    delta = min(share * d, 0.5)
    return d, delta, _epsilon(mu, delta, accounting)


@checked()
def laplace(*, rows: int, queries: int, beta: float, scale: float | None = None) -> Transfer:
    """k Laplace answers of scale s through `jung`: pure k / (n s)-DP, so all of beta goes to sample_beta / c."""

    def choose(scale: float) -> Transfer:
        epsilon = queries / (rows * scale)
        c = scale  # where the derivative of scale ln(k / (beta c)) + c vanishes
        sample_error = scale * math.log(max(queries / (beta * c), 1.0))
        return Transfer(
            alpha=jung(sample_error=sample_error, epsilon=epsilon, c=c, d=0.0),
            scale=scale,
            epsilon=epsilon,
            delta=0.0,
            sample_error=sample_error,
            sample_beta=beta * c,
        )

    return choose(scale) if scale is not None else _least(choose, 1 / rows)


@checked()
def bassily(
    *, rows: int, queries: int, beta: float, accounting: Accounting = "gaussian", scale: float | None = None
) -> Transfer | None:
    """k Gaussian answers: the sample is within 18 epsilon of the population except with probability delta / epsilon.

    Needs epsilon < 1/3, delta < epsilon / 4 and n >= ln(4 epsilon / delta) / epsilon^2; None if nothing satisfies
    them. Half of beta goes to the noise. Bassily et al. 2016, theorem 7.2; about 3 times worse than `gaussian`.
    """

    def choose(scale: float) -> Transfer:
        mu = math.sqrt(queries) / (rows * scale)
        epsilon = mu
        for _ in range(4):  # delta = epsilon beta / 2 needs the epsilon it yields: a contraction
            last, epsilon = epsilon, _epsilon(mu, min(epsilon, 1.0) * beta / 2, accounting)
        delta = min(last, epsilon, 1.0) * beta / 2  # the smaller one, so that delta / epsilon <= beta / 2 in any case
        epsilon = _epsilon(mu, delta, accounting)
        legal = epsilon < 1 / 3 and delta < epsilon / 4 and rows >= math.log(4 * epsilon / delta) / epsilon**2
        sample_error = scale * _normal_quantile(beta / (4 * queries))
        return Transfer(
            alpha=18 * epsilon + sample_error if legal else math.inf,
            scale=scale,
            epsilon=epsilon,
            delta=delta,
            sample_error=sample_error,
            sample_beta=beta / 2,
        )

    best = choose(scale) if scale is not None else _least(choose, 1 / rows, steps=200)
    return None if math.isinf(best.alpha) else best


@checked()
def max_information(*, rows: int, queries: int, beta: float, scale: float | None = None) -> Transfer:
    """k Laplace answers, through the max-information of a pure mechanism.

    An epsilon-DP mechanism on n independent rows makes an event at most exp(epsilon^2 n/2 + epsilon sqrt(n ln(2/b)/2))
    times as likely as on rows independent of its output, except with probability b; there, some query is off by tau
    with probability at most 2k exp(-2 n tau^2). A third of beta each for this, for b and for the noise. Dwork et al.
    2015, theorem 20; the factor k is added here, as all k queries must hold. Mechanisms §10.2.
    """

    def choose(scale: float) -> Transfer:
        epsilon = queries / (rows * scale)
        information = epsilon**2 * rows / 2 + epsilon * math.sqrt(rows * math.log(6 / beta) / 2)
        stray = math.sqrt((math.log(6 * queries / beta) + information) / (2 * rows))
        sample_error = scale * math.log(3 * queries / beta)
        return Transfer(
            alpha=stray + sample_error,
            scale=scale,
            epsilon=epsilon,
            delta=0.0,
            sample_error=sample_error,
            sample_beta=beta / 3,
        )

    return choose(scale) if scale is not None else _least(choose, 1 / rows)


@dataclass(frozen=True, kw_only=True)
class Thresholdout:
    """Every answer within `alpha` of the population, with probability 1 - beta, until `hits` guesses have failed.

    A guess is kept if its distance to the sample is below `threshold`, up to noise; the hits cost rho in total.
    """

    alpha: float
    hits: int
    threshold: float
    rho: float
    epsilon: float
    delta: float
    sample_error: float


@checked()
def thresholdout(
    *, rows: int, queries: int, hits: int, beta: float, threshold: float | None = None, rho: float | None = None
) -> Thresholdout:
    """Thresholdout as NumericSparse on the sample, through `jung`, at the best rho unless it is given.

    rho-zCDP for the sample, relation "replace", counts of sensitivity 1: every hit starts a fresh AboveThreshold of
    epsilon0 = sqrt(2 (9/10) rho / B), noise 2 / epsilon0 on the threshold and 4 / epsilon0 on each of k tests, and has
    a Gaussian answer of variance B / (2 rho / 10), in rows. Except with probability sample_beta, a third per noise,
    a kept guess is within threshold + both test noises of the sample and an answer within its own noise. The default
    threshold is the largest test noise: then a perfect guess is never a hit. Mechanisms §6.2 and §10.3.
    """

    def choose(total: float) -> Thresholdout:
        unit = 1 / math.sqrt(2 * 0.9 * total / hits) / rows
        deviation = math.sqrt(hits / (2 * 0.1 * total)) / rows
        c = 4 * unit  # the scale of the noise that decides: see `laplace`
        third = _SAMPLE_SHARE * beta * c / 3
        tests = 2 * unit * math.log(max(hits / (2 * third), 1)) + 4 * unit * math.log(max(queries / (2 * third), 1))
        answers = deviation * _normal_quantile(min(0.25, third / (2 * hits)))
        limit = tests if threshold is None else threshold
        d, delta, epsilon = _posterior(math.sqrt(2 * total), beta, "zcdp")
        sample_error = max(limit + tests, answers)
        return Thresholdout(
            alpha=jung(sample_error=sample_error, epsilon=epsilon, c=c, d=d),
            hits=hits,
            threshold=limit,
            rho=total,
            epsilon=epsilon,
            delta=delta,
            sample_error=sample_error,
        )

    return choose(rho) if rho is not None else _least(choose, 1 / rows**2, 10.0)


@checked()
def thresholdout_paper_rows(*, error: float, queries: int, hits: int, beta: float) -> float:
    """Rows with which Thresholdout's own theorem promises `error` tau: min(16B, 80 sqrt(B ln(1/(tau beta)))) / (tau s).

    Laplace noise of scale s = tau / (96 ln(4k / beta)), threshold 3 tau / 4; holds until B guesses are off by more
    than tau / 2 on the population. Dwork et al. 2015, theorem 25, its constants as quoted in Mechanisms §10.3.
    """
    scale = error / (96 * math.log(4 * queries / beta))
    return min(16 * hits, 80 * math.sqrt(hits * max(math.log(1 / (error * beta)), 0))) / (error * scale)


@checked()
def thresholdout_paper_error(*, rows: int, queries: int, hits: int, beta: float) -> float:
    """The least error that `thresholdout_paper_rows` promises for `rows` rows, by bisection; it may exceed 1."""
    low, high = 1e-9, 0.9 / beta
    for _ in range(100):
        middle = math.sqrt(low * high)
        if thresholdout_paper_rows(error=middle, queries=queries, hits=hits, beta=beta) <= rows:
            high = middle
        else:
            low = middle
    return high


_Choice = TypeVar("_Choice", Transfer, Thresholdout)


def _epsilon(mu: float, delta: float, accounting: Accounting) -> float:
    return gaussian_epsilon(mu, delta) if accounting == "gaussian" else zcdp_epsilon(mu * mu / 2, delta)


def _normal_quantile(tail: float) -> float:
    """The z with Pr[N(0, 1) > z] = tail, for tails below one half."""
    from scipy.special import ndtri

    return -float(ndtri(tail))


def _least(choose: Callable[[float], _Choice], low: float, high: float = 1.0, steps: int = 40) -> _Choice:
    """The choice of least alpha: a geometric grid, then finer ones around its best point. Every choice is valid."""
    best = choose(high)
    for _ in range(3):
        ratio = (high / low) ** (1 / steps)
        tried = [(low * ratio**i, choose(low * ratio**i)) for i in range(steps + 1)]
        at, found = min(tried, key=lambda pair: pair[1].alpha)
        best = min(best, found, key=lambda choice: choice.alpha)
        low, high, steps = at / ratio, at * ratio, 10
    return best
