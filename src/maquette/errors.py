"""Every error Maquette raises on purpose, in one tree.

MaquetteError
├── SchemaError               a column, level or file of the public universe is wrong
├── DataError                 the source cannot be used as a table with this schema
│   ├── UnreadableSource        it cannot be opened or parsed
│   ├── OutOfDomain             values that no declared column can hold, with a count per column
│   └── EmptyTable              it holds no rows
├── QueryError                the question is not valid, with line and column if it was text
├── BudgetError               epsilon, delta or rho is not valid
│   └── BudgetExceeded          requested, remaining and difference
├── GuardSealed               a sparse-vector guard has used all its hits
└── LedgerError               the ledger refuses
    ├── LedgerCorrupted         its chain, key, head, anchor or contents do not verify
    ├── LedgerLocked            another process owns it
    ├── LedgerMismatch          it belongs to another table, schema or budget
    ├── RequestConflict         a request id reused for another question or analyst
    ├── RequestBusy             the same request is being evaluated right now
    └── RequestLost             a request was charged, then interrupted; its charge is kept
        └── DeadlineMissed        no answer by its deadline, and none later; its charge is kept

Each class has a stable `code`. Each error has three fields: what `happened`, what was `expected`, and `advice`, what to
do next; the message joins them. No message holds a value computed from rows, except `OutOfDomain`, which is for the
custodian while the table is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class MaquetteError(Exception):
    """The root of the tree: catch it to catch everything Maquette raises on purpose.

    >>> error = QueryError("rows is -1", expected="a whole number of at least 1", advice="leave it out")
    >>> str(error), error.code
    ('rows is -1; expected a whole number of at least 1; leave it out', 'query')
    """

    code: ClassVar[str] = "maquette"

    def __init__(self, happened: str, *, expected: str | None = None, advice: str | None = None) -> None:
        super().__init__(happened)
        self.happened = happened
        self.expected = expected
        self.advice = advice

    def __str__(self) -> str:
        message = self.happened if self.expected is None else f"{self.happened}; expected {self.expected}"
        if self.advice is None:
            return message
        return f"{message}{'. ' if self.advice[:1].isupper() else '; '}{self.advice}"

    def __reduce__(self) -> tuple[Callable[..., MaquetteError], tuple[type[MaquetteError], dict[str, Any]]]:
        return _again, (type(self), self.__dict__)


class SchemaError(MaquetteError):
    """A column, level or schema file is wrong."""

    code = "schema"


class DataError(MaquetteError):
    """The source cannot be used as a table with this schema."""

    code = "data"


class UnreadableSource(DataError):
    """The source cannot be opened or parsed."""

    code = "data.unreadable"


class OutOfDomain(DataError):
    """Values that no declared column can hold; `counts` gives their number per column, for the custodian."""

    code = "data.out-of-domain"

    def __init__(self, happened: str, counts: Mapping[str, int], *, advice: str | None = None) -> None:
        super().__init__(happened, advice=advice)
        self.counts = dict(counts)


class EmptyTable(DataError):
    """The source holds no rows."""

    code = "data.empty"


class QueryError(MaquetteError):
    """The question is not valid; `line` and `column` (from 1) point into its text if it was text."""

    code = "query"

    def __init__(
        self,
        happened: str,
        *,
        expected: str | None = None,
        advice: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(happened, expected=expected, advice=advice)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return place + super().__str__()


class BudgetError(MaquetteError):
    """An epsilon, delta or rho that is not valid."""

    code = "budget"


class BudgetExceeded(BudgetError):
    """A request for more than what remains; nothing was charged."""

    code = "budget.exceeded"

    def __init__(
        self,
        happened: str,
        *,
        requested: float,
        remaining: float,
        expected: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(happened, expected=expected, advice=advice)
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining


class GuardSealed(MaquetteError):
    """A sparse-vector guard has used all its hits; the hypothesis can still answer, without the guard."""

    code = "guard.sealed"


class LedgerError(MaquetteError):
    """The ledger refuses; nothing was charged unless the message says so."""

    code = "ledger"


class LedgerCorrupted(LedgerError):
    """The chain, key, head file, anchor or contents do not verify."""

    code = "ledger.corrupted"


class LedgerLocked(LedgerError):
    """Another process owns this ledger."""

    code = "ledger.locked"


class LedgerMismatch(LedgerError):
    """The ledger belongs to another table, schema, relation or budget."""

    code = "ledger.mismatch"


class RequestConflict(LedgerError):
    """A request id was reused for another question or by another analyst."""

    code = "ledger.request-conflict"


class RequestBusy(LedgerError):
    """The same request is being evaluated right now."""

    code = "ledger.request-busy"


class RequestLost(LedgerError):
    """The request was charged and then interrupted: the charge is kept, and the request is never evaluated again."""

    code = "ledger.request-lost"


class DeadlineMissed(RequestLost):
    """A charged request had no answer by its deadline; it is never answered. The text is always the same."""

    code = "ledger.deadline-missed"

    def __init__(self) -> None:
        super().__init__(
            "this request had no answer by its deadline: its charge is kept and it is never answered",
            advice="Ask under a fresh request name, which is charged anew; if answers are often late, the custodian "
            "can declare a longer deadline",
        )


class PrivacyWarning(UserWarning):
    """Something allowed that a careful custodian would want to know."""


def _again(kind: type[MaquetteError], facts: dict[str, Any]) -> MaquetteError:
    """Rebuild an error that was pickled, for example from another process."""
    error = kind.__new__(kind, facts["happened"])
    error.__dict__.update(facts)
    return error
