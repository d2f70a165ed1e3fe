"""Recorded price: ledger units rounded as version 0.1 did for the names and the digests of its requests.

Version 0.1 gave the doors a decimal number of epsilon or rho, which can be one unit less (from 8 of epsilon or rho, or
from 1 of mu squared). A session that continues from such a ledger must ask under the same name with the same digest. So
requests that have a name keep that rounding; all others give the doors their units directly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypedDict

from maquette.privacy.budget import Budget
from maquette.privacy.units import UNITS_PER_ONE


class DecimalPrice(TypedDict, total=False):
    """The amount a door may spend, as its keyword argument."""

    epsilon: float
    rho: float


def recorded_price(budget: Budget, units: float) -> DecimalPrice:
    """The largest decimal number of the budget's currency that is at most `units`, as a door's keyword argument."""
    amount = units / UNITS_PER_ONE
    while Fraction(repr(amount)) * UNITS_PER_ONE > units:  # the decimal text, which a door reads, may be larger
        amount = math.nextafter(amount, 0.0)
    match budget.accountant.currency:
        case "pure":
            return {"epsilon": amount}
        case "gdp":
            return {"rho": amount / 2}
        case _:
            return {"rho": amount}
