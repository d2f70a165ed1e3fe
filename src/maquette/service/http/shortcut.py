"""Shortcut: questions that are plainly well formed do not pass the framework, which costs more than a known answer.

Only a POST of JSON to `ask` or `ask-many` with a bearer token that was checked a moment ago. Everything else goes to
the framework, with the bytes that were read: a cookie, an unknown token, a doubled header, a body of another form.
So every such refusal is the framework's, and a right question ends in the same function on either way.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

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


@dataclass(frozen=True)
class _Asked:
    """A request whose path and headers are as they should be."""

    table: str
    route: str
    caller: Principal
    key: str | None
    arrow: bool


class Shortcut:
    """Answers the most frequent requests itself and passes on the others."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        asked = self._asked(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        read = await _read(receive)
        if read[-1]["type"] != "http.request":  # the client left: what came of its body may look whole, and is not
            await self._app(scope, _again(read, receive), send)
            return
        try:
            content = json.loads(b"".join(message.get("body", b"") for message in read))
            body = (Ask if asked.route == "ask" else AskMany).model_validate(content)
        except (ValueError, RecursionError):  # said by the framework, in its words
            await self._app(scope, _again(read, receive), send)
            return
        scope["route"], scope["maquette.who"] = _ROUTES[asked.route], asked.caller.account
        reply = await self._reply(scope, asked, body)
        await reply(scope, receive, send)

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
        return _Asked(place[1], place[2], caller, None if key is None else key.decode("latin-1"), arrow)

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


def _again(read: list[Message], receive: Receive) -> Receive:
    """Receive that gives again what was read, then what comes."""
    left = iter(read)

    async def receiving() -> Any:
        message = next(left, None)
        return await receive() if message is None else message

    return receiving
