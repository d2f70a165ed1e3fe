"""Known answers: those given with a promise, by the text of their question, ready to be given again without a lock."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from maquette.answers import Answered
from maquette.service.wire import answer_json

NUMBERS = 100_000  # in all answers together; the oldest are dropped
REPLY_BYTES = 64 * 2**20  # of all JSON together


@dataclass
class _Kept:
    answer: Answered
    size: int  # numbers
    reply: bytes | None = None


class KnownAnswers:
    """The answers of one table. What is kept of a text, its answer and its JSON, is dropped together."""

    def __init__(self, numbers: int = NUMBERS, reply_bytes: int = REPLY_BYTES) -> None:
        self._most, self._most_bytes = numbers, reply_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self.numbers = self.reply_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, text: str) -> bool:
        return text in self._kept

    def get(self, text: str) -> Answered | None:
        """The answer to a text."""
        found = self._kept.get(text)
        return None if found is None else found.answer

    def keep(self, text: str, answer: Answered) -> None:
        """Keep an answer, unless there is one, and drop the oldest where there are too many."""
        size = len(answer.numbers)
        with self._lock:
            if text in self._kept or size > self._most:
                return
            self._kept[text] = _Kept(answer, size)
            self.numbers += size
            while self.numbers > self._most:
                _, dropped = self._kept.popitem(last=False)
                self.numbers -= dropped.size
                self.reply_bytes -= len(dropped.reply or b"")

    def reply(self, text: str, answer: Answered) -> bytes:
        """An answer that `get` gave, as JSON; kept with it if it still is there."""
        found = self._kept.get(text)
        if found is not None and found.answer is answer and found.reply is not None:
            return found.reply
        reply = answer_json(answer)
        with self._lock:
            found = self._kept.get(text)
            room = self.reply_bytes + len(reply) <= self._most_bytes
            if found is not None and found.answer is answer and found.reply is None and room:
                found.reply = reply
                self.reply_bytes += len(reply)
        return reply
