"""Bounded: a dictionary that forgets its oldest entries when it is full; for caches that many threads share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
PAGE = 2**12  # numbers


class Bounded(dict[Key, Value], Generic[Key, Value]):
    """At most `most` entries. Reading takes no lock; writing takes a short one.

    Only for values that can be computed again: any entry may be gone at the next look. Where `weigh` tells how many
    numbers a value may hold, every PAGE of them counts as one more entry: a few large values take the place of many.
    """

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda value: 0) -> None:
        super().__init__()
        self._most = most
        self._weigh = weigh
        self._places: dict[Key, int] = {}
        self._line: deque[Key] = deque()  # oldest first; to look for that in a dictionary takes longer the larger it is
        self._taken = 0
        self._writing = threading.Lock()

    def __setitem__(self, key: Key, value: Value) -> None:
        places = 1 + self._weigh(value) // PAGE
        with self._writing:
            super().__setitem__(key, value)
            if (before := self._places.get(key)) is None:
                self._line.append(key)
            self._taken += places - (before or 0)
            self._places[key] = places
            while self._taken > self._most:
                oldest = self._line.popleft()
                self._taken -= self._places.pop(oldest)
                self.pop(oldest, None)
