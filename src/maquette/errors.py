"""Every error Maquette raises on purpose, in one tree.

MaquetteError
├── SchemaError               a column, level or file of the public universe is wrong
├── DataError                 the source cannot be used as this schema's table
│   ├── UnreadableSource        it cannot be opened or parsed
│   ├── OutOfDomain             values no declared column can hold, with a count per column
│   └── EmptyTable              it holds no rows
├── QueryError                the question cannot be asked, with line and column when it was text
├── BudgetError               epsilon, delta or rho make no sense
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

Each class has a stable `code`. A message says what happened, what was expected and what to do next; no message
holds a value computed from rows, except `OutOfDomain`, which speaks to the custodian while the table is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

MISSED = (
    "this request had no answer by its deadline: its charge is kept and it is never answered. Ask under a fresh "
    "request name, which is charged anew; a custodian whose answers are late declares a longer deadline"
)


class MaquetteError(Exception):
    """The root of the tree: catch it to catch everything Maquette raises on purpose."""

    code: ClassVar[str] = "maquette"


class SchemaError(MaquetteError):
    """A column, level or schema file is wrong."""

    code = "schema"


class DataError(MaquetteError):
    """The source cannot be used as this schema's table."""

    code = "data"


class UnreadableSource(DataError):
    """The source cannot be opened or parsed."""

    code = "data.unreadable"


class OutOfDomain(DataError):
    """Values that no declared column can hold; `counts` maps a column to how many, for the custodian."""

    code = "data.out-of-domain"

    def __init__(self, message: str, counts: Mapping[str, int]) -> None:
        super().__init__(message)
        self.counts = dict(counts)


class EmptyTable(DataError):
    """The source holds no rows."""

    code = "data.empty"


class QueryError(MaquetteError):
    """The question cannot be asked; `line` and `column` (from 1) point into its text when it had one."""

    code = "query"

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(where + message)
        self.line = line
        self.column = column


class BudgetError(MaquetteError):
    """An epsilon, delta or rho that makes no sense."""

    code = "budget"


class BudgetExceeded(BudgetError):
    """A charge larger than what remains; nothing was charged."""

    code = "budget.exceeded"

    def __init__(self, message: str, *, requested: float, remaining: float) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining


class GuardSealed(MaquetteError):
    """A sparse-vector guard has used all its hits; the hypothesis still answers, without the guard."""

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
    """The request was charged and then interrupted: the charge is kept and it is never evaluated again."""

    code = "ledger.request-lost"


class DeadlineMissed(RequestLost):
    """A request was charged and had no answer by its deadline: it is never answered. The text is always the same."""

    code = "ledger.deadline-missed"

    def __init__(self, message: str = MISSED) -> None:
        super().__init__(message)


class PrivacyWarning(UserWarning):
    """Something legal that a careful custodian would want to know."""
