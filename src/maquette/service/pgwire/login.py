"""Login: from the first byte to an authenticated principal: TLS, the startup message, SCRAM."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maquette.service.pgwire import codec
from maquette.service.pgwire.catalogue import DATABASE
from maquette.service.pgwire.channel import Channel, Gone
from maquette.service.pgwire.limits import Limits
from maquette.service.pgwire.scram import Exchange, Refused, mechanisms
from maquette.service.pgwire.sqlstate import Problem

if TYPE_CHECKING:
    from maquette.service import Principal, Service

LOOPBACK = ("127.0.0.1", "::1", "local")
_MAX_SASL = 4_096


@dataclass(frozen=True)
class Tls:
    """A TLS context and the hash of its certificate for channel binding."""

    context: ssl.SSLContext
    binding: bytes | None


@dataclass(frozen=True)
class Cancel:
    """A request to cancel what another connection runs."""

    process: int
    secret: int


InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


async def first_message(channel: Channel, tls: Tls | None) -> dict[str, str] | Cancel:
    """The startup parameters, after TLS if the client wants it; or a request to cancel."""
    asked: set[int] = set()
    while True:
        code, body = await channel.startup()
        if code in (codec.SSL_REQUEST, codec.GSS_REQUEST):
            if code in asked or body or (code == codec.SSL_REQUEST and channel.encrypted):
                raise codec.ProtocolViolation("encryption was asked for twice")
            asked.add(code)
            offered = code == codec.SSL_REQUEST and tls is not None
            channel.send(b"S" if offered else b"N")
            await channel.flush()
            if offered and tls is not None:
                await channel.encrypt(tls.context)
        elif code == codec.CANCEL_REQUEST:
            numbers = codec.Body(body)
            return Cancel(numbers.int32(), numbers.int32() & 0xFFFFFFFF)
        elif code >> 16 == 3:
            return _parameters(channel, code, body)
        else:
            raise Problem("0A000", f"protocol {code >> 16}.{code & 0xFFFF} is not spoken here", hint="use protocol 3.0")


def _parameters(channel: Channel, code: int, body: bytes) -> dict[str, str]:
    found = codec.read_startup(body)
    options = [name for name in found if name.startswith("_pq_.")]
    if code != codec.PROTOCOL_3 or options:
        channel.send(codec.negotiate(options))
    return {name: value for name, value in found.items() if name not in options}


async def authenticate(
    channel: Channel,
    given: dict[str, str],
    service: Service,
    *,
    tls: Tls | None,
    limits: Limits,
    in_thread: InThread,
) -> Principal:
    """Prove who the client is; whatever is wrong, the refusal is the same."""
    if tls is not None and not channel.encrypted and channel.peer not in LOOPBACK:
        raise Problem("28000", "this service wants TLS", hint="connect with sslmode=require or stricter")
    user = given.get("user", "")
    if not user:
        raise Problem(
            "28000", "no user name was given", hint="the user is the name of the analyst, the password a token"
        )
    try:
        principal = await _scram(channel, user, service, tls, in_thread)
    except (Refused, codec.ProtocolViolation):
        await asyncio.sleep(limits.wrong_seconds)
        await in_thread(lambda: service.note(None, "pg.login", outcome="refused"))
        raise Problem(
            "28P01",
            f'password authentication failed for user "{user[:63]}"',
            hint="the user is the name of the analyst, the password is the token",
        ) from None
    if given.get("database", user) != DATABASE:
        raise Problem(
            "3D000", f'database "{given.get("database", user)[:63]}" does not exist', hint=f"the database is {DATABASE}"
        )
    if given.get("replication", "").lower() not in ("", "false", "off", "no", "0"):
        raise Problem("0A000", "there is nothing to replicate")
    return principal


async def _scram(channel: Channel, user: str, service: Service, tls: Tls | None, in_thread: InThread) -> Principal:
    binding = tls.binding if tls is not None and channel.encrypted else None
    offered = mechanisms(binding)
    channel.send(codec.authentication(10, b"".join(name.encode() + b"\0" for name in offered) + b"\0"))
    await channel.flush()
    body = codec.Body(await _password(channel))
    mechanism, first = body.text(), body.value()
    body.end()
    if mechanism not in offered or first is None:
        raise Refused("the mechanism was not offered")
    exchange: Exchange[Principal] = Exchange(await in_thread(lambda: service.scram_verifier(user)), mechanism, binding)
    channel.send(codec.authentication(11, exchange.first(first)))
    await channel.flush()
    principal, last = exchange.final(await _password(channel))
    channel.send(codec.authentication(12, last), codec.authentication(0))
    return principal


async def _password(channel: Channel) -> bytes:
    kind, body = await channel.message(_MAX_SASL)
    if kind == "X":
        raise Gone
    if kind != "p":
        raise codec.ProtocolViolation("expected an answer of SASL")
    return body
