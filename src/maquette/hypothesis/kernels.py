"""Dense kernels: one pass over memory multiplies the cells of a universe, adds them up and answers the next question.

The cells are stored as a matrix of *runs*: one row for each combination of the leading columns, with about two thousand
contiguous cells of the trailing columns. A run has its own scale and sum. So a factor that is constant over a run
changes one number, a weight that is constant over a run reads one number, and normalising changes the scales only.

Weights are stored, not their logarithms. Neither a weight nor the scale of a run falls below FLOOR. Powers of two,
which are exact, keep the sum of each run between 2^-64 and 2^64. Raising weights to the floor therefore costs a KL
potential less than N * 2^-400: the update theorems hold, nothing is lost to underflow, and a cell can always regain
mass.

Results do not depend on the number of threads: every run is summed by one thread, and the runs by numpy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query import LinearQuery
from maquette.schema import Schema

Values = NDArray[np.float64]
Codes = NDArray[np.int32]

FLOOR = 2.0**-500
REACH = 2.0**400  # the largest factor of one step: FLOOR / REACH and its inverse are normal floats
_RUN = 2048  # approximate cells of a run: it fits in the L1 cache
_PLAIN = 2**17  # cells up to which numpy is used: loading the compiled kernels would take longer
_FEW = 2**20  # cells below which threads do not pay
_SPREAD = 2**20  # a pattern up to this size is expanded before the pass
_NEAR = 2**17  # numbers that fit in the L2 cache
_STATES = 2**24  # maximum number of different weights of a question
_WANDER = 64  # a run whose sum leaves 2^-64 .. 2^64 is rescaled


@dataclass(frozen=True, eq=False)
class Pattern:
    """A number for every cell: `table[rows[run], index[place in the run]]`."""

    rows: Codes
    index: Codes
    table: Values

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """For each row of the table, whether its numbers differ within a run."""
        return np.asarray(self.table.min(axis=1) != self.table.max(axis=1))

    def even(self, other: float) -> Values:
        """For each run, the number that all its cells share, or `other` if they differ."""
        return np.asarray(np.where(self.varies, other, self.table[:, 0])[self.rows])

    @cached_property
    def written(self) -> Values:
        """The table expanded to one number for every place in a run, if that is small; otherwise the table as it is."""
        places = len(self.index)
        small = len(self.table) * places <= _SPREAD or self.table.shape[1] == places
        return np.ascontiguousarray(self.table[:, self.index] if small else self.table)

    def mapped(self, function: Callable[[Values], Values]) -> Pattern:
        """The pattern with `function` applied to its numbers."""
        return Pattern(self.rows, self.index, function(self.table))


class Grid:
    """The universe of a schema cut into runs: leading columns choose a run, trailing columns a place in it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.sizes = schema.shape(schema.names)
        lengths = [math.prod(self.sizes[cut:]) for cut in range(len(self.sizes) + 1)]
        cut = min(range(len(lengths)), key=lambda i: abs(math.log2(lengths[i]) - math.log2(_RUN)))
        self.sides = (range(cut), range(cut, len(self.sizes)))
        self.shape = (schema.size // lengths[cut], lengths[cut])

    def pattern(self, query: LinearQuery) -> Pattern:
        """The weights of a query. Prefixes of cells with the same remaining weights share a row of the table."""
        check_schema(query, self.schema)
        rows, left = self._classes(query, self.sides[0])
        index, right = self._classes(query, self.sides[1])
        if len(left) * len(right) > _STATES:
            raise QueryError(
                f"the question has {len(left) * len(right):,} different combinations of weights, more than {_STATES:,}",
                advice="ask it in parts",
            )
        coefficients = np.array([term.coefficient for term in query.terms])
        return Pattern(rows, index, np.clip((left * coefficients) @ right.T, 0.0, 1.0))

    def table(self, columns: Sequence[str], values: Values) -> Pattern:
        """The pattern of a table with one axis for each of these columns."""
        positions = positions_of(self.schema, columns)
        ordered = np.transpose(values, np.argsort(positions))
        (rows, cells), (index, places) = (self._codes(positions, side) for side in self.sides)
        return Pattern(rows, index, np.ascontiguousarray(ordered).reshape(cells, places))

    def marginal(self, columns: Sequence[str], tally: Callable[[Pattern], Values]) -> Values:
        """The totals of `tally` over the cells of these columns, axes in the order asked."""
        order = np.argsort(positions_of(self.schema, columns))
        shape = self.schema.shape(columns)
        tallied = tally(self.table(columns, np.broadcast_to(0.0, shape)))
        return np.asarray(np.transpose(tallied.reshape([shape[i] for i in order]), np.argsort(order)), order="C")

    def _codes(self, positions: Iterable[int], side: range) -> tuple[Codes, int]:
        """The cell of these columns for each combination of one side's columns, and the number of such cells."""
        codes, cells = np.zeros(1, dtype=np.int32), 1
        for position in side:
            size = self.sizes[position]
            if position in positions:
                codes = np.add.outer(codes * size, np.arange(size, dtype=np.int32)).reshape(-1)
                cells *= size
            else:
                codes = np.repeat(codes, size)
        return codes, cells

    def _classes(self, query: LinearQuery, side: range) -> tuple[Codes, Values]:
        """The class of each combination of one side's columns (same weights in every term), and the weights of each."""
        codes, weights = np.zeros(1, dtype=np.int32), np.ones((1, len(query.terms)))
        for position in side:
            size = self.sizes[position]
            if not any(position in term.factors for term in query.terms):
                codes = np.repeat(codes, size)
                continue
            if weights.size * size > _STATES:
                raise QueryError(f"the question has more than {_STATES:,} different weights", advice="ask it in parts")
            ones = np.ones(size)
            factors = np.array([term.factors.get(position, ones) for term in query.terms])
            longer = (weights[:, None, :] * factors.T).reshape(-1, len(query.terms))
            weights, inverse = _distinct(longer)
            codes = inverse.reshape(-1, size).astype(np.int32)[codes].reshape(-1)
        return codes, weights


def _distinct(rows: Values) -> tuple[Values, NDArray[np.intp]]:
    """The distinct rows, sorted, and the index of each row among them; single numbers take a much faster path."""
    if rows.shape[1] != 1:
        return np.unique(rows, axis=0, return_inverse=True)
    numbers, inverse = np.unique(rows[:, 0], return_inverse=True)
    return numbers[:, None], inverse


class Cells:
    """A distribution over the cells of a grid: run o holds `scale[o] * weights[o]`, whose total is `scale * sums`."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.weights = np.ones(grid.shape)
        self.sums = np.full(grid.shape[0], float(grid.shape[1]))
        self.scale = np.full(grid.shape[0], 1.0 / self.weights.size)

    @classmethod
    def of(cls, grid: Grid, masses: Values) -> Cells:
        """The distribution with these masses, zeros included."""
        cells = cls(grid)
        cells.weights = masses.reshape(grid.shape)
        cells.sums, cells.scale = cells.weights.sum(axis=1), np.ones(grid.shape[0])
        return cells

    def sweep(self, factors: Pattern | None, asked: Pattern | None) -> float:
        """Multiply by the factors, normalise, and answer: one pass over the runs in which either is not constant.

        Questions change nothing: the same factors give the same bits, whichever questions come between them.
        """
        changes, factors, asked = factors is not None, factors or self._same(1.0), asked or self._same(0.0)
        if changes:
            self.scale *= factors.even(1.0)
        dots = np.zeros(len(self.sums))
        if factors.varies.any() or asked.varies.any():
            self._run(factors, asked, dots)
        if changes:
            np.maximum(self.scale, FLOOR, out=self.scale)
            self.scale /= (self.scale * self.sums).sum()
        dots += asked.even(0.0) * self.sums
        return float((self.scale * dots).sum())

    def _run(self, factors: Pattern, asked: Pattern, dots: Values) -> None:
        if self.weights.size <= _PLAIN:
            self._plain_sweep(factors, asked, dots)
            return
        busy = np.flatnonzero(factors.varies[factors.rows] | asked.varies[asked.rows])
        arrays = (self.weights, self.scale, self.sums, dots, busy)
        patterns = [a for p in (factors, asked) for a in (p.rows, p.index, p.written, p.varies)]
        _shared(len(busy) * self.weights.shape[1], len(busy), partial(compiled_kernel(_sweep), *arrays, *patterns))

    def tally(self, pattern: Pattern) -> Values:
        """The mass of every entry of a pattern's table."""
        cells, classes = pattern.table.shape
        if classes == 1:
            return totals(pattern.rows, self.scale * self.sums, cells)[:, None]
        if self.weights.size <= _PLAIN:
            summed = np.zeros((cells, len(pattern.index)))
            np.add.at(summed, pattern.rows, self.masses())
        else:
            summed = self._compiled_tally(pattern)
        if summed.shape != pattern.table.shape or classes == len(pattern.index):
            entries = np.arange(cells)[:, None] * classes + pattern.index
            summed = totals(entries.reshape(-1), summed.reshape(-1), cells * classes).reshape(cells, classes)
        return summed

    def _compiled_tally(self, pattern: Pattern) -> Values:
        """Sum by place in a run if that fits in the cache, else by class of places."""
        cells, classes = pattern.table.shape
        places = self.weights.shape[1]
        width = places if cells * places <= _NEAR else classes
        # The blocks depend on the table alone, so that the order of addition does not depend on the machine.
        blocks = max(1, min(16, 2**22 // (cells * width)))
        cuts = [len(self.sums) * i // blocks for i in range(blocks + 1)]
        parts = np.zeros((blocks, cells, width))

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                bounds = cuts[block], cuts[block + 1]
                compiled_kernel(_tally)(self.weights, self.scale, parts[block], pattern.rows, pattern.index, *bounds)

        _shared(self.weights.size, blocks, work)
        return np.asarray(parts.sum(axis=0))

    def masses(self, runs: slice | NDArray[np.integer[Any]] = slice(None)) -> Values:
        """The probabilities of the cells of some runs."""
        return np.asarray(self.weights[runs] * self.scale[runs, None])

    def _same(self, value: float) -> Pattern:
        runs, places = self.grid.shape
        return Pattern(np.zeros(runs, np.int32), np.zeros(places, np.int32), np.full((1, 1), value))

    def _plain_sweep(self, factors: Pattern, asked: Pattern, dots: Values) -> None:
        moved = np.flatnonzero(factors.varies[factors.rows])
        if len(moved):
            block = self.weights[moved] * factors.table[factors.rows[moved, None], factors.index]
            exponents = np.frexp(block.sum(axis=1))[1]
            block = np.maximum(np.ldexp(block, -exponents[:, None]), FLOOR)
            self.weights[moved], self.sums[moved] = block, block.sum(axis=1)
            self.scale[moved] = np.ldexp(self.scale[moved], exponents)
        read = np.flatnonzero(asked.varies[asked.rows])
        dots[read] = (self.weights[read] * asked.table[asked.rows[read, None], asked.index]).sum(axis=1)


def positions_of(schema: Schema, columns: Sequence[str]) -> list[int]:
    """The positions of these columns in the schema; a column named twice is refused."""
    positions = [schema.position(name) for name in columns]
    if len(set(positions)) < len(positions):
        raise QueryError(f"a column is named twice in {', '.join(columns)}", advice="name each once")
    return positions


def check_schema(query: LinearQuery, schema: Schema) -> None:
    """Refuse a query over another schema."""
    if query.schema != schema:
        raise QueryError("the query is over another schema", advice="build it from this one")


def totals(entries: NDArray[np.integer[Any]], masses: Values, size: int) -> Values:
    """The sum of the masses of each entry."""
    return np.asarray(np.bincount(entries, masses, size), dtype=np.float64)


def _shared(cells: int, items: int, work: Callable[[int, int], None]) -> None:
    """Split items 0..items-1 between the processors."""
    threads = min(os.cpu_count() or 1, items) if cells >= _FEW else 1
    cuts = [items * i // threads for i in range(threads + 1)]
    if threads == 1:
        work(0, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, first, last) for first, last in pairwise(cuts)]:
            future.result()


@cache
def compiled_kernel(function: Callable[..., None]) -> Callable[..., None]:
    """A kernel compiled on first use, kept in numba's disk cache if that is writable.

    Additions may be reordered to fit vector registers: results have the same bits on machines of the same kind.
    """
    import numba

    options = {"nogil": True, "fastmath": {"reassoc", "nsz", "nnan", "ninf"}}
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache
        compiled = numba.njit(**options)(function)
    return compiled  # type: ignore[no-any-return]


def _sweep(  # noqa: PLR0917 -- numba takes positional arguments only
    weights: Any,
    scale: Any,
    sums: Any,
    dots: Any,
    busy: Any,
    factor_rows: Any,
    factor_index: Any,
    factor_table: Any,
    factor_varies: Any,
    asked_rows: Any,
    asked_index: Any,
    asked_table: Any,
    asked_varies: Any,
    first: Any,
    last: Any,
) -> None:
    """Multiply, add up and answer the runs busy[first] .. busy[last - 1].

    One loop serves all cases (on a copy if nothing changes), so that additions always happen in the same order.
    """
    places = weights.shape[1]
    scratch, ones, zeros = np.empty(places), np.ones(places), np.zeros(places)
    spread_factor, spread_asked = np.empty(places), np.empty(places)
    held_factor, held_asked = -1, -1
    for i in range(first, last):
        o = busy[i]
        f, a = factor_rows[o], asked_rows[o]
        run, factor, asked = scratch, ones, zeros
        if factor_varies[f]:
            run = weights[o]
            factor = factor_table[f] if factor_table.shape[1] == places else spread_factor
            if factor_table.shape[1] != places and f != held_factor:
                held_factor = f
                for j in range(places):
                    factor[j] = factor_table[f, factor_index[j]]
        else:
            scratch[:] = weights[o]
        if asked_varies[a]:
            asked = asked_table[a] if asked_table.shape[1] == places else spread_asked
            if asked_table.shape[1] != places and a != held_asked:
                held_asked = a
                for j in range(places):
                    asked[j] = asked_table[a, asked_index[j]]
        while True:
            total, dot = 0.0, 0.0
            for j in range(places):
                weight = max(run[j] * factor[j], FLOOR)
                run[j] = weight
                total += weight
                dot += weight * asked[j]
            exponent = math.frexp(total)[1]
            if abs(exponent) <= _WANDER or not factor_varies[f]:
                break
            scale[o] = math.ldexp(scale[o], exponent)
            factor = np.full(places, math.ldexp(1.0, -exponent))
        if factor_varies[f]:
            sums[o] = total
        dots[o] = dot


def _tally(  # noqa: PLR0917 -- numba takes positional arguments only
    weights: Any, scale: Any, sums: Any, rows: Any, index: Any, first: Any, last: Any
) -> None:
    """Add the masses of runs first <= o < last to row `rows[o]` of `sums`, by place or by class of places."""
    places = weights.shape[1]
    together = np.zeros(places)
    for o in range(first, last):
        run, mass = weights[o], scale[o]
        if sums.shape[1] == places:
            row = sums[rows[o]]
            for j in range(places):
                row[j] += mass * run[j]
            continue
        for j in range(places):
            together[j] += mass * run[j]
        if o == last - 1 or rows[o + 1] != rows[o]:
            for j in range(places):
                sums[rows[o], index[j]] += together[j]
                together[j] = 0.0
