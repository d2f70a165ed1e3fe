"""Problem details (RFC 9457): every refusal as one JSON object, with the library's stable codes."""

from __future__ import annotations

import errno
import math
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException as StarletteError
from starlette.responses import JSONResponse
from starlette.routing import Match

from maquette.errors import BudgetExceeded, MaquetteError, QueryError
from maquette.service.errors import TooManyRequests, Unauthenticated, status_of

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MEDIA = "application/problem+json"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
AS_JSON = "the header `Content-Type: application/json`"
TITLES = {
    400: "The request is malformed",
    401: "No valid token",
    402: "The budget cannot pay",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "The request took too long",
    409: "Conflict",
    410: "The request was lost",
    411: "Length required",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Not valid",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    503: "Not available",
    507: "No space left",
}


class Refused(HTTPException):
    """A request that the gate refuses, at once or while its body arrives."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, detail)
        self.code = code


def facts(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    """A problem as plain data."""
    kind = "about:blank" if code == "http" else f"urn:maquette:error:{code}"
    return {
        "type": kind,
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
        "code": code,
        **more,
    }


def problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """A problem as a response."""
    return JSONResponse(facts(status, code, detail, **more), status, headers, MEDIA)


def error_facts(error: MaquetteError) -> dict[str, Any]:
    """An error of the library or the service as a problem; the client rebuilds it from these fields."""
    more: dict[str, Any] = {"happened": error.happened, "expected": error.expected, "advice": error.advice}
    if isinstance(error, BudgetExceeded):
        more |= {"requested": error.requested, "remaining": error.remaining}
    if isinstance(error, QueryError) and error.line is not None:
        more |= {"line": error.line, "column": error.column}
    if isinstance(error, TooManyRequests):
        more |= {"seconds": error.seconds}
    return facts(status_of(error), error.code, str(error), **more)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """An error that was raised on purpose."""
    assert isinstance(error, MaquetteError)
    request.app.state.service.telemetry.refused(error.code)
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="maquette"'
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, math.ceil(error.seconds)))
    return JSONResponse(error_facts(error), status_of(error), headers, MEDIA)


async def on_away(_: Request, __: Exception) -> JSONResponse:
    """The database of the service's state does not answer; what it says may hold anything."""
    return problem(503, "service.unavailable", "the service's database does not answer; try again in a moment")


async def on_full(_: Request, error: Exception) -> JSONResponse:
    """A disk that is full, or a quota that is used up, while a file was written; other failures are passed on."""
    assert isinstance(error, OSError)
    if error.errno not in FULL:
        raise error
    return problem(507, "service.no-space", "the service's disk is full: its operator must make room")


async def on_http(request: Request, error: Exception) -> JSONResponse:
    """A refusal by the framework: no such path, wrong method."""
    assert isinstance(error, StarletteError)
    if isinstance(error, Refused):
        return problem(error.status_code, error.code, str(error.detail), {"Connection": "close"})
    headers, detail = dict(error.headers or {}), TITLES.get(error.status_code, "Refused")
    if error.status_code == 405 and (methods := _methods(request)):
        headers["Allow"] = ", ".join(methods)
        detail = f"{request.method[:20]} is not a method of this path; expected {' or '.join(methods)}"
    return problem(error.status_code, "http", detail, headers or None)


def _methods(request: Request) -> list[str]:
    """The methods that the routes of this path have; the framework names those of one route."""
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    routes = request.app.router.routes
    return [
        method for method, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """A body or a parameter of the wrong form: where and why, without repeating what was sent."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(tuple(one["loc"]) == ("body",) for one in found) and not _is_json(request):
        return problem(415, "service.invalid-request", "the body is not sent as JSON; expected " + AS_JSON)
    places = [{"where": [str(part)[:80] for part in one["loc"]], "why": str(one["msg"])[:200]} for one in found[:20]]
    status = 400 if any(one["type"] == "json_invalid" for one in found) else 422
    told = "; ".join(f"{'.'.join(one['where'])}: {one['why']}" for one in places[:3])
    detail = f"the request does not have the documented form: {told}"
    return problem(status, "service.invalid-request", detail, errors=places)


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


# What is raised on purpose, or by a database or disk that fails, and what is said of it; the first that fits.
HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[JSONResponse]]] = {
    MaquetteError: on_error,
    DBAPIError: on_away,
    OSError: on_full,
}
