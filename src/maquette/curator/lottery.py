"""Lottery: a door that draws random queries; queries with larger error of public answers are more likely.

It plays the query player in the query-release game. Its weights are multiplicative weights over all cells of the
questions; only the drawn cells leave the wall.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.curator import plain
from maquette.curator.cap import clipped
from maquette.curator.compiled import Compiled, tally
from maquette.curator.deadline import Work
from maquette.curator.engines.api import Engine
from maquette.curator.noise import NoiseSource, check_selection, exponentials, round_scale_up
from maquette.curator.scores import check_reach, reach, rounded_to
from maquette.curator.transaction import Arrays, Transaction, digest
from maquette.errors import BudgetError, QueryError
from maquette.privacy import Loss, Relation, Selection

GRID = 2**20  # scores are in units of 1/GRID row, so that rounding public answers hardly changes the weights
MAX_CANDIDATES = 2**26
MAX_DRAWS = 2**16


@dataclass(frozen=True, eq=False)
class Drawn:
    """The drawn cells (flat index over all questions in order), their signs if they have any, and their cost.

    Sign +1 means that the table's count is larger than the public answers.
    """

    cells: NDArray[np.int64] = field(repr=False)
    signs: NDArray[np.int64] | None = field(repr=False)
    scale: Fraction
    cost: Loss


class Lottery:
    """Draws cells of the questions by the exponential mechanism on the errors of public answers.

    Given answers a_1 ... a_k (each one number per cell, in counts) the score of a cell with count n is
      signed:             sum_j (n - a_j) for the candidate (cell, +1), and the opposite for (cell, -1);
      between=(low, high): sum_j of |n - a_j| clipped to [low, high], without a direction.
    Scores are whole numbers of 1/GRID row; public answers are rounded to that grid.

    Privacy: one unit changes a count by at most D = `Relation.one_cell`, hence every term of a score by at most D
    (clipping and absolute value do not increase it) and the score by at most k D. A draw is one exponential mechanism
    at that sensitivity, with range epsilon: epsilon-DP and epsilon^2/8-zCDP. Scores are not monotone under either
    relation, so the exponent is epsilon * score / (2 k D). With `cap`, scores are first clipped so that no candidate
    has probability above 1/cap, which keeps their sensitivity (`clipped`). Draws are independent given the scores: each
    is priced as a separate mechanism, and all are charged at once before the rows are read. Exact counts stay in memory
    behind the wall between draws; opening a lottery reads nothing and costs nothing. Mechanisms §2.1, §7.2 and §7.4.
    """

    def __init__(
        self,
        transaction: Transaction,
        engine: Engine,
        relation: Relation,
        noise: NoiseSource,
        *,
        marginals: Sequence[Compiled],
        between: tuple[float, float] | None,
    ) -> None:
        self._transaction = transaction
        self._engine = engine
        self._noise = noise
        self._marginals = list(marginals)
        self.cells = sum(m.cells for m in self._marginals)
        self.candidates = self.cells if between is not None else 2 * self.cells
        if self.candidates > MAX_CANDIDATES:
            raise QueryError(
                f"there are {self.candidates:,} candidates, more than {MAX_CANDIDATES:,}", advice="ask fewer questions"
            )
        self._between = None if between is None else _bounds(between)
        self._move = max(relation.one_cell(m) * (GRID // m.grid) for m in self._marginals)
        self._reach = max(reach(m) * (GRID // m.grid) for m in self._marginals)
        self._key = hashlib.sha256("".join(m.key for m in self._marginals).encode()).hexdigest()
        self._exact: NDArray[np.int64] | None = None

    def draw(
        self,
        answers: ArrayLike,
        *,
        draws: int,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        cap: int | None = None,
        request: str | None = None,
        analyst: str = "custodian",
    ) -> Drawn:
        """Draw `draws` times against one or several public answers, for a total of `epsilon`, `rho` or `units`."""
        public = self._public(answers)
        draws, cap = plain.whole(draws, "draws"), None if cap is None else plain.whole(cap, "cap")
        if not 1 <= draws <= MAX_DRAWS:
            raise QueryError(f"draws is {draws}", expected=f"1 to {MAX_DRAWS:,}")
        if cap is not None and not 1 <= cap <= self.candidates:
            raise QueryError(f"cap is {cap}", expected=f"1 to the number of candidates, {self.candidates:,}")
        budget = self._transaction.budget
        total = self._transaction.units(epsilon=epsilon, rho=rho, units=units)
        if total < draws:
            raise BudgetError(f"{total} units are too little for {draws} draws", advice="ask for more, or for fewer")
        event = Selection(budget.accountant.selection_epsilon(total // draws))
        sensitivity = self._move * len(public)
        scale = round_scale_up(Fraction(2 * sensitivity) / Fraction(event.epsilon))
        check_selection(scale)

        def evaluate() -> Arrays:
            scores = self._scores(public)
            kept = scores if cap is None else clipped(scores, scale, cap)
            return [exponentials(self._noise, kept, scale, draws)]

        (chosen,), cost = self._transaction.through(
            "lottery",
            events=[event] * draws,
            public={
                "questions": self._key,
                "answers": digest(list(public)),
                "score": ["signed"] if self._between is None else list(self._between),
                "cap": cap,
                "sensitivity": sensitivity,
                "scale": str(scale),
            },
            evaluate=evaluate,
            request=request,
            analyst=analyst,
            work=Work(
                Work.of(self._engine.schema, self._marginals).columns, self.candidates * (len(public) + 1) + draws
            ),
        )
        if self._between is not None:
            return Drawn(chosen, None, scale, cost)
        return Drawn(chosen % self.cells, np.where(chosen < self.cells, 1, -1), scale, cost)

    def _public(self, answers: ArrayLike) -> NDArray[np.int64]:
        values = np.atleast_2d(plain.array(answers))
        if values.ndim != 2 or values.shape[1] != self.cells or not len(values):
            raise QueryError(
                f"public answers have shape {values.shape}",
                expected=f"one number for each of the {self.cells:,} cells, in counts, or several rows of them",
            )
        rounded = rounded_to(values, GRID)
        check_reach(self._reach + int(np.abs(rounded).max()), len(values))
        return rounded

    def _scores(self, public: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = self._counts()
        if self._between is None:
            errors = len(public) * counts - public.sum(axis=0)
            return np.concatenate([errors, -errors])
        scores = np.zeros_like(counts)
        for answer in public:
            scores += np.clip(np.abs(counts - answer), *self._between)
        return scores

    def _counts(self) -> NDArray[np.int64]:
        """The exact counts of all cells, on the grid; read once, since rows do not change."""
        if self._exact is None:
            self._engine.prefetch([columns for m in self._marginals for columns in m.reads])
            tallies = [tally(self._engine, m).reshape(-1) * (GRID // m.grid) for m in self._marginals]
            self._exact = np.concatenate(tallies)
        return self._exact

    def __repr__(self) -> str:
        return f"Lottery({len(self._marginals):,} questions, {self.candidates:,} candidates)"


def _bounds(between: tuple[float, float]) -> tuple[int, int]:
    low, high = (int(b) for b in rounded_to(plain.array(between), GRID))
    if not 0 <= low < high:
        raise QueryError(f"between is {between}", expected="two numbers of rows, the first smaller and not negative")
    return low, high
