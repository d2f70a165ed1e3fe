"""Curator: the doors in the wall, the only way in which information about the rows is released.

Every door (a) checks its public input, (b) computes its sensitivity from the `Relation` and its noise from the budget
share it was given, (c) charges the ledger durably, (d) reads exact integer counts, (e) draws exact discrete noise or
makes an exact private selection, (f) records the result durably, (g) returns it. Scores and statistics are integers;
public answers are rounded to the same grid before they are compared with counts. A door's price is exactly one of
`epsilon` (at the budget's delta), `rho` and `units` of the ledger; `units` are not rounded. Any use of the results is
post-processing, so the privacy of the whole system is the privacy of these doors plus composition by the ledger.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.curator import plain
from maquette.curator.account import ScopedAccount
from maquette.curator.compile import Question
from maquette.curator.compiled import tally
from maquette.curator.cut import CutDoor
from maquette.curator.deadline import Deadline, Work
from maquette.curator.guard import Guard, Questions
from maquette.curator.intake import Law, Mechanism
from maquette.curator.lazy_guard import LazyGuard
from maquette.curator.lottery import Lottery
from maquette.curator.results import Chosen, Errors, Measurement
from maquette.curator.scores import Scorer, absolute_total, check_reach, reach, rounded_to
from maquette.curator.transaction import Arrays, digest, unpack
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.privacy.ledger import Ledger
from maquette.query import Contrasts, Marginal

CUSTODIAN = "custodian"
BLOCK = 4096  # candidates scored at once


class Curator(CutDoor):
    """Keeps a private table and one budget.

    `ledger` is a file (default: in memory). `anchor` is a second small file, best kept elsewhere, that reveals a ledger
    set back to an older copy. Every curator has its own ledger: two ledgers for the same rows spend two budgets, so use
    one ledger file per table. A ledger of another kind is given as a function that takes `Terms` and returns an open
    ledger bound to them, such as `ledger=MemoryLedger`, or as an open `Ledger` that was made for the same terms; the
    curator closes it. `noise` is for tests: with any but the default, `private` is False.

    With a `deadline` in seconds, every answer or refusal after a charge is returned exactly that long after the
    question, so that response time reveals nothing about the rows. An answer that is not ready by then is refused as
    `DeadlineMissed`; its charge is kept and it is never released. "auto" computes the deadline from the question and
    from `max_rows`, a public upper bound on the number of rows. Recorded answers are returned at once.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Boolean("smoker")])
    >>> table = mq.open_table({"smoker": [True, False, True]}, schema)
    >>> curator = mq.Curator(table, mq.Budget(epsilon=1.0))
    >>> _ = curator.measure(["smoker"], epsilon=0.25)
    >>> curator.spent.epsilon, curator.remaining.epsilon
    (0.25, 0.75)
    """

    @property
    def ledger(self) -> Ledger:
        """The account of everything charged."""
        return self._transaction.ledger

    @property
    def spent(self) -> Loss:
        """The loss of all charges, at the budget's delta."""
        return self._transaction.loss(self.ledger.spent())

    @property
    def remaining(self) -> Loss:
        """The most that one further access may cost."""
        return self._transaction.loss(self.budget.limit - self.ledger.spent())

    def account(self, purpose: str) -> AbstractContextManager[ScopedAccount]:
        """A separate account for the questions inside `with curator.account("monthly report") as account:`.

        It says what the block cost, even if others ask at the same time: see `ScopedAccount`. Opening it is free and
        does not change any charge.
        """
        return self._transaction.accounts.open(plain.text(purpose, "purpose"))

    def cost_of(self, measurements: Sequence[Measurement]) -> Loss:
        """The total cost of several measurements."""
        return self._transaction.loss(sum(measurement.cost.units for measurement in measurements))

    def recall(self, request: str) -> tuple[NDArray[np.int64], ...] | None:
        """The recorded result of an answered request, free of charge; None if there is no answer."""
        recorded = self.ledger.lookup(request)
        return None if recorded is None else tuple(unpack(recorded.answer))

    def within(self, deadline: Deadline | None) -> AbstractContextManager[None]:
        """Use this deadline for all questions inside `with curator.within(0.5):`; None keeps the curator's own.

        The deadline counts from the start of the block, and the block ends when its results may be released. Process
        answers inside the block, and release nothing before it has ended. A second question in the block begins when
        the first is released.
        """
        return self._transaction.within(deadline)

    def close(self) -> None:
        """Close the ledger; the curator then refuses all questions."""
        self.ledger.close()

    def __enter__(self) -> Curator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Curator({len(self.schema)} columns, {self.relation}, spent {self.spent} of {self.budget!r})"

    def _repr_html_(self) -> str:
        spent, whole = self.ledger.spent(), self.budget.limit
        share = min(1.0, spent / whole) if whole else 0.0
        bar = (
            f'<svg width="160" height="10"><rect width="160" height="10" fill="none" stroke="#8a9ba8"/>'
            f'<rect width="{160 * share:.1f}" height="10" fill="#2a8f9e"/></svg>'
        )
        facts = {
            "table": self.table_name or "any name",
            "columns": ", ".join(self.schema.names[:12]) + (", ..." if len(self.schema.names) > 12 else ""),
            "protects": str(self.relation),
            "spent": str(self.spent),
            "remains": str(self.remaining),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return (
            f"<table><caption>Curator</caption>{rows}<tr><th>budget</th><td>{bar} {share:.1%} spent</td></tr></table>"
        )

    def measure(
        self,
        question: Question,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        noise: Law = "auto",
        request: str | None = None,
        analyst: str = CUSTODIAN,
        note: object = None,
    ) -> Measurement:
        """One noisy marginal (or number); see `measure_many`."""
        (measurement,) = self.measure_many(
            [question], epsilon=epsilon, rho=rho, units=units, noise=noise, request=request, analyst=analyst, note=note
        )
        return measurement

    def measure_many(
        self,
        questions: Sequence[Question],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        shares: Sequence[float] | None = None,
        noise: Law = "auto",
        request: str | None = None,
        analyst: str = CUSTODIAN,
        note: object = None,
    ) -> tuple[Measurement, ...]:
        """Noisy marginals for one charge of `epsilon`, `rho` or `units`, split by `shares`.

        Every cell gets independent discrete Laplace or Gaussian noise; "auto" is Laplace under a pure budget, otherwise
        Gaussian. `note` is public JSON that the ledger keeps with the charge.
        Privacy: marginal i is one Laplace or Gaussian mechanism at the L1 or L2 sensitivity that `Relation` states
        (a row falls into one cell); the marginals compose. Mechanisms §1.1-1.4.
        """
        asked, marginals, events = self._priced(questions, self._units(epsilon, rho, units), shares, noise)

        def evaluate() -> Arrays:
            self._prefetch(marginals)
            drawn = self._draws(events, [m.cells for m in marginals])
            return [tally(self._engine, m) + next(drawn).reshape(m.shape) for m in marginals]

        arrays, cost = self._transaction.through(
            "measure",
            events=events,
            public={
                "questions": [m.key for m in marginals],
                "columns": [list(m.columns) for m in marginals],
                **({} if note is None else {"note": note}),
            },
            evaluate=evaluate,
            request=request,
            analyst=analyst,
            work=Work.of(self.schema, marginals),
        )
        return self._measurements(asked, marginals, arrays, events, [cost] if len(events) == 1 else None)

    def expected(
        self,
        questions: Sequence[Question],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        shares: Sequence[float] | None = None,
        noise: Law = "auto",
    ) -> tuple[Measurement, ...]:
        """What `measure_many` would return, with zeros in place of every number: the noise, the grid and the cost.

        Privacy: computed from the schema and the prices alone; no row is read and nothing is charged. So it takes what
        a marginal or contrasts say of themselves, where a door compiles.
        """
        asked = self._asked(questions)
        priced = [one if type(one) is Marginal or type(one) is Contrasts else self._compile(one) for one in asked]
        events = self._noises(priced, self._units(epsilon, rho, units), shares, noise)
        zeros = [np.zeros(one.shape, dtype=np.int64) for one in priced]
        return self._measurements(asked, priced, zeros, events)

    def measure_error(
        self,
        questions: Sequence[Question],
        answers: Sequence[ArrayLike],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        noise: Law = "auto",
        request: str | None = None,
        analyst: str = CUSTODIAN,
    ) -> Errors:
        """Noisy L1 distances between private marginals and public `answers` (in counts), all at once.

        Privacy: one unit changes the i-th distance by at most the L1 sensitivity of its marginal (triangle
        inequality), so the vector of distances has L1 sensitivity sum_i l1_i and squared L2 sensitivity sum_i
        l1_i^2; one vector Laplace or Gaussian mechanism.
        """
        marginals = self._compiled(questions)
        grid = max(m.grid for m in marginals)
        public = self._public(marginals, answers)
        moves = [self.relation.l1(m) * (grid // m.grid) for m in marginals]
        for m, answer in zip(marginals, public, strict=True):
            check_reach(reach(m) + absolute_total(answer), grid // m.grid)
        price, law = self._units(epsilon, rho, units), self._law(noise)
        event = self._calibrated(law, price, sum(moves), sum(move**2 for move in moves))

        def evaluate() -> Arrays:
            self._prefetch(marginals)
            distances = [
                int(np.abs(tally(self._engine, m) - answer).sum()) * (grid // m.grid)
                for m, answer in zip(marginals, public, strict=True)
            ]
            return [np.array(distances, dtype=np.int64) + self._draw(event, len(distances))]

        (values,), cost = self._transaction.through(
            "measure_error",
            events=[event],
            public={"questions": [m.key for m in marginals], "answers": digest(public)},
            evaluate=evaluate,
            request=request,
            analyst=analyst,
            work=Work.of(self.schema, marginals),
        )
        return Errors(values / grid, event, grid, cost)

    def select_worst(
        self,
        questions: Sequence[Question],
        answers: Sequence[ArrayLike],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        over: Literal["cells", "marginals"] = "cells",
        signed: bool = False,
        mechanism: Mechanism = "auto",
        weights: Sequence[float] | None = None,
        penalties: Sequence[float] | None = None,
        request: str | None = None,
        analyst: str = CUSTODIAN,
    ) -> Chosen:
        """Select privately where public `answers` (in counts) are most wrong.

        over="cells": candidates are all cells, scored weight * (|count - answer| - penalty); with `signed`, the two
        candidates (cell, +1) and (cell, -1) are scored by the signed error. over="marginals": candidates are whole
        marginals, scored weight * (L1 error - penalty). Weights and penalties (one per marginal, in counts) are
        public.

        Privacy: one exponential mechanism or permute-and-flip ("auto": the latter under a pure budget, where it has
        smaller error at the same price) on integer scores, at sensitivity D = max over marginals of weight *
        (`Relation.one_cell` or, for whole marginals, `Relation.l1`); scores are not monotone under either relation, so
        the exponent is epsilon * score / (2 D). Mechanisms §2.
        """
        over, signed = plain.one_of(over, ("cells", "marginals"), "over"), bool(signed)
        if signed and over == "marginals":
            raise QueryError("a whole marginal has no single direction", advice='use signed=True with over="cells"')
        marginals = self._compiled(questions)
        public = self._public(marginals, answers)
        scorer = Scorer(self.relation, marginals, public, weights=weights, penalties=penalties, over=over)
        sizes = [(2 if signed else 1) * m.cells if over == "cells" else 1 for m in marginals]

        def scores() -> NDArray[np.int64]:
            self._prefetch(marginals)
            errors = [tally(self._engine, m) - answer for m, answer in zip(marginals, public, strict=True)]
            return np.concatenate([scorer.scores(i, error, signed) for i, error in enumerate(errors)])

        index, cost = self._select(
            "select_worst",
            scores,
            scorer.sensitivity,
            mechanism=mechanism,
            units=self._units(epsilon, rho, units),
            public={
                "questions": [m.key for m in marginals],
                "answers": digest(public),
                "score": [over, signed, scorer.weights, scorer.penalties],
            },
            request=request,
            analyst=analyst,
            work=Work.of(self.schema, marginals),
        )
        which = int(np.searchsorted(np.cumsum(sizes), index, side="right"))
        if over == "marginals":
            return Chosen(which, None, None, cost)
        inside = index - sum(sizes[:which])
        sign = None
        if signed:
            sign, inside = (1, inside) if inside < marginals[which].cells else (-1, inside - marginals[which].cells)
        cell = tuple(int(i) for i in np.unravel_index(inside, marginals[which].shape)) if marginals[which].shape else ()
        return Chosen(which, cell, sign, cost)

    def select_best(
        self,
        questions: Sequence[Question],
        candidates: ArrayLike,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        mechanism: Mechanism = "auto",
        request: str | None = None,
        analyst: str = CUSTODIAN,
    ) -> Chosen:
        """Select privately the public candidate whose answers are closest to the table's (the Net mechanism).

        `candidates` has one row per candidate: its answers (in counts) to all cells of all questions, in order. The
        score of a candidate is minus its largest error.

        Privacy: every error changes by at most D = max `Relation.one_cell`, hence so does their maximum; one
        exponential mechanism or permute-and-flip ("auto": the latter under a pure budget, where it errs no more at the
        same price) at sensitivity D. Mechanisms §3.1.
        """
        marginals = self._compiled(questions)
        grid = max(m.grid for m in marginals)
        table = plain.array(candidates)
        total = sum(m.cells for m in marginals)
        if table.ndim != 2 or table.shape[1] != total or not len(table):
            raise QueryError(
                f"got answers of shape {table.shape}",
                expected=f"candidates x {total} answers (all cells of all questions)",
            )
        rounded = rounded_to(table, grid)
        check_reach(max(reach(m) * (grid // m.grid) for m in marginals) + int(np.abs(rounded).max()), 1)
        sensitivity = max(self.relation.one_cell(m) * (grid // m.grid) for m in marginals)

        def scores() -> NDArray[np.int64]:
            self._prefetch(marginals)
            truth = np.concatenate([tally(self._engine, m).reshape(-1) * (grid // m.grid) for m in marginals])
            blocks = (rounded[i : i + BLOCK] for i in range(0, len(rounded), BLOCK))
            return np.concatenate([-np.abs(block - truth).max(axis=1) for block in blocks])

        index, cost = self._select(
            "select_best",
            scores,
            sensitivity,
            mechanism=mechanism,
            units=self._units(epsilon, rho, units),
            public={"questions": [m.key for m in marginals], "candidates": digest([rounded])},
            request=request,
            analyst=analyst,
            work=Work(Work.of(self.schema, marginals).columns, table.size),
        )
        return Chosen(index, None, None, cost)

    def guard(
        self,
        threshold: float,
        *,
        hits: int = 1,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        numeric: bool = True,
        refreshed: bool | None = None,
        analyst: str = CUSTODIAN,
        request: str | None = None,
    ) -> Guard:
        """A sparse-vector guard: tests public answers until `hits` of them are found wrong by more than `threshold`.

        The whole guard is charged when it opens; its tests are free. Under a pure budget `refreshed=False` (the default
        for three hits or more, where it needs less noise) keeps one noisy threshold for all hits. Mechanisms §6.1-6.2;
        the proof is in `Guard`.
        """
        return Guard.open(
            self._transaction,
            self._engine,
            Questions(self._compile, self.relation),
            self._noise,
            threshold=threshold,
            hits=hits,
            units=self._units(epsilon, rho, units),
            numeric=numeric,
            refreshed=refreshed,
            analyst=analyst,
            request=request,
        )

    def lazy_guard(
        self,
        threshold: float,
        *,
        hits: int,
        epsilon: float | None = None,
        units: int | None = None,
        analyst: str = CUSTODIAN,
    ) -> LazyGuard:
        """A guard without threshold noise: (epsilon, delta)-DP, less noise for many hits; at most one per ledger.

        The whole guard is charged when it opens, `epsilon` and all of the budget's delta; its tests are free. Needs a
        budget with accounting="basic". The theorem is that of `LazyGuard`, its proof docs/theory/lazy-rounds.md.
        """
        return LazyGuard.open(
            self._transaction,
            self._engine,
            Questions(self._compile, self.relation),
            self._noise,
            threshold=threshold,
            hits=hits,
            units=self._units(epsilon, None, units),
            analyst=analyst,
        )

    def lottery(self, questions: Sequence[Question], *, between: tuple[float, float] | None = None) -> Lottery:
        """A door that draws random cells of `questions`; cells with larger error of public answers are more likely.

        Opening it is free; every draw is an exponential mechanism and is charged. The proof is in `Lottery`.
        """
        marginals = self._compiled(questions)
        if any(m.moves.gains is not None for m in marginals):
            raise QueryError("a lottery is over cells of marginals", advice="give marginals, columns or linear queries")
        return Lottery(
            self._transaction, self._engine, self.relation, self._noise, marginals=marginals, between=between
        )

    def choose(self, scores: NDArray[np.int64], scale: Fraction) -> int:
        """An index with probability proportional to exp(score / scale), from the curator's own exact randomness.

        For scores that depend on the rows only through released results: it reads no row and charges nothing. It gives
        randomness that nobody can replay to a player whose choice must hide something else, such as the queries.
        """
        return self._noise.exponential(scores, scale)

    def count_rows(
        self,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        request: str | None = None,
        analyst: str = CUSTODIAN,
    ) -> float:
        """The number of rows: exact and free if it is public, otherwise noisy for `epsilon`, `rho` or `units`.

        Privacy: under "replace" with one row per unit all neighbours have the same number of rows. Otherwise it is
        `measure` of the constant query.
        """
        if self.relation.rows_are_public:
            return float(self._engine.rows)
        measured = self.measure(
            Marginal(self.schema), epsilon=epsilon, rho=rho, units=units, request=request, analyst=analyst
        )
        return float(measured.values)
