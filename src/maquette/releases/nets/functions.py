"""Arbitrary functions of a small table: the Net mechanism, and the iterative construction with the median of a net.

Functions are `LowSensitivityQuery`s, candidates a public `Net`. The doors see each function as a `Statistic`, a number
that one row moves by at most one; everything else here is public. Small universes and small nets only: functions are
evaluated on every candidate, and a net fine enough for all functions is about as large as the set of all tables.
Reference: Dwork and Roth 2014, algorithms 7 to 9; Mechanisms §3.1, §4.4, §5.1, §9.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maquette.answers import Answer, Source
from maquette.curator import Curator, Mechanism
from maquette.errors import QueryError
from maquette.estimates import NoEvidence, units_for
from maquette.hypothesis import Median, WeightedRecords
from maquette.privacy import Loss
from maquette.query import FINE, LowSensitivityQuery, Marginal, Statistic
from maquette.releases.artifact import Certificate, Release, certified
from maquette.releases.nets.candidates import Net, refuse_entries
from maquette.releases.nets.net import check_net, selection_strength

ROWS_SHARE = 0.05  # share of the price for an estimate of the number of rows where it is private
SHARES = [i / 20 for i in range(1, 20)]  # shares of a round that are tried for its selection
FINER = 1 + 1e-3  # factor by which the resolution of updates is coarser than the noise and the net

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FunctionRelease:
    """Answers to functions by name, their model, and the theorem: all within `alpha` with probability 1 - `beta`."""

    answers: dict[str, Answer]
    model: Median
    alpha: float
    beta: float
    updates: int
    certificate: Certificate
    rows: float

    def __getitem__(self, name: str) -> Answer:
        return self.answers[name]

    def __repr__(self) -> str:
        return f"FunctionRelease({len(self.answers)} functions within {self.alpha:.3g}, {self.updates} updates)"


def net_of_functions(
    curator: Curator,
    functions: Sequence[LowSensitivityQuery],
    net: Net,
    *,
    mechanism: Mechanism = "auto",
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """The candidate that answers the functions most like the table; `net_mechanism` for functions.

    Errors are compared in units of the largest declared sensitivity D (times the rows of one unit). Privacy: one
    `Curator.select_best`, and where the number of rows is private a twentieth of the price for an estimate of it.
    Accuracy: with probability 1 - beta the largest error is at most OPT + 2 D (ln |net| + ln 1/beta) / epsilon; the
    certificate states what is beyond OPT. mechanism="exponential" is algorithm 7 to the letter, also under a pure
    budget, where "auto" takes permute-and-flip. The release models the whole table; a function of it is
    `function(release.marginal(*schema.names))`.
    """
    check_net(curator, net, mechanism, beta)
    setting = _prepare(curator, functions, net, epsilon, rho)
    table = np.stack([[f(histogram) for histogram in setting.histograms] for f in functions], axis=1)
    with curator.account("functions by a net") as account:
        statistics = setting.bought()
        unit = statistics[0].unit
        chosen = curator.select_best(statistics, table / unit, units=setting.left, mechanism=mechanism)
    records, shares = net[chosen.index]
    model = WeightedRecords(curator.schema, records, weights=shares, step="exact")
    strength = selection_strength(curator, mechanism, setting.left)
    # On the grid of 1/FINE, rounding moves both scores by at most a step.
    beyond = (2 * curator.relation.max_contributions * math.log(len(net) / beta) / strength + 2 / FINE) * unit
    promise = f"every function at most {beyond:.4g} beyond the best candidate with probability {1 - beta:.3g}"
    useful = beyond < max(f.high - f.low for f in functions)
    method = f"functions by a net of {net.made}"
    certificate = certified(curator, method, account, accuracy=promise if useful else None)
    return Release(curator.schema, model, NoEvidence(setting.rows), certificate)


def construct_functions(
    curator: Curator,
    functions: Sequence[LowSensitivityQuery],
    net: Net,
    *,
    tolerance: float = 0.0,
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> FunctionRelease:
    """Iterative construction with the median of a net: find the worst function, measure it, halve the net.

    Privacy: at most T = floor(log2 |net|) rounds of one `select_worst` and one `measure`, charged as they happen, and
    where the number of rows is private a twentieth of the price for an estimate of it. Accuracy: if for every table
    some candidate is within `tolerance` of it on all functions, then with probability 1 - beta every answer is within
    alpha = a' + 2 Nb + F of the function of the table's counts / rows, the resolution a' just above both tolerance and
    the noise Nb of measurements, F the error of selections. A promise as wide as the range is refused beforehand.
    """
    if not 0 < beta < 1 or not 0 <= tolerance < math.inf:
        raise QueryError(
            f"got beta={beta} and tolerance={tolerance}", expected="0 < beta < 1 and a tolerance of 0 or more"
        )
    setting = _prepare(curator, functions, net, epsilon, rho)
    ranges = max(f.high - f.low for f in functions)
    for function in functions:
        for histogram in setting.histograms:
            function(histogram)  # a function that fails on a candidate fails here, before anything is charged
    with curator.account("functions by the median of a net") as account:
        statistics = setting.bought()
        unit, rounds = statistics[0].unit, max(1, len(net).bit_length() - 1)
        plan = _plan(curator, setting, rounds, tolerance, beta, unit)
        if plan.alpha >= ranges:
            left = curator.budget.accountant.loss(int(setting.left), curator.budget.delta)
            raise QueryError(
                f"with epsilon {left.epsilon:.3g} and sensitivity {setting.sensitivity:.3g} the theorem promises an "
                f"error of {plan.alpha:.3g} on a range of {ranges:.3g}, which says nothing",
                advice="it takes a smaller sensitivity (more rows), more budget or a smaller net",
            )
        model = median_of(curator, setting.histograms, plan.resolution, tolerance)
        updates = 0
        for _ in range(rounds):
            public = [statistic.public(model.answer(f)) for f, statistic in zip(functions, statistics, strict=True)]
            worst = curator.select_worst(statistics, public, units=plan.select).index
            noisy = float(curator.measure(statistics[worst], units=plan.measure).values) * unit
            if abs(noisy - model.answer(functions[worst])) < plan.threshold:
                break
            model.update(functions[worst], noisy)
            updates += 1
    promise = f"every function within {plan.alpha:.4g} with probability {1 - beta:.3g}"
    certificate = certified(curator, "functions by the median of a net", account, accuracy=promise)
    answers = {
        f.name: within(f, model.answer(f), plan.alpha, confidence=1 - beta, cost=account.loss, promise=promise)
        for f in functions
    }
    return FunctionRelease(
        answers=answers,
        model=model,
        alpha=plan.alpha,
        beta=beta,
        updates=updates,
        certificate=certificate,
        rows=setting.rows,
    )


@dataclass(frozen=True)
class _Plan:
    alpha: float
    resolution: float
    threshold: float
    select: int
    measure: int


def _plan(  # noqa: PLR0917 -- the letters of the theorem
    curator: Curator, setting: _Setting, rounds: int, tolerance: float, beta: float, unit: float
) -> _Plan:
    """The split of a round with the least alpha, from the noise that the doors will really add.

    An update needs |v - f(D)| >= a' + Nb, so the error is at least a'; a stop leaves at most a' + 2 Nb + F.
    """
    accountant, moves = curator.budget.accountant, curator.relation.max_contributions * FINE
    failure, found = beta / (2 * rounds), list[_Plan]()
    for share in SHARES:
        select, measure = (int(part * setting.left / rounds) for part in (share, 1 - share))
        if accountant.currency == "pure":
            noise = float(accountant.laplace_scale(measure, Fraction(moves))) * math.log(1 / failure) + 1
            strength = accountant.pure_epsilon(select)
        else:
            noise = math.sqrt(2 * accountant.gaussian_variance(measure, Fraction(moves) ** 2) * math.log(2 / failure))
            strength = accountant.selection_epsilon(select)
        # On the grid of 1/FINE, rounding moves a value and a public answer by half a step each.
        width = (noise + 1) * unit / FINE
        choice = (2 * moves / strength * math.log(len(setting.functions) / failure) + 2) * unit / FINE
        resolution = FINER * max(width, tolerance) + 1e-8
        found.append(_Plan(resolution + 2 * width + choice, resolution, resolution + width, select, measure))
    return min(found, key=lambda plan: plan.alpha)


def median_of(curator: Curator, histograms: Values, resolution: float, tolerance: float) -> Median:
    """The whole net, nothing removed. A median takes fractions; its steps do not depend on the last two arguments."""
    alpha = min(1.0, resolution)
    return Median(
        curator.schema, histograms.reshape(len(histograms), -1), alpha=alpha, tolerance=min(tolerance, alpha / 2)
    )


def within(
    function: LowSensitivityQuery,
    value: float,
    error: float,
    *,
    confidence: float,
    cost: Loss,
    promise: str | None,
    source: Source = "hypothesis",
) -> Answer:
    """An answer with the interval that a theorem gives it, within the function's range."""
    return Answer(
        value=value,
        low=max(function.low, value - error),
        high=min(function.high, value + error),
        confidence=confidence,
        count=None,
        source=source,
        cost=cost,
        guarantee=promise,
        bound="logical" if promise is None else "measured",
    )


class _Setting:
    """The start of both mechanisms; `bought` buys the row count where it is private, and makes the questions."""

    def __init__(
        self, curator: Curator, functions: Sequence[LowSensitivityQuery], histograms: Values, units: int
    ) -> None:
        self.curator = curator
        self.functions = functions
        self.histograms = histograms
        self.sensitivity = max(f.sensitivity for f in functions)
        self.left = units
        self.rows = 1.0
        for f in functions:  # a function that cannot be asked is refused here, before the rows are counted
            Statistic(curator.schema, f, rows=1.0, sensitivity=self.sensitivity)

    def bought(self) -> list[Statistic]:
        """The functions as questions, in units of the largest sensitivity."""
        if self.curator.relation.rows_are_public:
            self.rows = self.curator.count_rows()
        else:
            counted = self.curator.measure(Marginal(self.curator.schema), units=int(ROWS_SHARE * self.left))
            self.rows, self.left = max(1.0, float(counted.values)), self.left - counted.cost.units
        return [Statistic(self.curator.schema, f, rows=self.rows, sensitivity=self.sensitivity) for f in self.functions]


def _prepare(
    curator: Curator,
    functions: Sequence[LowSensitivityQuery],
    net: Net,
    epsilon: float | None,
    rho: float | None,
) -> _Setting:
    """Check the public arguments."""
    names = [f.name for f in functions if isinstance(f, LowSensitivityQuery)]
    if not len(functions) or len(set(names)) < len(functions):
        raise QueryError(
            "the functions are not a list, are no LowSensitivityQuery or share a name",
            expected="a list of LowSensitivityQuery with different names, at least one",
        )
    if net.schema != curator.schema:
        raise QueryError("the net was built for another schema", advice="build it from curator.schema")
    refuse_entries(len(net), len(functions), "answers")
    return _Setting(curator, functions, histograms_of(net), units_for(curator, epsilon, rho))


def histograms_of(net: Net) -> Values:
    """Every candidate as a histogram with one axis per column."""
    schema = net.schema
    refuse_entries(len(net), schema.size, "cells")
    shape = schema.shape(schema.names)
    cell = np.ravel_multi_index(tuple(net.points.T), shape)
    at = sparse.csr_array((np.ones(len(cell)), (np.arange(len(cell)), cell)), shape=(len(cell), schema.size))
    return np.asarray((net.weights @ at).toarray()).reshape(len(net), *shape)
