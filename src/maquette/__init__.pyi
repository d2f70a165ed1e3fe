from .answers import Answer as Answer, AnswerTable as AnswerTable, answer as answer
from .curator import (
    Curator as Curator,
    Guard as Guard,
    Measurement as Measurement,
    PrivateTable as PrivateTable,
    open_table as open_table,
)
from .errors import (
    BudgetExceeded as BudgetExceeded,
    LedgerError as LedgerError,
    MaquetteError as MaquetteError,
    QueryError as QueryError,
    SchemaError as SchemaError,
)
from .holdout import Certified as Certified, Holdout as Holdout
from .privacy import UNITS_PER_ONE as UNITS_PER_ONE, Budget as Budget, Loss as Loss
from .query import (
    LinearQuery as LinearQuery,
    Marginal as Marginal,
    average_distance as average_distance,
    bipartitions as bipartitions,
    col as col,
    conjunctions as conjunctions,
    cut as cut,
    cuts as cuts,
    disjunctions as disjunctions,
    edge_schema as edge_schema,
    lookup as lookup,
    marginals as marginals,
    prefixes as prefixes,
    queries as queries,
    ranges as ranges,
    where as where,
)
from .releases import Release as Release, release as release
from .reports import registry_entry as registry_entry, report as report, test_data as test_data
from .schema import (
    Boolean as Boolean,
    Category as Category,
    Date as Date,
    Integer as Integer,
    Number as Number,
    Schema as Schema,
)
from .session import Session as Session, online as online
from .theory import Plan as Plan, plan as plan
from .version import __version__ as __version__
