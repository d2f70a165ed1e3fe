"""Routes of the custodian and the auditor: people, limits, the log, verification; and sessions of browsers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, cast

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from maquette.service.errors import Forbidden, NotFound
from maquette.service.http.access import COOKIE, Caller, Room, open_session
from maquette.service.http.models import NewLimit, NewToken
from maquette.service.http.replies import json_reply
from maquette.service.http.work import in_thread
from maquette.service.people import TokenFacts
from maquette.service.principals import Role

router = APIRouter(prefix="/v1", tags=["governing"])

Account = Annotated[
    str, Path(max_length=130, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*(~([A-Za-z0-9_][A-Za-z0-9_.@-]*)?)?$")
]


@router.get("/me", summary="Who this token is")
def me(caller: Caller) -> dict[str, Any]:
    """Name, role, group and tables."""
    return {
        "name": caller.name,
        "role": caller.role,
        "group": caller.group,
        "tables": None if caller.tables is None else sorted(caller.tables),
    }


@router.post("/session", summary="Open a browser's session", status_code=201)
def sign_in(caller: Caller, room: Room) -> Response:
    """Sets a cookie, and returns the CSRF token that every further change must carry in `X-CSRF-Token`."""
    cookie, csrf, life = open_session(room, caller)
    room.note(caller, "signed in")
    response = json_reply({"csrf": csrf, "seconds": life, **me(caller)}, 201)
    secure = room.config.tls_certificate is not None or room.config.trust_proxy
    response.set_cookie(COOKIE, cookie, max_age=life, httponly=True, samesite="strict", secure=secure, path="/")
    return response


@router.delete("/session", summary="End a browser's session", status_code=204)
def sign_out(caller: Caller, room: Room) -> Response:
    """Removes the cookie."""
    room.note(caller, "signed out")
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/")
    return response


@router.get("/tokens", summary="All tokens, without the tokens")
async def tokens(caller: Caller, room: Room) -> dict[str, Any]:
    """Who holds one, until when."""
    caller.require("govern")
    return {"tokens": [_token(one) for one in await in_thread(room.people.list) if caller.covers(one.tables)]}


@router.post("/tokens", summary="Make a token", status_code=201)
async def new_token(body: NewToken, caller: Caller, room: Room) -> dict[str, Any]:
    """The token is in the response, and nowhere else."""
    caller.require("govern")
    scope = None if body.tables is None else tuple(body.tables)
    if not caller.covers(scope):
        raise Forbidden("a token sees no more tables than those of its maker", advice="name tables of your own token")
    token, facts = await in_thread(
        room.people.mint, body.name, cast(Role, body.role), tables=scope, group=body.group, days=body.days
    )
    room.note(caller, "token made", token=facts.id, name=facts.name)
    return {"token": token, **_token(facts)}


@router.delete("/tokens/{id}", summary="Revoke a token", status_code=204)
async def revoke(id: str, caller: Caller, room: Room) -> Response:  # noqa: A002
    """Takes effect now; in other processes within five seconds."""
    caller.require("govern")
    facts = await in_thread(room.people.revoke, id, caller.covers)
    room.note(caller, "token revoked", token=facts.id, name=facts.name)
    return Response(status_code=204)


@router.put("/tables/{table}/limits/{account}", summary="Limit one analyst", status_code=204)
async def set_limit(table: str, account: Account, body: NewLimit, caller: Caller, room: Room) -> Response:
    """What an analyst may spend on this table; a group's member is written `group~name`, the group `group~`."""
    found = room.table(caller, table)
    caller.require("govern")
    await in_thread(found.limit, account.replace("~", "/"), body.epsilon)
    room.note(caller, "limit set", table=table, account=account, epsilon=body.epsilon)
    return Response(status_code=204)


@router.get("/tables/{table}/accounts", summary="Who spent what, and who is limited")
async def accounts(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """For the custodian and the auditor."""
    return {"accounts": await in_thread(room.table(caller, table).accounts, caller)}


@router.get("/tables/{table}/verify", summary="Verify the ledger")
async def verify(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Checks the whole chain; returns its head."""
    found = await in_thread(room.table(caller, table).verify, caller)
    room.note(caller, "ledger verified", table=table)
    return found


@router.get("/audit", summary="The audit log")
async def audit(
    caller: Caller,
    room: Room,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    count: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> dict[str, Any]:
    """Who did what, and how it ended."""
    return {"log": await in_thread(room.audit_log, caller, after=after, count=count)}


@router.get("/metrics", summary="Metrics for Prometheus")
async def metrics(caller: Caller, room: Room) -> Response:
    """Latencies by route, answers by source, refusals, budgets; for the custodian and the auditor."""
    caller.require("inspect")
    caller.require_all()
    if not room.config.metrics:
        raise NotFound("metrics are switched off", advice="set `metrics` in the settings")
    body = await in_thread(room.telemetry.exposition, room.tables)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


def _token(facts: TokenFacts) -> dict[str, Any]:
    return {**asdict(facts), "tables": None if facts.tables is None else list(facts.tables)}
