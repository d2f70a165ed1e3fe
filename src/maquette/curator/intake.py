"""Intake: the steps before a curator's doors: opening a table's account, reading questions, pricing their noise.

Here public input is checked and put on the grid. A price becomes units, the units become a noise scale at the
sensitivity that `Relation` states, and the noise is drawn. No statistic of the rows is computed here: the doors do
that, after the charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.curator import plain
from maquette.curator.compile import Compiler, Question, asked_of
from maquette.curator.compiled import Compiled
from maquette.curator.deadline import Deadline, Work, check_deadline
from maquette.curator.engines.api import UnitEngine, ValueEngine
from maquette.curator.noise import (
    ExactNoise,
    NoiseSource,
    check_gaussian,
    check_laplace,
    check_selection,
    round_scale_up,
)
from maquette.curator.results import Measurement, NoiseEvent
from maquette.curator.scores import rounded_to
from maquette.curator.table import PrivateTable, engine_of
from maquette.curator.transaction import KEPT, Arrays, Transaction
from maquette.errors import BudgetError, QueryError
from maquette.privacy import Budget, DiscreteGaussian, DiscreteLaplace, Event, Kind, Loss, Pure, Relation, Selection
from maquette.privacy.ledger import LedgerSource, Terms, open_ledger
from maquette.query import Asked, LinearQuery, Movable
from maquette.schema import Schema

if TYPE_CHECKING:
    from maquette.query import Contrasts, Marginal

Law = Literal["auto", "laplace", "gaussian"]
Mechanism = Literal["auto", "exponential", "permute-and-flip"]
LAWS: tuple[Law, ...] = ("laplace", "gaussian", "auto")
MECHANISMS: tuple[Mechanism, ...] = ("exponential", "permute-and-flip", "auto")


class Priced(Movable, Protocol):
    """What prices and noise depend on: a compiled question, or what a public one says of itself."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers along each axis."""

    @property
    def grid(self) -> int:
        """Values are whole numbers of 1/grid."""


class Intake:
    """One private table under one budget and ledger, with everything its doors share."""

    def __init__(
        self,
        table: PrivateTable,
        budget: Budget,
        *,
        ledger: LedgerSource = None,
        anchor: str | Path | None = None,
        relation: Kind = "add-remove",
        noise: NoiseSource | None = None,
        deadline: Deadline | None = None,
        max_rows: int | None = None,
    ) -> None:
        if not isinstance(table, PrivateTable):
            raise QueryError(f"the table is of type {type(table).__name__}", expected="a table made by open_table")
        if not isinstance(budget, Budget):
            raise BudgetError(f"the budget is {budget!r}", expected="a Budget, such as Budget(epsilon=1.0)")
        check_deadline(deadline, max_rows)
        self._engine = engine_of(table)
        self._noise: NoiseSource = ExactNoise() if noise is None else noise
        self._private = isinstance(self._noise, ExactNoise)
        self._schema = table.schema
        self._table_name = table.name
        self._keeps_values = isinstance(self._engine, ValueEngine)  # once: the test touches the engine's methods
        self._left_out: NDArray[np.int64] | None = getattr(self._engine, "left_out", None)
        self._several = table.max_contributions > 1
        self._compile = self._compiler()
        self._budget = budget
        self._events: dict[tuple[Literal["laplace", "gaussian"], int, int, int], NoiseEvent] = {}
        self._relation = Relation(relation, table.max_contributions)
        if self.relation.rows_are_public:
            budget.check_rows(self._engine.rows)
        else:
            budget.check_private_rows()
        terms = Terms(
            table=self._engine.fingerprint,
            schema=self.schema.digest,
            relation=self.relation.kind,
            unit=table.privacy_unit,
            max_contributions=table.max_contributions,
            currency=budget.currency,
            limit=budget.limit,
        )
        account = open_ledger(ledger, terms, anchor=None if anchor is None else Path(anchor))
        self._transaction = Transaction(account, budget, deadline=deadline, max_rows=max_rows)
        self._opened()

    def _opened(self) -> None:
        """What a door does once, when the ledger is open."""

    def _compiler(self) -> Compiler:
        """The compiler of questions about the engine's rows."""
        units = self._several and isinstance(self._engine, UnitEngine) and self._engine.keeps_units
        return Compiler(self.schema, values=self._keeps_values, units=units)

    @property
    def schema(self) -> Schema:
        """The public universe."""
        return self._schema

    @property
    def table_name(self) -> str | None:
        """The table's name in SQL, from its source; None if it has none, so that any name means it."""
        return self._table_name

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of every question that has none of its own."""
        return self._transaction.deadline

    @property
    def most_rows(self) -> int | None:
        """A public bound on the number of rows: their number where that is public, else `max_rows`, if declared."""
        return self._engine.rows if self.relation.rows_are_public else self._transaction.max_rows

    @property
    def keeps_values(self) -> bool:
        """Whether sums can add up the values of binned columns themselves; a fact about the engine, not the rows."""
        return self._keeps_values

    @property
    def budget(self) -> Budget:
        """The most that may be spent."""
        return self._budget

    @property
    def relation(self) -> Relation:
        """The neighbouring relation: every door is priced by it, so it cannot be changed."""
        return self._relation

    @property
    def private(self) -> bool:
        """Whether the noise comes from the production source."""
        return self._private

    def _asked(self, questions: Sequence[Question]) -> list[Asked]:
        """The caller's questions as objects with a form."""
        if isinstance(questions, str | LinearQuery) or hasattr(questions, "form") or not len(questions):
            raise QueryError(
                "there is no question", expected="a non-empty list of columns, linear queries or marginals"
            )
        return [asked_of(self.schema, question) for question in questions]

    def _compiled(self, questions: Sequence[Question]) -> list[Compiled]:
        return [self._compile(question) for question in self._asked(questions)]

    def _prefetch(self, marginals: Sequence[Compiled]) -> None:
        self._engine.prefetch([columns for m in marginals for columns in m.reads])

    def _public(self, marginals: Sequence[Compiled], answers: Sequence[ArrayLike]) -> Arrays:
        if len(answers) != len(marginals):
            raise QueryError(
                f"got {len(answers)} public answers to {len(marginals)} questions", expected="one for each"
            )
        rounded = []
        for m, answer in zip(marginals, answers, strict=True):
            values = plain.array(answer)
            if values.shape != m.shape:
                raise QueryError(
                    f"a public answer about {', '.join(m.columns) or 'all rows'} has shape {values.shape}",
                    expected=f"{m.shape}, in counts",
                )
            rounded.append(rounded_to(values, m.grid))
        return rounded

    def _units(self, epsilon: float | None, rho: float | None, units: int | None) -> int:
        return self._transaction.units(epsilon=epsilon, rho=rho, units=units)

    def _split(self, units: int, parts: int, shares: Sequence[float] | None) -> list[int]:
        if shares is None and parts == 1:
            return [units]
        if shares is None:
            weights: list[int | Fraction] = [1] * parts
        elif len(shares) != parts or not all(0 < share < np.inf for share in shares):
            raise BudgetError(f"got {shares!r}", expected=f"{parts} positive shares, one per question")
        else:
            numbers = [plain.number(share, "a share") for share in shares]
            weights = [number if isinstance(number, int) else Fraction(number) for number in numbers]
        total = sum(weights)
        split = [int(units * weight // total) for weight in weights]
        if min(split) < 1:
            raise BudgetError(
                f"the charge is too small to split over {parts} questions", advice="ask for more or for fewer"
            )
        return split

    def _priced(
        self, questions: Sequence[Question], units: int, shares: Sequence[float] | None, noise: Law
    ) -> tuple[list[Asked], list[Compiled], list[NoiseEvent]]:
        """Questions, compiled, each with the noise that its share of the units buys."""
        asked = self._asked(questions)
        marginals = [self._compile(question) for question in asked]
        return asked, marginals, self._noises(marginals, units, shares, noise)

    def _noises(
        self, priced: Sequence[Priced], units: int, shares: Sequence[float] | None, noise: Law
    ) -> list[NoiseEvent]:
        """The noise of each question that its share of the units buys."""
        parts, law = self._split(units, len(priced), shares), self._law(noise)
        return [self._noise_event(law, part, one) for part, one in zip(parts, priced, strict=True)]

    def _measurements(
        self,
        asked: Sequence[Asked],
        marginals: Sequence[Priced],
        arrays: Arrays,
        events: Sequence[NoiseEvent],
        costs: Sequence[Loss] | None = None,
    ) -> tuple[Measurement, ...]:
        """The measurements, with their costs if those are known."""
        if costs is None:
            costs = [self._transaction.loss(self.budget.accountant.units(event)) for event in events]
        return tuple(
            Measurement(cast("Marginal | Contrasts", question), array / m.grid, event, cost, m.grid)
            for question, m, array, event, cost in zip(asked, marginals, arrays, events, costs, strict=True)
        )

    def _law(self, noise: Law) -> Literal["laplace", "gaussian"]:
        law = plain.one_of(noise, LAWS, "noise")
        if law != "auto":
            return law
        return "laplace" if self.budget.accountant.currency == "pure" else "gaussian"

    def _noise_event(self, law: Literal["laplace", "gaussian"], units: int, m: Priced) -> NoiseEvent:
        return self._calibrated(law, units, self.relation.l1(m), self.relation.l2_squared(m))

    def _calibrated(self, law: Literal["laplace", "gaussian"], units: int, l1: int, l2_squared: int) -> NoiseEvent:
        """The noise that these units buy; many questions have the same sensitivity, so it is computed once."""
        asked = law, units, l1, l2_squared
        known = self._events.get(asked)
        if known is None:
            known = self._event(*asked)
            if len(self._events) < KEPT:
                self._events[asked] = known
        return known

    def _event(self, law: Literal["laplace", "gaussian"], units: int, l1: int, l2_squared: int) -> NoiseEvent:
        accountant = self.budget.accountant
        if law == "laplace":
            scale = accountant.laplace_scale(units, Fraction(l1))
            check_laplace(scale)
            return DiscreteLaplace(scale, Fraction(l1))
        variance = accountant.gaussian_variance(units, Fraction(l2_squared))
        check_gaussian(variance)
        return DiscreteGaussian(variance, Fraction(l2_squared))

    def _draws(self, events: Sequence[NoiseEvent], sizes: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        """Independent noise for each event: in one call if the source can and the kind is the same, else in turn."""
        if isinstance(self._noise, ExactNoise):
            scales = [event.scale for event in events if isinstance(event, DiscreteLaplace)]
            if len(scales) == len(events):
                return iter(self._noise.laplaces(scales, sizes))
            variances = [event.variance for event in events if isinstance(event, DiscreteGaussian)]
            if len(variances) == len(events):
                return iter(self._noise.gaussians(variances, sizes))
        return (self._draw(event, size) for event, size in zip(events, sizes, strict=True))

    def _draw(self, event: NoiseEvent, size: int) -> NDArray[np.int64]:
        if isinstance(event, DiscreteLaplace):
            return self._noise.laplace(event.scale, size)
        return self._noise.gaussian(event.variance, size)

    def _select(
        self,
        door: str,
        scores: Callable[[], NDArray[np.int64]],
        sensitivity: int,
        *,
        mechanism: Mechanism = "auto",
        units: int,
        public: dict[str, object],
        request: str | None,
        analyst: str,
        work: Work,
    ) -> tuple[int, Loss]:
        accountant = self.budget.accountant
        asked = plain.one_of(mechanism, MECHANISMS, "mechanism")
        flip = accountant.currency == "pure" if asked == "auto" else asked == "permute-and-flip"
        strength = accountant.pure_epsilon(units) if flip else accountant.selection_epsilon(units)
        event: Event = Pure(strength) if flip else Selection(strength)
        choose = self._noise.permute_and_flip if flip else self._noise.exponential
        scale = round_scale_up(Fraction(2 * sensitivity) / Fraction(strength))
        check_selection(scale)
        arrays, cost = self._transaction.through(
            door,
            events=[event],
            public={**public, "sensitivity": sensitivity, "scale": str(scale), "flip": flip},
            evaluate=lambda: [np.array([choose(scores(), scale)], dtype=np.int64)],
            request=request,
            analyst=analyst,
            work=work,
        )
        return int(arrays[0][0]), cost
