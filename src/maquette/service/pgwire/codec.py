"""Frames of the PostgreSQL protocol 3.0: what a client sends is read here, what it receives is built here.

Every length is checked before anything is allocated, every text is UTF-8 without NUL, and a frame must end where its
length says. Whatever is wrong with a frame raises `ProtocolViolation`; nothing else is raised.

Reference: PostgreSQL 15 documentation, chapter 55, "Frontend/Backend Protocol".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

PROTOCOL_3 = 3 << 16
SSL_REQUEST = (1234 << 16) + 5679
CANCEL_REQUEST = (1234 << 16) + 5678
GSS_REQUEST = (1234 << 16) + 5680

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_HEAD = struct.Struct("!ci")
_FIELD = struct.Struct("!ihihih")


class ProtocolViolation(Exception):
    """A frame that the protocol does not allow; the connection ends."""


class Body:
    """The body of one frame, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """The next bytes."""
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise ProtocolViolation("a message is shorter than what it announces")
        piece, self._at = self._data[self._at : end], end
        return piece

    def int16(self) -> int:
        """A signed number of two bytes."""
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        """A signed number of four bytes."""
        return int(_INT32.unpack(self.take(4))[0])

    def count(self) -> int:
        """How many items follow; each takes at least two bytes, so a number that cannot be true is refused."""
        number = self.int16() & 0xFFFF
        if number * 2 > len(self._data) - self._at:
            raise ProtocolViolation("a message announces more items than it holds")
        return number

    def text(self) -> str:
        """A UTF-8 text that ends with NUL."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("a text of a message has no end")
        piece, self._at = self._data[self._at : end], end + 1
        try:
            return piece.decode()
        except UnicodeDecodeError:
            raise ProtocolViolation("a text of a message is not UTF-8") from None

    def value(self) -> bytes | None:
        """A value with its length; None for NULL."""
        length = self.int32()
        return None if length == -1 else self.take(length)

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Refuse a frame that holds more than its message."""
        if self._at != len(self._data):
            raise ProtocolViolation("a message is longer than what it holds")


@dataclass(frozen=True)
class Parse:
    """Prepare a statement."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """Give a prepared statement its parameters: a portal."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """What Describe and Close name: a statement (S) or a portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    """Run a portal, or go on with it, for at most `limit` rows (0: all)."""

    portal: str
    limit: int


def read_startup(data: bytes) -> dict[str, str]:
    """The parameters of a startup message, after its version."""
    body, found = Body(data), dict[str, str]()
    while (name := body.text()) != "":
        found[name] = body.text()
    body.end()
    return found


def read_parse(data: bytes) -> Parse:
    """The body of Parse."""
    body = Body(data)
    name, text = body.text(), body.text()
    types = tuple(body.int32() & 0xFFFFFFFF for _ in range(body.count()))
    body.end()
    return Parse(name, text, types)


def read_bind(data: bytes) -> Bind:
    """The body of Bind."""
    body = Body(data)
    portal, statement = body.text(), body.text()
    formats = _formats(body)
    values = tuple(body.value() for _ in range(body.count()))
    results = _formats(body)
    body.end()
    if len(formats) > 1 and len(formats) != len(values):
        raise ProtocolViolation("a bind message has another number of formats than of parameters")
    return Bind(portal, statement, formats, values, results)


def read_target(data: bytes) -> Target:
    """The body of Describe and of Close."""
    body = Body(data)
    kind, name = body.take(1).decode("latin-1"), body.text()
    body.end()
    if kind not in "SP":
        raise ProtocolViolation("only a statement or a portal can be described or closed")
    return Target(kind, name)


def read_execute(data: bytes) -> Execute:
    """The body of Execute."""
    body = Body(data)
    found = Execute(body.text(), max(body.int32(), 0))
    body.end()
    return found


def read_query(data: bytes) -> str:
    """The body of Query."""
    body = Body(data)
    text = body.text()
    body.end()
    return text


def format_of(formats: Sequence[int], index: int) -> int:
    """The format of one column: none given means text, one given means all."""
    return formats[index] if len(formats) > 1 else formats[0] if formats else 0


def frame(kind: bytes, *parts: bytes) -> bytes:
    """A message of the server."""
    return _HEAD.pack(kind, 4 + sum(map(len, parts))) + b"".join(parts)


def authentication(code: int, more: bytes = b"") -> bytes:
    """Authentication: 0 ok, 10 SASL with its mechanisms, 11 SASL goes on, 12 SASL ends."""
    return frame(b"R", _INT32.pack(code), more)


def parameter_status(name: str, value: str) -> bytes:
    """What a setting is now."""
    return frame(b"S", _text(name), _text(value))


def key_data(process: int, secret: int) -> bytes:
    """What a client must know to cancel a statement of this connection."""
    return frame(b"K", struct.pack("!iI", process, secret))


def ready(state: str) -> bytes:
    """The server waits: I idle, T in a transaction, E in a failed one."""
    return frame(b"Z", state.encode())


def negotiate(options: Sequence[str]) -> bytes:
    """The newest version is 3.0, and these options are not known."""
    return frame(b"v", _INT32.pack(PROTOCOL_3), _INT32.pack(len(options)), *map(_text, options))


def row_description(columns: Iterable[tuple[str, int, int]], formats: Sequence[int]) -> bytes:
    """The columns of a result: name, type and width of each."""
    parts = [
        _text(name) + _FIELD.pack(0, 0, _signed(oid), width, -1, format_of(formats, i))
        for i, (name, oid, width) in enumerate(columns)
    ]
    return frame(b"T", _INT16.pack(len(parts)), *parts)


def parameter_description(types: Sequence[int]) -> bytes:
    """The types of the parameters of a statement."""
    return frame(b"t", _INT16.pack(len(types)), *(_INT32.pack(_signed(oid)) for oid in types))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One row."""
    parts = [b"\xff\xff\xff\xff" if value is None else _INT32.pack(len(value)) + value for value in values]
    return frame(b"D", _INT16.pack(len(parts)), *parts)


def command_complete(tag: str) -> bytes:
    """A statement ended well."""
    return frame(b"C", _text(tag))


def copy_out(columns: int, *, binary: bool) -> bytes:
    """COPY to the client begins."""
    form = int(binary)
    return frame(b"H", bytes([form]), _INT16.pack(columns), *[_INT16.pack(form)] * columns)


def copy_data(data: bytes) -> bytes:
    """A piece of COPY."""
    return frame(b"d", data)


def report(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """An error (E) or a notice (N)."""
    return frame(kind, *(code.encode() + _text(text) for code, text in fields.items()), b"\0")


PARSE_COMPLETE = frame(b"1")
BIND_COMPLETE = frame(b"2")
CLOSE_COMPLETE = frame(b"3")
NO_DATA = frame(b"n")
EMPTY_QUERY = frame(b"I")
SUSPENDED = frame(b"s")
COPY_DONE = frame(b"c")


def _formats(body: Body) -> tuple[int, ...]:
    formats = tuple(body.int16() for _ in range(body.count()))
    if any(form not in (0, 1) for form in formats):
        raise ProtocolViolation("a format is neither text nor binary")
    return formats


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def _signed(oid: int) -> int:
    return oid - (1 << 32) if oid >= 1 << 31 else oid
