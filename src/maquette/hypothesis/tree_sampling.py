"""Low-variance records from a junction tree, node after node.

Records that agree on a node's separator get the node's own columns by systematic sampling of the conditional: each
combination as often as its share, rounded down or up. A randomly shifted golden-ratio lattice over the order of earlier
draws decides which record gets which combination, so that tables across nodes stay close as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis.factors import Values
from maquette.hypothesis.propagation import Calibration, Node
from maquette.hypothesis.sampling import Indices, decode, located, snake

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def sample_tree(
    calibration: Calibration, rows: int, rng: np.random.Generator, start: float | None = None
) -> NDArray[np.int32]:
    """Encoded records, in random order; `start` is that of the first node, as in `systematic`."""
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows", expected="a whole number, 0 or more")
    sizes = calibration.plan.sizes
    levels = np.zeros((len(sizes), rows), dtype=np.int32)
    line = np.arange(rows)  # the records, sorted by what was drawn last, then by what was drawn before
    for node, conditional in zip(calibration.plan.nodes, calibration.conditionals, strict=True):
        table = conditional.table.reshape(node.matrix)
        line = _draw(levels, line, node, table if node.rest_axis else table.T, sizes, rng, start)
        start = None
    return np.ascontiguousarray(levels[:, rng.permutation(rows)].T)


def _draw(  # noqa: PLR0917 -- the state of a draw
    levels: NDArray[np.int32],
    line: Indices,
    node: Node,
    table: Values,
    sizes: Sequence[int],
    rng: np.random.Generator,
    start: float | None,
) -> Indices:
    """Fill in the own columns of a node; `table` has one row per cell of its separator. Returns the new `line`."""
    group = np.zeros(len(line), dtype=np.int64)
    for column in node.separator:
        group *= sizes[column]
        group += levels[column]
    # 16-bit numbers are radix sorted, which is far faster.
    codes = group[line].astype(np.uint16 if len(table) <= 2**16 else np.int64)
    line = line[np.argsort(codes, kind="stable")]
    counts = np.bincount(group, minlength=len(table))
    present = np.flatnonzero(counts)
    counts = counts[present]
    starts = np.cumsum(counts) - counts
    shifts = (rng.random(len(present)) * counts).astype(np.int64)
    rank = np.arange(len(line)) - np.repeat(starts, counts)
    rank *= np.repeat(_strides(counts), counts)
    rank += np.repeat(shifts, counts)
    rank %= np.repeat(counts, counts)
    first = rng.random(len(present)) if start is None else np.full(len(present), start)
    steps = (rank + np.repeat(first, counts)) / np.repeat(counts, counts)
    own = [sizes[column] for column in node.own]
    along = snake(decode(np.arange(math.prod(own)), own), own)
    places = located(np.take(table[present], along, axis=1), np.repeat(np.arange(len(present)), counts), steps)
    levels[np.array(node.own)[:, None], line] = decode(along, own).T[:, places]
    ahead = np.empty_like(line)
    ahead[rank + np.repeat(starts, counts)] = line
    return ahead


def _strides(counts: Indices) -> Indices:
    """For each count n a number coprime to n, near n times the golden ratio: its multiples modulo n scatter evenly."""
    strides = np.maximum(np.rint(counts * _GOLDEN).astype(np.int64), 1)
    shared = np.flatnonzero(np.gcd(strides, counts) > 1)
    while len(shared):
        strides[shared] += 1
        shared = shared[np.gcd(strides[shared], counts[shared]) > 1]
    return np.asarray(strides)
