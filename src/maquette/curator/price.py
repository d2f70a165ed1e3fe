"""Price: what a caller may spend at a door, as ledger units."""

from __future__ import annotations

from maquette.curator import plain
from maquette.errors import BudgetError
from maquette.privacy import Budget
from maquette.privacy.ledger.api import check_units


def units_of(budget: Budget, *, epsilon: float | None, rho: float | None, units: int | None) -> int:
    """The ledger units of a price: exactly one of `epsilon` (at the budget's delta), `rho` and `units`.

    Units are taken as they are, so that parts of a budget add up without a rounding; the others are rounded down.
    """
    if units is None:
        found = budget.accountant.share(epsilon=epsilon, rho=rho, delta=budget.delta)
        if found < 1:
            raise BudgetError(
                f"epsilon={epsilon}, rho={rho} is less than the ledger's smallest unit", advice="ask for more"
            )
        return found
    if epsilon is not None or rho is not None:
        raise BudgetError(f"Got epsilon={epsilon}, rho={rho} and units={units!r}", expected="exactly one of the three.")
    whole = plain.whole(units, "units")
    check_units("charge", whole)
    if whole < 1:
        raise BudgetError(f"units is {whole}", expected="a whole number of at least 1", advice="ask for more")
    return whole
