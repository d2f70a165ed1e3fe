"""Limits of the door: sizes, counts and times; each can be set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one door accepts."""

    connections: int = 600
    startup_bytes: int = 10_000
    message_bytes: int = 1_048_576
    statements: int = 1_000  # prepared, of one connection
    portals: int = 200  # open, of one connection
    login_seconds: float = 15.0
    message_seconds: float = 30.0  # from the first byte of a message to its last
    write_seconds: float = 60.0  # for a client to take what was sent
    idle_seconds: float = 28_800.0
    recheck_seconds: float = 5.0  # how long a revoked token may still be used
    wrong_seconds: float = 0.5  # before a wrong token is refused
