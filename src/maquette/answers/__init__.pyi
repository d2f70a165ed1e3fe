from .api import Answered as Answered
from .assembly import OutputColumn as OutputColumn, assemble as assemble, tabulate as tabulate
from .direct import answer as answer, context_of as context_of
from .rehearsal import rehearse as rehearse
from .reporting import report as report
from .result import (
    NOISE_ONLY as NOISE_ONLY,
    WIDER as WIDER,
    Answer as Answer,
    AnswerTable as AnswerTable,
    BoundKind as BoundKind,
    Row as Row,
    Source as Source,
    promise_of as promise_of,
)
from .rowset import Rowset as Rowset, RowsetColumn as RowsetColumn
