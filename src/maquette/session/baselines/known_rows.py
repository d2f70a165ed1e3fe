"""The number of rows: exact where it is public, otherwise an estimate with a known noise law."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.curator import Curator, Law, Measurement
from maquette.errors import QueryError
from maquette.estimates import spread
from maquette.privacy import recorded_price
from maquette.query import Marginal

SHARE = 0.01  # share of the budget that buys a row estimate where the number of rows is private


@dataclass(frozen=True)
class KnownRows:
    """The number of rows to divide by; exact unless it has a measurement."""

    size: float
    measured: Measurement | None = None

    @property
    def deviation(self) -> float:
        """The standard deviation of its noise, in rows."""
        return 0.0 if self.measured is None else spread(self.measured)

    def slack(self, doubt: float) -> float:
        """Error bound in rows that fails with probability at most `doubt`."""
        return 0.0 if self.measured is None else self.measured.half_width(1 - doubt)


def known_rows(curator: Curator, units: float, *, rows: int | None = None, noise: Law = "auto") -> KnownRows:
    """The number of rows: given as `rows`, public, or measured for `units` ledger units.

    Privacy: at most one `Curator.measure` of the constant query. The same price returns the same recorded estimate, so
    a second session, or one that was refused because there are too few rows, does not pay for it again.
    """
    if rows is not None and rows < 1:
        raise QueryError(f"rows is {rows}", expected="at least one, or None if the number is not public")
    if rows is not None or curator.relation.rows_are_public:
        return KnownRows(float(rows) if rows is not None else curator.count_rows())
    amount = recorded_price(curator.budget, units)
    name = f"rows:{noise}:{sorted(amount.items())}"
    measured = curator.measure(Marginal(curator.schema), **amount, noise=noise, request=name)
    return KnownRows(max(1.0, float(measured.values)), measured)
