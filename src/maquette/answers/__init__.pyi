from .api import Answered as Answered
from .assembly import OutputColumn as OutputColumn, assemble as assemble, tabulate as tabulate
from .direct import answer as answer
from .result import (
    NOISE_ONLY as NOISE_ONLY,
    Answer as Answer,
    AnswerTable as AnswerTable,
    BoundKind as BoundKind,
    Row as Row,
    Source as Source,
    promise_of as promise_of,
)
