from . import forms as forms
from .amounts import Amounts as Amounts
from .bare import BareBasis as BareBasis, BareQuestions as BareQuestions, BareReading as BareReading
from .classes.boolean import (
    Literals as Literals,
    literal_query as literal_query,
    literals_in as literals_in,
    literals_of as literals_of,
    parities_of as parities_of,
    table_of_disjunctions as table_of_disjunctions,
    table_of_parities as table_of_parities,
    two_level_columns as two_level_columns,
)
from .classes.cuts import (
    FROM as FROM,
    TO as TO,
    WEIGHT as WEIGHT,
    Cuts as Cuts,
    bipartitions as bipartitions,
    cut as cut,
    cuts as cuts,
    degrees as degrees,
    edge_schema as edge_schema,
    edge_weights as edge_weights,
    vertices_of as vertices_of,
)
from .classes.distances import (
    Box as Box,
    Distances as Distances,
    additive as additive,
    average_distance as average_distance,
)
from .classes.embedding import Embedding as Embedding
from .classes.lookups import (
    KeyIndex as KeyIndex,
    Keys as Keys,
    Lookup as Lookup,
    Points as Points,
    checked_points as checked_points,
    lookup as lookup,
    support as support,
)
from .classes.low_sensitivity import (
    LowSensitivityQuery as LowSensitivityQuery,
    Statistic as Statistic,
    check_sensitivity as check_sensitivity,
)
from .classes.parities import Parities as Parities
from .contrasts import (
    Contrasts as Contrasts,
    Gains as Gains,
    digest_of as digest_of,
    gains_of as gains_of,
    helmert as helmert,
    helmert_rows as helmert_rows,
    orthonormal as orthonormal,
    residual as residual,
    together as together,
)
from .expression import Expression as Expression, col as col, where as where
from .forms import Asked as Asked, Form as Form
from .linear import FINE as FINE, LinearQuery as LinearQuery, Term as Term
from .marginal import (
    MAX_OUTPUT as MAX_OUTPUT,
    Axis as Axis,
    Buckets as Buckets,
    Marginal as Marginal,
    key_of as key_of,
    marginal_of as marginal_of,
)
from .moves import LARGEST as LARGEST, Movable as Movable, Moves as Moves
from .of_values import OfValues as OfValues
from .sql.context import Context as Context
from .sql.joins import loose_join as loose_join
from .sql.levels import evaluated as evaluated
from .sql.program import (
    Answers as Answers,
    Attach as Attach,
    Core as Core,
    Extend as Extend,
    Filter as Filter,
    Join as Join,
    Limit as Limit,
    Listed as Listed,
    Pick as Pick,
    Program as Program,
    Sort as Sort,
    Stack as Stack,
    Total as Total,
    Windowed as Windowed,
)
from .sql.public import PublicTable as PublicTable, named_table as named_table
from .sql.reference import sql_reference as sql_reference
from .sql.settings import (
    LEAST_ALPHA as LEAST_ALPHA,
    CutRule as CutRule,
    Settings as Settings,
    settings_of as settings_of,
)
from .sql.statement import (
    Measure as Measure,
    Output as Output,
    Statement as Statement,
    parse as parse,
    question as question,
)
from .sql.words import written as written
from .steps import (
    RANGE_BASES as RANGE_BASES,
    RangeBasis as RangeBasis,
    bare_questions_of as bare_questions_of,
    bare_reading_of as bare_reading_of,
    family_of as family_of,
    hardest_of as hardest_of,
    variances_of as variances_of,
    whole_inverse as whole_inverse,
    whole_scale as whole_scale,
    whole_table as whole_table,
)
from .sums import Sum as Sum
from .unit_counts import UnitCounts as UnitCounts
from .value_products import ValueProducts as ValueProducts, ends_of as ends_of, nearest as nearest
from .value_sums import ValueSums as ValueSums
from .waves import (
    inverse_waves as inverse_waves,
    is_ordered as is_ordered,
    scale_of as scale_of,
    waves_of as waves_of,
)
from .workload import (
    Combinations as Combinations,
    Workload as Workload,
    conjunctions as conjunctions,
    disjunctions as disjunctions,
    marginals as marginals,
    prefixes as prefixes,
    queries as queries,
    ranges as ranges,
)
