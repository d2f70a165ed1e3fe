"""Purse: what an analyst has spent on each table through this door, on all connections together, also past ones.

The cap on it keeps a dashboard that refreshes, or that connects anew for each refresh, from draining the analyst's
account. It is a courtesy: the ledger alone decides what may be charged. It does not look at the clock; it holds until
the analyst raises it. Questions that are asked at the same moment may exceed it together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import sqlalchemy as sa

from maquette.service.state import door_spending as kept

if TYPE_CHECKING:
    from maquette.service import Principal, ServedTable
    from maquette.service.state import State

SHARE = 10  # an analyst may spend a tenth of a table's budget through this door, unless told otherwise


class Purse:
    """The purse of one analyst, in the state of the service."""

    def __init__(self, state: State, principal: Principal) -> None:
        self._state = state
        self._account = principal.account

    def left(self, table: ServedTable, cap: float | None) -> int | None:
        """The units that are left of a cap in epsilon (None: the default); None if there is no cap."""
        budget = table.curator.budget
        if cap is None:
            units = budget.limit // SHARE
        elif math.isinf(cap):
            return None
        else:
            units = budget.accountant.share(epsilon=cap, rho=None, delta=budget.delta) if cap > 0 else 0
        found = self._state.rows(sa.select(kept.c.units).where(*self._own(table)))
        return max(0, units - sum(int(row["units"]) for row in found))

    def pay(self, table: ServedTable, units: int) -> None:
        """Note what an answer has cost."""
        if units and not self._add(table, units):
            try:
                with self._state.begin() as connection:
                    row = {"table": table.name, "account": self._account, "units": units}
                    connection.execute(kept.insert().values(row))
            except sa.exc.IntegrityError:  # another connection was first
                self._add(table, units)

    def _add(self, table: ServedTable, units: int) -> bool:
        with self._state.begin() as connection:
            more = kept.update().where(*self._own(table)).values(units=kept.c.units + units)
            return bool(connection.execute(more).rowcount)

    def _own(self, table: ServedTable) -> tuple[sa.ColumnElement[bool], ...]:
        return kept.c.table == table.name, kept.c.account == self._account
