"""What an error needs: the epsilon for a table, and the rows for an epsilon, in plain sentences.

The default release has no theorem that predicts its errors, so it is tried on invented rows, with more or less budget,
until its pairs are as exact as asked. A session has a simple rule: the noise of one table, times the number of tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maquette.demo.preview import MOST, Trial, budget_of, strength_of
from maquette.errors import QueryError
from maquette.privacy import Budget

if TYPE_CHECKING:
    from maquette.schema import Schema

TRIES = 8  # releases that are tried at most
NEAR = 1.15  # a release within this factor of the error asked for is near enough
LARGEST = 10_000.0  # epsilon beyond which nothing is protected


@dataclass(frozen=True)
class Need:
    """The epsilon for the rows that were named, and the rows for the epsilon that was named."""

    epsilon: float
    rows: float

    def __str__(self) -> str:
        if not self.epsilon < LARGEST:
            return "cannot be reached with any budget that protects people"
        return f"epsilon {self.epsilon:.2g}, or {_two_digits(self.rows):,} rows"


@dataclass(frozen=True)
class Needs:
    """What it takes to be within `alpha` of the rows."""

    alpha: float
    rows: int
    epsilon: float
    delta: float
    tables: int
    release: Need
    session: Need
    columns: int

    def __str__(self) -> str:
        what = "pairs" if self.columns > 1 else "single columns"
        private = "" if self.delta == 0 else f" (delta {self.delta:g})"
        counts = f"{self.alpha * self.rows:,.0f} of {self.rows:,}"
        return (
            f"To be within {self.alpha:.3g} of the rows ({counts}) you need about\n"
            f"  a release    {self.release}, for counts of {what} (95 of 100 cells)\n"
            f"  a session    {self.session}, for {self.tables:,} different tables\n"
            f"Epsilon is computed for {self.rows:,} rows{private}, the number of rows for epsilon {self.epsilon:g}.\n"
            f"The release was tried on up to {MOST:,} invented rows, drawn from the schema with independent columns.\n"
            "Your table will differ. Nothing was read or charged."
        )


def needs(
    schema: Schema, *, rows: int, epsilon: float, delta: float, alpha: float, tables: int = 100, seed: int = 0
) -> Needs:
    """The epsilon and the rows that the default release and a session need for an error of `alpha`.

    Privacy: no row of anybody is read.
    """
    if rows < 1 or tables < 1:
        raise QueryError(f"rows is {rows} and tables is {tables}", expected="whole numbers of at least 1")
    if not 0 < alpha < 1:
        raise QueryError(f"alpha is {alpha}", expected="a share of the rows between 0 and 1, such as 0.01")
    given = strength_of(Budget(epsilon=epsilon, delta=delta))

    def need(strength_rows: float) -> Need:
        if not strength_rows < np.inf:
            return Need(np.inf, np.inf)
        return Need(budget_of(strength_rows / rows, delta).epsilon, strength_rows / given)

    found = _tried(schema.evenly_cut(), rows, alpha, delta, start=given * rows, seed=seed)
    asked = tables * 7 / alpha if delta == 0 else float(np.sqrt(tables / 2)) * 3.3 / alpha
    return Needs(alpha, rows, epsilon, delta, tables, need(found), need(asked), len(schema))


def _tried(schema: Schema, rows: int, alpha: float, delta: float, *, start: float, seed: int) -> float:
    """Strength times rows at which the default release is within alpha; infinite if no try comes near."""
    many, strength = min(rows, MOST), start
    size = min(2, len(schema))
    enough = np.inf
    for _ in range(TRIES):
        off = Trial(schema, many, strength, delta, seed).error(size)
        if off <= alpha:
            enough = min(enough, strength)
        if alpha / NEAR <= off <= alpha:
            break
        # Noise falls as one over the strength; a little more than that brings the next try to the near side.
        strength *= min(max(off / alpha * 1.05, 1 / 16), 16.0)
        if strength / rows > LARGEST:
            break
    return float(enough)


def _two_digits(number: float) -> int:
    power = 10.0 ** max(np.floor(np.log10(number)) - 1, 0)
    return int(np.ceil(number / power) * power)
