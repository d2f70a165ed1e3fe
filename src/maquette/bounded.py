"""Bounded: a dictionary that forgets its oldest entry when it is full; for caches that many threads share."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value], Generic[Key, Value]):
    """At most `most` entries. Reading takes no lock; writing takes a short one.

    Only for values that can be computed again: any entry may be gone at the next look.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._writing = threading.Lock()

    def __setitem__(self, key: Key, value: Value) -> None:
        with self._writing:
            super().__setitem__(key, value)
            while len(self) > self._most:
                del self[next(iter(self))]
