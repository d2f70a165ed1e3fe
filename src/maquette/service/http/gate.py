"""Gate: what every request passes before any route: host, sizes, time, headers; and what every response carries.

Written as plain ASGI, so that it costs little and sees every byte. A request is refused here if its Host is not one of
ours (DNS rebinding), if its framing is ambiguous (both lengths, smuggling), if its headers or body are too large, or if
its body does not arrive in time.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from maquette.service.config import LOOPBACK, ServiceConfig
from maquette.service.http.problems import MEDIA, Refused, facts
from maquette.service.telemetry import Telemetry, method_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
UPLOAD = "/v1/drafts/upload"
STRICT = (b"strict-transport-security", b"max-age=31536000")


class Gate:
    """The outermost layer of the HTTP door."""

    def __init__(self, app: App, config: ServiceConfig, telemetry: Telemetry) -> None:
        self._app = app
        self._config = config
        self._telemetry = telemetry
        self._hosts = frozenset(map(_named, (*LOOPBACK, config.host, *config.hosts)))
        self._open = 0
        self._names: list[str] = []
        secure = config.tls_certificate is not None or config.trust_proxy
        self._headers = [*HEADERS, STRICT] if secure else list(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        began, sent = time.perf_counter(), [0]
        scope["maquette.request"] = self._named_request()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent[0] = message["status"]
                message["headers"] = self._with_headers(scope, message.get("headers", ()))
            await send(message)

        self._open += 1
        with self._telemetry.traces.request(method_of(scope), _traced(scope)) as mark:
            try:
                await self._passed(scope, receive, sending, sent)
            finally:
                self._open -= 1
                route = getattr(scope.get("route"), "path", "none")
                self._telemetry.request(scope, route, sent[0], time.perf_counter() - began)
                mark.ended(method_of(scope), route, sent[0], scope["maquette.request"])

    def _named_request(self) -> str:
        """A name for a request; many are drawn at a time, for each draw lets other threads go first."""
        try:
            return self._names.pop()
        except IndexError:
            drawn = secrets.token_hex(4_096)
            self._names.extend(drawn[i : i + 16] for i in range(16, len(drawn), 16))
            return drawn[:16]

    async def _passed(self, scope: Scope, receive: Receive, sending: Send, sent: list[int]) -> None:
        """Answer a request, also where it is refused or fails."""
        try:
            self._check(scope)
            await self._app(scope, self._bounded(scope, receive), sending)
        except Refused as refused:
            if not sent[0]:
                await _refuse(refused, sending)
        except Exception as error:  # its text may hold anything: neither shown nor logged
            self._telemetry.failure(scope["maquette.request"], error)
            if not sent[0]:
                await _refuse(Refused(500, "service", f"request {scope['maquette.request']} failed"), sending)

    def _check(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if self._open > self._config.limits.connections:
            raise Refused(503, "service.unavailable", "too many requests at once; try again in a moment")
        if sum(len(name) + len(value) for name, value in headers) > self._config.limits.header_bytes:
            raise Refused(431, "service.too-large", "the headers are too large")
        named: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            named.setdefault(name, []).append(value)
        lengths = named.get(b"content-length", [])
        if len(lengths) > 1 or (lengths and b"transfer-encoding" in named):
            raise Refused(400, "http", "the length of the body is ambiguous")
        most = self._most(scope)
        if lengths and not (lengths[0].isdigit() and int(lengths[0][:20]) <= most):
            raise Refused(413, "service.too-large", f"the body is larger than {most:,} bytes")
        if len(named.get(b"authorization", [])) > 1 or len(named.get(b"host", [])) != 1:
            raise Refused(400, "http", "a header that may come once is missing or comes twice")
        if _host(named[b"host"][0]) not in self._hosts:
            raise Refused(421, "service.host", "this service is not reached by that name; see `hosts` in its settings")

    def _most(self, scope: Scope) -> int:
        limits = self._config.limits
        return limits.upload_bytes if scope["path"] == UPLOAD else limits.body_bytes

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Receive that counts bytes and time: a body too large, or too slow, is refused on the way."""
        most = self._most(scope)
        left, until = most, time.perf_counter() + self._config.limits.request_seconds
        complete = False

        async def receiving() -> Message:
            nonlocal left, complete
            if complete:  # the application waits for the client to leave
                return await receive()
            try:
                async with asyncio.timeout(max(0.001, until - time.perf_counter())):
                    message = await receive()
            except TimeoutError:
                raise Refused(408, "service.timeout", "the body did not arrive in time") from None
            left -= len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if left < 0:
                raise Refused(413, "service.too-large", f"the body is larger than {most:,} bytes")
            return message

        return receiving

    def _with_headers(self, scope: Scope, headers: Any) -> list[tuple[bytes, bytes]]:
        own = [*self._headers, (b"x-request-id", scope["maquette.request"].encode())]
        given = {name.lower() for name, _ in headers}
        if b"content-security-policy" not in given:
            own.append((b"content-security-policy", POLICY.encode()))
        if b"cache-control" not in given:
            own.append((b"cache-control", b"no-store"))
        return [*headers, *own]


def _traced(scope: Scope) -> str:
    """The caller's trace, if the request is part of one."""
    found: list[bytes] = [value for name, value in scope["headers"] if name == b"traceparent"]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _named(host: str) -> str:
    """A host of the settings as a Host header names it."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _host(value: bytes) -> str:
    """The name in a Host header, without its port."""
    text = value.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]


async def _refuse(refused: Refused, send: Send) -> None:
    body = json.dumps(facts(refused.status_code, refused.code, refused.detail)).encode()
    headers = [
        (b"content-type", MEDIA.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refused.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
