from .account import AccountEntry as AccountEntry, ScopedAccount as ScopedAccount
from .bins import settle_bins as settle_bins
from .clamped import Clamped as Clamped, clamped_values as clamped_values
from .compile import Question as Question
from .curator import Curator as Curator
from .cut import Cut as Cut
from .deadline import Deadline as Deadline
from .engines.api import Amount as Amount, Engine as Engine, SpreadEngine as SpreadEngine, ValueEngine as ValueEngine
from .engines.encoding import fingerprint_of as fingerprint_of
from .guard import Guard as Guard
from .intake import Law as Law, Mechanism as Mechanism
from .lazy_guard import LazyGuard as LazyGuard
from .lottery import Drawn as Drawn, Lottery as Lottery
from .misfits import Misfit as Misfit, first_misfits as first_misfits, shape_of as shape_of
from .noise import ExactNoise as ExactNoise, NoiseSource as NoiseSource, round_scale_up as round_scale_up
from .open import open_table as open_table
from .results import Chosen as Chosen, Errors as Errors, Measurement as Measurement, Tested as Tested
from .spark import SparkTable as SparkTable
from .sparse_vector import SparseVector as SparseVector, concentrated as concentrated
from .table import PrivateTable as PrivateTable, table_of as table_of
from .unit_counts import BOUNDS as BOUNDS, UnitReport as UnitReport, unit_report as unit_report
