"""How many people a contribution bound cut, and how many of their rows: noisy, for a price, once for every ledger.

A table with a privacy unit counts at most m rows of each unit. The rows beyond that are left out, and with them a part
of the truth. Opening the table notes how many rows of each unit were left out; `count_cut` releases two sums of it.

Privacy. Let o(u) be the number of rows of unit u that were left out. It depends on the rows of u alone. The two
statistics are sum over u of [o(u) > 0], and sum over u of min(o(u), cap), for a declared cap. Adding or removing a unit
with all of its rows changes them by at most 1 and by at most cap. Replacing the rows of a unit by any others changes a
term within 0 to 1, or 0 to cap, so again by at most 1 and cap: the sensitivity is the same under both relations, and
does not depend on m. Each is one Laplace or Gaussian mechanism on a whole number, with half of the price; they compose.
A draw that was lost after its charge was never seen, and the next has a request of its own, as with bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from maquette.curator import plain
from maquette.curator.bins import DrawnBins
from maquette.curator.contributions import NOTED
from maquette.curator.results import NoiseEvent
from maquette.curator.transaction import Arrays, unpack
from maquette.errors import QueryError
from maquette.privacy import half_width
from maquette.privacy.ledger import Charge

REQUEST = "cut"
CAP = 10  # rows left out of one unit that are counted, if nobody says how many


@dataclass(frozen=True)
class Cut:
    """Noisy numbers of units with more rows than are counted, and of their rows that are left out.

    Of one unit at most `cap` rows are counted as left out. The half-widths are those of noise intervals at 95%.
    """

    units: float
    rows: float
    cap: int
    units_within: float
    rows_within: float

    def sentence(self, unit: str, bound: int) -> str:
        """The two numbers in words."""
        several = "row" if bound == 1 else "rows"
        units, rows = (f"{max(0, round(number)):,}" for number in (self.units, self.rows))
        return (
            f"about {units} (±{self.units_within:,.0f}) values of {unit} had more than {bound} {several}; about {rows} "
            f"(±{self.rows_within:,.0f}) rows are left out, counting at most {self.cap} per {unit}"
        )


class CutDoor(DrawnBins):
    """The door that says what a contribution bound left out."""

    def count_cut(
        self, *, cap: int = CAP, epsilon: float | None = None, rho: float | None = None, units: int | None = None
    ) -> Cut:
        """How many privacy units have more rows than are counted, and how many rows are left out, both noisy.

        Of one unit at most `cap` rows are counted as left out; the noise of the rows is proportional to it. Drawn once:
        if this ledger has the numbers, they are returned and nothing is charged. The module page has the proof.
        """
        if (known := self.known_cut) is not None:
            return known
        if self._left_out is None:
            raise QueryError(
                "this table does not record how many rows were left out",
                expected="a table with a privacy unit, opened from its rows outside Spark",
                advice="without a privacy unit every row is counted",
            )
        most = plain.whole(cap, "cap")
        if not 1 <= most <= NOTED:
            raise QueryError(f"cap is {most}", expected=f"a whole number from 1 to {NOTED:,}")
        events = self._cut_events(self._units(epsilon, rho, units), most)
        left_out = self._left_out

        def evaluate() -> Arrays:
            exact = statistics(left_out, most)
            drawn = self._draws(events, [1, 1])
            return [np.array([value], dtype=np.int64) + next(drawn) for value in exact]

        arrays, _ = self._transaction.through(
            "count_cut",
            events=events,
            public={"cap": most},
            evaluate=evaluate,
            request=self._once(REQUEST),
            analyst="custodian",
        )
        return _cut(arrays, most, events)

    @property
    def cut_charge(self) -> Charge | None:
        """The charge of `count_cut`, if this ledger has its answer."""
        ledger = self._transaction.ledger
        charges = () if ledger.terms.unit is None else ledger.charges()
        asked = (charge for charge in charges if charge.id.startswith(REQUEST) and charge.state == "answered")
        return next((charge for charge in asked if charge.described.door == "count_cut"), None)

    @property
    def known_cut(self) -> Cut | None:
        """What `count_cut` found under this ledger; None if it was not asked."""
        charge = self.cut_charge
        recorded = None if charge is None else self._transaction.ledger.lookup(charge.id)
        if charge is None or recorded is None:
            return None
        cap = int(charge.described.facts["cap"])
        events = [event for event, times in charge.described.events for _ in range(times)]
        return _cut(unpack(recorded.answer), cap, cast("list[NoiseEvent]", events))

    def _cut_events(self, units: int, cap: int) -> list[NoiseEvent]:
        """The noise of the two numbers, each at its own sensitivity."""
        law, parts = self._law("auto"), self._split(units, 2, None)
        return [self._calibrated(law, part, move, move**2) for part, move in zip(parts, (1, cap), strict=True)]


def statistics(left_out: NDArray[np.int64], cap: int) -> tuple[int, int]:
    """The units that were cut and their rows, from how many units had 0, 1, 2, ... rows left out; clamped."""
    rows = np.minimum(np.arange(len(left_out)), cap)
    return int(left_out[1:].sum()), int((rows * left_out).sum())


def _cut(arrays: Arrays, cap: int, events: list[NoiseEvent]) -> Cut:
    people, rows = (float(array[0]) for array in arrays)
    return Cut(people, rows, cap, *(half_width(event, 0.95) for event in events))
