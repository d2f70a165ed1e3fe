"""Low-variance rounding: records from probabilities; each cell appears its expected number of times, rounded.

Systematic sampling: cells are laid end to end, each as long as its expected count, and points one unit apart, from a
random start, each select the cell they land in. In snake order (a reflected Gray code: neighbours differ by one level
of one column) a cell of a marginal consists of long stretches, so it is selected about as often as expected: in small
samples the marginals are two to ten times closer than with independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

if TYPE_CHECKING:
    from maquette.hypothesis.kernels import Cells

_BLOCK = 2**20  # cells laid out at a time
_ENOUGH = 2**24  # with this many different prefixes, further columns hardly change the order of records

Indices = NDArray[np.int64]


def systematic(masses: NDArray[np.float64], rows: int, rng: np.random.Generator, start: float | None = None) -> Indices:
    """Indices into `masses`, shuffled: one of mass m out of M appears rows * m / M times, rounded down or up."""
    ends = np.cumsum(masses)
    return rng.permutation(_locate(ends, _steps(float(ends[-1]), rows, rng, start)))


def sample_cells(cells: Cells, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
    """Encoded records from a distribution over the whole universe; runs that no step lands in are not read."""
    grid, places = cells.grid, cells.grid.shape[1]
    outer, inner = (_whole_snake([grid.sizes[i] for i in side]) for side in grid.sides)
    masses = (cells.scale * cells.sums)[outer]
    ends = np.cumsum(masses)
    steps = _steps(float(ends[-1]), rows, rng, start)
    run = _locate(ends, steps)
    into = steps - (ends - masses)[run]
    flat = np.empty(rows, dtype=np.int64)
    hit = np.unique(run)
    for begin in range(0, len(hit), max(1, _BLOCK // places)):
        chosen = hit[begin : begin + max(1, _BLOCK // places)]
        first, last = np.searchsorted(run, [chosen[0], chosen[-1] + 1])
        lengths = np.take(cells.masses(outer[chosen]), inner, axis=1)
        back = chosen % 2 == 1  # every other run is walked backwards: that is where the snake turns
        lengths[back] = lengths[back, ::-1]
        row = np.searchsorted(chosen, run[first:last])
        place = _locate_rows(lengths, row, into[first:last])
        place = np.where(back[row], places - 1 - place, place)
        flat[first:last] = outer[run[first:last]] * places + inner[place]
    return decode(rng.permutation(flat), grid.sizes)


def _steps(total: float, rows: int, rng: np.random.Generator, start: float | None) -> NDArray[np.float64]:
    """Points one unit apart, from `start` (between 0 and 1, by default random).

    Samples of equal size whose starts are i / k for i < k are together one sample of k times the size.
    """
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows", expected="a whole number, 0 or more")
    first = rng.random() if start is None else start
    return np.asarray((np.arange(rows) + first) * (total / max(rows, 1)))


def _locate(ends: NDArray[np.float64], steps: NDArray[np.float64]) -> Indices:
    """The stretch each step lands in; a step past the end by rounding belongs to the last stretch with a length."""
    return np.asarray(np.minimum(np.searchsorted(ends, steps, side="right"), np.searchsorted(ends, ends[-1])))


def _locate_rows(lengths: NDArray[np.float64], row: Indices, steps: NDArray[np.float64]) -> Indices:
    """The same within row `row` of many rows of stretches: the rows are laid end to end."""
    ends = np.cumsum(lengths).reshape(lengths.shape)
    starts = np.concatenate([[0.0], ends[:-1, -1]])
    places = np.searchsorted(ends.reshape(-1), starts[row] + steps, side="right") - row * lengths.shape[1]
    return np.asarray(np.clip(places, 0, lengths.shape[1] - 1))


def located(lengths: NDArray[np.float64], group: Indices, steps: NDArray[np.float64]) -> Indices:
    """The stretch of row `group` in which each step (between 0 and 1) lands; never a stretch of length zero."""
    ends = np.cumsum(lengths, axis=1)
    ends /= ends[:, -1:]
    # The last stretch with a length ends at exactly one; a step is kept below that, despite rounding.
    flat = (ends + np.arange(len(ends))[:, None]).reshape(-1)
    landed = np.minimum(group + steps, np.nextafter(group + 1.0, 0.0))
    found = np.searchsorted(flat, landed, side="right") - group * lengths.shape[1]
    return np.asarray(np.clip(found, 0, lengths.shape[1] - 1))


def decode(flat: Indices, sizes: Sequence[int]) -> NDArray[np.int32]:
    """The level of each column for flat cells of a universe of these sizes."""
    records = np.empty((len(flat), len(sizes)), dtype=np.int32)
    for position in range(len(sizes) - 1, -1, -1):
        flat, records[:, position] = np.divmod(flat, sizes[position])
    return records


def _whole_snake(sizes: Sequence[int]) -> Indices:
    """All cells of these sizes along the snake."""
    return snake(decode(np.arange(math.prod(sizes)), sizes), sizes)


def snake(records: NDArray[np.integer[Any]], sizes: Sequence[int]) -> Indices:
    """The order of encoded records along a reflected Gray code of their columns."""
    odd = np.zeros(len(records), dtype=np.int64)  # parity of the position of each record's prefix in the snake
    keys, cells = [odd], 1
    for position, size in enumerate(sizes):
        if cells >= _ENOUGH:
            break
        digit = np.where(odd == 1, size - 1 - records[:, position], records[:, position])
        odd = (odd * size + digit) % 2
        keys.append(digit)
        cells *= size
    return np.lexsort(keys[::-1])
