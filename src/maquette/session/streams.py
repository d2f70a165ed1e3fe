"""Streams: a session for asyncio, and answers to questions as they come.

Questions in flight together share commits of the ledger; each has a charge of its own. A question that was begun is
paid for and answered even if whoever asked stops waiting: asked again, it is free.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from maquette.answers import Answered
from maquette.errors import QueryError
from maquette.query import Expression, LinearQuery

QuestionLike = str | Expression | LinearQuery

AT_ONCE = 8


class _Asks(Protocol):
    @property
    def ask(self) -> Callable[..., Answered]: ...

    @property
    def ask_many(self) -> Callable[..., list[Answered]]: ...


class Streams:
    """What a session does for asyncio and for streams, in terms of its `ask` and `ask_many`."""

    async def ask_async(self: _Asks, asked: QuestionLike, **settings: Any) -> Answered:
        """`ask` for asyncio: other tasks go on while this question is measured."""
        return await asyncio.to_thread(self.ask, asked, **settings)

    async def ask_many_async(self: _Asks, asked: Sequence[QuestionLike], **settings: Any) -> list[Answered]:
        """`ask_many` for asyncio."""
        return await asyncio.to_thread(self.ask_many, asked, **settings)

    def stream(self: _Asks, asked: Iterable[QuestionLike], **settings: Any) -> Iterator[Answered]:
        """The answers to a stream of questions, one by one; the next question is read when its answer is wanted."""
        _check(asked)
        return (self.ask(one, **settings) for one in asked)

    async def stream_async(
        self: _Asks,
        asked: Iterable[QuestionLike] | AsyncIterable[QuestionLike],
        *,
        at_once: int = AT_ONCE,
        **settings: Any,
    ) -> AsyncIterator[Answered]:
        """The answers to a stream of questions in their order, of which at most `at_once` are being measured.

        A refusal is raised in the place of its answer; the questions behind it that were begun are finished first.
        """
        _check(asked)
        if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
            raise QueryError(f"at_once is {at_once!r}", expected="a whole number of at least 1")
        flying: deque[asyncio.Task[Answered]] = deque()
        try:
            async for one in _each(asked):
                flying.append(asyncio.create_task(asyncio.to_thread(self.ask, one, **settings)))
                if len(flying) >= at_once:
                    yield await flying.popleft()
            while flying:
                yield await flying.popleft()
        finally:
            await asyncio.gather(*flying, return_exceptions=True)


def _check(asked: object) -> None:
    if isinstance(asked, str | Expression | LinearQuery):
        raise QueryError("got one question", expected="a stream of questions", advice="ask a single one with `ask`")


async def _each(asked: Iterable[QuestionLike] | AsyncIterable[QuestionLike]) -> AsyncIterator[QuestionLike]:
    if isinstance(asked, AsyncIterable):
        async for one in asked:
            yield one
    else:
        for one in asked:
            yield one
