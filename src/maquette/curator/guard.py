"""Guard: a door that stays open: the sparse vector over many public answers, charged once."""

from __future__ import annotations

import math
import threading
import uuid
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from maquette.curator import plain
from maquette.curator.compile import Compiler, asked_of
from maquette.curator.compiled import Compiled, tally
from maquette.curator.deadline import Work
from maquette.curator.engines.api import Engine
from maquette.curator.noise import NoiseSource, check_gaussian, check_laplace
from maquette.curator.results import Tested
from maquette.curator.sparse_vector import Settings, SparseVector, concentrated, resampled, unresampled
from maquette.curator.transaction import Arrays, Transaction, digest
from maquette.errors import BudgetError, QueryError
from maquette.privacy import UNITS_PER_ONE, Loss, Relation
from maquette.query import Asked, LinearQuery

GRID = 2**20  # every guarded statistic is in units of 1/GRID, independent of the question's own grid
MAX_THRESHOLD = 2**40  # in rows: more than any table has
UNREFRESHED_FROM = 3  # from this number of hits, one threshold for all hits needs less query noise


class Questions:
    """Compiles questions for guards, and refuses those with a larger sensitivity than the guard was priced for."""

    def __init__(self, compile: Compiler, relation: Relation) -> None:  # noqa: A002
        self._compile = compile
        self._relation = relation

    def most(self, grid: int) -> int:
        """The largest change of a count by one unit, in whole numbers of 1/grid."""
        return self._relation.max_contributions * grid

    def compiled(self, question: LinearQuery | Asked) -> Compiled:
        """The compiled question."""
        m = self._compile(asked_of(self._compile.schema, question))
        if m.moves.gains is not None or self._relation.one_cell(m) > self.most(m.grid):
            raise QueryError(
                "a guard tests counts: a row may add at most 1", advice="ask for contrasts and amounts by measure"
            )
        return m


class Guard:
    """Says whether a public answer is wrong by more than a threshold; answers that are close cost nothing more.

    Statistic: max over cells |private count - rounded public answer| * GRID, an integer. Sensitivity: each cell changes
    by at most max_contributions rows of weight at most 1, and a maximum of absolute values changes no more than its
    parts: D = max_contributions * GRID under both relations. Cost: that of `SparseVector` with this D, charged when
    the guard opens, for any number of adaptive tests until its hits are used; numeric answers add the same D for the
    count released. The noisy threshold exists in memory only, so a guard ends with its process.
    """

    def __init__(
        self,
        transaction: Transaction,
        engine: Engine,
        questions: Questions,
        vector: SparseVector,
        *,
        name: str,
        analyst: str,
        cost: Loss,
    ) -> None:
        self._transaction = transaction
        self._engine = engine
        self._questions = questions
        self._vector = vector
        self._in_turn = threading.Lock()
        self._name = name
        self._analyst = analyst
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
        numeric: bool,
        refreshed: bool | None,
        analyst: str,
        request: str | None = None,
    ) -> Guard:
        """Charge the whole guard, then draw its threshold; a request name that was used before is refused."""
        threshold, hits, numeric = plain.number(threshold, "threshold"), plain.whole(hits, "hits"), bool(numeric)
        refreshed = None if refreshed is None else bool(refreshed)
        if not 0 < threshold <= MAX_THRESHOLD:
            raise QueryError(
                f"threshold is {threshold!r}", expected=f"a positive number of rows, {MAX_THRESHOLD} at most"
            )
        settings = _calibrated(transaction, units, hits, questions.most(GRID), numeric=numeric, refreshed=refreshed)
        name = plain.text(request, "request") if request else f"guard:{uuid.uuid4().hex}"
        drawn: list[SparseVector] = []

        def evaluate() -> Arrays:
            drawn.append(SparseVector(settings, math.ceil(threshold * GRID), noise))
            return []

        _, cost = transaction.through(
            "guard",
            events=[settings.event],
            public={"threshold": threshold, "hits": hits, "numeric": numeric, "refreshed": settings.refreshed},
            evaluate=evaluate,
            request=name,
            analyst=analyst,
            opens_guard=True,
        )
        transaction.ledger.open_guard(name, hits=hits)
        if not drawn:  # it was charged, then interrupted before it opened
            evaluate()
        return cls(transaction, engine, questions, drawn[0], name=name, analyst=analyst, cost=cost)

    @property
    def hits_left(self) -> int:
        """The number of hits left before the guard is sealed."""
        return self._transaction.ledger.hits_left(self._name)

    @property
    def sealed(self) -> bool:
        """Whether all hits are used."""
        return self.hits_left == 0

    def test(
        self, question: LinearQuery | Asked, answer: ArrayLike, *, request: str | None = None, note: object = None
    ) -> Tested:
        """Whether the public `answer` (in counts) is wrong; on a hit of a numeric guard, the noisy count too."""
        m = self._questions.compiled(question)
        public = plain.array(answer)
        if public.shape != m.shape or not np.isfinite(public).all() or (np.abs(public) > MAX_THRESHOLD).any():
            raise QueryError(
                f"the public answer has shape {public.shape}, or is not finite",
                expected=f"finite counts of shape {m.shape}",
            )
        numeric = self._vector.settings.answer is not None
        if numeric and m.cells != 1:
            raise QueryError(
                "a numeric guard tests one number at a time", advice="open it with numeric=False for whole marginals"
            )
        rounded = np.rint(public * GRID).astype(np.int64)

        def evaluate() -> Arrays:
            exact = tally(self._engine, m) * (GRID // m.grid)
            private = int(np.abs(exact - rounded).max())
            outcome = self._vector.test(private, answer_of=int(exact.reshape(-1)[0]) if numeric else None)
            return [np.array([outcome.above, outcome.value or 0], dtype=np.int64)]

        with self._in_turn:  # a test reserves one hit while it runs; two tests at once could look like two hits
            arrays, _ = self._transaction.through(
                "guard.test",
                events=[],
                public={
                    "question": m.key,
                    "answer": digest([rounded]),
                    "guard": self._name,
                    **({} if note is None else {"note": note}),
                },
                evaluate=evaluate,
                request=request,
                analyst=self._analyst,
                guard=self._name,
                hit=lambda recorded: bool(recorded[0][0]),
                work=Work.of(self._engine.schema, [m]),
            )
        above, value = (int(part) for part in arrays[0])
        return Tested(bool(above), value / GRID if above and numeric else None)

    def __repr__(self) -> str:
        return f"Guard({self.hits_left} hits left, cost {self.cost})"


def _calibrated(
    transaction: Transaction, units: int, hits: int, sensitivity: int, *, numeric: bool, refreshed: bool | None
) -> Settings:
    """The smallest noise whose cost is at most `units`, by bisection on its epsilon or rho."""
    accountant = transaction.budget.accountant
    if accountant.currency == "pure":
        form = resampled if refreshed or (refreshed is None and hits < UNREFRESHED_FROM) else unresampled

        def build(size: Fraction) -> Settings:
            return form(epsilon=size, hits=hits, sensitivity=sensitivity, numeric=numeric)
    elif refreshed is False:
        raise BudgetError(
            "one threshold for all hits needs a pure budget", advice="leave `refreshed` out under delta > 0"
        )
    else:

        def build(size: Fraction) -> Settings:
            return concentrated(rho=size, hits=hits, sensitivity=sensitivity, numeric=numeric)

    low, high = Fraction(0), Fraction(2 * units, UNITS_PER_ONE)
    for _ in range(40):
        middle = (low + high) / 2
        cost = sum(times * accountant.units(event) for event, times in build(middle).kinds)
        low, high = (middle, high) if cost <= units else (low, middle)
    settings = build(low)
    for scale in (settings.threshold_scale, settings.query_scale):
        check_laplace(scale)
    if settings.answer is not None:
        (check_laplace if settings.answer.law == "laplace" else check_gaussian)(settings.answer.scale)
    return settings
