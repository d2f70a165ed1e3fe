"""Reusing a holdout, by description length: few transcripts are possible, so a union bound over all of them is cheap.

A sample of `rows` independent rows answers statistical queries, functions of a row with values in [0, 1], chosen
adaptively; every bound is on the distance to the mean over the population, for all answers together, with probability
1 - beta over the sample. Nothing here is differentially private: what is limited is how much the answers say about the
sample. The transfer theorems, which do go through privacy, are in `transfer`. Mechanisms §9.3 and §10.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from maquette.theory.arguments import checked
from maquette.theory.net import log_multisets
from maquette.theory.solve import RESOLUTIONS

Guesser = Literal["tuples", "multisets", "weights"]

_SUMMED = 100_000  # terms that are summed when transcripts are counted; a longer sum is bounded
_LEAST_LOG = -600.0  # below it floats are close to underflow: the relative-entropy interval replaces the binomial one
_NUDGE = 1e-12  # endpoints move outwards by more than their rounding error


@checked()
def log_transcripts(*, queries: int, failures: int, grid: int) -> float:
    """ln Nt, Nt = sum over i <= m of C(k, i) G^i: transcripts of k queries with at most m failed guesses.

    A guess that holds is returned, so it adds no outcome; a failed one returns one of G grid points. So the places of
    the failures and their answers determine what an analyst with fixed coins sees. Exact to 100,000 failures; beyond,
    the sum is bounded by its last term over 1 - r, r the ratio of the last two, and by (1 + G)^k. Mechanisms §9.3.

    >>> round(math.exp(log_transcripts(queries=4, failures=1, grid=3)))  # 1 + 4 * 3
    13
    """
    every = queries * math.log1p(grid)
    if failures >= queries:
        return every
    if failures <= _SUMMED:
        index = np.arange(1, failures + 1)
        terms = np.concatenate(([0.0], np.cumsum(np.log((queries - index + 1) / index * grid))))
        return min(every, float(np.logaddexp.reduce(terms)))
    ratio = failures / (queries - failures + 1) / grid
    if ratio >= 1:
        return every
    last = log_multisets(queries - failures + 1, failures) + failures * math.log(grid)
    return min(every, last - math.log1p(-ratio))


@checked()
def node_log_failure(
    *, asked: int, failures: int, log_answers: float, beta: float, queries: int | None = None
) -> float:
    """Log failure probability of the next query, after `asked` queries and `failures` failures, neither fixed before.

    beta w(asked) w(failures) / (C(asked, failures) exp(log_answers)), w(j) = (6 / pi^2) / (j + 1)^2, and w(asked) = 1/k
    when there are at most k queries (None: any number). log_answers is the sum over failures of ln G_j, the number of
    answers that failure could have had; each G_j may depend on what was released before it. At one depth with one
    number of failures there are C(i, f) places, and for each the 1 / prod G_j add up to at most 1 (Kraft), so all
    nodes of the transcript tree together have at most beta. Rogers et al. 2020; Mechanisms §10.4.
    """
    places = log_multisets(asked - failures + 1, failures)
    turn = _log_weight(asked) if queries is None else -math.log(queries)
    return math.log(beta) + turn + _log_weight(failures) - places - log_answers


@checked()
def refusal_log_beta(*, queries: int, refusals: int, beta: float) -> float:
    """Log of the failure probability for the answers to k questions, `refusals` of them refused because of the rows.

    A refusal reveals something that a bound on the answers does not count, unless the refused questions are fixed in
    advance. So each of the C(k, r) patterns of r refusals gets an equal part of 0.05 beta (6 / pi^2) / r^2, and the
    pattern without refusals gets 0.95 beta. Intervals given before a refusal belong to the pattern up to then.
    """
    if refusals == 0:
        return math.log(0.95 * beta)
    return math.log(0.05 * beta) + _log_weight(refusals - 1) - log_multisets(queries - refusals + 1, refusals)


@checked()
def refusal_beta(*, queries: int, refusals: int, beta: float) -> float:
    """exp of `refusal_log_beta`; 0 where that is too small for a float, and nothing can be promised any more."""
    log = refusal_log_beta(queries=queries, refusals=refusals, beta=beta)
    return math.exp(log) if log >= _LEAST_LOG else 0.0


def _log_weight(index: int) -> float:
    """ln of the weights 1 / (j + 1)^2 over j >= 0, normalised to add up to 1."""
    return math.log(6 / math.pi**2) - 2 * math.log(index + 1)


@checked()
def hoeffding_width(*, rows: int, log_failure: float) -> float:
    """Two-sided error of a mean of values in [0, 1], with probability 1 - exp(log_failure): sqrt(ln(2 / beta) / (2n)).

    Hoeffding 1963, theorem 2.
    """
    return math.sqrt((math.log(2) - log_failure) / (2 * rows))


@checked()
def binomial_interval(*, successes: int, rows: int, log_failure: float) -> tuple[float, float]:
    """Clopper-Pearson interval for a proportion; each side fails with half of the failure probability.

    Clopper and Pearson 1934, for statistics of 0 and 1. Like `relative_entropy_interval` it covers the proportion with
    probability 1 - exp(log_failure). Both ends grow with the count, so a group of counts is covered from the low end of
    its smallest to the high end of its largest. For failure probabilities near underflow the result is the interval of
    the relative entropy, which contains this one.
    """
    if log_failure < _LEAST_LOG:
        return relative_entropy_interval(mean=successes / rows, rows=rows, log_failure=log_failure)
    from scipy.special import betaincinv

    tail = math.exp(log_failure) / 2
    low = float(betaincinv(successes, rows - successes + 1, tail)) if successes > 0 else 0.0
    # By symmetry: the upper end is 1 minus the lower end for the failures, which keeps the tail small and exact.
    high = 1 - float(betaincinv(rows - successes, successes + 1, tail)) if successes < rows else 1.0
    return max(0.0, low - _NUDGE), min(1.0, high + _NUDGE)


@checked()
def relative_entropy_interval(*, mean: float, rows: int, log_failure: float) -> tuple[float, float]:
    """Confidence interval for the population mean from a sample mean: all p with n KL(mean, p) <= ln(2 / beta).

    For any statistic in [0, 1]: Pr[mean >= a] <= exp(-n KL(a, p)) for a > p, and likewise below; Hoeffding 1963,
    theorem 1, by the moment generating function, whose worst case is a coin. Never wider than `hoeffding_width` on
    either side (Pinsker), and far narrower near 0 and 1.
    """
    most = (math.log(2) - log_failure) / rows
    low = _farthest(mean, 0.0, most)
    high = _farthest(mean, 1.0, most)
    return max(0.0, low - _NUDGE), min(1.0, high + _NUDGE)


def _farthest(mean: float, end: float, most: float) -> float:
    """The p farthest from the mean, towards an end of [0, 1], with KL(mean, p) <= most; by bisection."""
    inside, outside = mean, end
    for _ in range(60):
        middle = (inside + outside) / 2
        if _relative_entropy(mean, middle) <= most:
            inside = middle
        else:
            outside = middle
    return outside


def _relative_entropy(a: float, p: float) -> float:
    """KL divergence of a coin of bias a from one of bias p."""
    if not 0 < p < 1:
        return 0.0 if a == p else math.inf
    heads = a * math.log(a / p) if a > 0 else 0.0
    tails = (1 - a) * math.log((1 - a) / (1 - p)) if a < 1 else 0.0
    return heads + tails


@checked()
def fresh_width(*, rows: int, queries: int, beta: float) -> float:
    """Error of k queries fixed before the sample is seen: sqrt(ln(2k / beta) / (2n)). No adaptive method beats it.

    As a claim on adaptive queries answered by the sample itself it is false: that is overfitting.
    """
    return hoeffding_width(rows=rows, log_failure=math.log(beta / queries))


@checked()
def splitting_width(*, rows: int, queries: int, beta: float) -> float:
    """Each query gets its own rows: sqrt(ln(2k / beta) / (2 floor(n/k))), infinite with fewer rows than queries."""
    return fresh_width(rows=rows // queries, queries=queries, beta=beta) if rows >= queries else math.inf


@dataclass(frozen=True, kw_only=True)
class Checking:
    """Guess-and-check for k queries: every answer is within alpha of the population with probability 1 - beta.

    A guess within `tolerance` of the sample is returned as it is; at most `failures` others are rounded to a grid of
    `grid` points. `proxies` are the rows n' of the guesser's small databases, 0 for multiplicative weights.
    """

    alpha: float
    tolerance: float
    failures: int
    grid: int
    proxies: int


@checked()
def guess_and_check_width(
    *, rows: int, queries: int, failures: int, tolerance: float, beta: float, grid: int | None = None
) -> float:
    """Error of k answers with at most m failed guesses: eta + sqrt((ln Nt + ln(2k / beta)) / (2n)).

    Holds for any source of guesses: only the number of failures matters. The tree of transcripts has at most k Nt
    nodes, each with a query fixed independently of the sample; Hoeffding and a union bound. G = ceil(2 / eta) unless
    given. Stemmer, lecture 4; Mechanisms §9.3, where the mechanism the lecture cites is spelt out (erratum B4).
    """
    points = math.ceil(2 / tolerance) if grid is None else grid
    transcripts = log_transcripts(queries=queries, failures=failures, grid=points)
    return tolerance + hoeffding_width(rows=rows, log_failure=math.log(beta / queries) - transcripts)


@checked()
def median_proxies(*, queries: int, tolerance: float) -> int:
    """Rows n' of the median mechanism's small databases, one of which errs by at most eta/4: ceil(8 ln(4k) / eta^2)."""
    return math.ceil(8 * math.log(4 * queries) / tolerance**2)


@checked()
def guesser_failures(*, guesser: Guesser, universe: int, queries: int, tolerance: float) -> int:
    """m, the most guesses that can fail, at tolerance eta over a universe of N points.

    "tuples": the median mechanism over N^n' databases, floor(n' log2 N), as the lecture has it; each failure removes
    half. "multisets": the same, counting databases that differ in the order of rows once, floor(log2 C(N + n' - 1,
    n')). "weights": multiplicative weights with step 4 eta, floor(ln N / (2 eta^2)): a failure has a gap of more than
    eta and an answer within eta/4. Corrected: base 2 and floors (erratum B3). Mechanisms §9.3.
    """
    if guesser == "weights":
        return math.floor(math.log(universe) / (2 * tolerance**2))
    proxies = median_proxies(queries=queries, tolerance=tolerance)
    if guesser == "tuples":
        return math.floor(proxies * math.log2(universe))
    return math.floor(log_multisets(universe, proxies) / math.log(2))


@checked()
def guess_and_check(
    *, rows: int, queries: int, universe: int, beta: float, guesser: Guesser = "weights", tolerance: float | None = None
) -> Checking:
    """The population error of guess-and-check with a guesser whose failures are bounded, at the best tolerance.

    Useful if k is far above m; the median mechanism is of theoretical interest only, the weights are practical. The
    lecture's tolerance is `lecture_tolerance`. Corrected: it ignores log2 N and the log of the transcripts (erratum
    B2).
    Mechanisms §14.8.
    """

    def choose(eta: float) -> Checking:
        failures = guesser_failures(guesser=guesser, universe=universe, queries=queries, tolerance=eta)
        return Checking(
            alpha=guess_and_check_width(rows=rows, queries=queries, failures=failures, tolerance=eta, beta=beta),
            tolerance=eta,
            failures=failures,
            grid=math.ceil(2 / eta),
            proxies=0 if guesser == "weights" else median_proxies(queries=queries, tolerance=eta),
        )

    if tolerance is not None:
        return choose(tolerance)
    # A tolerance far below what the sample resolves gains nothing.
    useful = [eta for eta in RESOLUTIONS.tolist() if eta >= 1 / math.sqrt(16 * rows)]
    return min(map(choose, useful), key=lambda checking: checking.alpha)


@checked()
def lecture_tolerance(*, rows: int, queries: int) -> float:
    """The lecture's eta = (ln(4k) / (2n))^(1/4), for which n' = 8 sqrt(2n ln(4k)) (erratum B1)."""
    return math.sqrt(math.sqrt(math.log(4 * queries) / (2 * rows)))
