"""Compiled questions: the closed list of forms in which the doors read rows.

A door evaluates nothing else. Each form holds its own read-only tables, shared with no other code, and states how one
row can change its values (`moves`): sensitivity, price, recorded digest and evaluation all come from this one object.
When weights are added up, each row's weight is clamped to `moves`, so that even a wrong bound could not release more
than was paid for. Contrasts of it are bounded by the gains of the same matrices that are applied; parities and plain
counts add ones.

Arithmetic in 64-bit integers is exact here. A row adds at most LARGEST in absolute value to any number, so every sum
stays below 2^62 for every table of at most MAX_ROWS rows. Intermediate overflow does no harm: sums and products are
correct modulo 2^64, and the final values fit in 64 bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.api import Amount, Engine, SpreadEngine, UnitEngine, ValueEngine
from maquette.query import KeyIndex, Moves, Parities, Statistic

if TYPE_CHECKING:
    from maquette.curator.factors import Factor

FEW_CELLS = 2**22  # a public bound: whether cells or records are visited never depends on the data

Integers = NDArray[np.int64]
Records = NDArray[np.int32]


def tally(engine: Engine, question: Compiled) -> Integers:
    """The exact values of a compiled question, in whole numbers of 1/grid: the only way in which doors read rows.

    Sensitivity: one row adds to the values at most what `moves` says, so `Relation` can price any unit of rows.
    """
    if question.few or not isinstance(engine, SpreadEngine):
        values = question.values(engine)
    else:  # every form that visits records adds up over them, so the parts of a table may be visited elsewhere
        values = engine.spread(question.values, question.shape)
    if values.shape != question.shape or values.dtype != np.int64:
        raise AssertionError(f"{type(question).__name__} has values of another shape or kind than it was priced for")
    return values


def frozen(values: NDArray[Any], dtype: type[np.generic] = np.int64) -> NDArray[Any]:
    """A copy that no code can write to, not even its holder: its memory is that of a bytes object."""
    exact = np.asarray(values, dtype=dtype, order="C")
    return np.frombuffer(exact.tobytes(), dtype=dtype).reshape(exact.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Compiled(ABC):
    """A question as the wall evaluates it."""

    key: str
    """The digest under which it is recorded."""
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    grid: int
    """Values are whole numbers of 1/grid."""
    moves: Moves
    few: bool = True
    """Whether it reads the counts of its columns; otherwise it reads records, because the cells may be too many."""
    steps: int = 0
    """Look-ups for every record, where it visits records: a public measure of the time."""

    @property
    def cells(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """The column sets whose counts it reads; none if it reads records."""
        return [self.columns] if self.few else []

    @abstractmethod
    def values(self, engine: Engine) -> Integers:
        """The exact values, in whole numbers of 1/grid."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Counted(Compiled):
    """The number of rows in each cell of some columns: a row adds 1 to its cell."""

    axes: tuple[str, ...]

    def values(self, engine: Engine) -> Integers:
        """Counted."""
        return engine.counts(self.axes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighed(Compiled):
    """Weights of the cells of `columns`, each added to the value at its place: a row adds the weight of its cell.

    `weights` and `places` broadcast to the cells. A place is the flat index of a value, or one past the last for a
    cell that is not counted; without `places` the axes are the columns at `kept`, in that order.
    """

    weights: Integers
    kept: tuple[int, ...] = ()
    places: Integers | None = None

    def values(self, engine: Engine) -> Integers:
        """Added up over the counted cells."""
        counts = engine.counts(self.columns)
        weighed = counts * clamped(self.weights, self.moves.low, self.moves.high)
        if weighed.shape != counts.shape:  # otherwise a row would be counted more than once
            raise AssertionError("weights were compiled for another table than was counted")
        if self.places is None and not self.kept:
            return np.asarray(weighed.sum(dtype=np.int64))
        if self.places is None:
            summed = weighed.sum(axis=tuple(set(range(counts.ndim)) - set(self.kept)), dtype=np.int64)
            return np.array(np.transpose(summed, [sorted(self.kept).index(axis) for axis in self.kept]), order="C")
        return scattered(np.broadcast_to(self.places, counts.shape).reshape(-1), weighed.reshape(-1), self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class ByRecord(Compiled):
    """The same for tables with too many cells: each record's weight and place are computed from its codes."""

    weigh: Callable[[Records], Integers]
    place: Callable[[Records], Integers]

    def values(self, engine: Engine) -> Integers:
        """Added up over the records."""
        total = np.zeros(self.shape, dtype=np.int64)
        for records in engine.blocks():
            weights = clamped(self.weigh(records), self.moves.low, self.moves.high)
            total += scattered(np.broadcast_to(self.place(records), len(records)), weights, self.shape)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class Valued(Compiled):
    """The values of a column, added up where a row is counted: a row adds its clamped value, less the centre.

    `amount` holds the numbers from which `moves` was computed, and the engine clamps every row's value to them. Of a
    table of few cells it reads the sums of the cells; `counted` is 1 or 0 for each, `places` as in `Weighed`. Otherwise
    it reads records, and `weigh` and `place` as in `ByRecord`.
    """

    amount: Amount
    counted: Integers | None = None
    places: Integers | None = None
    weigh: Callable[[Records], Integers] | None = None
    place: Callable[[Records], Integers] | None = None

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """No counts."""
        return []

    def values(self, engine: Engine) -> Integers:
        """Added up over the cells, or over the records."""
        if not isinstance(engine, ValueEngine):
            raise AssertionError("sums of values were compiled for a table that keeps none")
        if self.counted is not None and self.places is not None:
            sums = engine.sums(self.columns, self.amount) * np.clip(self.counted, 0, 1)
            return scattered(np.broadcast_to(self.places, sums.shape).reshape(-1), sums.reshape(-1), self.shape)
        assert self.weigh is not None
        assert self.place is not None
        total = np.zeros(self.shape, dtype=np.int64)
        for records, (amounts,) in engine.amounts(self.amount):
            added = amounts * np.clip(self.weigh(records), 0, 1)
            total += scattered(np.broadcast_to(self.place(records), len(records)), added, self.shape)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class Multiplied(Compiled):
    """The products of two factors, added up where a row is counted: a row adds its clamped product.

    Each factor is clamped to the ends from which `moves` was computed, and the product to `moves`. It reads records;
    `weigh` and `place` are as in `ByRecord`.
    """

    factors: tuple[Factor, ...]
    weigh: Callable[[Records], Integers]
    place: Callable[[Records], Integers]

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """No counts."""
        return []

    def values(self, engine: Engine) -> Integers:
        """Added up over the records."""
        if not isinstance(engine, ValueEngine):
            raise AssertionError("products of values were compiled for a table that keeps none")
        wanted = dict.fromkeys(factor.amount for factor in self.factors if factor.amount is not None)
        total = np.zeros(self.shape, dtype=np.int64)
        for records, found in engine.amounts(*wanted):
            amounts = dict(zip(wanted, found, strict=True))
            added = math.prod(factor.of(records, amounts) for factor in self.factors)
            added = clamped(np.asarray(added), self.moves.low, self.moves.high) * np.clip(self.weigh(records), 0, 1)
            total += scattered(np.broadcast_to(self.place(records), len(records)), added, self.shape)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitsCounted(Compiled):
    """The number of privacy units with a counted row in each cell: a unit adds 1 to every cell that it enters.

    Every pair of a cell and a unit is kept once, whichever and however many rows bring it: that is the clamp. `weigh`
    is 1 or 0 for each record, `place` the flat index of its cell, or one past the last. It reads all records itself,
    because parts of a table do not add up to the whole.
    """

    weigh: Callable[[Records], Integers]
    place: Callable[[Records], Integers]

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """No counts."""
        return []

    def values(self, engine: Engine) -> Integers:
        """Counted over the different pairs of a cell and a unit."""
        if not isinstance(engine, UnitEngine):
            raise AssertionError("units were to be counted in a table that does not know them")
        pairs = [np.zeros(0, dtype=np.int64)]
        for records, units in engine.units():
            places = np.where(np.clip(self.weigh(records), 0, 1) == 1, self.place(records), self.cells)
            inside = (places >= 0) & (places < self.cells)
            pairs.append(places[inside] << 32 | units[inside])  # both are below 2^31
        different = np.unique(np.concatenate(pairs)) >> 32
        return np.bincount(different, minlength=self.cells).astype(np.int64).reshape(self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed(Compiled):
    """The total of a constant plus one number per column: a row adds the sum of the numbers of its levels.

    The sums over rows and columns are exchanged, so the counts of each column are enough. Every part lies between 0 and
    its entry of `tops`, and constant plus tops is `moves.high`. So no row can add more, whatever the parts hold.
    """

    constant: int
    parts: Mapping[str, Integers]
    tops: Mapping[str, int]

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """Each column by itself."""
        return [(name,) for name in self.parts]

    def values(self, engine: Engine) -> Integers:
        """Added up over the levels of each column, in exact integers."""
        engine.prefetch(self.reads)
        total = self.constant * engine.rows
        for name, part in self.parts.items():
            total += int(engine.counts([name]) @ clamped(part, 0, self.tops[name]))
        return np.array(total, dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class AtPoints(Compiled):
    """Rows at listed, distinct points of `columns`: one weighted total, or one value for each point."""

    points: NDArray[np.int32]
    weights: Integers | None
    index: KeyIndex
    positions: tuple[int, ...]

    def values(self, engine: Engine) -> Integers:
        """Read from the counts at the points, or matched record by record; a row is at one point at most."""
        if self.few:
            counts = np.array(engine.counts(self.columns)[tuple(self.points.T)], dtype=np.int64)
        else:
            counts = np.zeros(len(self.points), dtype=np.int64)
            for records in engine.blocks():
                found = self.index.locate([records[:, position] for position in self.positions])
                counts += scattered(np.where(found >= 0, found, len(counts)), np.ones_like(found), counts.shape)
        if self.weights is None:
            return counts
        return np.asarray((counts * clamped(self.weights, self.moves.low, self.moves.high)).sum(dtype=np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class Contrasted(Compiled):
    """Whole-number combinations of another question's values: a row adds what it adds there, times a matrix column."""

    inner: Compiled
    matrices: tuple[Integers, ...]

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """The column sets that the other question reads."""
        return self.inner.reads

    def values(self, engine: Engine) -> Integers:
        """Combined along one axis after the other."""
        cells = tally(engine, self.inner)
        for matrix in self.matrices:  # combine the first axis and put the result last
            cells = cells.reshape(matrix.shape[1], -1).T @ matrix.T
        return cells.reshape(self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Signed(Compiled):
    """Parities of two-level columns: a row adds +1 or -1 to each."""

    parities: Parities

    def values(self, engine: Engine) -> Integers:
        """Transformed from the joint table, or counted bit by bit."""
        if self.few:
            return self.parities.combine(engine.counts(self.columns))
        total = np.zeros(self.shape, dtype=np.int64)
        for records in engine.blocks():
            total += self.parities.of_records(records)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class Computed(Compiled):
    """A custodian's own function of the exact histogram, rounded: the only form that runs code from outside.

    An exception counts as the low end of its range, and its result is clamped to the range. The custodian vouches for
    the declared sensitivity: nothing here checks it.
    """

    statistic: Statistic

    def values(self, engine: Engine) -> Integers:
        """Computed from the whole histogram."""
        return self.statistic.tally(engine.counts(self.columns))


def clamped(values: Integers, low: int, high: int) -> Integers:
    """Values, none below `low` or above `high`."""
    return np.minimum(np.maximum(values, low), high)


def scattered(places: Integers, weights: Integers, shape: tuple[int, ...]) -> Integers:
    """Each weight added to the value at its flat place; one past the last place is not counted."""
    flat = np.zeros(math.prod(shape) + 1, dtype=np.int64)
    np.add.at(flat, places, weights)
    return flat[:-1].reshape(shape)
