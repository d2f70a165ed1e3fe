"""Goal: what a question needs from the table: marginals, each seen through its view."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.answers import rehearse
from maquette.bounded import Bounded
from maquette.estimates import Columns
from maquette.query import (
    Axis,
    Buckets,
    Context,
    Contrasts,
    Expression,
    LinearQuery,
    Marginal,
    OfValues,
    Output,
    Program,
    Statement,
    Term,
    UnitCounts,
    ValueProducts,
    ValueSums,
    forms,
    gains_of,
    key_of,
    question,
)
from maquette.schema import Schema
from maquette.session.precision.view import View
from maquette.session.precision.view_of import MAX_CELLS, MAX_COLUMNS, TooWide, cell_view_of, view_of

PARSED = 2_000  # questions kept by their text, with what was computed for them
MOST_COLUMNS, MOST_CELLS = 3, 2**16  # of a table of which a goal may be a slice
MOST_TERMS = 2**9  # of a count that is measured from half of the rows: those that it leaves out are written as well
DIFFERENCE = np.array([[-1, 1]])  # of two sides
DIFFERENCE.flags.writeable = False
MAX_GROUPS = 2**9  # along one axis: the matrix that keeps them apart has their square as entries


@dataclass(frozen=True)
class Goal:
    """A marginal to be known within the tolerance; if signed, its last axis is (negative, positive).

    A sum over bins that hold several values has `values`, the same sum of the values themselves: then that is
    measured, exactly as asked, and the marginal only says what the public model makes of it. Numbers of such a goal
    are in units of the most that one row can add, as those of every other goal are.
    """

    marginal: Marginal
    signed: bool = False
    values: OfValues | None = None
    scale: float = 1.0  # what a number of the marginal is worth in units of the values
    centred: bool = False  # measured as what it differs from half of the rows

    @cached_property
    def key(self) -> str:
        """Identifies the goal."""
        return self.values.key if self.values is not None else self.marginal.key + ("±" if self.signed else "")

    @property
    def unit(self) -> int:
        """The most that one row adds to a number, in steps of its values; 1 where levels are counted."""
        return unit_of(self.as_asked)

    @cached_property
    def as_asked(self) -> Marginal | Contrasts:
        """What is measured where it is measured exactly as asked.

        A signed sum is one number for each group, positive less negative: a row moves it by its own weight at most, so
        it costs what one of the halves costs. Only with very many groups are both halves measured.
        """
        if self.values is not None:
            return self.values
        if self.centred:
            held = self.marginal.weight
            sides = Buckets("held", ("no", "yes"), (~held, held))
            return Contrasts.of(Marginal(held.schema, [sides]), (DIFFERENCE,), [gains_of(DIFFERENCE)])
        shape = self.marginal.shape
        if not self.signed or max(shape) > MAX_GROUPS:
            return self.marginal
        groups = [np.eye(size, dtype=np.int64) for size in shape[:-1]]
        return Contrasts(self.marginal, [*groups, DIFFERENCE])

    @cached_property
    def from_half(self) -> Goal | None:
        """The goal measured from half of the rows: held less not held, which a row moves as much as the count itself.

        So half of that, which is the count less half of the rows, costs a quarter. None if it is not one count.
        """
        marginal = self.marginal
        one = type(marginal) is Marginal and not marginal.axes and bool(marginal.columns)
        one = one and len(marginal.weight.terms) <= MOST_TERMS
        fits = one and self.counted and not self.signed and marginal.weight.is_predicate
        return replace(self, centred=True) if fits else None

    @property
    def halved(self) -> bool:
        """Whether both halves of a signed sum are measured, and their difference taken."""
        return self.signed and self.values is None and isinstance(self.as_asked, Marginal)

    @cached_property
    def tables(self) -> tuple[tuple[str, Columns], ...]:
        """The tables of its columns, in every order: the key of each, and its columns."""
        return tables_of(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each group."""
        return self.marginal.shape[:-1] if self.signed else self.marginal.shape

    @property
    def counted(self) -> bool:
        """Whether rows are counted; of privacy units and of values nothing but their own measurement tells."""
        return self.values is None and not isinstance(self.marginal, UnitCounts)

    @property
    def tells_parts(self) -> bool:
        """Whether it is a whole table with few enough columns, which informs about all its parts at once.

        Converted to parts, the Gaussian noise of a table stays jointly sub-Gaussian; Laplace noise would not stay
        independent.
        """
        marginal = self.marginal
        columns = len(marginal.axes) <= MAX_COLUMNS and all(isinstance(axis, str) for axis in marginal.axes)
        return self.counted and columns and marginal.weight == LinearQuery.constant(marginal.schema)

    def view(self, *, cells: bool) -> View | None:
        """How it depends on the parts, or on the cells of the universe; None where it does not, or is too large."""
        if not self.counted:
            return None
        return self._by_cells if cells else self._by_parts

    @property
    def weight(self) -> int:
        """The most numbers that it keeps with what was computed for it."""
        marginal, schema = self.marginal, self.marginal.schema
        kept = sum(schema.shape(marginal.columns)) + marginal.cells
        factors = len(marginal.weight.terms) == 1
        return kept + (0 if factors else min(schema.cells(marginal.columns) * marginal.cells, MAX_CELLS))

    @cached_property
    def _by_parts(self) -> View | None:
        try:
            return view_of(self.marginal, signed=self.signed)
        except TooWide:
            return None

    @cached_property
    def _by_cells(self) -> View | None:
        try:
            return cell_view_of(self.marginal, signed=self.signed)
        except TooWide:
            return None


@lru_cache(64)
def everyone(schema: Schema) -> Goal:
    """The number of rows, which every fraction needs."""
    return Goal(Marginal(schema))


def tables_of(goal: Goal) -> tuple[tuple[str, Columns], ...]:
    """The tables of the columns of a goal, in every order: the key of each, and its columns."""
    marginal = goal.marginal
    plain = type(marginal) is Marginal and all(isinstance(axis, str) for axis in marginal.axes)
    few = plain and 0 < len(marginal.columns) <= MOST_COLUMNS
    return _tables(marginal.schema, marginal.columns) if few and goal.counted and not goal.signed else ()


@lru_cache(PARSED)
def _tables(schema: Schema, columns: Columns) -> tuple[tuple[str, Columns], ...]:
    """The same for some columns, unless there are too many cells: many goals are about the same columns."""
    everything = LinearQuery.constant(schema)
    orders = itertools.permutations(columns) if schema.cells(columns) <= MOST_CELLS else ()
    return tuple((key_of(order, everything), order) for order in orders)


def places_of(goal: Goal, order: Columns) -> NDArray[np.int64] | None:
    """The cell of the table of these columns that each number of a goal is; None if one is more than a cell."""
    marginal, schema = goal.marginal, goal.marginal.schema
    if not marginal.weight.is_predicate:
        return None
    names = [*map(str, marginal.axes), *(name for name in order if name not in marginal.axes)]
    held = marginal.weight.weights(names).reshape(*marginal.shape, -1) > 0
    if (held.sum(axis=-1) > 1).any():
        return None
    shape = schema.shape(order)
    cells = np.transpose(np.arange(math.prod(shape)).reshape(shape), [order.index(name) for name in names])
    return np.asarray(np.where(held, cells.reshape(held.shape), -1).max(axis=-1))


@dataclass(frozen=True)
class Question:
    """A parsed question of a user: a condition (answered by a fraction of rows) or a statement."""

    parsed: LinearQuery | Statement | Program

    @classmethod
    def of(cls, schema: Schema, asked: str | Expression | LinearQuery, context: Context | None = None) -> Question:
        """Parse the question; an invalid one is refused here, before anything is charged."""
        text = asked if isinstance(asked, str) and lasting(asked) else None
        key = None if text is None else (schema, text, context and context.key)
        if key is not None and (known := _PARSED.get(key)) is not None:
            return known
        parsed = question(schema, asked, context)
        if isinstance(parsed, Program):
            rehearse(parsed)
        made = cls(parsed)
        if key is not None:
            _PARSED[key] = made
        return made

    @cached_property
    def on_levels(self) -> Question:
        """The question whose sums add up the middles of bins, for tables that keep no values beside their levels."""
        return self if isinstance(self.parsed, LinearQuery) else Question(self.parsed.on_levels())

    @cached_property
    def key(self) -> str:
        """The canonical question: equal for questions that must get the same answer."""
        if isinstance(self.parsed, LinearQuery):
            return f"fraction {self.parsed.key}"
        return self.parsed.key

    @cached_property
    def goals(self) -> tuple[Goal, ...]:
        """Every distinct marginal it needs."""
        if isinstance(self.parsed, LinearQuery):
            schema = self.parsed.schema
            return Goal(Marginal(schema, (), self.parsed)), everyone(schema)
        statements = (self.parsed,) if isinstance(self.parsed, Statement) else self.parsed.statements
        found = [goal for statement in statements for output in statement.outputs for goal in goals_of(output)]
        return tuple({goal.key: goal for goal in found}.values())

    @property
    def weight(self) -> int:
        """The most numbers that it keeps with what was computed for it."""
        return sum(goal.weight for goal in self.goals)


_PARSED: Bounded[tuple[Schema, str, object], Question] = Bounded(PARSED, lambda question: question.weight)
_TODAY = re.compile("current|today|now", re.IGNORECASE)


def lasting(text: str) -> bool:
    """Whether a text means the same tomorrow; this one is parsed again otherwise."""
    return _TODAY.search(text) is None


def goals_of(output: Output) -> tuple[Goal, ...]:
    """What one output of a statement needs: its measure, then the denominator of an average."""
    if output.measure is None:
        return ()
    measure, values = output.measure, output.measure.values
    scale = 1.0 if values is None else measure.scale / (unit_of(values) * float(values.step))
    measured = Goal(measure.marginal, measure.signed, values, scale)
    return (measured,) if output.per is None else (measured, Goal(output.per))


def unit_of(asked: object) -> int:
    """The most that one row adds to a number of what is measured, where values are added up; 1 for counts."""
    return asked.moves.size if isinstance(asked, OfValues) else 1


def stored(goal: Goal) -> dict[str, Any]:
    """A goal as exact, public JSON."""
    facts = {**as_json(goal.marginal), "signed": goal.signed, **({"centred": True} if goal.centred else {})}
    if (values := goal.values) is not None:
        facts["values"] = {**as_json(values), **_summand(values)}
    return facts


def restored(schema: Schema, facts: Mapping[str, Any]) -> Goal:
    """The goal that `stored` described."""
    given, values = facts.get("values"), None
    if given is not None:
        table = from_json(schema, given)
        values = _values(schema, given, {"axes": table.axes, "where": table.weight})
    return Goal(from_json(schema, facts), facts["signed"], values, centred=facts.get("centred", False))


def _summand(values: OfValues) -> dict[str, Any]:
    """What a question adds up, as JSON."""
    if isinstance(values, ValueProducts):
        return {"factors": [vars(factor) for factor in values.factors]}
    assert isinstance(values, ValueSums)
    return {"column": values.column, "low": values.low, "high": values.high, "centre": values.centre}


def _values(schema: Schema, given: Mapping[str, Any], table: Mapping[str, Any]) -> OfValues:
    """The question that adds up what `_summand` described over the cells of a table."""
    if "factors" not in given:
        return ValueSums(schema, given["column"], **{name: given[name] for name in ("low", "high", "centre")}, **table)
    factors = [
        forms.LevelNumbers(one["column"], tuple(one["numbers"])) if "numbers" in one else forms.ValueSteps(**one)
        for one in given["factors"]
    ]
    return ValueProducts(schema, factors, **table)


def as_json(marginal: Marginal) -> dict[str, Any]:
    """A marginal as exact, public JSON: the ledger keeps it so that a restart can ask for it again."""
    units = {"units": True} if isinstance(marginal, UnitCounts) else {}
    return {"axes": [_axis(axis) for axis in marginal.axes], "weight": _terms(marginal.weight), **units}


def from_json(schema: Schema, stored: Mapping[str, Any]) -> Marginal:
    """The marginal that `as_json` described."""
    axes: list[Axis] = [
        axis
        if isinstance(axis, str)
        else Buckets(axis["name"], tuple(axis["labels"]), tuple(_query(schema, part) for part in axis["parts"]))
        for axis in stored["axes"]
    ]
    return (UnitCounts if stored.get("units") else Marginal)(schema, axes, _query(schema, stored["weight"]))


def _axis(axis: Axis) -> str | dict[str, Any]:
    if isinstance(axis, str):
        return axis
    return {"name": axis.name, "labels": list(axis.labels), "parts": [_terms(part) for part in axis.parts]}


def _terms(query: LinearQuery) -> list[Any]:
    return [[term.coefficient, {str(p): factor.tolist() for p, factor in term.factors.items()}] for term in query.terms]


def _query(schema: Schema, stored: list[Any]) -> LinearQuery:
    return LinearQuery(
        schema,
        [
            Term(coefficient, {int(position): np.array(factor) for position, factor in factors.items()})
            for coefficient, factors in stored
        ],
    )
