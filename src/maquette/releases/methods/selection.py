"""Selection: which tables a model should hold, from noisy errors, expected noise and the size allowed; all public."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.hypothesis import JunctionTree
from maquette.schema import Ordered, Schema

SHRUNK = 1 / 3  # share of a table's noise left in a model that shrinks what noise alone could explain
WORTH = 0.5  # share of that noise that a measurement must gain
FEWEST = 16  # minimum number of groups, however rare the levels
RISE = 100.0  # standard deviations of a cell that two groups must hold to stay separate

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """A table that may be measured: its noisy error (half the L1 distance, in rows) and its weight in the workload."""

    columns: Columns
    error: float
    weight: float = 1.0


def candidates_of(tables: Iterable[Columns], size: int) -> dict[Columns, float]:
    """Every set of `size` columns inside a table of the workload, and how many tables contain it."""
    found: dict[Columns, float] = {}
    for table in tables:
        for part in itertools.combinations(table, size):
            found[part] = found.get(part, 0.0) + 1.0
    return found


def chosen(
    tree: JunctionTree,
    candidates: Sequence[Candidate],
    *,
    doubt: float,
    deviation: float,
    max_cells: int,
) -> list[Columns]:
    """The tables worth measuring that fit in a tree of `max_cells` cells, the most useful first.

    `doubt` is the standard deviation of an error, `deviation` that of a cell if the tables are measured. A table of
    error v (minus `doubt`) whose noise would leave an error u in the model is worth v^2 / (v + u): about its error if
    noise is small, almost nothing if noise is large.
    """

    def worth(candidate: Candidate) -> float:
        noise = SHRUNK * 0.4 * deviation * float(np.prod([float(tree.sizes[name]) for name in candidate.columns]))
        gain = candidate.error - doubt
        useful = gain > WORTH * noise + doubt
        return candidate.weight * gain**2 / (gain + noise) if useful else 0.0

    kept: list[Columns] = []
    ranked = sorted(((worth(c), c.columns) for c in candidates), key=lambda each: (-each[0], each[1]))
    for value, columns in ranked:
        if value <= 0.0:
            break
        if tree.cells_with(columns) <= max_cells:
            tree = tree.with_cliques([columns])
            kept.append(columns)
    return kept


def groups(
    schema: Schema,
    name: str,
    counts: Values,
    deviation: float,
    *,
    rise: float = RISE,
    fewest: int = FEWEST,
    most: int | None = None,
) -> NDArray[np.int64]:
    """Which levels of a column to merge, from its noisy counts and the standard deviation of a cell in later tables.

    Two groups are merged while the harmonic sum of their counts is below `rise` standard deviations, or there are more
    than `most`: in an ordered column two neighbours, in any other the two smallest. Columns of up to `fewest` levels
    keep all of them.
    """
    masses = np.maximum(counts, 0.0) + 1e-9
    merge = _merge_neighbours if isinstance(schema[name], Ordered) else _merge_smallest
    found = merge(masses.copy(), rise * deviation, fewest)
    return found if most is None or found.max() < most else merge(masses, np.inf, most)


def _merge_neighbours(masses: Values, least: float, fewest: int) -> NDArray[np.int64]:
    levels, left = len(masses), len(masses)
    held = masses.tolist()  # by the first level of each group; what is merged away has none
    before, after = list(range(-1, levels - 1)), list(range(1, levels + 1))
    sums = [(_harmonic(*pair), first, *pair) for first, pair in enumerate(itertools.pairwise(held))]
    heapq.heapify(sums)
    while left > fewest and sums:
        total, first, one, other = heapq.heappop(sums)
        second = after[first]
        if held[first] != one or second == levels or held[second] != other:
            continue  # one of the two has been merged since
        if total > least:
            break
        held[first], held[second], left = one + other, None, left - 1
        after[first] = after[second]
        if after[second] < levels:
            before[after[second]] = first
        for start in (before[first], first):
            if start >= 0 and after[start] < levels:
                pair = held[start], held[after[start]]
                heapq.heappush(sums, (_harmonic(*pair), start, *pair))
    starts = [level for level, mass in enumerate(held) if mass is not None]
    return np.asarray(np.searchsorted(starts, np.arange(levels), side="right") - 1, dtype=np.int64)


def _merge_smallest(masses: Values, least: float, fewest: int) -> NDArray[np.int64]:
    heap = [(float(mass), level, [level]) for level, mass in enumerate(masses)]
    heapq.heapify(heap)
    while len(heap) > fewest:
        mass, level, members = heapq.heappop(heap)
        if _harmonic(mass, heap[0][0]) > least:
            heapq.heappush(heap, (mass, level, members))
            break
        other, first, joined = heap[0]
        heapq.heapreplace(heap, (mass + other, min(level, first), members + joined))
    found = np.zeros(len(masses), dtype=np.int64)
    for group, (_, _, members) in enumerate(sorted(heap, key=lambda each: each[1])):
        found[members] = group
    return found


def _harmonic(one: Any, other: Any) -> Any:
    return one * other / (one + other)
