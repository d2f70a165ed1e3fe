"""Disjunctions of up to k of d yes/no columns: what each way of answering all of them promises, and which is best.

"Any of these k symptoms": there are C(d, <= k) monotone questions. Errors are fractions of rows and hold for all of
them together with probability 1 - beta, unless said otherwise; queries move by 1/rows. Public numbers only.
Mechanisms §8 and §14.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from maquette.errors import QueryError
from maquette.privacy import zcdp_rho
from maquette.theory import noise
from maquette.theory.planning.obstacles import MAX_CELLS, MAX_STREAMED
from maquette.theory.planning.plan import Plan, Promise
from maquette.theory.planning.question import Question, magnitude
from maquette.theory.polynomial import Polynomial, least_degree, least_error, least_interval, least_weight

GAMMA = 0.01  # error that the polynomial of a learning bound may have
MAX_FEATURES = 10**7
MAX_MEASURED = 5 * 10**6
MAX_BLOCK_D, MAX_BLOCK_K = 20, 3  # largest block basis that can be run
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)  # shares of the error that a loop may leave unlearnt
FEWEST, MOST = 1.0, 1e30  # range in which the rows for a target are searched


@dataclass(frozen=True, kw_only=True)
class Family:
    """All monotone disjunctions of at most k of d columns, under one budget."""

    d: int
    k: int
    epsilon: float = 1.0
    delta: float = 1e-9
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name, value, least in (("d", self.d, 1), ("k", self.k, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise QueryError(f"{name} is {value!r}", expected=f"a whole number of at least {least}")
        if self.k > self.d:
            raise QueryError(f"k is {self.k}, more than the {self.d} columns there are", expected=f"1 to {self.d}")
        if not (self.epsilon > 0 and 0 < self.delta < 1 and 0 < self.beta < 1):
            raise QueryError(
                f"epsilon is {self.epsilon}, delta {self.delta} and beta {self.beta}",
                expected="a positive epsilon, and delta and beta between 0 and 1",
            )

    @property
    def queries(self) -> int:
        """C(d, <= k), the empty disjunction aside."""
        return subsets(self.d, self.k)

    @property
    def rho(self) -> float:
        """The zCDP budget that (epsilon, delta) buys."""
        return zcdp_rho(self.epsilon, self.delta)


def subsets(d: int, k: int) -> int:
    """The number of sets of 1 to k of d things."""
    return sum(math.comb(d, j) for j in range(1, k + 1))


class Learnt(NamedTuple):
    """A basis for learning: its blocks, degree, number of functions, weight, and the rows it needs."""

    blocks: int
    degree: int
    features: int
    weight: float
    rows: float


def gaussian_rows(family: Family, alpha: float) -> float:
    """Noise on every query: sqrt(|Q| / (2 rho)) sqrt(2 ln(2|Q| / beta)) / alpha. Mechanisms §1.2."""
    return noise.gaussian_accuracy(queries=family.queries, rho=family.rho, rows=1, beta=family.beta) / alpha


def weights_rows(family: Family, alpha: float) -> float:
    """Private multiplicative weights over all 2^d cells, averaged: T = d ln 2 / (2 a^2) rounds. Mechanisms §5.3."""
    return _learning_rows(family, family.d * math.log(2) / 2, alpha)


def basis_rows(family: Family, features: int, weight: float, alpha: float) -> float:
    """Multiplicative weights over signed functions of total weight W: T = 2 W^2 ln(2|F|) / a^2. Mechanisms §8.5."""
    return _learning_rows(family, 2 * weight**2 * math.log(2 * features), alpha)


def _learning_rows(family: Family, potential: float, alpha: float) -> float:
    """Rows for T = potential / (share alpha)^2 selections, each within 2 ln(2|Q|T / beta) / (n epsilon_s)."""

    def rows(share: float) -> float:
        rounds = max(1, math.ceil(potential / (share * alpha) ** 2))
        selection = math.sqrt(8 * family.rho / rounds)
        return 2 * (math.log(family.queries) + math.log(2 * rounds / family.beta)) / ((1 - share) * alpha * selection)

    return min(rows(share) for share in SHARES)


def monomials(family: Family, alpha: float, gamma: float = GAMMA) -> Learnt:
    """Learning in plain products of at most D columns, of least weight with error at most gamma. Mechanisms §8.3."""
    degree = least_degree(family.k, gamma)
    found = least_weight(family.k, degree, family.d, gamma)
    weight = math.inf if found is None else found.weight(family.d)
    features = subsets(family.d, degree)
    return Learnt(family.d, degree, features, weight, basis_rows(family, features, weight, alpha - gamma))


def block_basis(family: Family, alpha: float, gamma: float = GAMMA) -> Learnt | None:
    """Learning in products of block disjunctions: the best blocks and degree whose functions can be listed.

    None where every choice has more than 10^7 functions. Mechanisms §8.4.
    """
    lowest, best = least_degree(family.k, gamma), None
    for blocks in range(2, family.d + 1):
        size = math.ceil(family.d / blocks)
        for degree in range(lowest, family.k + 1):
            features = sum(math.comb(blocks, j) * (2**size - 1) ** j for j in range(1, degree + 1))
            if features > MAX_FEATURES:
                continue
            found = least_weight(family.k, degree, blocks, gamma)
            if found is None:
                continue
            weight = found.weight(blocks)
            rows = basis_rows(family, features, weight, alpha - gamma)
            if best is None or rows < best.rows:
                best = Learnt(blocks, degree, features, weight, rows)
    return best


class Direct(NamedTuple):
    """A polynomial evaluated on noisy numbers: what it is, how many numbers it needs, and the error it promises."""

    polynomial: Polynomial
    measured: int
    error: float


def monomial_coefficients(family: Family, rows: float) -> Direct:
    """Noise on all products of at most D columns, the best D: gamma + sigma ||a||_{2,k} sqrt(2 ln(2|Q| / beta)).

    Mechanisms §8.6.
    """
    tail = noise.gaussian_tail(family.queries, family.beta)

    def at(degree: int) -> Direct:
        found, measured = least_error(family.k, degree), subsets(family.d, degree)
        sigma = math.sqrt(measured / (2 * family.rho)) / rows
        return Direct(found, measured, found.error + sigma * found.amplification * tail)

    return min((at(degree) for degree in range(1, family.k + 1)), key=lambda each: each.error)


def parity_coefficients(family: Family, rows: float, degree: int | None = None) -> Direct:
    """Noise on all parities of at most D columns, precision by level: gamma + tail sum_s |c_s| sqrt(C(k,s) C(d,s)).

    The `coefficients` release. A parity moves by 2/rows where a row is replaced. Polynomial and levels minimise the sum
    of bias and noise. It also answers every disjunction and conjunction with negated columns; the tail counts all of
    them. By Parseval the noise is not amplified. The bound is for questions of exactly k columns, for which the levels
    are bought; a question about fewer columns may err more. Mechanisms §8.6.2.
    """
    degree = degree or family.k
    queries = 2 * sum(math.comb(family.d, j) * 2**j for j in range(1, family.k + 1))
    unit = 2 / math.sqrt(2 * family.rho) / rows * noise.gaussian_tail(queries, family.beta)
    levels = [unit * math.sqrt(math.comb(family.d, s)) for s in range(1, degree + 1)]
    found = least_interval(family.k, tuple(levels))
    spread = sum(abs(c) * math.sqrt(math.comb(family.k, s)) * levels[s - 1] for s, c in enumerate(found.parities) if s)
    return Direct(found, subsets(family.d, max(1, found.degree)), found.error + spread)


def measurable_degree(family: Family) -> int:
    """The most columns whose parities the release can measure, at most k; 0 where there are too many columns."""
    return max((s for s in range(1, family.k + 1) if subsets(family.d, s) <= MAX_MEASURED), default=0)


def projection_error(family: Family, rows: float) -> float:
    """The root mean squared error of a parity of one or two columns after projection; infinite for k above 2.

    Nearest point of a convex set: mean squared error <= 4 sigma w / |Q|, w the Gaussian width. For the elliptope of
    m = d + 1 rows, w <= m E[norm of a Gaussian matrix] / 2, about m^(3/2). An average, not the worst; Mechanisms §8.7.
    """
    if family.k > 2:
        return math.inf
    size = family.d + 1
    parities = math.comb(size, 2)
    sigma = 2 * math.sqrt(parities / (2 * family.rho)) / rows
    return min(sigma, math.sqrt(4 * sigma * size**1.5 / parities))


def plan_disjunctions(
    *,
    d: int,
    k: int,
    rows: int,
    epsilon: float = 1.0,
    delta: float = 1e-9,
    beta: float = 0.05,
    alpha: float | None = None,
) -> Plan:
    """What each way of answering all disjunctions of up to k of d columns promises for `rows` rows ("replace").

    With a target `alpha` it also gives the rows that each would need. Nothing is charged.

    >>> plan_disjunctions(d=100, k=4, rows=1_000_000).best.name
    'parity-coefficients'
    >>> plan_disjunctions(d=20, k=2, rows=10_000).best.name
    'parity-coefficients'
    """
    family = Family(d=d, k=k, epsilon=epsilon, delta=delta, beta=beta)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise QueryError(f"rows is {rows!r}", expected="a whole number of at least 1")
    if alpha is not None and not 0 < alpha < 1:
        raise QueryError(f"alpha is {alpha!r}", expected="a fraction of rows between 0 and 1, such as 0.05, or None")
    question = Question(
        rows=rows,
        universe=2**d,
        queries=family.queries,
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        relation="replace",
    )
    return Plan(question=question, alpha=alpha, promises=tuple(_promises(family, rows, alpha)))


def _promises(family: Family, rows: int, alpha: float | None) -> list[Promise]:
    block = _error_of(lambda a: _block_rows(family, a), rows, least=GAMMA)
    measurable = measurable_degree(family)

    def parity(n: float) -> Direct:
        return parity_coefficients(family, n, max(1, measurable))

    def promise(named: tuple[str, str], error: float, needed: float, obstacle: str | None, reference: str) -> Promise:
        target = None if alpha is None or not needed < MOST else math.ceil(needed)
        return Promise(
            name=named[0],
            title=named[1],
            error=error,
            accounting="zcdp",
            obstacle=obstacle,
            rows_needed=target,
            reference=reference,
        )

    goal = alpha or 0.5
    return [
        promise(
            ("gaussian", "Gaussian noise on each query"),
            gaussian_rows(family, 1.0) / rows,
            gaussian_rows(family, goal),
            _over("queries", family.queries, MAX_STREAMED),
            "Mechanisms §1.2",
        ),
        promise(
            ("weights", "Multiplicative weights over 2^d cells"),
            _error_of(lambda a: weights_rows(family, a), rows),
            weights_rows(family, goal),
            _over("cells", 2**family.d, MAX_CELLS),
            "Mechanisms §5.3",
        ),
        promise(
            ("block-basis", "Multiplicative weights over a block basis"),
            block,
            _block_rows(family, goal) if goal > GAMMA else math.inf,
            None if family.d <= MAX_BLOCK_D and family.k <= MAX_BLOCK_K else "a demonstrator: d <= 20, k <= 3",
            "Mechanisms §8.5",
        ),
        promise(
            ("monomial-coefficients", "Noise on products of few columns"),
            monomial_coefficients(family, rows).error,
            _rows_for(lambda n: monomial_coefficients(family, n).error, goal),
            "parities of the same columns err less",
            "Mechanisms §8.6",
        ),
        promise(
            ("parity-coefficients", "Noise on parities of few columns"),
            parity(rows).error,
            _rows_for(lambda n: parity(n).error, goal),
            _parity_obstacle(family, parity(rows)),
            "Mechanisms §8.6.2, for questions of exactly k columns",
        ),
        promise(
            ("projection", "Projection of noisy pairs"),
            projection_error(family, rows),
            math.inf if family.k > 2 else _rows_for(lambda n: projection_error(family, n), goal),
            "no constants for k > 2" if family.k > 2 else "an average over parities, not the worst",
            "Mechanisms §8.7",
        ),
        promise(("graphical", "Graphical model"), math.inf, math.inf, "measured, no theorem", "benchmarks"),
    ]


def _parity_obstacle(family: Family, found: Direct) -> str | None:
    if not measurable_degree(family):
        return f"columns: {family.d:,}, at most {MAX_MEASURED:,}"
    return None if found.polynomial.degree else "promises nothing"


@cache
def _block_rows(family: Family, alpha: float) -> float:
    found = block_basis(family, alpha)
    return math.inf if found is None else found.rows


def _error_of(needed: Callable[[float], float], rows: float, least: float = 0.0) -> float:
    """The alpha for which `needed` gives these rows; infinite where even alpha = 1 needs more."""
    if needed(1.0) > rows:
        return math.inf
    low, high = least, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= rows else (middle, high)
    return high


def _rows_for(error: Callable[[float], float], alpha: float) -> float:
    """The least rows, to a part in a thousand, at which an error falls to alpha; infinite if it never does."""
    low, high = FEWEST, MOST
    if error(high) > alpha:
        return math.inf
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= alpha else (middle, high)
    return high


def _over(what: str, size: int, most: int) -> str | None:
    return f"{what}: {magnitude(size)}, at most {magnitude(most)}" if size > most else None
