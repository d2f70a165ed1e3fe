"""Compile: from an analyst's question to the compiled question that the wall evaluates.

A question is read once, as a form (`maquette.query.forms`): plain data. Every number in it is copied, checked against
the curator's own schema, and put on the grid as a whole number. Names, bounds and digests are computed from the copy by
the wall's own objects. After that, nothing that belongs to the caller is read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.curator import plain
from maquette.curator.compiled import (
    FEW_CELLS,
    AtPoints,
    ByRecord,
    Compiled,
    Computed,
    Contrasted,
    Counted,
    Integers,
    Multiplied,
    Records,
    Signed,
    Summed,
    UnitsCounted,
    Valued,
    Weighed,
    clamped,
    frozen,
)
from maquette.curator.engines.api import Amount
from maquette.curator.factors import copied, factor_of
from maquette.curator.numbers import Floats, floats, integers, refuse_inexact
from maquette.errors import MaquetteError, QueryError
from maquette.query import (
    LARGEST,
    MAX_OUTPUT,
    Amounts,
    Buckets,
    Gains,
    KeyIndex,
    Keys,
    LinearQuery,
    Lookup,
    LowSensitivityQuery,
    Marginal,
    Moves,
    Parities,
    Statistic,
    Term,
    UnitCounts,
    ValueProducts,
    ValueSums,
    checked_points,
    digest_of,
    forms as given,
    gains_of,
    helmert,
    helmert_rows,
    marginal_of,
    together,
)
from maquette.schema import Schema

KEPT = 2**10  # maximum plain tables and residuals that are cached
SMALL = 2**7  # maximum levels of a column whose Helmert rows are cached
SEARCH = 8  # look-ups that finding a key or sorting takes for each record, about

Question = given.Asked | LinearQuery | Sequence[str]


class _View(NamedTuple):
    """Access to cells or records: their levels in a column, and their weights under a query."""

    levels: Callable[[str], NDArray[np.integer[Any]]]
    weights: Callable[[LinearQuery], Floats]


class _Facts(NamedTuple):
    """The facts that every compiled question has."""

    key: str
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    grid: int


class Compiler:
    """Compiles questions about tables of one schema; `values` and `units` say what a table keeps beside its codes."""

    def __init__(self, schema: Schema, *, values: bool = False, units: bool = False) -> None:
        self.schema = schema
        self._keeps_units = units
        self._values = values
        self._everyone = LinearQuery(schema, [Term(1.0, {})])
        self._counted = lru_cache(KEPT)(self._count)
        self._kept_residual = lru_cache(KEPT)(self._residual)

    def __reduce__(self) -> tuple[Callable[[Schema], Compiler], tuple[Schema]]:
        """A question that visits records goes to the executors that hold them, without what is cached here."""
        return partial(Compiler, values=self._values), (self.schema,)

    def __call__(self, question: given.Asked) -> Compiled:
        """The compiled question; refused if it is not a question, or too large to be exact."""
        form = getattr(question, "form", None)
        try:
            return self._form(form)
        except MaquetteError:
            raise
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise QueryError(f"this {type(form).__name__} is malformed: {error}") from None

    def _form(self, form: object) -> Compiled:
        match form:
            case given.Cells():
                return self._cells(form)
            case given.Residual():
                return self._beyond(_names(form.columns))
            case given.Combined():
                return self._combined(form)
            case given.Listed():
                return self._listed(form)
            case given.Amounts():
                return self._amounts(form)
            case given.ValueSums():
                return self._value_sums(form)
            case given.ValueProducts():
                return self._value_products(form)
            case given.UnitCells():
                return self._units(form)
            case given.ParitySums():
                return self._parities(form)
            case given.OfHistogram():
                return self._function(form)
        raise QueryError(
            f"a door was given {type(form).__name__} for a question",
            expected="columns, a linear query, a marginal, "
            "contrasts, or an object whose `form` is one of maquette.query.forms",
        )

    def _cells(self, form: given.Cells) -> Compiled:
        weight = self._weight(form.weight)
        axes = self._axes(form.axes)
        if weight is self._everyone and all(isinstance(axis, str) for axis in axes):
            return self._counted(axes)
        table = Marginal(self.schema, axes, weight)
        facts = _Facts(table.key, table.columns, table.shape, table.grid)
        if not axes and isinstance(weight, Lookup):
            return self._at_points(facts, table.moves, weight.points, _whole(weight, weight.values))
        if not axes and len(table.columns) > 1 and (summed := _summed(facts, weight)) is not None:
            return summed
        return self._weighed(facts, table.moves, table, lambda view: _whole(weight, view.weights(weight)))

    def _count(self, names: tuple[str, ...]) -> Compiled:
        table = Marginal(self.schema, names, self._everyone)
        moves = Moves(1, 1, table.cells)
        return Counted(key=table.key, columns=table.columns, shape=table.shape, grid=1, moves=moves, axes=names)

    def _amounts(self, form: given.Amounts) -> Compiled:
        (name,) = _names([form.column])
        numbers = integers(form.numbers, "amounts", (self.schema[name].size,))
        low, high = plain.whole(form.low, "low"), plain.whole(form.high, "high")
        where, axes = self._weight(form.where), self._axes(form.axes)
        own = Amounts(self.schema, name, numbers, low=low, high=high, axes=axes, where=where)
        amounts = frozen(np.clip(numbers, low, high))

        def weigh(view: _View) -> Integers:
            return np.asarray(_whole(where, view.weights(where)) * amounts[view.levels(name)])

        return self._weighed(_Facts(own.key, own.columns, own.shape, own.grid), own.moves, own, weigh)

    def _value_sums(self, form: given.ValueSums) -> Compiled:
        self._check_values()
        (name,) = _names([form.column])
        low, high, centre = (plain.whole(getattr(form, end), end) for end in ("low", "high", "centre"))
        where, axes = self._weight(form.where), self._axes(form.axes)
        own = ValueSums(self.schema, name, low=low, high=high, centre=centre, axes=axes, where=where)
        facts = _Facts(own.key, own.columns, own.shape, own.grid)._asdict()
        amount = Amount(own.column, low, high, centre)
        table = Marginal(self.schema, axes, where)
        if self.schema.cells(own.columns) <= FEW_CELLS:
            view = self._view(own.columns)
            counted, places = frozen(_whole(where, view.weights(where))), frozen(_places(table, view))
            return Valued(**facts, moves=own.moves, amount=amount, counted=counted, places=places)
        return Valued(**facts, moves=own.moves, few=False, amount=amount, **self._visiting(table))

    def _value_products(self, form: given.ValueProducts) -> Compiled:
        self._check_values()
        where, axes = self._weight(form.where), self._axes(form.axes)
        own = ValueProducts(self.schema, [copied(factor) for factor in form.factors], axes=axes, where=where)
        facts = _Facts(own.key, own.columns, own.shape, own.grid)._asdict()
        factors = tuple(factor_of(self.schema, factor) for factor in own.factors)
        return Multiplied(
            **facts, moves=own.moves, few=False, factors=factors, **self._visiting(Marginal(self.schema, axes, where))
        )

    def _check_values(self) -> None:
        if not self._values:
            raise QueryError("this table keeps no values beside its levels", advice="open it with open_table")

    def _visiting(self, table: Marginal) -> dict[str, Any]:
        """How the records of a table are visited: the weight and the place of each, and the look-ups they take."""
        where = table.weight
        return {
            "steps": _steps(table),
            "weigh": lambda records: np.broadcast_to(
                _whole(where, self._records(records).weights(where)), len(records)
            ),
            "place": lambda records: np.broadcast_to(_places(table, self._records(records)), len(records)),
        }

    def _units(self, form: given.UnitCells) -> Compiled:
        if not self._keeps_units:
            raise QueryError(
                "this table does not know which rows belong to one privacy unit",
                advice="open it with open_table, a privacy_unit and without code planes",
            )
        where, axes = self._weight(form.where), self._axes(form.axes)
        own, table = UnitCounts(self.schema, axes, where), Marginal(self.schema, axes, where)
        facts = _Facts(own.key, own.columns, own.shape, own.grid)._asdict()
        visiting = self._visiting(table)
        return UnitsCounted(**facts, moves=own.moves, **{**visiting, "steps": visiting["steps"] + SEARCH})

    def _weighed(self, facts: _Facts, moves: Moves, table: Marginal, weigh: Callable[[_View], Integers]) -> Compiled:
        """A weight for every cell if there are few cells, otherwise for every record."""
        columns, said = facts.columns, facts._asdict()
        if self.schema.cells(columns) > FEW_CELLS:
            return ByRecord(
                **said,
                moves=moves,
                few=False,
                steps=_steps(table),
                weigh=lambda records: np.broadcast_to(weigh(self._records(records)), len(records)),
                place=lambda records: np.broadcast_to(_places(table, self._records(records)), len(records)),
            )
        view = self._view(columns)
        weights = frozen(weigh(view))
        if all(isinstance(axis, str) for axis in table.axes):
            return Weighed(**said, moves=moves, weights=weights, kept=tuple(map(columns.index, table.names)))
        return Weighed(**said, moves=moves, weights=weights, places=frozen(_places(table, view)))

    def _view(self, columns: Sequence[str]) -> _View:
        """A view of the cells of `columns`: arrays have length 1 along axes that do not matter."""

        def weights(part: LinearQuery) -> Floats:
            own = part.columns
            return part.weights(own).reshape([self.schema[name].size if name in own else 1 for name in columns])

        def levels(name: str) -> Integers:
            size = self.schema[name].size
            return np.arange(size).reshape([size if other == name else 1 for other in columns])

        return _View(levels, weights)

    def _records(self, records: Records) -> _View:
        return _View(lambda name: records[:, self.schema.position(name)], lambda part: part.evaluate(records))

    def _listed(self, form: given.Listed) -> Compiled:
        names = _names(form.columns)
        points = checked_points(self.schema, names, plain.array(form.points, None))
        own = Keys(self.schema, Lookup(self.schema, names, points, np.ones(len(points))))
        if own.columns != names or not np.array_equal(own.points, points):
            raise QueryError("keys must be different and in increasing order, their columns in the schema's order")
        return self._at_points(_Facts(own.key, own.columns, own.shape, 1), own.moves, points, None)

    def _at_points(self, facts: _Facts, moves: Moves, points: NDArray[np.int32], weights: Integers | None) -> AtPoints:
        own = frozen(points, np.int32)
        return AtPoints(
            **facts._asdict(),
            moves=moves,
            points=own,
            weights=None if weights is None else frozen(weights),
            index=KeyIndex(own),
            positions=tuple(map(self.schema.position, facts.columns)),
            few=self.schema.cells(facts.columns) <= FEW_CELLS,
            steps=SEARCH,
        )

    def _combined(self, form: given.Combined) -> Compiled:
        inner = form.cells
        if not isinstance(inner, given.Cells | given.Listed):
            raise QueryError("only the cells of a marginal, or listed keys, can be combined by contrasts")
        table = self._cells(inner) if isinstance(inner, given.Cells) else self._listed(inner)
        matrices = [integers(matrix, "a matrix of contrasts", (None, None)) for matrix in form.matrices]
        if [matrix.shape[1] for matrix in matrices] != list(table.shape):
            raise QueryError(
                f"contrasts have matrices of {tuple(matrix.shape[1] for matrix in matrices)} columns",
                expected=f"one matrix for each axis, with one column for each level: {table.shape}",
            )
        if any(int(m.min(initial=0)) < -LARGEST or int(m.max(initial=0)) > LARGEST for m in matrices):
            raise QueryError(f"an entry of these contrasts exceeds {LARGEST:,}", advice="use coarser matrices")
        own = [frozen(matrix) for matrix in matrices]
        return _contrasted(table, own, [gains_of(matrix) for matrix in own])

    def _beyond(self, columns: tuple[str, ...]) -> Compiled:
        small = max(self.schema.shape(columns), default=0) <= SMALL
        return self._kept_residual(columns) if small else self._residual(columns)

    def _residual(self, columns: tuple[str, ...]) -> Compiled:
        rows = helmert_rows(self.schema.shape(columns), _helmert)
        return _contrasted(self._counted(columns), [matrix for matrix, _ in rows], [gains for _, gains in rows])

    def _parities(self, form: given.ParitySums) -> Compiled:
        own = Parities(self.schema, _names(form.columns), plain.whole(form.level, "level"))
        return Signed(
            key=own.key,
            columns=own.columns,
            shape=own.shape,
            grid=1,
            moves=Moves(1, 1, own.cells, gains=own.gains),
            parities=own,
            few=self.schema.cells(own.columns) <= FEW_CELLS,
            steps=own.cells // 8,  # bits of 64 records are counted together
        )

    def _function(self, form: given.OfHistogram) -> Compiled:
        query = form.query
        own = LowSensitivityQuery(
            str(query.name),
            query.function,
            sensitivity=float(query.sensitivity),
            low=float(query.low),
            high=float(query.high),
        )
        statistic = Statistic(self.schema, own, rows=float(form.rows), sensitivity=float(form.sensitivity))
        return Computed(
            key=statistic.key,
            columns=statistic.columns,
            shape=(),
            grid=statistic.grid,
            moves=statistic.moves,
            statistic=statistic,
        )

    def _axes(self, axes: Sequence[str | Sequence[given.Weight]]) -> tuple[Any, ...]:
        """Columns by name, and buckets rebuilt from copied predicates; `Buckets` checks that they are disjoint."""
        made: list[str | Buckets] = []
        for place, axis in enumerate(axes):
            if isinstance(axis, str):
                made.append(_name(axis))
                continue
            parts = tuple(self._weight(part) for part in axis)
            made.append(Buckets(f"buckets {place}\0", tuple(map(str, range(len(parts)))), parts))
        return tuple(made)

    def _weight(self, weight: given.Weight) -> LinearQuery:
        """A linear query rebuilt from copied numbers."""
        match weight:
            case given.Points():
                return Lookup(
                    self.schema, _names(weight.columns), plain.array(weight.points, None), floats(weight.values)
                )
            case given.Products():
                terms = [self._term(coefficient, factors) for coefficient, factors in weight.terms]
                if len(terms) == 1 and terms[0].coefficient == 1.0 and not terms[0].factors:
                    return self._everyone
                refuse_inexact(terms)
                return LinearQuery(self.schema, terms)
        raise QueryError(
            f"the weight is of type {type(weight).__name__}", expected="Products or Points of maquette.query.forms"
        )

    def _term(self, coefficient: float, factors: Any) -> Term:
        own: dict[int, Floats] = {}
        for name, factor in dict(factors).items():
            column = _name(name)
            position, values = self.schema.position(column), floats(factor)
            size = self.schema.columns[position].size
            if values.shape != (size,):
                raise QueryError(
                    f"column {column!r}: got a factor of shape {values.shape}",
                    expected=f"one number for each of its {size} levels",
                )
            own[position] = values
        number = float(coefficient)
        if not math.isfinite(number):
            raise QueryError("coefficients must be finite numbers")
        return Term(number, own)


def asked_of(schema: Schema, question: Question) -> given.Asked:
    """The question, checked against this schema; columns and linear queries become marginals."""
    if getattr(question, "schema", schema) != schema:
        raise QueryError("a question was built for another schema", advice="build it from curator.schema")
    if isinstance(question, LinearQuery) or not hasattr(question, "form"):
        return marginal_of(schema, question)
    return question


def _summed(facts: _Facts, weight: LinearQuery) -> Summed | None:
    """The total of a weight that is exactly a sum over columns of whole numbers; None for any other weight."""
    whole = None if weight.sum is None else weight.sum.whole(weight.grid)
    if whole is None:
        return None
    constant, parts = whole
    own = {name: frozen(part) for name, part in parts.items()}
    joined = np.concatenate(list(own.values())) if own else np.zeros(1, dtype=np.int64)
    starts = list(accumulate([len(part) for part in own.values()], initial=0))[:-1]
    tops = dict(zip(own, map(int, np.maximum.reduceat(joined, starts)), strict=True)) if own else {}
    high = constant + sum(tops.values())
    if constant < 0 or high > weight.grid or int(joined.min()) < 0:
        raise QueryError("a row would weigh less than 0 or more than 1", advice="a linear query weighs rows in [0, 1]")
    return Summed(**facts._asdict(), moves=Moves(constant, high, 1), constant=constant, parts=own, tops=tops)


def _contrasted(inner: Compiled, matrices: Sequence[Integers], gains: Sequence[Gains]) -> Contrasted:
    all_gains = together(gains)
    if all_gains[0] * inner.moves.size > LARGEST:
        raise QueryError(f"the weights of these contrasts exceed {LARGEST:,}", advice="use coarser matrices")
    shape = tuple(len(matrix) for matrix in matrices)
    if math.prod(shape) > MAX_OUTPUT:
        raise QueryError(
            f"these contrasts have {math.prod(shape):,} values, more than {MAX_OUTPUT:,}", advice="use fewer rows"
        )
    moves = Moves(
        inner.moves.low, inner.moves.high, math.prod(shape), everywhere=inner.moves.everywhere, gains=all_gains
    )
    return Contrasted(
        key=digest_of(inner.key, matrices),
        columns=inner.columns,
        shape=shape,
        grid=inner.grid,
        moves=moves,
        steps=inner.steps,
        inner=inner,
        matrices=tuple(matrices),
    )


def _helmert(size: int, scale: int) -> tuple[Integers, Gains]:
    """The wall's own copy of Helmert rows, and their gains; cached if small."""
    if size <= SMALL:
        return _kept_helmert(size, scale)
    rows = helmert(size, scale)  # too large to copy, and no other code holds it
    rows.flags.writeable = False
    return rows, gains_of(rows)


@lru_cache(2**8)
def _kept_helmert(size: int, scale: int) -> tuple[Integers, Gains]:
    rows = frozen(helmert(size, scale))
    return rows, gains_of(rows)


def _whole(query: LinearQuery, weights: Floats) -> Integers:
    """Weights as whole numbers of 1/grid, clamped to the priced bounds in case of floating-point error."""
    return clamped(np.rint(weights * query.grid).astype(np.int64), *query.whole_bounds)


def _steps(table: Marginal) -> int:
    """How many look-ups find the weight and the place of one record."""
    parts = [part for axis in table.axes if isinstance(axis, Buckets) for part in axis.parts]
    return len(table.axes) + sum(
        SEARCH if isinstance(query, Lookup) else sum(len(term.factors) + 1 for term in query.terms)
        for query in (table.weight, *parts)
    )


def _places(table: Marginal, view: _View) -> Integers:
    """The flat cell of each point. On an axis of buckets, the first that holds; if none holds, one past the end."""
    place = np.zeros((), dtype=np.int64)
    outside = np.zeros((), dtype=np.bool_)
    for axis, size in zip(table.axes, table.shape, strict=True):
        if isinstance(axis, str):
            place = place * size + view.levels(axis).astype(np.int64)
            continue
        bucket = np.full((), size, dtype=np.int64)
        for i in reversed(range(size)):
            bucket = np.where(view.weights(axis.parts[i]) > 0.5, i, bucket)
        outside = np.logical_or(outside, bucket == size)
        place = place * size + bucket
    return np.where(outside, table.cells, place)


def _name(name: Any) -> str:
    """A column name as a plain str."""
    return str.__str__(name) if isinstance(name, str) else _names([name])[0]


def _names(names: Sequence[Any]) -> tuple[str, ...]:
    """Column names as plain str."""
    texts = (names,) if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in texts):
        raise QueryError(f"got {names!r}", expected="a list of column names")
    return tuple(map(str.__str__, texts))
