"""OnlineIC: the online iterative construction as the theory states it, for any update rule."""

from __future__ import annotations

import threading
from typing import Literal

from maquette.answers import Answer
from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.hypothesis import AnyRule, Calibration, check_query, rule_of
from maquette.query import Expression, LinearQuery, Statement, question
from maquette.session.baselines.known_rows import SHARE, known_rows
from maquette.session.textbook.plan import Setting, check_promise, plan

ROWS_DOUBT = 0.1  # share of beta: probability that a row estimate is off by more than its share of the error bound


class OnlineIC:
    """Answers from a public model, and corrects it only when a guard finds it wrong (Dwork and Roth, algorithm 11).

    Each new question has one absolute test |count - rows * f(D)|. A quiet test is answered by the model f(D); a hit by
    a fresh noisy count, with which the model takes one step of its update rule. The model starts in the rule's own
    initial state: uniform weights, the zero vector of the Perceptron, the whole net of the Median. After
    c = floor(T(a')) hits the guard is sealed and the model keeps answering without it: `status` is "exhausted", and
    answers carry no guarantee. If the noise stayed within its bounds, c updates leave no error of a' or more; but a
    session that uses up its hits may be one where the noise did not.

    Privacy: the guard alone, charged when the session opens, whatever is asked; where the number of rows is private,
    also an estimate of it for a hundredth of the charge. The noise does not depend on `queries`. The relation is the
    curator's. calibration="book" adds the noise of the book's NumericSparse to its tests; under a budget with a delta
    the ledger's bound for this noise is below the book's epsilon, so the charge is lower than the epsilon offered.

    Accuracy: with probability 1 - `beta` all answers to the first `queries` different questions are within `alpha` of
    the table, as fractions of rows. Mechanisms §6.4; erratum A10 (one test, sealed and not halted, the initial state)
    and erratum A11 (the noise of answers). A budget that allows no useful promise is refused: before any charge where
    the number of rows is public or given as `rows`, otherwise after the charge for the row estimate alone. At practical
    sizes a marginal cache answers better: see the how-to.

    A repeated question returns the recorded answer; a question in which all rows have the same weight is answered
    exactly, without a test. `hypothesis` is an update rule, given by its name, its class or as a `Rule` (`cut_rule`
    makes one for graphs): its model starts at the resolution that the budget allows. A model given instead must be
    fresh, and is updated in place.
    """

    def __init__(
        self,
        curator: Curator,
        hypothesis: AnyRule = "multiplicative-weights",
        *,
        queries: int,
        epsilon: float | None = None,
        rho: float | None = None,
        beta: float = 0.05,
        calibration: Calibration = "tight",
        rows: int | None = None,
    ) -> None:
        if calibration not in ("tight", "book"):
            raise QueryError(f"calibration is {calibration!r}", expected='"tight" or "book"')
        if queries < 1 or not 0 < beta < 1:
            raise QueryError(f"got queries={queries} and beta={beta}", expected="at least 1 query and 0 < beta < 1")
        rule = rule_of(curator.schema, hypothesis, calibration)
        with curator.account("online construction") as account:
            units = units_for(curator, epsilon, rho)
            known = known_rows(curator, SHARE * units, rows=rows)
            exact = known.measured is None
            setting = Setting(
                accountant=curator.budget.accountant,
                delta=curator.budget.delta,
                units=units if exact else (1 - SHARE) * units,
                rows=known.size,
                slack=known.slack(ROWS_DOUBT * beta),
                moves=curator.relation.max_contributions,
                queries=queries,
                beta=beta if exact else (1 - ROWS_DOUBT) * beta,
            )
            found = plan(rule, setting, calibration)
            check_promise(rule, setting, calibration, found)
            self.curator = curator
            self.hypothesis = rule.start(found.resolution)
            self.alpha, self.beta = found.alpha, beta
            self.rows = known.size
            self.queries = queries
            self._answer_error = found.answer_error
            self._guard = curator.guard(
                found.threshold,
                hits=found.hits,
                numeric=True,
                refreshed=found.refreshed,
                units=int(found.units),
            )
        self.cost = account.loss
        self._free = curator.budget.accountant.loss(0, curator.budget.delta)
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

    def ask(self, asked: str | Expression | LinearQuery) -> Answer:
        """The fraction of rows on which a predicate holds, or the mean of a linear query; free of further charge."""
        query = question(self.curator.schema, asked)
        if isinstance(query, Statement):
            raise QueryError(
                "this session answers predicates and linear queries, not SQL statements", advice="ask the condition"
            )
        if query.schema != self.curator.schema:
            raise QueryError("the question was built for another schema", advice="build it from curator.schema")
        with self._in_turn:
            if query.key not in self._answers:
                self._answers[query.key] = self._fresh(query)
            return self._answers[query.key]

    def _fresh(self, query: LinearQuery) -> Answer:
        if not query.columns:
            return self._exact(query.bounds[0])
        check_query(self.hypothesis, query)  # before a hit pays for a value that the model cannot learn from
        # A fraction lies in [0, 1], so clamping the model's answer only brings it closer to the truth.
        public = min(1.0, max(0.0, self.hypothesis.answer(query)))
        if self.status == "exhausted":
            return self._modelled(public, promised=False)
        self._tests += 1
        tested = self._guard.test(query, public * self.rows)
        promised = self._tests <= self.queries
        if tested.count is None:
            return self._modelled(public, promised=promised)
        value = tested.count / self.rows
        self.hypothesis.update(query, value)
        self.updates += 1
        return self._measured(value, promised=promised)

    def _modelled(self, value: float, *, promised: bool) -> Answer:
        return self._answer(value, self.alpha if promised else 1.0, "hypothesis", promised=promised)

    def _measured(self, noisy: float, *, promised: bool) -> Answer:
        value = min(1.0, max(0.0, noisy))
        return self._answer(value, self._answer_error if promised else 1.0, "measured", promised=promised, noisy=noisy)

    def _exact(self, weight: float) -> Answer:
        return self._answer(weight, 0.0, "derived", promised=True)

    def _answer(
        self,
        value: float,
        error: float,
        source: Literal["derived", "hypothesis", "measured"],
        *,
        promised: bool,
        noisy: float | None = None,
    ) -> Answer:
        return Answer(
            value=value,
            low=max(0.0, value - error),
            high=min(1.0, value + error),
            unbiased=noisy,
            confidence=1 - self.beta,
            count=value * self.rows,
            source=source,
            cost=self._free,
            guarantee=self._promise if promised else None,
            bound="measured" if promised else "logical",
        )

    @property
    def _promise(self) -> str:
        return (
            f"all of the first {self.queries:,} answers within {self.alpha:.4g} of the fractions of rows with "
            f"probability {1 - self.beta:.3g}"
        )

    def __repr__(self) -> str:
        return f"OnlineIC({self.hypothesis!r}, within {self.alpha:.3g}, {self.updates} updates, {self.status})"
