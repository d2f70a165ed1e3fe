"""A public model behind a guard: what the textbook sessions for linear queries do once they are open."""

from __future__ import annotations

import threading
from typing import Literal

from maquette.answers import Answer
from maquette.curator import Curator, Guard, LazyGuard, ScopedAccount
from maquette.errors import QueryError
from maquette.hypothesis import Hypothesis, check_query
from maquette.query import Expression, LinearQuery, Program, Statement, question


class GuardedModel:
    """Answers from a public model, and corrects it only where a guard finds it wrong.

    Each new question has one test of the model's answer. A quiet test is answered by the model, a hit by the guard's
    noisy count, with which the model takes one step of its update rule. A sealed guard leaves the model to answer
    without a guarantee. A repeated question returns the recorded answer; a question in which all rows have the same
    weight is answered exactly, without a test.

    Privacy: the guard's, which was charged when the session opened; the model learns from released counts only.
    Accuracy: if the opening's theorem holds, the first `queries` answers of the model are within `alpha` of the table,
    and measured ones within `answer_error`, all together with probability 1 - `beta`. Mechanisms §6.4-6.5.
    """

    def __init__(
        self,
        curator: Curator,
        hypothesis: Hypothesis,
        guard: Guard | LazyGuard,
        account: ScopedAccount,
        *,
        rows: float,
        queries: int,
        alpha: float,
        beta: float,
        answer_error: float,
    ) -> None:
        self.curator, self.hypothesis = curator, hypothesis
        self.rows, self.queries, self.alpha, self.beta = rows, queries, alpha, beta
        self.cost, self._free = account.loss, curator.budget.accountant.loss(0, curator.budget.delta)
        self.updates = 0
        self._guard, self._answer_error = guard, answer_error
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
        if isinstance(query, Statement | Program):
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
        if not query.columns:  # every row has the same weight: nothing to learn, so nothing to test
            return self._answer(query.bounds[0], 0.0, "derived", promised=True)
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
        return self._answer(value, self.alpha, "hypothesis", promised=promised)

    def _measured(self, noisy: float, *, promised: bool) -> Answer:
        value = min(1.0, max(0.0, noisy))
        return self._answer(value, self._answer_error, "measured", promised=promised, noisy=noisy)

    def _answer(
        self,
        value: float,
        error: float,
        source: Literal["derived", "hypothesis", "measured"],
        *,
        promised: bool,
        noisy: float | None = None,
    ) -> Answer:
        """An answer with its error; without a promise its interval is the full range."""
        return Answer(
            value=value,
            low=max(0.0, value - error) if promised else 0.0,
            high=min(1.0, value + error) if promised else 1.0,
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
        name, within = type(self).__name__, f"within {self.alpha:.3g}"
        return f"{name}({self.hypothesis!r}, {within}, {self.updates} updates, {self.status})"


def check_promised(queries: int, beta: float) -> None:
    """Refuse a number of questions or a failure probability that no promise can be about."""
    if queries < 1 or not 0 < beta < 1:
        raise QueryError(f"got queries={queries} and beta={beta}", expected="at least 1 query and 0 < beta < 1")
