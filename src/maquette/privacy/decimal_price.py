"""Recorded price: ledger units as version 0.1 put them into the names and the digests of its requests.

Version 0.1 gave the doors a decimal number of epsilon or rho, which can be a unit less (from 8 of epsilon or rho on,
and from 1 of mu squared). Whoever goes on from one of its ledgers asks under the same name for the same digest, so
requests that have a name keep that rounding; all others give the doors their units.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypedDict

from maquette.privacy.budget import Budget
from maquette.privacy.units import UNITS_PER_ONE


class DecimalPrice(TypedDict, total=False):
    """What a door may spend, as its keyword."""

    epsilon: float
    rho: float


def recorded_price(budget: Budget, units: float) -> DecimalPrice:
    """The largest decimal number of the budget's currency that is at most `units`, as a door's keyword."""
    amount = units / UNITS_PER_ONE
    while Fraction(repr(amount)) * UNITS_PER_ONE > units:  # a float may round up what a door reads as a decimal
        amount = math.nextafter(amount, 0.0)
    match budget.accountant.currency:
        case "pure":
            return {"epsilon": amount}
        case "gdp":
            return {"rho": amount / 2}
        case _:
            return {"rho": amount}
