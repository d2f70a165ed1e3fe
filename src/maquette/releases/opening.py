"""The opening of a release with a theorem: the public number of rows, or an estimate that it buys first."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.query import Marginal

ROWS = 0.01  # share of the budget that buys a row estimate where the number of rows is private
ROWS_DOUBT = 0.1  # share of beta for an error of this estimate of more than `slack`


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The number of rows, the most by which it is off, and the units and the failure probability that are left."""

    rows: float
    slack: float
    units: int
    beta: float


def check_promise_of(beta: float, rows: int | None, what: str = "row") -> None:
    """Refuse a failure probability or a number of rows that no promise can be about."""
    if not 0 < beta < 1 or (rows is not None and rows < 1):
        raise QueryError(f"got beta={beta} and rows={rows}", expected=f"0 < beta < 1 and at least one {what}")


def opening(curator: Curator, units: int, *, rows: int | None, beta: float) -> Opening:
    """`rows` where given, the count where it is public, else an estimate for a hundredth of the units.

    Privacy: at most one `Curator.measure` of the constant query.
    """
    if rows is not None or curator.relation.rows_are_public:
        size = float(rows) if rows is not None else curator.count_rows()
        return Opening(rows=size, slack=0.0, units=units, beta=beta)
    counted = curator.measure(Marginal(curator.schema), units=int(ROWS * units))
    return Opening(
        rows=max(1.0, float(counted.values)),
        slack=counted.half_width(1 - ROWS_DOUBT * beta),
        units=units - counted.cost.units,
        beta=(1 - ROWS_DOUBT) * beta,
    )
