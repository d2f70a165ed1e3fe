"""make_app: the HTTP application of a service: routes, problems, the gate, and a place for the console's pages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse

from maquette.service.engine import Service
from maquette.service.http import asking, drafting, governing, holding, releasing
from maquette.service.http.access import Room
from maquette.service.http.describing import described
from maquette.service.http.gate import App, Gate
from maquette.service.http.pages import Pages
from maquette.service.http.problems import HANDLERS, MEDIA, on_http, on_invalid
from maquette.service.http.shortcut import Shortcut
from maquette.version import __version__

CONSOLE = "maquette.service.console"
DESCRIPTION = """Ask very many questions about a private table, under one differential-privacy budget.

Send `Authorization: Bearer <token>`. Refusals are problem details (RFC 9457) with a stable `code`.
Send `Idempotency-Key` with a question, and a repeated request never pays twice."""

# The framework's own spans, metrics and logs hold addresses, parameters and texts of errors: none of them is wanted.
OWN_TELEMETRY: Any = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)

open_routes = APIRouter(prefix="/v1", tags=["health"])


@open_routes.head("/health", include_in_schema=False)
@open_routes.get("/health", summary="Whether the process runs")
def health() -> dict[str, str]:
    """Needs no token."""
    return {"status": "ok"}


@open_routes.head("/ready", include_in_schema=False)
@open_routes.get("/ready", summary="Whether questions can be answered")
def ready(room: Room) -> JSONResponse:
    """Needs no token; 503 while a ledger does not answer, at the start and at the end."""
    fine = room.ready
    return JSONResponse({"ready": fine}, 200 if fine else 503)


@open_routes.head("/version", include_in_schema=False)
@open_routes.get("/version", summary="The version")
def version() -> dict[str, str]:
    """Needs no token."""
    return {"version": __version__, "api": "v1"}


def make_app(service: Service) -> App:
    """The application, inside its gate; `service` is started and closed by the caller."""
    app = FastAPI(
        title="Maquette",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        telemetry=OWN_TELEMETRY,
        responses={"4XX": {"description": "A problem (RFC 9457)", "content": {MEDIA: {"schema": PROBLEM}}}},
    )
    app.state.service = service
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    # The framework looks for a route in this order: questions, which come most often, first.
    for router in (asking.router, open_routes, releasing.router, holding.router, governing.router, drafting.router):
        app.include_router(router)
    described(app)
    _mount_console(app)
    return Gate(Shortcut(app, service), service.config, service.telemetry)


def _mount_console(app: FastAPI) -> None:
    """Serve the console's files at `/`, if it is installed; the gate adds the strict content-security policy.

    They come after all routes, so that the wrong method of a route is told as such, with the methods that it has.
    """
    found = find_spec(CONSOLE)
    folder = None if found is None or found.origin is None else Path(found.origin).parent / "static"
    if folder is not None and folder.is_dir():
        app.router.default = Pages(folder)
        return

    @app.get("/", include_in_schema=False)
    def root() -> PlainTextResponse:
        return PlainTextResponse("Maquette. The API is described at /v1/openapi.json\n")


PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "examples": ["budget.exceeded", "query", "service.unauthenticated"]},
    },
}
