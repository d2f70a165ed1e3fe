"""Shortcut: questions that are plainly well formed do not pass the framework, which costs more than a known answer.

Only a POST of JSON to `ask` or `ask-many` with a bearer token that was checked a moment ago. Everything else goes to
the framework, with the bytes that were read: a cookie, an unknown token, a doubled header, a body of another form.
So every such refusal is the framework's, and a right question ends in the same function on either way.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from maquette.errors import MaquetteError
from maquette.service.engine import Service
from maquette.service.http.access import bearer
from maquette.service.http.asking import answer, answer_many
from maquette.service.http.gate import Message, Receive, Scope, Send
from maquette.service.http.models import Ask, AskMany
from maquette.service.http.problems import HANDLERS
from maquette.service.http.replies import ARROW
from maquette.service.principals import Principal

_PATH = re.compile(r"/v1/tables/([^/\n]+)/(ask|ask-many)")
_KEY = range(1, 201)  # characters of an Idempotency-Key


@dataclass(frozen=True)
class _Route:
    """What telemetry reads of the framework's routes."""

    path: str


_ROUTES = {word: _Route(f"/v1/tables/{{table}}/{word}") for word in ("ask", "ask-many")}


@dataclass(frozen=True, repr=False)
class _Asked:
    """A request whose path and headers are as they should be."""

    table: str
    route: str
    token: str
    caller: Principal
    key: str | None
    arrow: bool


class Shortcut:
    """Answers the most frequent requests itself and passes on the others."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app = app
        self._service = service
        self._checking: dict[str, asyncio.Future[None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        asked = self._asked(scope)
        if asked is None and await self._checked_again(scope):
            asked = self._asked(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        read = await _read(receive)
        body = _body(asked, read)
        # A body may take its time: whoever sent it must still be whom the token named when it began to come.
        if body is None or self._service.people.remembered(asked.token) != asked.caller:
            await self._app(scope, _again(read, receive), send)
            return
        scope["route"], scope["maquette.who"] = _ROUTES[asked.route], asked.caller.account
        reply = await self._reply(scope, asked, body)
        await reply(scope, receive, send)

    async def _checked_again(self, scope: Scope) -> bool:
        """Whether a token that was right a while ago was looked up again, once for all requests that come with it."""
        people, header = self._service.people, dict(scope.get("headers", ())).get(b"authorization", b"")
        token = bearer(header.decode("latin-1"))
        if token is None or people.remembered(token) is not None or not people.was_remembered(token):
            return False
        checking = self._checking.get(token)
        if checking is None:
            checking = self._checking[token] = asyncio.ensure_future(run_in_threadpool(self._check, token))
            checking.add_done_callback(lambda _: self._checking.pop(token, None))
        await asyncio.shield(checking)
        return True

    def _check(self, token: str) -> None:
        with suppress(MaquetteError, sa.exc.SQLAlchemyError):
            self._service.people.authenticate(token)

    def _asked(self, scope: Scope) -> _Asked | None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return None
        place, headers = _PATH.fullmatch(scope["path"]), dict(scope["headers"])
        if place is None or len(headers) != len(scope["headers"]):
            return None
        token, key = bearer(headers.get(b"authorization", b"").decode("latin-1")), headers.get(b"idempotency-key")
        if token is None or headers.get(b"content-type") != b"application/json":
            return None
        caller = self._service.people.remembered(token)
        if caller is None or (key is not None and len(key) not in _KEY):
            return None
        arrow = ARROW.encode() in headers.get(b"accept", b"")
        return _Asked(place[1], place[2], token, caller, None if key is None else key.decode("latin-1"), arrow)

    async def _reply(self, scope: Scope, asked: _Asked, body: Ask | AskMany) -> Response:
        try:
            if isinstance(body, Ask):
                return await answer(self._service, asked.caller, asked.table, body, asked.key, arrow=asked.arrow)
            return await answer_many(self._service, asked.caller, asked.table, body, asked.key)
        except tuple(HANDLERS) as error:
            handle = next(handle for kind, handle in HANDLERS.items() if isinstance(error, kind))
            return await handle(Request({**scope, "app": self._app}), error)


async def _read(receive: Receive) -> list[Message]:
    """The messages of a whole body; the last may say that the client has left."""
    read = [await receive()]
    while read[-1].get("more_body", False):
        read.append(await receive())
    return read


def _body(asked: _Asked, read: list[Message]) -> Ask | AskMany | None:
    """The question in a body; None where it did not come in full or has another form, for the framework to say so."""
    if read[-1]["type"] != "http.request":
        return None
    try:
        content = json.loads(b"".join(message.get("body", b"") for message in read))
        return (Ask if asked.route == "ask" else AskMany).model_validate(content)
    except (ValueError, RecursionError):
        return None


def _again(read: list[Message], receive: Receive) -> Receive:
    """Receive that gives again what was read, then what comes."""
    left = iter(read)

    async def receiving() -> Any:
        message = next(left, None)
        return await receive() if message is None else message

    return receiving
