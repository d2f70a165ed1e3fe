"""Coefficients: parities of at most D yes/no columns, which answer "any of these k" and "all of these k" for k above D.

OR of k literals is within gamma of a polynomial of degree D in them (`theory.polynomial`), and such a polynomial is a
combination of parities of at most D columns. So C(d, <= D) numbers answer all disjunctions and conjunctions of up to k
literals out of d columns, of either sign, with a bias of at most gamma and noise that the combination hardly amplifies:
by Parseval the squared coefficients sum to at most about 2^-k + gamma^2. Products of attributes in place of parities
would amplify it by 9 to 27 for k = 10.

Privacy: `Curator.measure_many` of signed sums, each moved by 1 by an added or removed row and by 2 by a replaced one;
where the number of rows is private, a share of the price buys an estimate. All else is post-processing, and the
polynomial is chosen from public numbers and the row estimate. Accuracy: an answer is within gamma + noise, both in its
interval; the noise has standard deviation sqrt(sum_S c_S^2 sigma_S^2). One linear program balances the two and decides
which levels are worth measuring, and how precisely. Reference: the polynomial view is Hardt, Rothblum and Servedio 2012
and Thaler, Ullman and Vadhan 2012; Mechanisms §8.6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import Estimate, spread, units_for
from maquette.hypothesis import Arrays, saving
from maquette.privacy import DiscreteGaussian
from maquette.query import (
    Combinations,
    LinearQuery,
    Literals,
    Marginal,
    Parities,
    Workload,
    literals_in,
    parities_of,
    table_of_parities,
    two_level_columns,
)
from maquette.releases.artifact import Release, certified
from maquette.releases.classes.moments import two_level
from maquette.schema import Schema
from maquette.theory.polynomial import Polynomial, least_interval

Values = NDArray[np.float64]

MAX_SETS = 5_000_000  # maximum number of parities: minutes and some hundred megabytes
FEW_SETS = 500_000  # maximum number of parities if the degree is chosen here: seconds
MAX_K = 20
ROWS_SHARE = 0.05  # share of the price for the number of rows where it is private
DEVIATIONS = 2.0  # standard deviations of noise that are balanced with the bias of a polynomial
FLOOR = 0.1  # share of the price spread equally over all levels, for questions of other sizes than k


@dataclass(frozen=True)
class BiasedEstimate(Estimate):
    """An estimate of a polynomial that is within `gamma` of the question on every row, so within gamma * rows of it."""

    gamma: float = 0.0
    rows: Estimate | None = None

    def half_width(self, confidence: float) -> float:
        """Noise plus bias; the number of rows bounds the bias, and its interval has half the failure probability."""
        if self.rows is None or not self.rows.deviation:
            return super().half_width(confidence) + self.gamma * (0.0 if self.rows is None else self.rows.total)
        each = (1 + confidence) / 2
        return super().half_width(each) + self.gamma * (self.rows.total + self.rows.half_width(each))


class Spectrum(NamedTuple):
    """For each level s, the coefficients of all s-subsets of some columns (in lexicographic order); and the bias."""

    levels: tuple[Values, ...]
    gamma: float


@dataclass(frozen=True, eq=False, repr=False)
class ParityAnswers:
    """Noisy parities of up to D of some two-level columns, as model and evidence at once.

    `levels[s]` holds the parities (in counts) of all s-subsets of `columns`, in lexicographic order, each with noise of
    variance `variances[s]`; level 0 is the number of rows. Everything here is post-processing: asking costs nothing.
    """

    kind: ClassVar[str] = "parity-answers"
    schema: Schema
    columns: tuple[str, ...]
    k: int
    levels: tuple[Values, ...]
    variances: tuple[float, ...]
    gaussian: bool

    @property
    def degree(self) -> int:
        """D: the maximum number of columns of a measured parity."""
        return len(self.levels) - 1

    @property
    def rows(self) -> float:
        """The estimated number of rows, at least one."""
        return max(1.0, float(self.levels[0][0]))

    def polynomial(self, size: int) -> Polynomial:
        """The polynomial that answers disjunctions and conjunctions of `size` literals."""
        known = self._polynomials.get(size)
        if known is None:
            noise = tuple(DEVIATIONS * math.sqrt(variance) / self.rows for variance in self.variances[1:])
            known = self._polynomials[size] = least_interval(size, noise)
        return known

    @cached_property
    def _polynomials(self) -> dict[int, Polynomial]:
        return {}

    def covers(self, columns: Sequence[str]) -> bool:
        """Whether questions about these columns can be answered: all were measured, and they are not too many."""
        return len(columns) <= max(self.k, self.degree) and set(columns) <= set(self.columns)

    def answer(self, query: LinearQuery) -> float:
        """The estimate, as a fraction of the estimated rows."""
        if query.schema != self.schema:
            raise QueryError("the query was built for another schema", advice="build it from the model's schema")
        self._check(query.columns)
        return self.estimate(query.weights(query.columns), query.columns).total / self.rows

    def estimate(self, weights: Values, columns: tuple[str, ...]) -> Estimate:
        """The total of `any` or `all` of some literals, or of any weights over at most D columns."""
        self._check(columns)
        found = self._spectrum(weights, columns)
        places = np.array([self.columns.index(name) for name in columns], dtype=np.int64)
        total = variance = largest = 0.0
        for s, coefficients in enumerate(found.levels):
            values = self.levels[s][_ranks(places, s, len(self.columns))]
            total += float(coefficients @ values)
            variance += float((coefficients**2).sum()) * self.variances[s]
            largest = max(largest, float(np.abs(coefficients).max(initial=0.0)) * math.sqrt(self.variances[s]))
        noise = (total, math.sqrt(variance), largest, self.gaussian)
        return Estimate(*noise) if not found.gamma else BiasedEstimate(*noise, found.gamma, self._rows_estimate)

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of at most D columns: noisy ones, negative ones set to zero, normalised."""
        names = tuple(columns)
        self._check(names)
        if len(names) > self.degree or len(set(names)) < len(names):
            raise QueryError(
                f"got the columns {', '.join(names)}",
                expected=f"at most {self.degree} different ones, the tables that this release knows",
                advice="ask for a disjunction or conjunction of them, or release with a larger degree",
            )
        parities = np.zeros((2,) * len(names))
        for s in range(len(names) + 1):
            for chosen in itertools.combinations(range(len(names)), s):
                places = np.sort([self.columns.index(names[i]) for i in chosen]).astype(np.int64)
                parities[tuple(int(i in chosen) for i in range(len(names)))] = self.levels[s][
                    _ranks(places, s, len(self.columns))
                ].item()
        counts = np.maximum(table_of_parities(parities), 0.0)
        total = float(counts.sum())
        return counts / total if total > 0 else np.full(counts.shape, 1.0 / counts.size)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Not possible: parities of few columns are not a distribution over records."""
        raise QueryError(
            "noisy parities cannot be sampled: they describe no common set of rows",
            advice='release the workload with method="graphical" for synthetic rows',
        )

    def facts(self) -> dict[str, Any]:
        """The columns, and the law of the noise."""
        facts = {"columns": list(self.columns), "k": self.k, "variances": list(self.variances)}
        return {"gaussian": self.gaussian, **facts}

    def arrays(self) -> Arrays:
        """The parities, level by level."""
        return {str(i): level for i, level in enumerate(self.levels)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The parities that `facts` and `arrays` describe."""
        columns, k, sizes = two_level(schema, facts["columns"]), int(facts["k"]), range(len(facts["variances"]))
        if not 1 <= k <= len(columns) or not 1 <= len(sizes) <= len(columns) + 1:
            raise saving.unfit("parities are over more columns than there are")
        variances = tuple(saving.number({"variance": variance}, "variance") for variance in facts["variances"])
        if min(variances) < 0:
            raise saving.unfit("variances of the parities are not numbers")
        levels = tuple(saving.array(arrays, str(i), [math.comb(len(columns), i)]) for i in sizes)
        return cls(schema, columns, k, levels, variances, bool(facts["gaussian"]))

    @cached_property
    def _rows_estimate(self) -> Estimate:
        deviation = math.sqrt(self.variances[0])
        return Estimate(self.rows, deviation, deviation, self.gaussian)

    def _spectrum(self, weights: Values, columns: tuple[str, ...]) -> Spectrum:
        literals = literals_in(weights, columns)
        if literals is not None:
            return _of_literals(literals, self.polynomial(len(columns)))
        if len(columns) > self.degree:
            raise QueryError(
                f"the question about {len(columns)} columns is of another kind",
                expected="`a OR b OR ...` or `a AND b AND ...` of literals, or any question about at most "
                f"{self.degree} columns",
                advice="Ask it in parts, or release marginals",
            )
        every = parities_of(weights) / weights.size
        return Spectrum(tuple(_by_level(every, s) for s in range(len(columns) + 1)), 0.0)

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            self.schema.position(name)
            if name not in self.columns:
                raise QueryError(f"column {name!r} was not measured", advice=f"columns are {_shown(self.columns)}")
        if not self.covers(columns):
            raise QueryError(
                f"the question is about {len(columns)} columns",
                expected=f"at most {max(self.k, self.degree)}, which this release can answer",
                advice="release disjunctions of more",
            )

    def __repr__(self) -> str:
        return f"ParityAnswers({len(self.columns)} columns, degree {self.degree}, k = {self.k})"


def coefficients(
    curator: Curator,
    workload: Workload,
    *,
    degree: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """Disjunctions and conjunctions of up to k literals from parities of at most `degree` columns.

    `workload` is made by `disjunctions` or `conjunctions` of two-level columns; it gives the columns and k, and its
    signs do not matter. Without `degree`, bias and noise are balanced over at most 500,000 parities; a larger degree
    takes longer. Privacy and accuracy: see the module.
    """
    names, k, limit = _check_workload(curator, workload, degree)
    with curator.account("coefficients") as account:
        units = units_for(curator, epsilon, rho)
        count_variance = 0.0
        if curator.relation.rows_are_public:
            rows = curator.count_rows()
        else:
            counted = curator.measure(Marginal(curator.schema), units=int(ROWS_SHARE * units))
            rows, count_variance = float(counted.values), spread(counted) ** 2
            units -= counted.cost.units
        shares = _allocate(curator, names, k, limit=limit, units=units, rows=max(1.0, rows))
        questions = [Parities(curator.schema, names, level) for level in range(1, len(shares) + 1)]
        measured = curator.measure_many(questions, shares=shares, units=units)
    levels = (np.array([rows]), *(measurement.values for measurement in measured))
    variances = (count_variance, *(spread(measurement) ** 2 for measurement in measured))
    gaussian = isinstance(measured[0].event, DiscreteGaussian)
    model = ParityAnswers(curator.schema, names, k, levels, variances, gaussian)
    certificate = certified(curator, "coefficients", account, accuracy=_promise(model))
    return Release(curator.schema, model, model, certificate)


def largest_degree(columns: int, k: int, most: int = MAX_SETS) -> int:
    """The largest degree, at most k, with at most `most` parities."""
    total, degree = 0, 0
    while degree < k and (total := total + math.comb(columns, degree + 1)) <= most:
        degree += 1
    return degree


def _check_workload(curator: Curator, workload: Workload, degree: int | None) -> tuple[tuple[str, ...], int, int]:
    """The columns, k and the largest degree to use; refused before anything is charged."""
    if workload.schema != curator.schema:
        raise QueryError("the workload was built for another schema", advice="build it from curator.schema")
    if not isinstance(workload, Combinations):
        raise QueryError(
            f"the workload is {workload!r}",
            expected="a workload made by disjunctions or conjunctions",
            advice='release marginals with method="auto"',
        )
    names = tuple(sorted(two_level_columns(curator.schema, workload.columns), key=curator.schema.position))
    if workload.k > MAX_K:
        raise QueryError(f"disjunctions of {workload.k} literals are more than the {MAX_K} that can be answered")
    limit = largest_degree(len(names), workload.k)
    if limit == 0:
        raise QueryError(
            f"{len(names):,} columns are more than the {MAX_SETS:,} that can be measured", advice="use fewer"
        )
    if degree is None:
        return names, workload.k, max(1, largest_degree(len(names), workload.k, FEW_SETS))
    if isinstance(degree, bool) or not isinstance(degree, int) or not 1 <= degree <= limit:
        raise QueryError(
            f"degree is {degree!r}",
            expected=f"a whole number from 1 to {limit} for {workload.k} of {len(names)} columns "
            f"(at most {MAX_SETS:,} parities)",
            advice="leave it out to have it chosen",
        )
    return names, workload.k, degree


def _allocate(curator: Curator, names: Sequence[str], k: int, *, limit: int, units: int, rows: float) -> list[float]:
    """The share of the price for each level 1..D: the one that a linear program finds best for k literals.

    Gaussian: with a share x_s for all C(d, s) parities of level s, the variance is sum_s b_s^2 C(d, s) / x_s with b_s =
    sqrt(C(k, s)) c_s. It is least for x_s in proportion to |b_s| sqrt(C(d, s)); the standard deviation is then the sum
    of those, which is linear. Laplace: every parity gets the same share, and degrees are tried in turn.
    """
    accountant, contrasts = curator.budget.accountant, Parities(curator.schema, names[:1], 1)
    counts = np.array([math.comb(len(names), s) for s in range(1, limit + 1)], dtype=np.float64)
    if accountant.currency == "pure":
        scale = float(accountant.laplace_scale(units, Fraction(curator.relation.l1(contrasts))))
        each = DEVIATIONS * math.sqrt(2) * scale / rows
        widths = []
        for degree in range(1, limit + 1):
            noise = each * float(counts[:degree].sum())
            tried = least_interval(k, (noise,) * degree)
            widths.append(tried.error + noise * _size(tried))
        return [float(count) for count in counts[: int(np.argmin(widths)) + 1]]
    variance = float(accountant.gaussian_variance(units, Fraction(curator.relation.l2_squared(contrasts))))
    deviations = DEVIATIONS * math.sqrt(variance) / rows * np.sqrt(counts)
    found = least_interval(k, tuple(deviations.tolist()))
    degree = max(1, found.degree)
    spectrum = np.zeros(degree)
    spectrum[: found.degree] = np.abs(found.parities[1:])
    best_shares = spectrum * np.sqrt([math.comb(k, s) * counts[s - 1] for s in range(1, degree + 1)])
    total = float(best_shares.sum()) or 1.0
    return [float((1 - FLOOR) * share / total + FLOOR / degree) for share in best_shares]


def _size(polynomial: Polynomial) -> float:
    """sum_s sqrt(C(k, s)) |c_s| over s >= 1."""
    spectrum = enumerate(polynomial.parities)
    return float(sum(math.sqrt(math.comb(polynomial.k, s)) * abs(c) for s, c in spectrum if s))


def _promise(model: ParityAnswers) -> str:
    found = model.polynomial(model.k)
    variance = sum(math.comb(model.k, s) * c**2 * model.variances[s] for s, c in enumerate(found.parities) if s)
    return (
        f"any or all of {model.k} literals: bias of at most {round(found.error, 9):.3g} and noise of deviation "
        f"{math.sqrt(variance) / model.rows:.3g}, as fractions of rows"
    )


def _of_literals(literals: Literals, polynomial: Polynomial) -> Spectrum:
    """The parities' coefficients of r(number of literals that hold), or of one minus that of their opposites."""
    held = literals if literals.join == "any" else literals.dual
    signs = np.array([1.0 if level else -1.0 for level in held.levels])
    levels = []
    for s, c in enumerate(polynomial.parities):
        products = np.ones(1) if s == 0 else signs[_combinations(len(signs), s)].prod(axis=1)
        levels.append(c * products)
    if literals.join == "all":
        levels = [-level for level in levels]
        levels[0] = levels[0] + 1.0
    return Spectrum(tuple(levels), polynomial.error)


def _by_level(every: Values, s: int) -> Values:
    """The entries of a 2 x ... x 2 array whose index has s ones, in lexicographic order of their places."""
    index = np.zeros((math.comb(every.ndim, s), every.ndim), dtype=np.int64)
    np.put_along_axis(index, _combinations(every.ndim, s), 1, axis=1)
    return np.asarray(every[tuple(index.T)]).reshape(-1)


def _combinations(size: int, s: int) -> NDArray[np.int64]:
    return np.array(list(itertools.combinations(range(size), s)), dtype=np.int64).reshape(math.comb(size, s), s)


def _ranks(places: NDArray[np.int64], s: int, size: int) -> NDArray[np.int64]:
    """Where the s-subsets of some sorted places stand among all s-subsets of 0..size-1, both in lexicographic order."""
    chosen = places[_combinations(len(places), s)]
    after = np.zeros(len(chosen), dtype=np.int64)
    for j in range(s):
        table = np.array([math.comb(size - 1 - place, s - j) for place in range(size)], dtype=np.int64)
        after += table[chosen[:, j]]
    return math.comb(size, s) - 1 - after


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
