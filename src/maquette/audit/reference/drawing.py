"""Draws random questions from the grammar: all classes, composed, with numbers at the edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.audit.reference import edges
from maquette.audit.reference.amounts import AmountTable, ValueTable
from maquette.audit.reference.conditions import Condition
from maquette.audit.reference.forms import (
    Columns,
    Contrasted,
    Difference,
    Form,
    KeyTable,
    ParityTable,
    Parts,
    RawKeys,
    Table,
    Total,
    residual_form,
)
from maquette.audit.reference.hostile import hostile
from maquette.audit.reference.leaves import Additive, Cut, Listed, distance
from maquette.audit.reference.products import ProductTable
from maquette.audit.reference.statements import FUNCTIONS, Function, SumInSql
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import And, Constant, Not, Or, Product, Weight
from maquette.query.forms import LevelNumbers, ValueSteps
from maquette.schema import Boolean, Category, Date, Integer, Number, Schema

MOST_CELLS = 400  # values per question, so that many questions fit into a minute
EXPONENTS = (20, 21, 22, 23, 24, 25, 26, 40, 43, 62)  # of two: where fixed point with 20 or 40 digits reaches 2^63
_HOSTILE = 0.06


class Drawing:
    """Draws questions about one universe; `target` is a record that many of them single out."""

    def __init__(self, schema: Schema, target: Record, rng: np.random.Generator) -> None:
        self.schema = schema
        self.target = target
        self.rng = rng
        self._long = sum(column.size for column in schema) > 60 or len(schema) > 6

    def form(self) -> Form:
        """One question."""
        rng = self.rng
        if rng.random() < _HOSTILE:
            return hostile(self.schema, self.target, rng)
        draws = (
            (self._total, 0.42),
            (self._table, 0.21),
            (self._one_bucket, 0.03),
            (self._columns, 0.04),
            (self._sum_in_sql, 0.03),
            (self._amounts, 0.03),
            (self._values, 0.05),
            (self._products, 0.04),
            (self._function, 0.02),
            (self._keys, 0.08),
            (self._raw_keys, 0.04),
            (self._contrasts, 0.10),
            (self._sides, 0.03),
            (self._residual, 0.03),
            (self._parities, 0.05),
        )
        chances = np.array([chance for _, chance in draws])
        while True:
            draw = draws[rng.choice(len(draws), p=chances / chances.sum())][0]
            form = draw()
            if form is not None and form.cells <= MOST_CELLS:
                return form

    def _total(self) -> Form:
        return Total(self.weight(3), bool(self.rng.random() < 0.5))

    def _table(self) -> Form:
        axes: list[str | Parts] = list(self._names(1, 2))
        if self.rng.random() < 0.5:
            axes[0] = self._buckets()
        weight = self.weight(2) if self.rng.random() < 0.6 else None
        return Table(self.schema, tuple(axes), weight)

    def _one_bucket(self) -> Form:
        """One bucket, which a row may leave, with weights that are never 0."""
        (name,) = self._names(1, 1)
        special = self.target[self.schema.position(name)]
        inside = tuple(float(level == special) for level in range(self.schema[name].size))
        (weighed,) = self._names(1, 1)
        least = float(self.rng.choice([0.25, 0.5, 1 - 2.0**-20]))
        weights = {weighed: tuple(max(least, weight) for weight in self._vector(weighed))}
        return Table(
            self.schema, (Parts("bucket", (Product(self.schema, {name: inside}),)),), Product(self.schema, weights)
        )

    def _sum_in_sql(self) -> Form | None:
        whole = [c.name for c in self.schema if isinstance(c, Integer) and c.width == 1]
        if not whole:
            return None
        condition = Condition(self.schema, self._condition(int(self.rng.integers(0, 2))), as_text=True)
        return SumInSql(self.schema, whole[self.rng.integers(len(whole))], condition)

    def _amounts(self) -> Form:
        (name,) = self._names(1, 1)
        few = (*edges.INTEGERS, *edges.EXTREME_INTEGERS) if self.rng.random() < 0.2 else edges.INTEGERS[:12]
        numbers = tuple(few[i] for i in self.rng.integers(len(few), size=self.schema[name].size))
        low, high = self._ends(min(numbers), max(numbers))
        return AmountTable(self.schema, name, low, high, self._axes(), self._maybe(), numbers)

    def _values(self) -> Form | None:
        valued = [column for column in self.schema if column.value_grid is not None]
        if not valued:
            return None
        column = valued[self.rng.integers(len(valued))]
        grid = column.value_grid
        assert grid is not None
        low, high = self._ends(grid.low, grid.high)
        centre = int(self.rng.choice([0, 0, low, high, (low + high) // 2, low - 1, high + 7, 2**28]))
        return ValueTable(self.schema, column.name, low, high, self._axes(), self._maybe(), centre)

    def _products(self) -> Form | None:
        valued = [column for column in self.schema if column.value_grid is not None]
        if not valued:
            return None
        first = self._steps(valued[self.rng.integers(len(valued))])
        if self.rng.random() < 0.4:
            return ProductTable(self.schema, (first, first), self._axes(), self._maybe())
        column = self.schema.columns[self.rng.integers(len(self.schema))]
        numbers = (-3, 0, 1, 2, 7, -(2**14), 2**14)
        levels = LevelNumbers(column.name, tuple(numbers[i] for i in self.rng.integers(len(numbers), size=column.size)))
        second = levels if column.value_grid is None else self._steps(column)
        return ProductTable(self.schema, (first, second), self._axes(), self._maybe())

    def _steps(self, column: Any) -> ValueSteps:
        """A factor of values that stays within 2^14, so that every product is one that a row may add."""
        low, high = self._ends(column.value_grid.low, column.value_grid.high)
        centre = int(self.rng.choice([0, low, high, (low + high) // 2, high + 7]))
        least = -(-max(abs(low - centre), abs(high - centre)) // 2**14) | 1
        return ValueSteps(column.name, low, high, centre, least + 2 * int(self.rng.integers(0, 4)))

    def _ends(self, low: int, high: int) -> tuple[int, int]:
        """The range itself, a part of it, or one that it does not reach."""
        span = high - low
        ends = ((low, high), (low + span // 3, high - span // 3), (low - 3, high + 3), (high, high), (low, low))
        return ends[self.rng.choice(len(ends), p=[0.5, 0.2, 0.1, 0.1, 0.1])]

    def _axes(self) -> tuple[str | Parts, ...]:
        if self.rng.random() < 0.4:
            return ()
        return (self._buckets(),) if self.rng.random() < 0.3 else tuple(self._names(1, 2))

    def _maybe(self) -> Condition | None:
        if self.rng.random() < 0.5:
            return None
        return Condition(self.schema, self._condition(int(self.rng.integers(0, 2))), as_text=True)

    def _function(self) -> Form | None:
        return Function(self.schema, str(self.rng.choice(list(FUNCTIONS)))) if self.schema.size <= 2**10 else None

    def _columns(self) -> Form:
        return Columns(self.schema, tuple(self._names(1, 3)))

    def _keys(self) -> Form:
        names = tuple(self._names(1, 3))
        return KeyTable(self.schema, names, self._points(names))

    def _raw_keys(self) -> Form:
        names = tuple(self._names(1, 2))
        sizes = self.schema.shape(names)
        points = [list(point) for point in self._points(names)]
        for _ in range(self.rng.integers(0, 3)):
            bent, axis = self.rng.integers(len(points)), self.rng.integers(len(names))
            size = sizes[axis]
            points[bent][axis] = int(self.rng.choice([-1, -size, size, size + 3, 2**31 - 1, -(2**31), 2**32]))
        weights = [1.0] * len(points) if self.rng.random() < 0.5 else [edges.weight(self.rng) for _ in points]
        return RawKeys(
            self.schema,
            names,
            tuple(map(tuple, points)),
            tuple(weights),
            how=str(self.rng.choice(["query", "table"])),
        )

    def _contrasts(self) -> Form:
        table = Table(self.schema, tuple(self._names(1, 2)), self.weight(1) if self.rng.random() < 0.3 else None)
        extreme = self.rng.random() < 0.2
        return Contrasted(table, tuple(self._matrix(size, extreme) for size in table.shape))

    def _sides(self) -> Form:
        """A condition and what it leaves out; sometimes something else, which is then refused or no less disjoint."""
        rng = self.rng
        held: Weight = Condition(
            self.schema, self._condition(int(rng.integers(0, 3))), as_text=bool(rng.random() < 0.5)
        )
        if rng.random() < 0.3:
            held = self._leaf(many=False)
        out: Weight = Not(held)
        if rng.random() < 0.2:
            out = held if rng.random() < 0.3 else Not(self._leaf(many=False))
        table = Table(self.schema, (Parts("sides", (out, held)),), None)
        return Difference(table, (np.array([[-1, 1]]),)) if rng.random() < 0.7 else table

    def _matrix(self, size: int, extreme: bool) -> np.ndarray:
        rows = int(self.rng.integers(1, 4))
        few = edges.INTEGERS[:6] if not extreme else (*edges.INTEGERS, *edges.EXTREME_INTEGERS)
        return np.array([[few[i] for i in self.rng.integers(len(few), size=size)] for _ in range(rows)], dtype=np.int64)

    def _residual(self) -> Form | None:
        names = [name for name in self._names(1, 3) if self.schema[name].size > 1]
        small = 1 <= self.schema.cells(names) <= MOST_CELLS
        return residual_form(self.schema, names) if names and small else None

    def _parities(self) -> Form | None:
        yes_no = [name for name in self.schema.names if self.schema[name].size == 2]
        if not yes_no:
            return None
        count = int(self.rng.integers(1, min(len(yes_no), 30) + 1))
        names = tuple(yes_no[i] for i in self.rng.permutation(len(yes_no))[:count])
        return ParityTable(self.schema, names, int(self.rng.integers(1, min(count, 3) + 1)))

    def weight(self, depth: int) -> Weight:
        """A weight, composed at most `depth` levels deep."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return self._leaf()
        kind = rng.integers(5)
        if kind < 2:
            joined = And if kind == 0 else Or
            if self._long:  # naming a product of many different weights is slow
                return joined(self._leaf(many=False), self._leaf(many=False))
            return joined(self.weight(depth - 1), self.weight(depth - 1))
        if kind == 2:
            return Not(self.weight(depth - 1))
        if kind == 3:  # something huge and its inverse, or not
            factor = 2.0 ** int(rng.choice(EXPONENTS) if rng.random() < 0.5 else rng.integers(1, 64))
            scaled = And(Constant(self.schema, factor), self._small(factor) if rng.random() < 0.5 else self._opposite())
            return scaled if rng.random() < 0.7 else And(scaled, Constant(self.schema, 1 / factor))
        return And(Constant(self.schema, edges.CONSTANTS[rng.integers(len(edges.CONSTANTS))]), self.weight(depth - 1))

    def _small(self, factor: float) -> Weight:
        part = self.weight(0)
        return And(part, Constant(self.schema, float(self.rng.choice([1.0, 0.5, 2.0, 1 - 2.0**-53])) / factor))

    def _opposite(self) -> Weight:
        return Not(self._additive() if self.rng.random() < 0.7 else self._leaf())

    def _leaf(self, many: bool = True) -> Weight:
        """A weight that is not composed; `many=False`: with few different values."""
        rng, schema = self.rng, self.schema
        kind = rng.random()
        if kind < 0.3 or not (many or kind >= 0.45):
            names = self._names(1, 3)
            return Product(schema, {name: self._vector(name) for name in names})
        if kind < 0.45:
            return self._additive()
        if kind < 0.6:
            return Condition(schema, self._condition(int(rng.integers(0, 3))), as_text=bool(rng.random() < 0.5))
        if kind < 0.72:
            names = self._names(1, 3)
            points = self._points(names)
            weighted = rng.random() < 0.6
            return Listed(schema, tuple(names), points, tuple(edges.weight(rng) for _ in points) if weighted else None)
        if kind < 0.8:
            return Constant(schema, edges.CONSTANTS[rng.integers(len(edges.CONSTANTS))])
        if kind < 0.9 and "from" in schema:
            ends = [tuple(int(i) for i in np.flatnonzero(rng.random(schema["from"].size) < 0.5)) for _ in range(2)]
            return Cut(schema, ends[0] or (0,), ends[1] or (0,), bool(rng.random() < 0.5))
        numeric = [c.name for c in schema if isinstance(c, Integer) and c.width == 1 and not c.nullable and c.size > 1]
        if kind < 0.95 and numeric and many:
            count = int(rng.integers(1, min(len(numeric), 4) + 1))
            return distance(schema, [numeric[i] for i in rng.permutation(len(numeric))[:count]], rng)
        return Product(schema, {name: self._vector(name) for name in self._names(1, 1)})

    def _additive(self) -> Weight:
        rng = self.rng
        names = self._names(1, len(self.schema)) if rng.random() < 0.5 else list(self.schema.names)
        if rng.random() < 0.4:  # all but the target: the question of an attacker
            weights = {name: self._all_but_the_target(name) for name in names}
        else:
            weights = {name: self._vector(name) for name in names}
        if rng.random() < 0.6:
            return Additive(self.schema, weights)
        raw = rng.random(len(names)) + 1e-3
        shares = raw / raw.sum() * float(rng.choice([1.0, 1 - 2.0**-20, 0.5, 1e-5]))
        return Additive(self.schema, weights, {name: float(s) for name, s in zip(names, shares, strict=True)})

    def _vector(self, name: str) -> tuple[float, ...]:
        size = self.schema[name].size
        return tuple(edges.weights(self.rng, size, self.target[self.schema.position(name)]).tolist())

    def _all_but_the_target(self, name: str) -> tuple[float, ...]:
        special = self.target[self.schema.position(name)]
        return tuple(float(level != special) for level in range(self.schema[name].size))

    def _buckets(self) -> Parts:
        rng = self.rng
        (name,) = self._names(1, 1)
        size = self.schema[name].size
        owner = rng.integers(0, int(rng.integers(2, 5)), size=size)  # the last class is in no bucket
        count = max(1, int(owner.max()))
        if rng.random() < 0.3:  # one bucket of everything
            owner, count = np.zeros(size, dtype=np.int64), 1
        parts = [Product(self.schema, {name: tuple((owner == i).astype(float).tolist())}) for i in range(count)]
        if rng.random() < 0.1:  # overlapping ones, to be refused
            parts.append(parts[0])
        return Parts(f"bucket {rng.integers(9)}", tuple(parts))

    def _condition(self, depth: int) -> tuple[object, ...]:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self._comparison()
        if rng.random() < 0.3:
            return ("not", self._condition(depth - 1))
        parts = tuple(self._condition(depth - 1) for _ in range(rng.integers(2, 4)))
        return (str(rng.choice(["and", "or"])), parts)

    def _comparison(self) -> tuple[object, ...]:
        (name,) = self._names(1, 1)
        column, rng = self.schema[name], self.rng
        missing = [None] * (column.size - column.known)
        if rng.random() < 0.1:
            return (name, "null", None, tuple([False] * column.known + [True] * len(missing)))
        level = int(rng.integers(column.known))
        literal: Any
        match column:
            case Boolean():
                return (name, "=", bool(level), (*(i == level for i in range(2)), *missing))
            case Category():
                equal = bool(rng.random() < 0.5)
                truths = ((i == level) == equal for i in range(column.known))
                return (name, "=" if equal else "<>", str(column.values[level]), (*truths, *missing))
            case Integer():
                literal = column.low + column.width * level
            case Number(edges=bounds) if bounds is not None:
                literal = bounds[level]
            case Date():
                literal = column.values[level]
            case _:
                raise TypeError(f"no comparison for {column!r}")
        above = bool(rng.random() < 0.5)
        truths = ((i >= level) == above for i in range(column.known))
        return (name, ">=" if above else "<", literal, (*truths, *missing))

    def _names(self, least: int, most: int) -> list[str]:
        names = self.schema.names
        count = min(len(names), int(self.rng.integers(least, max(least, most) + 1)))
        return [names[i] for i in self.rng.permutation(len(names))[:count]]

    def _points(self, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        sizes = self.schema.shape(names)
        points = [tuple(self.target[self.schema.position(name)] for name in names)]
        more = int(self.rng.integers(0, 6))
        points += [tuple(int(self.rng.integers(size)) for size in sizes) for _ in range(more)]
        if self.rng.random() < 0.2:
            points.append(points[0])
        return tuple(points)
