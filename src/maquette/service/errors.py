"""Errors of the service itself, and the HTTP status of every error of the library.

MaquetteError
└── ServiceError              the service refuses
    ├── ConfigError             its configuration is wrong
    ├── Unauthenticated         no token, or one that is unknown, expired or revoked (401)
    ├── Forbidden               this role or this token may not do that (403)
    ├── NotFound                there is no such table, release, job or page (404)
    ├── TooLarge                the request is larger than a limit (413)
    ├── TooManyRequests         faster than the rate limit (429)
    └── Unavailable             the service is starting, stopping or its ledger has stopped (503)

Each class has a stable `code` and `status`. No message holds a value computed from rows, or a token.
"""

from __future__ import annotations

from typing import ClassVar

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DataError,
    DeadlineMissed,
    GuardSealed,
    LedgerError,
    LedgerLocked,
    LedgerMismatch,
    MaquetteError,
    QueryError,
    RequestBusy,
    RequestConflict,
    RequestLost,
    SchemaError,
)


class ServiceError(MaquetteError):
    """The service refuses."""

    code = "service"
    status: ClassVar[int] = 500


class ConfigError(ServiceError):
    """The configuration is wrong; nothing was opened."""

    code = "service.config"


class Unauthenticated(ServiceError):
    """Nobody, or nobody known."""

    code = "service.unauthenticated"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "there is no token, or it is unknown, expired or revoked",
            expected="the header `Authorization: Bearer <token>`",
            advice="ask the custodian for a token",
        )


class Forbidden(ServiceError):
    """Somebody known, who may not do this."""

    code = "service.forbidden"
    status = 403


class NotFound(ServiceError):
    """There is no such thing, or not for this person."""

    code = "service.not-found"
    status = 404


class TooLarge(ServiceError):
    """The request is larger than a limit allows."""

    code = "service.too-large"
    status = 413


class TooManyRequests(ServiceError):
    """Requests come faster than the rate limit; `seconds` is when to try again."""

    code = "service.too-many-requests"
    status = 429

    def __init__(
        self, happened: str, *, seconds: float, expected: str | None = None, advice: str | None = None
    ) -> None:
        super().__init__(happened, expected=expected, advice=advice)
        self.seconds = seconds


class Unavailable(ServiceError):
    """The service is starting or stopping, or its ledger has stopped."""

    code = "service.unavailable"
    status = 503


_STATUS: tuple[tuple[type[MaquetteError], int], ...] = (
    (BudgetExceeded, 402),
    (RequestConflict, 409),
    (RequestBusy, 409),
    (DeadlineMissed, 410),
    (RequestLost, 410),
    (GuardSealed, 409),
    (LedgerMismatch, 503),
    (LedgerLocked, 503),
    (LedgerError, 503),
    (QueryError, 422),
    (BudgetError, 422),
    (SchemaError, 422),
    (DataError, 422),
)


def status_of(error: MaquetteError) -> int:
    """The HTTP status of an error: the first class in the list that it belongs to."""
    if isinstance(error, ServiceError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
