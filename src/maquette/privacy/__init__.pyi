from .accountant import Accountant as Accountant
from .budget import ACCOUNTANTS as ACCOUNTANTS, Budget as Budget
from .conversion import gaussian_epsilon as gaussian_epsilon, zcdp_epsilon as zcdp_epsilon, zcdp_rho as zcdp_rho
from .cost import (
    Composed as Composed,
    DiscreteGaussian as DiscreteGaussian,
    DiscreteLaplace as DiscreteLaplace,
    Event as Event,
    LazyRounds as LazyRounds,
    Pure as Pure,
    Selection as Selection,
    from_dict as from_dict,
)
from .decimal_price import recorded_price as recorded_price
from .interval import (
    check_confidence as check_confidence,
    deviation as deviation,
    half_width as half_width,
    sum_half_width as sum_half_width,
)
from .lazy import lazy_epsilon as lazy_epsilon, lazy_rate as lazy_rate
from .loss import Loss as Loss
from .relation import Kind as Kind, Relation as Relation, rows_counted as rows_counted
from .units import MAX_UNITS as MAX_UNITS, UNITS_PER_ONE as UNITS_PER_ONE, float_down as float_down
