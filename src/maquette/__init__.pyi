from .answers import Answer as Answer, Answered as Answered, AnswerTable as AnswerTable, answer as answer
from .curator import (
    Curator as Curator,
    PrivateTable as PrivateTable,
    SparkTable as SparkTable,
    open_table as open_table,
)
from .errors import (
    BudgetError as BudgetError,
    BudgetExceeded as BudgetExceeded,
    DataError as DataError,
    LedgerError as LedgerError,
    MaquetteError as MaquetteError,
    PrivacyWarning as PrivacyWarning,
    QueryError as QueryError,
    SchemaError as SchemaError,
)
from .holdout import Certified as Certified, Holdout as Holdout
from .privacy import Budget as Budget, Loss as Loss
from .query import (
    col as col,
    conjunctions as conjunctions,
    disjunctions as disjunctions,
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
from .service.client import connect as connect
from .session import Session as Session, online as online
from .theory import Plan as Plan, plan as plan
from .version import __version__ as __version__
