"""Channel: the bytes of one connection: frames in, frames out, with limits of size and time; and TLS."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from maquette.service.pgwire.codec import ProtocolViolation
from maquette.service.pgwire.limits import Limits

_CHUNK = 65_536


class Gone(Exception):
    """The client has left, or takes too long."""


class Channel:
    """Frames of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._out = bytearray()

    @property
    def peer(self) -> str:
        """The client's address."""
        name: Any = self._writer.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "local"

    @property
    def encrypted(self) -> bool:
        """Whether TLS is on."""
        return self._writer.get_extra_info("ssl_object") is not None

    async def startup(self) -> tuple[int, bytes]:
        """The first message: a code and its body; it has a length and no kind."""
        length = int.from_bytes(await self._exactly(4), "big")
        if not 8 <= length <= self._limits.startup_bytes:
            raise ProtocolViolation("the first message has an impossible length")
        body = await self._exactly(length - 4)
        return int.from_bytes(body[:4], "big"), body[4:]

    async def message(self, limit: int | None = None) -> tuple[str, bytes]:
        """The next message: its kind and its body."""
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                kind = await self._exactly(1)
            async with asyncio.timeout(self._limits.message_seconds):
                length = int.from_bytes(await self._exactly(4), "big") - 4
                if not 0 <= length <= (limit or self._limits.message_bytes):
                    raise ProtocolViolation("a message has an impossible length, or is too long")
                return kind.decode("latin-1"), await self._exactly(length)
        except TimeoutError:
            raise Gone from None

    async def _exactly(self, count: int) -> bytes:
        try:
            return await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, OSError):
            raise Gone from None

    def send(self, *frames: bytes) -> None:
        """Put frames in line; `flush` sends them."""
        for frame in frames:
            self._out += frame

    @property
    def full(self) -> bool:
        """Whether enough is in line to be sent."""
        return len(self._out) >= _CHUNK

    async def flush(self) -> None:
        """Send what is in line, and wait until the client has taken most of it."""
        if not self._out:
            return
        data, self._out = bytes(self._out), bytearray()
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._limits.write_seconds):
                await self._writer.drain()
        except (TimeoutError, ConnectionError, RuntimeError, OSError):
            raise Gone from None

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Go over to TLS; what a client sent before it, unencrypted, ends the connection (CVE-2021-23222)."""
        if self._reader._buffer:  # type: ignore[attr-defined]
            raise ProtocolViolation("something was sent between the request for TLS and its answer")
        try:
            await self._writer.start_tls(context, ssl_handshake_timeout=self._limits.login_seconds)
        except (ConnectionError, ssl.SSLError, OSError, TimeoutError):
            raise Gone from None
        self._reader._transport = self._writer.transport  # type: ignore[attr-defined]

    async def close(self) -> None:
        """End the connection; what is in line is sent first if the client takes it."""
        try:
            await self.flush()
        except Gone:
            self._writer.transport.abort()
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (TimeoutError, ConnectionError, ssl.SSLError, OSError):
            self._writer.transport.abort()
