"""A client that speaks the protocol byte by byte: it can say what no driver would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from maquette.service.pgwire.codec import frame


def text(value: str) -> bytes:
    return value.encode() + b"\0"


class Closed(Exception):
    """The server has closed the connection."""


class RawClient:
    """One connection; messages are sent as bytes and read as (kind, body)."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self.socket: socket.socket | ssl.SSLSocket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.key = (0, 0)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionError:
                raise Closed from None
            if not piece:
                raise Closed
            data += piece
        return data

    def message(self) -> tuple[str, bytes]:
        kind, length = struct.unpack("!ci", self.read(5))
        return kind.decode(), self.read(length - 4)

    def until(self, last: str = "Z") -> list[tuple[str, bytes]]:
        found = []
        while True:
            found.append(self.message())
            if found[-1][0] == last:
                return found

    def kinds(self, last: str = "Z") -> str:
        return "".join(kind for kind, _ in self.until(last) if kind not in "NS")

    def startup(self, version: int = 196608, /, **given: str) -> None:
        body = struct.pack("!i", version) + b"".join(text(k) + text(v) for k, v in given.items()) + b"\0"
        self.send(struct.pack("!i", len(body) + 4) + body)

    def login(self, user: str, token: str, database: str = "maquette", **given: str) -> RawClient:
        self.startup(user=user, database=database, **given)
        self.authenticate(token)
        for kind, body in self.until():
            if kind == "K":
                self.key = struct.unpack("!iI", body)
        return self

    def authenticate(
        self, token: str, *, mechanism: str = "SCRAM-SHA-256", flag: str = "n", binding: bytes = b""
    ) -> None:
        kind, body = self.message()
        if kind == "v":
            kind, body = self.message()
        assert (kind, body[:4]) == ("R", b"\0\0\0\n"), fields(body)
        nonce = secrets.token_hex(12)
        bare = f"n=,r={nonce}"
        first = f"{flag},,{bare}".encode()
        self.send(frame(b"p", text(mechanism), struct.pack("!i", len(first)), first))
        kind, body = self.message()
        if kind == "E":
            raise PermissionError(fields(body)["C"])
        answer = body[4:].decode()
        said = dict(part.split("=", 1) for part in answer.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", token.encode(), base64.b64decode(said["s"]), int(said["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        bound = base64.b64encode(f"{flag},,".encode() + binding).decode()
        without = f"c={bound},r={said['r']}"
        signed = f"{bare},{answer},{without}".encode()
        signature = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature, strict=True))).decode()
        self.send(frame(b"p", f"{without},p={proof}".encode()))
        kind, body = self.message()
        if kind == "E":
            raise PermissionError(fields(body)["C"])
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        assert body[4:] == b"v=" + base64.b64encode(server), "the server does not know the token"

    def query(self, sql: str) -> list[tuple[str, bytes]]:
        self.send(frame(b"Q", text(sql)))
        return self.until()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse(sql: str, name: str = "", types: Sequence[int] = ()) -> bytes:
    return frame(b"P", text(name), text(sql), struct.pack("!h", len(types)), *(struct.pack("!i", t) for t in types))


def bind(values: Sequence[bytes | None] = (), portal: str = "", name: str = "", results: Sequence[int] = ()) -> bytes:
    cells = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values]
    formats = struct.pack("!h", len(results)) + b"".join(struct.pack("!h", form) for form in results)
    return frame(b"B", text(portal), text(name), struct.pack("!hh", 0, len(cells)), *cells, formats)


def describe(kind: str = "P", name: str = "") -> bytes:
    return frame(b"D", kind.encode(), text(name))


def execute(limit: int = 0, portal: str = "") -> bytes:
    return frame(b"E", text(portal), struct.pack("!i", limit))


SYNC = frame(b"S")


def fields(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice."""
    parts = [part for part in body.split(b"\0") if part]
    return {part[:1].decode(): part[1:].decode() for part in parts}


def rows(messages: Sequence[tuple[str, bytes]]) -> Iterator[list[Any]]:
    """The rows among messages, in text."""
    for kind, body in messages:
        if kind == "D":
            (count,) = struct.unpack("!h", body[:2])
            at, row = 2, []
            for _ in range(count):
                (length,) = struct.unpack("!i", body[at : at + 4])
                at += 4
                row.append(None if length < 0 else body[at : at + length].decode())
                at += max(length, 0)
            yield row


def problem(messages: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """The fields of the first error among messages."""
    return next((fields(body) for kind, body in messages if kind == "E"), {})
