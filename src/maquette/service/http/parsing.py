"""Parsing: what reads the bytes of requests: httptools, which is compiled, with bounds that it does not have itself.

Without httptools h11 reads them, with the same bounds and in Python. The gate sees the same requests from either.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httptools
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
        self._declining = False
        self.parser = _Parser(self)  # type: ignore[assignment]

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
        self._declining = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if not self._declining:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self._unread = 0
        if not self._declining:
            super().on_message_complete()

    def declined(self) -> bytes:
        """The head of a request that offers another protocol (as Java's client does with h2c), without the offer.

        A server may ignore it (RFC 9110, section 7.8); the parser would take what follows to be of that protocol.
        """
        self._declining = False
        head = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        head += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*head, b"", b""])


class _Parser:
    """httptools' parser, which tells its protocol where another one was offered."""

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self._parser = self._new()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> None:
        """Read what has come."""
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                if self._parser.get_method() == b"CONNECT":
                    raise
                data = self._protocol.declined() + data[offer.args[0] :]
                self._parser = self._new()

    def _new(self) -> httptools.HttpRequestParser:
        made = httptools.HttpRequestParser(self._protocol)
        with suppress(AttributeError):  # as uvicorn sets its own
            made.set_dangerous_leniencies(lenient_data_after_close=True)
        return made
