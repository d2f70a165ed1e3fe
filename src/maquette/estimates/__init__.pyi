from .blended import BlendedModel as BlendedModel, Part as Part
from .check import (
    Check as Check,
    Reach as Reach,
    Typical as Typical,
    rounded as rounded,
    spread_of as spread_of,
    ties as ties,
)
from .column_features import width_of as width_of
from .columns import projected as projected, smoothed as smoothed, towards as towards
from .dense import MAX_CELLS as MAX_CELLS, DenseModel as DenseModel, check_dense as check_dense, rule_out as rule_out
from .dense_fit import Fitted as Fitted, fit as fit
from .departures import Departures as Departures
from .evidence import Estimate as Estimate, Evidence as Evidence, NoEvidence as NoEvidence, spread as spread
from .graphical_fit import STAGES as STAGES, Counted as Counted, Estimated as Estimated, estimates as estimates
from .merged import MergedEvidence as MergedEvidence, MergedModel as MergedModel, Merging as Merging
from .mixture_evidence import KnownColumn as KnownColumn
from .mixture_fit import (
    Components as Components,
    Planned as Planned,
    components as components,
    mixture_holds as mixture_holds,
)
from .pairing import paired as paired
from .population import usual_errors as usual_errors
from .raking import raked as raked
from .residuals import (
    Columns as Columns,
    Residuals as Residuals,
    forward as forward,
    helmert_of as helmert_of,
    subsets as subsets,
)
from .shares import Allocation as Allocation, tables_of as tables_of, units_for as units_for
from .sums import estimate_sum as estimate_sum
from .tables import Tables as Tables
from .trace import MEAN as MEAN, Step as Step, step_of as step_of
from .worth import (
    COLUMN_ERROR as COLUMN_ERROR,
    Wanted as Wanted,
    believed as believed,
    noise_of as noise_of,
    split as split,
    unexplained as unexplained,
    wanted as wanted,
    weights_of as weights_of,
)
