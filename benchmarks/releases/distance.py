"""How far marginals are from those of the rows: shared with the peers, so it needs numpy alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Values = NDArray[np.float64]
COMPARED = 300  # tables of each number of columns
LARGEST = 2_000_000  # cells of a table that is compared


def read(data: str, table: str) -> tuple[dict[str, int], Codes]:
    """The sizes of a table's columns, in its order, and its rows as codes."""
    folder = Path(data) / table
    domain = json.loads((folder / f"{table}-domain.json").read_text(encoding="utf-8"))
    path = folder / f"{table}.csv"
    names = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
    return {name: domain[name] for name in names}, np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1)


def counted(rows: Codes, sizes: list[int], columns: tuple[int, ...]) -> Values:
    """A marginal of rows, as counts."""
    shape = [sizes[i] for i in columns]
    cells = np.ravel_multi_index([rows[:, i] for i in columns], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def distance(
    rows: Codes, sizes: list[int], sets: Iterable[tuple[int, ...]], marginal: Callable[[tuple[int, ...]], Values]
) -> dict[str, float]:
    """Between marginals (fractions) and those of rows: the mean half L1 distance, and the largest error of a cell."""
    apart = [np.abs(marginal(columns) - counted(rows, sizes, columns) / len(rows)) for columns in sets]
    return {"tvd": float(np.mean([each.sum() / 2 for each in apart])), "cell": float(max(map(np.max, apart)))}


def sampled(rows: Codes, sizes: list[int], sets: Iterable[tuple[int, ...]], made: Codes) -> dict[str, float]:
    """The same of synthetic rows."""
    result = distance(rows, sizes, sets, lambda columns: counted(made, sizes, columns) / len(made))
    return {f"rows {name}": value for name, value in result.items()}


def every(sizes: list[int], k: int) -> list[tuple[int, ...]]:
    """Every set of k columns."""
    return list(itertools.combinations(range(len(sizes)), k))


def some(sizes: list[int], k: int, most: int = COMPARED, largest: int = LARGEST) -> list[tuple[int, ...]]:
    """At most so many sets of k columns, always the same ones; tables that are too large to compare are left out."""
    sets = [columns for columns in every(sizes, k) if np.prod([float(sizes[i]) for i in columns]) <= largest]
    if len(sets) <= most:
        return sets
    return [sets[i] for i in sorted(np.random.default_rng(0).choice(len(sets), most, replace=False))]
