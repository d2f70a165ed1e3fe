"""Preview: what a schema and a budget will give, on rows that belong to nobody.

The rows are drawn from the schema alone: every column by itself, with a few frequent levels and many rare ones. So the
whole journey can be seen, and its errors measured against known counts, before any real row is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

from maquette.curator import Curator, open_table
from maquette.errors import QueryError
from maquette.privacy import Budget
from maquette.query import marginals
from maquette.releases import Release, release

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.schema import Schema

MOST = 20_000  # rows simulated at most: an error in rows hardly depends on their number
TABLES = 24  # tables of each size whose errors are looked at
LARGEST = 2**20  # cells of such a table
SURE = 0.95


def stand_in(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Rows of nobody: independent columns, with shares that fall off from level to level."""
    codes = np.empty((rows, len(schema)), dtype=np.int32)
    for i, column in enumerate(schema):
        shares = 1.0 / np.arange(1, column.size + 1)
        codes[:, i] = rng.choice(column.size, size=rows, p=rng.permutation(shares) / shares.sum())
    return schema.spread(codes, rng)


@dataclass(frozen=True)
class Foreseen:
    """How far the counts of a default release were from those of a stand-in, in rows, for 95 of 100 cells."""

    rows: int
    epsilon: float
    delta: float
    errors: dict[int, float]
    sampled: float
    session: int

    def __str__(self) -> str:
        words = {1: "single columns", 2: "pairs", 3: "triples"}
        within = ", ".join(f"{words[k]} within ±{_round(error):,}" for k, error in self.errors.items())
        return (
            f"With epsilon {self.epsilon:g} and a table of {self.rows:,} rows and these columns:\n"
            f"  a release    counts of {within} (95 of 100 cells)\n"
            f"  its rows     synthetic rows reproduce pairs within {self.sampled:.1%} of the table\n"
            f"  a session    answers about {self.session:,} different tables to within 2% of the rows\n"
            f"Measured on {min(self.rows, MOST):,} rows of nobody, drawn from the schema with independent columns.\n"
            "Your table will differ. Nothing was read or charged."
        )


def foresee(schema: Schema, *, rows: int, epsilon: float, delta: float, seed: int = 0) -> Foreseen:
    """Run the default release on a stand-in and compare its counts with the known ones.

    Privacy: no row of anybody is read. The numbers are those of one run, not a promise.
    """
    if rows < 1:
        raise QueryError(f"rows is {rows}", expected="a whole number from 1 on")
    rng = np.random.default_rng(seed)
    many, schema = min(rows, MOST), schema.evenly_cut()
    table = stand_in(schema, many, rng)
    records = schema.encode(table)
    most = min(3, len(schema))
    with Curator(open_table(table, schema), Budget(epsilon=epsilon, delta=delta)) as curator:
        made = release(curator, marginals(schema, k=min(2, most)))
    drawn = schema.encode(made.sample(many, rng=rng))
    errors = {k: _error(schema, made, records, k) for k in range(1, most + 1)}
    apart = [_distance(schema, names, records, drawn) for names in _tables(schema, min(2, most))]
    return Foreseen(rows, epsilon, delta, errors, float(np.median(apart)), _session(rows, epsilon, delta))


def _tables(schema: Schema, k: int) -> list[tuple[str, ...]]:
    fitting = (names for names in combinations(schema.names, k) if schema.cells(names) <= LARGEST)
    return list(islice(fitting, TABLES))


def _error(schema: Schema, made: Release, records: np.ndarray, k: int) -> float:
    apart = [
        np.abs(made.marginal(*names) * made.rows - _counts(schema, names, records)).reshape(-1)
        for names in _tables(schema, k)
    ]
    return float(np.quantile(np.concatenate(apart), SURE)) if apart else float("nan")


def _distance(schema: Schema, names: tuple[str, ...], records: np.ndarray, drawn: np.ndarray) -> float:
    """Half the sum of absolute differences of shares."""
    one, other = (_counts(schema, names, rows) / len(rows) for rows in (records, drawn))
    return float(np.abs(one - other).sum() / 2)


def _counts(schema: Schema, names: tuple[str, ...], records: np.ndarray) -> np.ndarray:
    places = np.ravel_multi_index([records[:, schema.position(name)] for name in names], schema.shape(names))
    return np.bincount(places, minlength=schema.cells(names)).reshape(schema.shape(names))


def _session(rows: int, epsilon: float, delta: float) -> int:
    """How many tables can be bought, each with noise within 2% of the rows in nearly every cell."""
    budget, width = Budget(epsilon=epsilon, delta=delta), 0.02 * rows
    if delta == 0:
        return int(epsilon * width / 7)  # Laplace noise stays within 7 scales but once in 1,100
    rho = budget.accountant.loss(budget.limit, delta).rho or 0.0
    return int(2 * rho * (width / 3.3) ** 2)


def _round(error: float) -> int:
    """Two leading digits, at least 1: more would promise too much."""
    if not error >= 1:
        return 1
    power = max(int(np.floor(np.log10(error))) - 1, 0)
    return int(np.ceil(error / 10**power) * 10**power)
