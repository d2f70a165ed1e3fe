"""Lazy guard: a sparse vector without threshold noise, which on a hit releases the noisy number that it compared."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np

from maquette.curator import plain
from maquette.curator.compiled import tally
from maquette.curator.deadline import Work
from maquette.curator.engines.api import Engine
from maquette.curator.guard import GRID, MAX_THRESHOLD, Questions
from maquette.curator.noise import NoiseSource, check_laplace, round_scale_up
from maquette.curator.results import Tested
from maquette.curator.transaction import Arrays, Transaction, digest
from maquette.errors import BudgetError, DeadlineMissed, QueryError, RequestBusy, RequestConflict, RequestLost
from maquette.privacy import UNITS_PER_ONE, LazyRounds, Loss, float_down, lazy_rate
from maquette.query import Asked, LinearQuery

NAME = "lazy-guard"  # the name of the request and of the guard: a ledger accepts it only once


class LazyGuard:
    """Says whether a public answer is further than a threshold from a noisy count; if so, releases that noisy count.

    Statistic: z = private count * GRID + discrete Laplace noise, an integer; a hit if |z - rounded answer| exceeds the
    threshold. Sensitivity: max_contributions rows of weight at most 1 are added, removed or changed, so D =
    max_contributions * GRID under both relations. Cost: (epsilon, delta)-DP with the epsilon of
    `privacy.lazy.lazy_epsilon` and the budget's whole delta, charged when the guard opens, for any number of adaptive
    tests until its hits are used. It is neither pure nor concentrated DP, so it needs a budget with accounting="basic".
    A ledger pays for one lazy guard only: a second is refused, also after a restart. No secret is kept between tests;
    still, a guard ends with its process.

    The theorem is ours: proved in docs/theory/lazy-rounds.md, checked there by exact computation over all adversaries,
    and audited; it is not published elsewhere.
    """

    def __init__(
        self,
        transaction: Transaction,
        engine: Engine,
        questions: Questions,
        noise: NoiseSource,
        *,
        event: LazyRounds,
        threshold: int,
        analyst: str,
        cost: Loss,
    ) -> None:
        self._transaction = transaction
        self._engine = engine
        self._questions = questions
        self._noise = noise
        self._threshold = threshold
        self._analyst = analyst
        self._in_turn = threading.Lock()
        self._event = event
        self.cost = cost

    @classmethod
    def open(
        cls,
        transaction: Transaction,
        engine: Engine,
        questions: Questions,
        noise: NoiseSource,
        *,
        threshold: float,
        hits: int,
        units: int,
        analyst: str,
    ) -> LazyGuard:
        """Charge the whole guard and use the ledger's delta; refused if the budget or the delta is used up."""
        threshold = plain.number(threshold, "threshold")
        if not 0 < threshold <= MAX_THRESHOLD:
            raise QueryError(
                f"threshold is {threshold!r}", expected=f"a positive number of rows, {MAX_THRESHOLD} at most"
            )
        event = calibrated(transaction, units, hits, questions.most(GRID))
        try:
            _, cost = transaction.through(
                "lazy_guard",
                events=[event],
                public={"threshold": threshold},
                evaluate=lambda: [],
                request=NAME,
                analyst=analyst,
                opens_guard=True,
            )
            transaction.ledger.open_guard(NAME, hits=hits)
        except DeadlineMissed:
            raise
        except (RequestBusy, RequestConflict, RequestLost):
            raise BudgetError(
                "this ledger has opened its lazy guard before, and that guard took all of the delta",
                expected="one lazy guard for the life of a ledger",
                advice="Nothing was charged; ask with measure, or open a plain guard",
            ) from None
        return cls(
            transaction,
            engine,
            questions,
            noise,
            event=event,
            threshold=math.ceil(threshold * GRID),
            analyst=analyst,
            cost=cost,
        )

    @property
    def hits_left(self) -> int:
        """The number of hits left before the guard is sealed."""
        return self._transaction.ledger.hits_left(NAME)

    @property
    def sealed(self) -> bool:
        """Whether all hits are used."""
        return self.hits_left == 0

    @property
    def event(self) -> LazyRounds:
        """The event that was charged; it contains the noise scale of every test."""
        return self._event

    @property
    def scale(self) -> float:
        """The noise scale of one test, in counts."""
        return float(self.event.scale) / GRID

    def test(self, question: LinearQuery | Asked, answer: float, *, request: str | None = None) -> Tested:
        """Whether the public `answer` (in counts) is wrong; on a hit also the noisy count it was compared with."""
        m = self._questions.compiled(question)
        if m.cells != 1:
            raise QueryError(
                "a lazy guard tests one number at a time", advice="ask for the cells of a marginal one by one"
            )
        answer = plain.number(answer, "the public answer")
        if not (math.isfinite(answer) and abs(answer) <= 2**40):
            raise QueryError(f"the public answer is {answer!r}", expected="a finite number of rows")
        rounded = round(float(answer) * GRID)

        def evaluate() -> Arrays:
            exact = int(tally(self._engine, m).reshape(-1)[0]) * (GRID // m.grid)
            noisy = exact + int(self._noise.laplace(self._event.scale, 1)[0])
            off = abs(noisy - rounded) > self._threshold
            return [np.array([off, noisy if off else 0], dtype=np.int64)]

        with self._in_turn:  # a test reserves one hit while it runs; two tests at once could look like two hits
            arrays, _ = self._transaction.through(
                "lazy_guard.test",
                events=[],
                public={"question": m.key, "answer": digest([np.array([rounded], dtype=np.int64)]), "guard": NAME},
                evaluate=evaluate,
                request=request,
                analyst=self._analyst,
                guard=NAME,
                hit=lambda recorded: bool(recorded[0][0]),
                work=Work.of(self._engine.schema, [m]),
            )
        off, noisy = (int(part) for part in arrays[0])
        return Tested(bool(off), noisy / GRID if off else None)

    def __repr__(self) -> str:
        return f"LazyGuard({self.hits_left} hits left, cost {self.cost})"


def calibrated(transaction: Transaction, units: int, hits: int, sensitivity: int) -> LazyRounds:
    """The smallest noise whose epsilon at the budget's delta is at most `units`."""
    budget = transaction.budget
    if budget.accounting != "basic":
        raise BudgetError(
            f"a lazy guard has no cost under {budget.accounting} accounting: it is (epsilon, delta)-private, neither "
            "pure nor concentrated",
            advice='Open the table with Budget(epsilon=..., delta=..., accounting="basic")',
        )
    if type(hits) is not int or hits < 1:
        raise QueryError(f"hits is {hits!r}", expected="a whole number of at least 1")
    # Rates are cached across callers, so the result is made a plain number; the price is computed from the event.
    rate = float(lazy_rate(hits=hits, epsilon=float_down(Fraction(units, UNITS_PER_ONE)), delta=budget.delta))
    scale = round_scale_up(sensitivity / Fraction(rate))
    check_laplace(scale)
    return LazyRounds(hits, scale, Fraction(sensitivity), budget.delta)
