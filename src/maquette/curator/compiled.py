"""Compiled questions: the closed list of forms in which the doors read rows.

A door evaluates nothing but these. Each holds tables of the wall's own, which nobody else has and which cannot be
written to, and says what one row can do to its values (`moves`): sensitivity, price, recorded digest and evaluation all
come from this one object. What a row weighs is clamped to `moves` where it is added up, so that even a wrong bound
could not release more than was paid for; what contrasts make of it is bounded by the gains of the very matrices that
are applied, and parities and plain counts add ones.

Arithmetic is in 64-bit integers, which is exact: whatever is added up stays below 2^62 for every table of at most
MAX_ROWS rows, because a row adds at most LARGEST in absolute value to any number; and sums and products that end within
64 bits are right whatever happened in between, since they are right modulo 2^64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.api import Engine
from maquette.query import KeyIndex, Moves, Parities, Statistic

FEW_CELLS = 2**22  # a public bound: whether cells or records are visited never depends on the data

Integers = NDArray[np.int64]
Records = NDArray[np.int32]


def tally(engine: Engine, question: Compiled) -> Integers:
    """The exact values of a compiled question, in whole numbers of 1/grid: the one way in which doors read rows.

    Sensitivity: one row adds to the values what `moves` says, and no more, so `Relation` prices any unit of rows.
    """
    values = question.values(engine)
    if values.shape != question.shape or values.dtype != np.int64:
        raise AssertionError(f"{type(question).__name__} has values of another shape or kind than it was priced for")
    return values


def frozen(values: NDArray[Any], dtype: type[np.generic] = np.int64) -> NDArray[Any]:
    """A copy that can never be written to, not even by whoever holds it: its memory is that of a bytes object."""
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
    """Whether it reads the counts of its columns; records otherwise, of which there may be too many cells."""

    @property
    def cells(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """The column sets whose counts it reads; none where it reads records."""
        return [self.columns] if self.few else []

    @abstractmethod
    def values(self, engine: Engine) -> Integers:
        """The exact values, in whole numbers of 1/grid."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Counted(Compiled):
    """How many rows are in each cell of some columns: a row adds 1 to its cell."""

    axes: tuple[str, ...]

    def values(self, engine: Engine) -> Integers:
        """Counted."""
        return engine.counts(self.axes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighed(Compiled):
    """Weights of the cells of `columns`, added up where each cell goes: a row adds the weight of its cell.

    `weights` and `places` broadcast to the cells. A place is the flat number of a value, or one past the last for a
    cell that goes nowhere; without `places` the axes are the columns at `kept`, in that order.
    """

    weights: Integers
    kept: tuple[int, ...] = ()
    places: Integers | None = None

    def values(self, engine: Engine) -> Integers:
        """Added up over the counted cells."""
        counts = engine.counts(self.columns)
        weighed = counts * self._clamped(self.weights)
        if weighed.shape != counts.shape:  # a row would be added up more than once
            raise AssertionError("weights were compiled for another table than was counted")
        if self.places is None:
            summed = weighed.sum(axis=tuple(set(range(counts.ndim)) - set(self.kept)), dtype=np.int64)
            return np.array(np.transpose(summed, [sorted(self.kept).index(axis) for axis in self.kept]), order="C")
        return scattered(np.broadcast_to(self.places, counts.shape).reshape(-1), weighed.reshape(-1), self.shape)

    def _clamped(self, weights: Integers) -> Integers:
        return np.clip(weights, self.moves.low, self.moves.high)


@dataclass(frozen=True, eq=False, kw_only=True)
class ByRecord(Compiled):
    """The same for too many cells to count: each record's weight and place are worked out from its codes."""

    weigh: Callable[[Records], Integers]
    place: Callable[[Records], Integers]

    def values(self, engine: Engine) -> Integers:
        """Added up over the records."""
        total = np.zeros(self.shape, dtype=np.int64)
        for records in engine.blocks():
            weights = np.clip(self.weigh(records), self.moves.low, self.moves.high)
            total += scattered(np.broadcast_to(self.place(records), len(records)), weights, self.shape)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed(Compiled):
    """The total of a constant and one number for each column: a row adds the sum of what its levels say.

    Summed over rows and columns, exchanged: from the counts of each column. Every part lies from 0 to its own `tops`,
    and constant and tops together are `moves.high`, so that no row can add more, whatever the parts hold.
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
            total += int(engine.counts([name]) @ np.clip(part, 0, self.tops[name]))
        return np.array(total, dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class AtPoints(Compiled):
    """Rows at listed, different points of `columns`: added up by weight, or one value for each point."""

    points: NDArray[np.int32]
    weights: Integers | None
    index: KeyIndex
    positions: tuple[int, ...]

    def values(self, engine: Engine) -> Integers:
        """Read at the points, or found among the records; a row is at one point at most."""
        if self.few:
            counts = np.array(engine.counts(self.columns)[tuple(self.points.T)], dtype=np.int64)
        else:
            counts = np.zeros(len(self.points), dtype=np.int64)
            for records in engine.blocks():
                found = self.index.locate([records[:, position] for position in self.positions])
                counts += scattered(np.where(found >= 0, found, len(counts)), np.ones_like(found), counts.shape)
        if self.weights is None:
            return counts
        return np.asarray((counts * np.clip(self.weights, self.moves.low, self.moves.high)).sum(dtype=np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class Contrasted(Compiled):
    """Whole-number combinations of the values of another: a row adds what it adds there, times a column of numbers."""

    inner: Compiled
    matrices: tuple[Integers, ...]

    @property
    def reads(self) -> Sequence[tuple[str, ...]]:
        """What the other reads."""
        return self.inner.reads

    def values(self, engine: Engine) -> Integers:
        """Combined along one axis after the other."""
        cells = tally(engine, self.inner)
        for matrix in self.matrices:  # the first axis is combined, the new one goes last
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
    """A custodian's own function of the exact histogram, rounded: the one form that runs code from outside.

    What it raises counts as its low end and what it returns is clamped to its range; that a row moves it by no more
    than declared is the custodian's word.
    """

    statistic: Statistic

    def values(self, engine: Engine) -> Integers:
        """Computed from the whole histogram."""
        return self.statistic.tally(engine.counts(self.columns))


def scattered(places: Integers, weights: Integers, shape: tuple[int, ...]) -> Integers:
    """Each weight added to the value at its flat place; one past the last place is nowhere."""
    flat = np.zeros(math.prod(shape) + 1, dtype=np.int64)
    np.add.at(flat, places, weights)
    return flat[:-1].reshape(shape)
