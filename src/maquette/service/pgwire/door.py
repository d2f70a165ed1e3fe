"""The door itself: it listens, counts its connections, and closes."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
from typing import TYPE_CHECKING

from maquette.service.pgwire.channel import Channel
from maquette.service.pgwire.connection import Connection
from maquette.service.pgwire.house import House
from maquette.service.pgwire.limits import Limits
from maquette.service.pgwire.login import Tls
from maquette.service.pgwire.sqlstate import Problem

if TYPE_CHECKING:
    from maquette.service import Service

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class PgServer:
    """A running door: an asyncio server with its connections; `close` ends it, `wait_closed` waits for that."""

    def __init__(self, service: Service, tls: Tls | None, limits: Limits) -> None:
        self.house = House(service)
        self.connections: dict[int, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._limits = limits
        self._numbers = itertools.count(secrets.randbelow(1 << 20) + 1)
        self._refusing = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        task = asyncio.current_task()
        assert task is not None, "asyncio calls this in a task"
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _keep_alive(writer)
        channel = Channel(reader, writer, self._limits)
        number = next(self._numbers) & 0x7FFFFFFF
        one = Connection(self.house, channel, self._limits, self._tls, self.connections, number)
        if len(self.connections) >= self._limits.connections:
            if self._refusing >= self._limits.connections:
                writer.transport.abort()
                return
            self._refusing += 1
            try:
                await one.refuse(Problem("53300", "sorry, too many clients already"))
            finally:
                self._refusing -= 1
            return
        self.connections[number] = one
        await one.serve()

    def end(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        self.house.close()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the system find clients that have gone without a word."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
