"""Net mechanism and SmallDB: choose, privately, the public candidate dataset that answers most like the table.

A net is a public list of candidates, fixed without looking at the rows. One private selection scores each candidate
by minus its largest error on the workload and picks one; everything the pick answers afterwards is post-processing.
mechanism="exponential" selects by the exponential mechanism: algorithm 7 to the letter. The default, "auto", takes
permute-and-flip under a pure budget, which never errs more in expectation at the same price, and the exponential
mechanism under any other, where it costs less.

Privacy: one `Curator.select_best` (one per step of `local_search`); where the number of rows is private, a tenth of
the price measures it first, and candidates are scaled to that public estimate. Accuracy: with
probability 1 - beta the largest error, as a fraction of n rows, is at most

    OPT + 2 D (ln |net| + ln 1/beta) / (epsilon n)

where OPT is the error of the best candidate and D the maximum rows of one unit, plus one row for rounding at the wall
and the error of the row count where that is private. The certificate states it, with OPT's bound where the net has one
(`Net.opt_for`). Reference: Blum, Ligett and Roth 2008; Dwork and Roth 2014, algorithm 7 and proposition 5.2;
Mechanisms §3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from maquette.curator import Curator, Mechanism, ScopedAccount
from maquette.errors import BudgetError, QueryError
from maquette.estimates import NoEvidence, units_for
from maquette.hypothesis import WeightedRecords
from maquette.query import Expression, LinearQuery, Marginal, Workload, queries
from maquette.releases.artifact import Release, certified
from maquette.releases.nets.candidates import (
    MAX_CANDIDATES,
    Net,
    Records,
    Values,
    check_counts,
    check_records,
    enumerable,
    random_records,
    refuse_entries,
    refuse_large,
    universe,
)
from maquette.schema import Schema

__all__ = ["Net", "error_bound", "local_search", "net_mechanism", "rows_for", "small_db"]

ROWS_SHARE = Fraction(1, 10)  # share of the price for the number of rows where it is private
ROWS_DOUBT = 0.1  # share of beta for an error of this number of more than its part of the promise
SELECTIONS: tuple[Mechanism, ...] = ("auto", "exponential", "permute-and-flip")

Asked = Workload | Sequence[LinearQuery | Expression | str]


def net_mechanism(
    curator: Curator,
    workload: Asked,
    net: Net,
    *,
    mechanism: Mechanism = "auto",
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """The candidate of a public net that errs least on the workload, for `epsilon` or `rho` (default: what remains).

    Privacy and accuracy: see the module; one selection for any number of queries. Without an OPT the certificate says
    how far the chosen candidate is, with probability 1 - beta, from the best one.
    """
    check_net(curator, net, mechanism, beta)
    asked = _listed(curator, workload)
    answers = net.answers(asked)
    with curator.account("net mechanism") as account:
        search = _Search(curator, asked, epsilon, rho, mechanism=mechanism, beta=beta)
        promise = search.promise(net)
        chosen = net[search.best(answers)]
    return search.release(*chosen, f"net of {net.made}", account, promise)


def small_db(
    curator: Curator,
    workload: Asked,
    *,
    alpha: float | None = None,
    rows: int | None = None,
    mechanism: Mechanism = "auto",
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """The Net mechanism over all small databases: multisets of m rows.

    m is `rows`, or the fewest rows that come within `alpha` of any table on the workload, or (default) the number that
    minimises the error bound at confidence 1 - beta among those that can be listed.

    Privacy and accuracy: see the module, with OPT bounded by `Net.opt`. Reference: Mechanisms §3.2-3.3.
    """
    asked = _listed(curator, workload)
    if rows is not None and alpha is not None:
        raise QueryError(f"got rows={rows} and alpha={alpha}", advice="give one of them, or neither to choose")
    check_net(curator, None, mechanism, beta)
    fixed = rows_for(len(asked), alpha) if alpha is not None else rows
    refuse_large(curator.schema, 1 if fixed is None else fixed, len(asked))
    with curator.account("small-db") as account:
        search = _Search(curator, asked, epsilon, rho, mechanism=mechanism, beta=beta)
        net = Net.small_databases(curator.schema, _best_rows(search) if fixed is None else fixed)
        promise = search.promise(net)
        chosen = net[search.best(net.answers(asked))]
    return search.release(*chosen, f"net of {net.made}", account, promise)


def local_search(
    curator: Curator,
    workload: Asked,
    start: NDArray[np.integer[Any]],
    steps: int,
    *,
    neighbours: int | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """Private local search: from a public dataset `start`, each step picks among single-row swaps of the current one.

    A neighbourhood is every swap of one row for one point of the universe, or staying and `neighbours` random swaps by
    the public coins of `rng`. The price is annealed: step t of S gets a share proportional to t.

    Privacy: `steps` selections whose candidates depend on public coins and earlier choices only; the ledger adds them
    up. `start` and `rng` must not depend on the rows. Accuracy: heuristic, no bound. Mechanisms §3.4.3.

    There is no Markov chain here, on purpose. The state of a chain that converges to the exponential mechanism is not
    epsilon-DP before it has converged, and no usable bound says when that is: started at the rows themselves, a
    Metropolis chain aimed at epsilon 1 has delta 0.84 at epsilon 1 after one step. Mechanisms §3.4.4.
    """
    asked = _listed(curator, workload)
    current = check_records(curator.schema, start).copy()
    check_counts(steps=steps)
    swaps = _Swaps(curator.schema, asked, len(current), neighbours, rng)
    with curator.account("local search") as account:
        search = _Search(curator, asked, epsilon, rho, shares=range(1, steps + 1))
        values = _evaluate(asked, current)
        for _ in range(steps):
            places, records, replaced = swaps.draw(current, values)
            best = search.best((values.sum(axis=0) - values[places] + replaced) / len(current))
            current[places[best]], values[places[best]] = records[best], replaced[best]
    return search.release(current, np.full(len(current), 1 / len(current)), f"local search of {steps} steps", account)


def rows_for(queries: int, alpha: float) -> int:
    """The least m such that some multiset of m rows is within `alpha` of any table: 2 queries exp(-2 m alpha^2) < 1."""
    if not 0 < alpha < 1:
        raise QueryError(f"alpha is {alpha}", expected="a fraction of rows between 0 and 1")
    return math.floor(math.log(2 * queries) / (2 * alpha**2)) + 1


def error_bound(
    points: int, queries: int, rows: ArrayLike, *, table_rows: float, epsilon: float, beta: float
) -> Values:
    """The error that SmallDB with databases of `rows` rows exceeds with probability at most beta; one unit is one row.

    Reference: Mechanisms §3.3, with C(points + rows - 1, rows) multisets.
    """
    m = np.asarray(rows, dtype=np.float64)
    log_size = gammaln(points + m) - gammaln(m + 1) - gammaln(points)
    selection = 2 * (log_size + math.log(1 / beta)) / (epsilon * table_rows)
    bound: Values = np.sqrt(math.log(2 * queries) / (2 * m)) + selection
    return bound


class _Search:
    """A row count and one or more selections, priced beforehand; the constructor buys the count, after all checks.

    The price is split in the budget's own currency, in which charges add up.
    """

    def __init__(
        self,
        curator: Curator,
        asked: Sequence[LinearQuery],
        epsilon: float | None,
        rho: float | None,
        shares: Sequence[int] = (1,),
        *,
        mechanism: Mechanism = "auto",
        beta: float = 0.05,
    ) -> None:
        self.curator = curator
        self.asked = asked
        self.mechanism = mechanism
        self.beta = beta
        self.slack, self.doubt = 0.0, beta
        self._accountant = curator.budget.accountant
        total = units_for(curator, epsilon, rho)
        public = curator.relation.rows_are_public
        for_rows = 0 if public else int(total * ROWS_SHARE)
        self._units = [(total - for_rows) * share // sum(shares) for share in shares]
        if not all(self._units) or not (public or for_rows):
            raise BudgetError(
                f"{total} units of budget are too few for {len(shares)} selections", advice="ask for more"
            )
        if public:
            self.rows = curator.count_rows()
        else:
            counted = curator.measure(Marginal(curator.schema), units=for_rows)
            self.rows = max(1.0, float(counted.values))
            self.slack, self.doubt = counted.half_width(1 - ROWS_DOUBT * beta), (1 - ROWS_DOUBT) * beta

    @property
    def strength(self) -> float:
        """The epsilon of the next selection."""
        return selection_strength(self.curator, self.mechanism, self._units[0])

    def best(self, answers: Values) -> int:
        """The candidate chosen among these answers (fractions of rows)."""
        price = self._units.pop(0)
        chosen = self.curator.select_best(self.asked, answers * self.rows, units=price, mechanism=self.mechanism)
        return chosen.index

    def promise(self, net: Net) -> str | None:
        """Proposition 5.2 for the next selection, as a certificate states it; None if it says nothing.

        Scores are |n f(x) - n^ f(y)|, n^ the row estimate, off by at most w: with n OPT + w at the best candidate, and
        w more from the score to the error, the error is at most OPT + (F + 2 w) / n. F, in rows, is the selection's
        own error and one row for rounding counts at the wall; rounding weights adds 2^-20 of the rows.
        """
        least = self.rows - self.slack
        if least < 1:
            return None
        moves = self.curator.relation.max_contributions
        choice = 2 * moves * math.log(len(net) / self.doubt) / self.strength + 1
        beyond = (choice + 2 * self.slack) / least + 2.0**-20
        best = net.opt_for(self.asked)
        error = beyond if best is None else best + beyond
        if error >= 1:
            return None
        far = (
            f"within {error:.4g} of the rows" if best is not None else f"at most {error:.4g} beyond the best candidate"
        )
        return f"every query of the workload {far} with probability {1 - self.beta:.3g}"

    def release(
        self,
        records: Records,
        probabilities: Values,
        method: str,
        account: ScopedAccount,
        promise: str | None = None,
    ) -> Release:
        """What is published: the chosen candidate as a model; its accuracy is a theorem, so there is no evidence."""
        model = WeightedRecords(self.curator.schema, records, weights=probabilities, step="exact")
        certificate = certified(self.curator, method, account, accuracy=promise)
        return Release(self.curator.schema, model, NoEvidence(self.rows), certificate)


class _Swaps:
    """Public neighbourhoods of a dataset: which row is swapped, for which record, and that record's query values."""

    def __init__(
        self,
        schema: Schema,
        asked: Sequence[LinearQuery],
        rows: int,
        neighbours: int | None,
        rng: np.random.Generator | None,
    ) -> None:
        self._schema, self._asked, self._neighbours, self._rng = schema, asked, neighbours, rng
        if neighbours is not None:
            check_counts(neighbours=neighbours)
            if rng is None:
                raise QueryError(
                    "random neighbours need public coins", advice="give rng, such as numpy.random.default_rng()"
                )
        size = rows * schema.size if neighbours is None else neighbours + 1
        if size > MAX_CANDIDATES:
            raise QueryError(
                f"a neighbourhood has {size:,} swaps for {rows:,} rows over {schema!r}, more than {MAX_CANDIDATES:,}",
                advice="give a number of random neighbours, or fewer rows",
            )
        refuse_entries(size, len(asked), "answers")
        if neighbours is None:
            self._points = universe(schema)
            self._values = _evaluate(asked, self._points)

    def draw(self, current: Records, values: Values) -> tuple[NDArray[np.int64], Records, Values]:
        if self._rng is None or self._neighbours is None:
            points = np.tile(np.arange(len(self._points)), len(current))
            return np.repeat(np.arange(len(current)), len(self._points)), self._points[points], self._values[points]
        fresh = random_records(self._schema, self._neighbours, self._rng)
        places = np.append(0, self._rng.integers(len(current), size=self._neighbours))
        replaced = np.concatenate([values[:1], _evaluate(self._asked, fresh)])
        return places, np.concatenate([current[:1], fresh]), replaced


def selection_strength(curator: Curator, mechanism: Mechanism, units: int) -> float:
    """The epsilon of a selection by this mechanism that costs this many units."""
    accountant = curator.budget.accountant
    flip = accountant.currency == "pure" if mechanism == "auto" else mechanism == "permute-and-flip"
    return accountant.pure_epsilon(units) if flip else accountant.selection_epsilon(units)


def check_net(curator: Curator, net: Net | None, mechanism: str, beta: float) -> None:
    """Refuse public arguments that make no sense, before anything is charged."""
    if net is not None and net.schema != curator.schema:
        raise QueryError("the net was built for another schema", advice="build it from curator.schema")
    if mechanism not in SELECTIONS:
        raise QueryError(f"mechanism is {mechanism!r}", expected=f"one of {', '.join(SELECTIONS)}")
    if not 0 < beta < 1:
        raise QueryError(f"beta is {beta}", expected="a probability of failure between 0 and 1")


def _best_rows(search: _Search) -> int:
    """The number of rows with the least error bound among those that can be listed; from public numbers only."""
    schema, relation, size = search.curator.schema, search.curator.relation, len(search.asked)
    most, beyond = 1, MAX_CANDIDATES
    while beyond - most > 1:
        middle = (most + beyond) // 2
        most, beyond = (middle, beyond) if enumerable(schema, middle, size) else (most, middle)
    units = search.rows / relation.max_contributions
    tried = np.arange(1, most + 1)
    bounds = error_bound(schema.size, size, tried, table_rows=units, epsilon=search.strength, beta=search.beta)
    return int(tried[np.argmin(bounds)])


def _listed(curator: Curator, workload: Asked) -> list[LinearQuery]:
    family = workload if isinstance(workload, Workload) else queries(curator.schema, workload)
    if family.schema != curator.schema:
        raise QueryError("the workload was built for another schema", advice="build it from curator.schema")
    refuse_entries(1, family.size, "answers")
    return list(family)


def _evaluate(asked: Sequence[LinearQuery], records: Records) -> Values:
    return np.stack([query.evaluate(records) for query in asked], axis=1)
