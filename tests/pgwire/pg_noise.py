"""Noise for the PostgreSQL door: frames that are right, odd or broken, in any order, before and after login.

A broken frame ends its connection, and what was sent behind it is never read. So broken ones are rare, and what counts
is the number of frames that the door has read, not the number sent.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from unittest import mock

from pg_client import SYNC, Closed, RawClient, text
from pg_door import Door

from maquette.service.pgwire.channel import Channel

TEXTS = (
    *(
        "SELECT 1",
        "SELECT $1",
        "SELECT $1::int + $2::int",
        "SELECT",
        "(",
        "'",
        ";",
        "",
        "SELECT 1; SELECT 2",
        "\u00e9\u2603",
    ),
    *(
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SET x = 1",
        "SET maquette.alpha = 3",
        "SHOW server_version",
        "DEALLOCATE a",
        "CLOSE c",
    ),
    *(
        "DECLARE c CURSOR FOR SELECT 1",
        "FETCH 2 FROM c",
        "MOVE 1 FROM c",
        "PREPARE a AS SELECT 1",
        "EXECUTE a",
        "LISTEN x",
    ),
    *("SELECT region FROM people LIMIT 1", "COPY (SELECT 1) TO STDOUT", "COPY people FROM STDIN", "DROP TABLE people"),
    *(
        "SELECT count(*) FROM people WHERE age > 7",
        "EXPLAIN SELECT count(*) FROM people",
        "SELECT oid FROM pg_class LIMIT 1",
    ),
)
NAMES = ("", "", "a", "c", "\u00e9")
KINDS = b"QPPBBDDEECSSHFdcfp"


def _right(made: random.Random, kind: int) -> bytes:
    """The body of a frame that can be read, though it need not make sense here."""
    name, sql = made.choice(NAMES), made.choice(TEXTS)
    if kind == ord("Q"):
        return text(sql)
    if kind == ord("P"):
        types = [made.choice([0, 20, 23, 25, 16, 701, 1082, 99_999]) for _ in range(made.choice([0, 0, 1, 2]))]
        return text(name) + text(sql) + struct.pack(f"!h{len(types)}i", len(types), *types)
    if kind == ord("B"):
        values = [
            made.choice([None, b"", b"1", b"x", bytes(4), made.randbytes(8)]) for _ in range(made.choice([0, 0, 1, 2]))
        ]
        cells = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values]
        formats = struct.pack("!hh", 1, made.choice([0, 1, 1, 7])) if made.random() < 0.5 else struct.pack("!h", 0)
        return (
            text(made.choice(NAMES)) + text(name) + formats + struct.pack("!h", len(cells)) + b"".join(cells) + formats
        )
    if kind in b"DC":
        return made.choice([b"S", b"P"]) + text(name)
    if kind == ord("E"):
        return text(name) + struct.pack("!i", made.choice([-5, 0, 0, 1, 2, 1 << 30]))
    return b"" if kind in b"SHc" else made.randbytes(made.randrange(20))


def noise(made: random.Random) -> bytes:
    """A frame; one in a hundred is broken, so that the door closes the connection."""
    kind = made.choice(KINDS)
    while kind == ord("p") and made.random() < 0.9:  # a password after login is an error: rarely
        kind = made.choice(KINDS)
    body = bytearray(_right(made, kind))
    length = len(body) + 4
    if made.random() < 0.01:
        choice = made.randrange(3)
        if choice == 0:
            length = made.randrange(-5, 1 << 31)
        elif choice == 1:
            kind = made.randrange(256)
        place = made.randrange(len(body) + 1)
        body[place : place + made.randrange(3)] = made.randbytes(made.randrange(4))
        length = len(body) + 4 if choice else length
    return struct.pack("!ci", bytes([kind]), length) + bytes(body)


def _stranger(made: random.Random, client: RawClient) -> None:
    """What comes before login: nonsense, half a startup, a wrong order, a password that nobody asked for."""
    choice = made.randrange(5)
    if choice == 0:
        client.send(made.randbytes(made.randrange(1, 60)))
    elif choice == 1:
        client.send(struct.pack("!ii", made.randrange(0, 1 << 20), 196_608) + made.randbytes(made.randrange(30)))
    elif choice == 2:
        client.send(struct.pack("!iiiI", 16, 80_877_102, made.randrange(1 << 31), made.randrange(1 << 32)))
    elif choice == 3:
        client.send(noise(made), noise(made))
    else:
        client.startup(user="alice", database="maquette")
        client.message()
        client.send(noise(made), struct.pack("!ci", b"p", 4 + 20) + made.randbytes(20))


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """Count the frames that doors read."""
    read, message = [0], Channel.message

    async def counting(self: Channel, limit: int | None = None) -> tuple[str, bytes]:
        found = await message(self, limit)
        read[0] += 1
        return found

    with mock.patch.object(Channel, "message", counting):
        yield read


def storm(door: Door, frames: int, seed: int) -> int:
    """Send noise until the door has read this many frames; how many connections it took. No question can be paid."""
    made, used = random.Random(seed), 0
    with counted() as read:
        while read[0] < frames:
            used += 1
            client = RawClient(door.port, timeout=60)
            try:
                if made.random() < 0.1:
                    _stranger(made, client)
                else:
                    client.login("alice", door.tokens["alice"], options="-c maquette.max_cost=0")
                    client.send(*[noise(made) for _ in range(made.randrange(1, 400))], SYNC)
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(65_536):
                    pass
            except (OSError, Closed):
                pass
            finally:
                client.close()
    return used
