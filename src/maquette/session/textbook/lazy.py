"""Lazy construction: Hardt and Rothblum's private multiplicative weights, stated as a theorem for any update rule."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Literal

from maquette.answers import Answer
from maquette.curator import Curator, LazyGuard
from maquette.errors import QueryError
from maquette.hypothesis import NEVER, AnyRule, Rule, check_query, rule_of
from maquette.privacy import lazy_rate
from maquette.query import LinearQuery, Marginal
from maquette.session.textbook.plan import GRID, WEIGHTS

ROWS = 0.01  # share of epsilon that buys a row estimate where the number of rows is private
ROWS_DOUBT = 0.1  # share of beta: probability that this estimate is off by more than its share of the error bound
COARSER = 1 + 2.0**-20  # a guard rounds its noise scale up by at most this factor


@dataclass(frozen=True, kw_only=True)
class Lazy:
    """The parameters of a session; `threshold` and `width`, which bounds the noise of all tests, are in rows."""

    alpha: float
    resolution: float
    hits: int
    threshold: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public inputs of the parameters. `slack` bounds the error of a row estimate."""

    rows: float
    slack: float
    moves: int
    queries: int
    epsilon: float
    delta: float
    beta: float


class LazyConstruction:
    """Answers from a public model, and corrects it where a guard without threshold noise finds it wrong.

    Each question has one test: a noisy count against the model's answer f(D). Within the threshold the answer is f(D).
    Beyond it, the answer is the noisy count itself, and the model takes one step of its update rule *towards* it: up
    where the model was too low, down where it was too high (erratum D1). After c = floor(T(a')) updates the guard is
    sealed (erratum D4) and the model answers alone, without a guarantee.

    Privacy: (epsilon, delta)-DP under the curator's relation; it uses the whole delta of the budget (erratum D2).
    Charged once, when the session opens. The theorem is that of `LazyGuard`; where the number of rows is private, a
    hundredth of epsilon estimates it first. A ledger can have one lazy guard in its life, so a table can have one such
    session. `curator` needs a budget with accounting="basic".

    Accuracy: with probability 1 - `beta` the first `queries` answers are all within `alpha` of the table, as fractions
    of rows: alpha = a' + 2 Nb, Nb = ln(queries / beta) / (rate * rows) < a', at the best resolution a'. A budget that
    allows no useful promise is refused before the guard is opened. Mechanisms §6.4-6.5.

    `hypothesis` is an update rule, given by its name, its class or as a `Rule`; or a fresh model with a bound on its
    updates, which is updated in place.
    """

    def __init__(
        self,
        curator: Curator,
        hypothesis: AnyRule = "multiplicative-weights",
        *,
        epsilon: float,
        queries: int,
        beta: float = 0.05,
        experimental: bool = False,
    ) -> None:
        if queries < 1 or not 0 < beta < 1:
            raise QueryError(f"got queries={queries} and beta={beta}", expected="at least 1 query and 0 < beta < 1")
        if not experimental:
            raise QueryError(
                "a lazy construction relies on an experimental theorem", advice="pass experimental=True to accept"
            )
        if curator.budget.accounting != "basic":
            raise QueryError(
                f"a lazy construction cannot be paid under {curator.budget.accounting} accounting",
                advice='open the table with Budget(epsilon=..., delta=..., accounting="basic")',
            )
        rule = rule_of(curator.schema, hypothesis)
        with curator.account("lazy construction") as account:
            facts = _facts(curator, epsilon, queries, beta)
            chosen = parameters(rule, facts)
            _check_promise(chosen, facts)
            self.curator = curator
            self.alpha, self.beta = chosen.alpha, beta
            self.rows, self.queries = facts.rows, queries
            self.hypothesis = rule.start(chosen.resolution)
            self._guard: LazyGuard = curator.lazy_guard(
                chosen.threshold, hits=chosen.hits, epsilon=facts.epsilon, experimental=True
            )
        self._measured_error = (chosen.width + facts.slack) / facts.rows
        self.cost, self._free = account.loss, curator.budget.accountant.loss(0, curator.budget.delta)
        self.updates = 0
        self._tests = 0
        self._answers: dict[str, Answer] = {}
        self._in_turn = threading.Lock()

    @property
    def hits_left(self) -> int:
        """How many more updates the guard pays for."""
        return self._guard.hits_left

    @property
    def status(self) -> Literal["open", "exhausted"]:
        """Whether answers are still guarded."""
        return "exhausted" if self._guard.sealed else "open"

    def ask(self, query: LinearQuery) -> Answer:
        """The mean of a query over the rows, free of further charge; a repeated query returns the recorded answer."""
        if query.schema != self.curator.schema:
            raise QueryError("the question was built for another schema", advice="build it from curator.schema")
        with self._in_turn:
            if query.key not in self._answers:
                self._answers[query.key] = self._fresh(query)
            return self._answers[query.key]

    def _fresh(self, query: LinearQuery) -> Answer:
        if not query.columns:  # every row has the same weight: nothing to learn, so nothing to test
            return self._answer(query.bounds[0], 0.0, "derived")
        check_query(self.hypothesis, query)  # before a hit pays for a value that the model cannot learn from
        # A fraction lies in [0, 1], so clamping the model's answer only brings it closer to the truth.
        public = min(1.0, max(0.0, self.hypothesis.answer(query)))
        if self._guard.sealed:
            return self._answer(public, None, "hypothesis")
        tested = self._guard.test(query, public * self.rows)
        self._tests += 1
        promised = self._tests <= self.queries
        if tested.count is None:
            return self._answer(public, self.alpha if promised else None, "hypothesis")
        noisy = tested.count / self.rows
        self.hypothesis.update(query, noisy)
        self.updates += 1
        value = min(1.0, max(0.0, noisy))
        return self._answer(value, self._measured_error if promised else None, "measured", noisy=noisy)

    def _answer(
        self,
        value: float,
        error: float | None,
        source: Literal["derived", "hypothesis", "measured"],
        *,
        noisy: float | None = None,
    ) -> Answer:
        """An answer with its error; without an error it has no guarantee, and its interval is the full range."""
        promise = (
            f"all of the first {self.queries:,} answers within {self.alpha:.4g} of the fractions of rows with "
            f"probability {1 - self.beta:.3g}"
        )
        return Answer(
            value=value,
            low=0.0 if error is None else max(0.0, value - error),
            high=1.0 if error is None else min(1.0, value + error),
            unbiased=noisy,
            confidence=1 - self.beta,
            count=value * self.rows,
            source=source,
            cost=self._free,
            guarantee=None if error is None else promise,
            bound="logical" if error is None else "measured",
        )

    def __repr__(self) -> str:
        return f"LazyConstruction({self.hypothesis!r}, within {self.alpha:.3g}, {self.updates} updates, {self.status})"


def parameters(rule: Rule, facts: Facts) -> Lazy:
    """The resolution with the least alpha, from the noise that the guard really adds; infinite if none is feasible.

    With n rows, an estimate n^ of them off by at most w, and noise within N in all tests: a hit means an error of at
    least (threshold - N - w) / n >= a', as threshold = a' (n^ + w) + N + w; the noisy count lies on the same side of
    the model's answer as the true one, as threshold > N + w; and no hit means an error of at most
    (threshold + N + w) / (n^ - w) = alpha.
    """
    best = Lazy(alpha=math.inf, resolution=1.0, hits=1, threshold=1.0, width=math.inf)
    rows, slack = facts.rows, facts.slack
    for resolution in rule.resolutions:
        updates = rule.updates(resolution)
        hits = max(1, math.floor(min(updates, NEVER)))
        rate = lazy_rate(hits=hits, epsilon=facts.epsilon, delta=facts.delta)
        # Each of k discrete noises exceeds scale * ln(k / beta) plus one grid step with probability at most beta / k.
        noise = facts.moves / rate * COARSER * math.log(facts.queries / facts.beta)
        width = noise + GRID + WEIGHTS * rows
        if updates >= NEVER or width + slack >= resolution * rows or slack >= rows:
            break  # a finer resolution needs more hits, hence more noise: it is infeasible too
        threshold = resolution * (rows + slack) + width + slack
        alpha = (threshold + width + slack) / (rows - slack)
        if alpha < best.alpha:
            best = Lazy(alpha=alpha, resolution=resolution, hits=hits, threshold=threshold, width=width)
    return best


def _facts(curator: Curator, epsilon: float, queries: int, beta: float) -> Facts:
    """Buy the row estimate if it is needed."""
    rows, slack = 0.0, 0.0
    if curator.relation.rows_are_public:
        rows = curator.count_rows()
    else:
        request = f"rows of a lazy construction at epsilon {epsilon!r}"
        counted = curator.measure(Marginal(curator.schema), epsilon=ROWS * epsilon, request=request)
        rows, slack = max(1.0, float(counted.values)), counted.half_width(1 - ROWS_DOUBT * beta)
        epsilon, beta = (1 - ROWS) * epsilon, (1 - ROWS_DOUBT) * beta
    return Facts(
        rows=rows,
        slack=slack,
        moves=curator.relation.max_contributions,
        queries=queries,
        epsilon=epsilon,
        delta=curator.budget.delta,
        beta=beta,
    )


def _check_promise(chosen: Lazy, facts: Facts) -> None:
    if chosen.alpha >= 1:
        raise QueryError(
            f"with about {facts.rows:.3g} rows, epsilon {facts.epsilon:.3g} and delta {facts.delta:g} the theorem "
            f"promises an error of {chosen.alpha:.3g}, which is vacuous",
            advice="it takes more rows or a larger epsilon (see "
            "plan), and measured marginals answer far better at this size",
        )
