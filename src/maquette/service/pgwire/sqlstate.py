"""SQLSTATE: the code of every error, with its DETAIL and HINT, as PostgreSQL clients read them.

What happened is the message, what was expected the detail, the advice the hint. An error that Maquette did not raise on
purpose has one fixed text: its own could hold anything.
"""

from __future__ import annotations

import logging
import traceback

from sqlalchemy.exc import DBAPIError

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DeadlineMissed,
    GuardSealed,
    LedgerError,
    MaquetteError,
    QueryError,
    RequestBusy,
    RequestConflict,
    RequestLost,
)

LOG = logging.getLogger("maquette.service.pgwire")
INTERNAL = "XX000"
CANCELLED = "57014"
UNSUPPORTED = "0A000"
FAILED_TRANSACTION = "25P02"


class Problem(Exception):
    """A refusal with its SQLSTATE; `position` counts characters of the statement from 1."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position


_CODES: tuple[tuple[type[MaquetteError], str], ...] = (
    (BudgetExceeded, "53400"),  # configuration_limit_exceeded
    (BudgetError, "22023"),  # invalid_parameter_value
    (RequestConflict, "23505"),  # unique_violation
    (RequestBusy, "55006"),  # object_in_use
    (DeadlineMissed, "57014"),  # query_canceled
    (RequestLost, "58030"),  # io_error
    (GuardSealed, "53400"),
    (LedgerError, "58000"),  # system_error
)
_BY_SERVICE = {
    "service.unauthenticated": "28000",
    "service.forbidden": "42501",
    "service.not-found": "42P01",
    "service.too-large": "54000",
    "service.too-many-requests": "53400",
    "service.unavailable": "57P03",
}


def code_of(error: MaquetteError) -> str:
    """The SQLSTATE of an error of the library."""
    known = _BY_SERVICE.get(error.code) or next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if known is not None:
        return known
    return _query_code(error) if isinstance(error, QueryError) else INTERNAL


def _query_code(error: QueryError) -> str:
    words = error.happened
    if words.startswith("there is no column"):
        return "42703"
    if words.startswith("there is no table"):
        return "42P01"
    if "not supported" in words:
        return UNSUPPORTED
    return "42601"


def problem_of(error: BaseException, text: str = "") -> Problem:
    """Any error as a refusal; `text` is the statement that a place in it refers to."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, MaquetteError):
        detail = None if error.expected is None else f"expected {error.expected}"
        place = _position(text, error) if isinstance(error, QueryError) else None
        return Problem(code_of(error), error.happened, detail=detail, hint=error.advice, position=place)
    if isinstance(error, DBAPIError):
        return Problem("57P03", "the service's database does not answer", hint="try again in a moment")
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{frames[0].name}, line {frames[0].lineno}" if frames else "nowhere"
    LOG.error("a statement met an error of the service: %s in %s", type(error).__name__, where)
    return Problem(
        INTERNAL,
        "the service met an error of its own",
        hint="nothing about it is told here; the custodian finds it in the log of the service",
    )


def _position(text: str, error: QueryError) -> int | None:
    if error.line is None or error.column is None or not text:
        return None
    lines = text.split("\n")
    if not 1 <= error.line <= len(lines):
        return None
    return sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column


def fields(problem: Problem, severity: str = "ERROR") -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse."""
    found = {"S": severity, "V": severity, "C": problem.code, "M": problem.message}
    if problem.detail:
        found["D"] = problem.detail
    if problem.hint:
        found["H"] = problem.hint
    if problem.position:
        found["P"] = str(problem.position)
    return found
