"""Benches: curators on neighbouring tables, with zero noise, so that doors show their exact statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from maquette.audit.compiling import CompiledOnce
from maquette.audit.reference.quiet import QuietNoise
from maquette.audit.reference.scripted import Call
from maquette.audit.reference.universes import Record
from maquette.curator import Curator, PrivateTable, open_table
from maquette.errors import MaquetteError
from maquette.privacy import UNITS_PER_ONE, Budget
from maquette.schema import Schema

Unit = tuple[Record, ...]  # the rows of one person
Relation = Literal["add-remove", "replace"]
BUDGETS = (
    Budget(epsilon=9e3),
    Budget(rho=9e3, delta=1e-9),
    Budget(epsilon=9e2, delta=1e-9, accounting="gdp"),
    Budget(epsilon=9e3, delta=1e-9, accounting="basic"),
)
_UNIT = "whose row it is"


def open_units(schema: Schema, units: Sequence[Unit], contributions: int, *, in_memory: bool) -> PrivateTable:
    """A table of people, each with their rows, counted in memory or by DuckDB."""
    import pyarrow as pa

    records = np.array([row for unit in units for row in unit], dtype=np.int32)
    rows = schema.decode(records)
    limit: dict[str, Any] = {} if in_memory else {"memory_limit": 0}
    if contributions == 1:
        return open_table(rows, schema, **limit)
    owners = [owner for owner, unit in enumerate(units) for _ in unit]
    rows = rows.append_column(_UNIT, pa.array(owners))
    return open_table(rows, schema, privacy_unit=_UNIT, max_contributions=contributions, **limit)


@dataclass(frozen=True)
class Outcome:
    """What one call of a door gave: a result or a refusal, the noise it requested, and its charge."""

    result: Any
    refusal: str | None
    broke: str | None  # an exception that is not one of ours
    calls: tuple[Call, ...]
    scores: tuple[np.ndarray, ...]
    units: int


class Bench:
    """One curator, its table's records, and the noise source that records its requests."""

    def __init__(
        self,
        table: PrivateTable,
        units: Sequence[Unit],
        budget: Budget,
        relation: Relation,
        compiled: CompiledOnce | None = None,
    ) -> None:
        self.noise = QuietNoise()
        self.curator = Curator(table, budget, relation=relation, noise=self.noise)
        if compiled is not None:
            self.curator._compile = compiled.around(self.curator._compile)
        self.records = Counter(row for unit in units for row in unit)
        self.contributions = table.max_contributions
        self.kept: dict[str, Any] = {}  # doors that stay open
        self._spent = 0

    def keep(self, name: str, opened: Callable[[Bench], Any]) -> None:
        """Open a door that stays open, unless it is; its charge belongs to no question."""
        if name not in self.kept:
            self.kept[name] = opened(self)
            self._spent = self.curator.ledger.spent()

    def ask(self, call: Callable[[Curator], Any]) -> Outcome:
        """Call a door and record what it did."""
        self.noise.calls.clear()
        self.noise.scores.clear()
        result, refusal, broke = None, None, None
        try:
            with self.curator.account("audit") as account, np.errstate(all="ignore"):
                result = call(self.curator)
        except MaquetteError as error:
            refusal = f"{type(error).__name__}: {error}"
        except Exception as error:
            broke = f"{type(error).__name__}: {error}"
        before, self._spent = self._spent, self.curator.ledger.spent()
        charged = self._spent - before
        assert account.charged_units == charged, "what a call was charged differs from the account of it"
        return Outcome(result, refusal, broke, tuple(self.noise.calls), tuple(self.noise.scores), charged)

    @property
    def price(self) -> dict[str, Any]:
        """A small share of the budget."""
        return {"rho": 0.25} if self.curator.budget.accounting == "zcdp" else {"epsilon": 0.5}

    def strength(self, units: int, kind: str) -> Fraction:
        """The epsilon of a selection that costs at most `units`, under its accounting."""
        amount = Fraction(units, UNITS_PER_ONE)
        accounting = self.curator.budget.accounting
        if accounting in ("pure", "basic"):
            return amount
        if accounting == "zcdp":  # a pure access costs epsilon^2 / 2, a bounded range epsilon^2 / 8
            return Fraction(math.sqrt((2 if kind == "permute_and_flip" else 8) * amount)) * Fraction(1 + 2**-50)
        from scipy.special import log_ndtr

        half = math.sqrt(amount) / 2  # mu = 2 Phi^-1(logistic(epsilon)); a bounded range at half its epsilon
        odds = float(log_ndtr(half) - log_ndtr(-half))
        return Fraction(odds * (1 if kind == "permute_and_flip" else 2)) * Fraction(1 + 2**-40)

    def close(self) -> None:
        """Close the ledger."""
        self.curator.close()
