"""Rates: how many questions a principal may ask per minute, and how many wrong tokens an address may try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from maquette.service.config import ServiceConfig
from maquette.service.errors import TooManyRequests
from maquette.service.principals import Principal

REMEMBERED = 100_000  # names


class Bucket:
    """Token buckets by name: each fills at `per_minute` and holds at most one minute's worth."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str, count: float, per_minute: float) -> float:
        """Take `count`; 0 if they were there, else the seconds until they will be."""
        now = self._clock()
        with self._lock:
            before, at = self._left.get(name, (per_minute, now))
            left = min(per_minute, before + (now - at) * per_minute / 60)
            if len(self._left) >= REMEMBERED and name not in self._left:
                self._left.clear()
            if left < min(count, per_minute):
                self._left[name] = left, now
                return (min(count, per_minute) - left) * 60 / per_minute
            self._left[name] = left - count, now
            return 0.0


class Rates:
    """The rate limits of one service."""

    def __init__(self, config: ServiceConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._asks = Bucket(clock)
        self._strangers = Bucket(clock)

    def take(self, principal: Principal, questions: int) -> None:
        """Count questions of a principal; TooManyRequests if there were too many."""
        settings = self._config.analyst(principal.name)
        own = None if settings is None else settings.asks_per_minute
        rate = self._config.limits.asks_per_minute if own is None else own
        wait = self._asks.take(principal.account, questions, rate)
        if wait > 0:
            raise TooManyRequests(
                f"more than {rate:,} questions per minute",
                seconds=wait,
                advice=f"nothing was charged. Ask again in {wait:.1f} seconds.",
            )

    def stranger(self, address: str) -> None:
        """Count a wrong token from an address."""
        wait = self._strangers.take(address, 1, self._config.limits.wrong_tokens_per_minute)
        if wait > 0:
            raise TooManyRequests(
                "too many wrong tokens from this address", seconds=wait, advice=f"try again in {wait:.0f} seconds"
            )
