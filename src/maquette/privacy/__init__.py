"""Privacy accounting: events describe accesses, accountants price them in integer units, a budget limits the sum."""

from maquette.privacy.accountant import Accountant
from maquette.privacy.budget import ACCOUNTANTS, Budget
from maquette.privacy.cost import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    LazyRounds,
    Pure,
    Selection,
    from_dict,
)
from maquette.privacy.loss import Loss
from maquette.privacy.relation import Relation
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE

__all__ = [
    "ACCOUNTANTS",
    "MAX_UNITS",
    "UNITS_PER_ONE",
    "Accountant",
    "Budget",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "LazyRounds",
    "Loss",
    "Pure",
    "Relation",
    "Selection",
    "from_dict",
]
