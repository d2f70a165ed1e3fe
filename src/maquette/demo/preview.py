"""Preview: what a schema and a budget will give, on rows that belong to nobody.

The rows are drawn from the schema alone: every column by itself, with a few frequent levels and many rare ones. So the
whole journey can be seen, and its errors measured against known counts, before any real row is read.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

from maquette.curator import Curator, open_table
from maquette.errors import QueryError
from maquette.privacy import Budget
from maquette.query import marginals
from maquette.releases import Release, release
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 20_000  # rows simulated at most
TABLES = 24  # tables of each size whose errors are looked at
LARGEST = 2**20  # cells of such a table
SURE = 0.95


def stand_in(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Invented rows: independent columns, with shares that fall off from level to level."""
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
    max_contributions: int = 1
    binned: tuple[str, ...] = ()
    """Columns of numbers whose bins hold several values."""

    def __str__(self) -> str:
        words = {1: "single columns", 2: "pairs", 3: "triples"}
        within = ", ".join(f"{words[k]} within ±{_round(error):,}" for k, error in self.errors.items())
        return (
            f"With epsilon {self.epsilon:g} and a table of {self.rows:,} rows{self._each} and these columns:\n"
            f"  a release    counts of {within} (for 95 of 100 cells: those of more columns hold fewer rows)\n"
            f"  its rows     synthetic rows reproduce pairs within {self.sampled:.1%} of the table\n"
            f"{self._averages}"
            f"  a session    answers about {self.session:,} different tables to within 2% of the rows\n"
            f"Measured on {min(self.rows, MOST):,} invented rows, drawn from the schema with independent columns.\n"
            "Your table will differ. Nothing was read or charged."
        )

    @property
    def _averages(self) -> str:
        """A model knows bins: whose averages that concerns, and what to type."""
        if not self.binned:
            return ""
        named = ", ".join(self.binned[:3]) + (f" and {len(self.binned) - 3} more" if len(self.binned) > 3 else "")
        option = f"release --sums {shlex.quote(self.binned[0])}"
        return f"  averages     of {named}: to within their bins; `{option}` buys the sums themselves\n"

    @property
    def _each(self) -> str:
        most = self.max_contributions
        return "" if most == 1 else f", at most {most:,} per person (noise is {most:,} times as large as with 1),"


def foresee(
    schema: Schema, *, rows: int, epsilon: float, delta: float, max_contributions: int = 1, seed: int = 0
) -> Foreseen:
    """Run the default release on a stand-in and compare its counts with the known ones.

    Noise is proportional to `max_contributions`, the rows that are kept of one unit.

    Privacy: no row of anybody is read. The numbers are those of one run, not a promise.
    """
    if rows < 1:
        raise QueryError(f"rows is {rows}", expected="a whole number of at least 1")
    if max_contributions < 1:
        raise QueryError(f"max_contributions is {max_contributions}", expected="a whole number of at least 1")
    strength_rows = strength_of(Budget(epsilon=epsilon, delta=delta)) * rows / max_contributions
    tried = Trial(schema.evenly_cut(), min(rows, MOST), strength_rows, delta, seed)
    errors = {k: tried.error(k) * rows for k in range(1, tried.most + 1)}
    session = int(_session_tables(strength_rows, 0.02, delta))
    binned = tuple(column.name for column in schema if column.value_grid is not None)
    return Foreseen(rows, epsilon, delta, errors, tried.distance(), session, max_contributions, binned)


def strength_of(budget: Budget) -> float:
    """What noise is inversely proportional to: epsilon of a pure budget, else the root of rho."""
    return budget.epsilon if budget.delta == 0 else float(np.sqrt(_rho(budget)))


def budget_of(strength: float, delta: float) -> Budget:
    """The budget of a strength."""
    return Budget(epsilon=strength, delta=0.0) if delta == 0 else Budget(rho=strength**2, delta=delta)


def _rho(budget: Budget) -> float:
    return budget.accountant.loss(budget.limit, budget.delta).rho or 0.0


class Trial:
    """One run of the default release on `many` invented rows.

    Errors as shares of the rows depend on strength times rows alone, up to small terms: noise has the same size in rows
    whatever their number. So a large table is tried on fewer rows with a larger budget.
    """

    def __init__(self, schema: Schema, many: int, strength_rows: float, delta: float, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        schema = Schema(schema.columns, impossible=schema.impossible)  # the strength counts what a unit contributes
        self.schema, self.many, self.most = schema, many, min(3, len(schema))
        table = stand_in(schema, many, self.rng)
        self.records = schema.encode(table)
        with Curator(open_table(table, schema), budget_of(strength_rows / many, delta)) as curator:
            self.made = release(curator, marginals(schema, k=min(2, self.most)))

    def error(self, k: int) -> float:
        """How far counts of tables of k columns are off, as a share of the rows, for 95 of 100 cells."""
        return _error(self.schema, self.made, self.records, k) / self.many

    def distance(self) -> float:
        """How far pairs of synthetic rows are from those of the stand-in."""
        drawn = self.schema.encode(self.made.sample(self.many, rng=self.rng))
        pairs = _tables(self.schema, min(2, self.most))
        return float(np.median([_distance(self.schema, names, self.records, drawn) for names in pairs]))


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


def _session_tables(strength_rows: float, alpha: float, delta: float) -> float:
    """How many tables can be bought, each with noise within alpha of the rows in nearly every cell.

    Laplace noise stays within 7 scales but once in 1,100, Gaussian noise within 3.3 deviations.
    """
    if delta == 0:
        return strength_rows * alpha / 7
    return 2 * (strength_rows * alpha / 3.3) ** 2


def _round(error: float) -> int:
    """Two leading digits, at least 1: more would promise too much."""
    if not error >= 1:
        return 1
    power = max(int(np.floor(np.log10(error))) - 1, 0)
    return int(np.ceil(error / 10**power) * 10**power)
