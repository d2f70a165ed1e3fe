"""Access: who sent a request: a bearer token, or a browser's session with its CSRF token.

A session is a signed cookie that names a token: it ends when the token does, and any process of the service can read
it. A page on another site cannot read the CSRF token, so it cannot send a request that changes anything.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from maquette.service.engine import Service
from maquette.service.errors import Forbidden, Unauthenticated
from maquette.service.principals import Principal
from maquette.service.state import now

COOKIE = "maquette_session"
CSRF = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD"})


async def service_of(request: Request) -> Service:
    """The service behind the application; async, like all that a request depends on: it costs no change of thread."""
    service: Service = request.app.state.service
    return service


def bearer(header: str) -> str | None:
    """The token in an Authorization header; None if it holds something else."""
    scheme, _, given = header.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


async def principal_of(request: Request) -> Principal:
    """Who sent this request; a wrong token counts against the address it came from.

    A token that was checked a moment ago is known at once. Any other is looked up in a thread, and not in one of those
    that wait for tables.
    """
    service: Service = request.app.state.service
    header = request.headers.get("authorization")
    try:
        if header is not None:
            token = bearer(header)
            known = service.people.remembered(token)
            found = await run_in_threadpool(service.authenticate, token) if known is None else known
        elif (cookie := request.cookies.get(COOKIE)) is not None:
            found = await run_in_threadpool(_of_cookie, service, cookie, request)
        else:
            raise Unauthenticated
    except Unauthenticated:
        if header is not None:
            service.rates.stranger(request.client.host if request.client else "-")
        raise
    request.scope["maquette.who"] = found.account
    return found


Caller = Annotated[Principal, Depends(principal_of)]
Room = Annotated[Service, Depends(service_of)]


def open_session(service: Service, principal: Principal) -> tuple[str, str, int]:
    """The cookie of a new session, its CSRF token, and how many seconds it lives."""
    if principal.token is None:
        raise Forbidden("this identity has no session", advice="send its token with every request")
    life = int(service.config.limits.session_hours * 3600)
    content: dict[str, Any] = {"token": principal.token, "expires": now() + life, "nonce": secrets.token_hex(16)}
    body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    return f"{body}.{_sign(service, 'session', body)}", _sign(service, "csrf", content["nonce"]), life


def _of_cookie(service: Service, cookie: str, request: Request) -> Principal:
    body, _, signature = cookie.partition(".")
    if not hmac.compare_digest(signature.encode(), _sign(service, "session", body).encode()):
        raise Unauthenticated
    try:
        content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError:
        raise Unauthenticated from None
    if now() >= content["expires"]:
        raise Unauthenticated
    if request.method not in SAFE:
        given = request.headers.get(CSRF, "")
        if not hmac.compare_digest(given.encode(), _sign(service, "csrf", content["nonce"]).encode()):
            raise Forbidden("the CSRF token is missing or wrong", expected="the token of POST /v1/session")
    return service.people.holder(content["token"])


def _sign(service: Service, purpose: str, text: str) -> str:
    return hmac.digest(service.state.secret, f"{purpose} {text}".encode(), "sha256").hex()
