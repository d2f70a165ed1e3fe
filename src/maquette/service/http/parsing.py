"""Parsing: what reads the bytes of requests: httptools, which is compiled, with bounds that it does not have itself.

Without httptools h11 reads them, with the same bounds and in Python. The gate sees the same requests from either.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TOO_LONG = "The request's head, or what stands between the pieces of its body, is too long."


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A bounded number of bytes may come without a piece of a body or the end of a head.

    Without this bound a head, a chunk's extension or a trailer could grow until the memory is full. Trailers are
    dropped: they come after the gate has looked at the headers, and would be added to these.
    """

    def __init__(self, config: Any, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self._most: int = config.h11_max_incomplete_event_size or 65_536
        self._unread = 0
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._most and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head ends."""
        self._in_head, self._unread = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self._unread = 0
        super().on_message_complete()
