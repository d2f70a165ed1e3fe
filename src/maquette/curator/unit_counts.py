"""How many rows and people a contribution bound would drop: for the custodian's own eyes, before any budget exists.

Nothing here is private: the numbers are exact. They are printed to whoever may read the rows, and never released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.curator.contributions import unit_sql
from maquette.curator.sources import looked_at, reading
from maquette.errors import DataError
from maquette.schema import FileFormat

BOUNDS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # noise is proportional to the bound, so they lie close
LOST = 0.05  # share of the rows that a recommended bound drops at most


@dataclass(frozen=True)
class Dropped:
    """What a bound on the rows per unit would drop."""

    bound: int
    rows: int
    units: int


@dataclass(frozen=True)
class UnitReport:
    """Rows and units of a table, and what each bound would drop."""

    rows: int
    units: int
    most: int
    choices: tuple[Dropped, ...]

    @property
    def recommended(self) -> int:
        """The smallest bound that drops at most a twentieth of the rows."""
        fitting = [choice.bound for choice in self.choices if choice.rows <= LOST * self.rows]
        return min(fitting, default=self.most)


def unit_report(
    source: object,
    privacy_unit: str,
    *,
    bounds: Sequence[int] = BOUNDS,
    query: str | None = None,
    delimiter: str | None = None,
    file: FileFormat | None = None,
) -> UnitReport:
    """Count the rows of each unit of a source; exact, so for the custodian only.

    Privacy: none. A bound chosen from these numbers depends on the rows, as a drafted schema does.
    """
    form = (FileFormat() if file is None else file).changed(delimiter=delimiter)
    with looked_at(source, [privacy_unit], form, query) as read:
        unit = read.identifiers([privacy_unit])[privacy_unit]
        counted = read.relation.project(unit_sql(unit)).filter("u IS NOT NULL").aggregate("u, count(*) AS n", "u")
        sums = ", ".join(
            f"CAST(coalesce(sum(greatest(n - {m}, 0)), 0) AS BIGINT), count(*) FILTER (n > {m})" for m in bounds
        )
        asked = f"CAST(coalesce(sum(n), 0) AS BIGINT), count(*), coalesce(max(n), 0), {sums}"
        (facts,) = reading("the rows", lambda: counted.aggregate(asked).fetchall())
    rows, units, most, *pairs = map(int, facts)
    if not rows:
        raise DataError(
            f"no row has a value in {privacy_unit!r}",
            advice="name the column that identifies the person (or other unit) of a row",
        )
    choices = [Dropped(m, pairs[2 * i], pairs[2 * i + 1]) for i, m in enumerate(bounds)]
    return UnitReport(rows, units, most, tuple(choices))
