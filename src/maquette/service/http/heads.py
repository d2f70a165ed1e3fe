"""Heads: a connection on which the head of a request does not arrive in time is closed, whatever parser reads it.

Uvicorn bounds how long a connection may be idle after a reply, and the gate how long a body may take. Without this
bound, connections that send nothing, or a head that never ends, would stay open and use up the files of the process.
Their number is bounded too: it could grow faster than they are closed.
"""

from __future__ import annotations

import asyncio
from typing import Any

FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def punctual(protocol: Any, seconds: float, most: int) -> Any:
    """The protocol with `seconds` for a head, from the start of the connection or from the first byte of the head.

    Of more than `most` connections at once the newest is closed.
    """
    if protocol == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol

        protocol = H11Protocol

    class Punctual(protocol):  # type: ignore[misc]
        """One connection."""

        _closing: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            """A client has come."""
            super().connection_made(transport)
            self._expect()
            if len(self.server_state.connections) > most:
                transport.write(FULL)
                transport.close()

        def data_received(self, data: bytes) -> None:
            """Read what has come."""
            super().data_received(data)
            self._expect()

        def connection_lost(self, error: Exception | None) -> None:
            """The client has gone."""
            self._forget()
            super().connection_lost(error)

        def _expect(self) -> None:
            """Allow some time if a head is awaited; a whole one has made a cycle that is not yet replied to."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._forget()
            elif self._closing is None:
                self._closing = self.loop.call_later(seconds, self.transport.close)

        def _forget(self) -> None:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None

    return Punctual
