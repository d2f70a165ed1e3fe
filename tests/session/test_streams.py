"""A session for asyncio, and answers to streams of questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from flights import QUESTIONS, numbers, opened

from maquette.errors import QueryError


def test_what_is_awaited_is_what_is_asked(tmp_path: Path) -> None:
    async def together() -> list[object]:
        several = await asyncio.gather(*(session.ask_async(text) for text in QUESTIONS[:6]))
        assert [numbers(one) for one in await session.ask_many_async(QUESTIONS[:6])] == [numbers(o) for o in several]
        return [numbers(one) for one in several]

    with opened(tmp_path / "ledger") as session:
        told = asyncio.run(together())
        assert told == [numbers(session.ask(text)) for text in QUESTIONS[:6]]
        digest = session._record.transcript.digest
    with opened(tmp_path / "ledger") as session:
        assert session._record.transcript.digest == digest


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_stream_is_answered_in_its_order(at_once: int) -> None:
    async def questions() -> AsyncIterator[str]:
        for text in QUESTIONS[:5]:
            yield text

    async def read() -> list[object]:
        return [numbers(answer) async for answer in session.stream_async(questions(), at_once=at_once)]

    with opened(None) as session:
        told = asyncio.run(read())
        assert told == [numbers(answer) for answer in session.stream(QUESTIONS[:5])]


def test_a_stream_reads_the_next_question_when_it_is_wanted() -> None:
    with opened(None) as session:
        read: list[str] = []
        stream = session.stream(read.append(text) or text for text in ("a", "b"))
        assert not read
        next(stream)
        assert read == ["a"]


def test_a_refusal_comes_in_its_place() -> None:
    async def read() -> None:
        async for answer in session.stream_async(["a", "nothing = 1", "b"], at_once=3):
            told.append(numbers(answer))  # noqa: PERF401 -- what came before the refusal counts

    with opened(None) as session:
        told: list[object] = []
        with pytest.raises(QueryError, match="no column"):
            asyncio.run(read())
        assert told == [numbers(session.ask("a"))]
        assert session.ask("b").source == "cache"


@pytest.mark.parametrize("wrong", ["a", 0, True])
def test_what_is_no_stream_is_refused(wrong: object) -> None:
    async def read() -> None:
        given = {"asked": wrong} if isinstance(wrong, str) else {"asked": ["a"], "at_once": wrong}
        async for _ in session.stream_async(**given):
            pass

    with opened(None) as session:
        with pytest.raises(QueryError):
            asyncio.run(read())
        with pytest.raises(QueryError, match="stream"):
            session.stream("a")
