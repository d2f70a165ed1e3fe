"""Waiting: a flood of answers waits for the log, questions stand in the line of their table, tokens age unnoticed."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rooms import House, house, settings

from maquette.service import Limits, state as kept
from maquette.service.http.shortcut import Shortcut
from maquette.service.people import CACHED_SECONDS
from maquette.service.running import _settled

ASK, MANY = "/v1/tables/people/ask", "/v1/tables/people/ask-many"


async def _all(made: House, bodies: list[tuple[str, Any]], who: str = "ada") -> list[int]:
    async with made.client() as client:
        head = {"Authorization": f"Bearer {made.tokens[who]}"}
        sent = [client.post(path, json=body, headers=head) for path, body in bodies]
        return [got.status_code for got in await asyncio.gather(*sent)]


def test_a_flood_of_known_answers_waits_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused as soon as rows came faster than they were written."""
    monkeypatch.setattr(kept, "PRESSED", 50)
    monkeypatch.setattr(kept, "MOST_WAITING", 200)
    with house(settings(tmp_path)) as made:
        made.ask("ada", "smoker")
        bodies = [(MANY, {"questions": ["smoker"] * 20})] * 50
        assert asyncio.run(_all(made, bodies)) == [200] * 50
        ada = made.service.authenticate(made.tokens["ada"])
        assert len(made.service.tables["people"].transcript(ada, count=10_000)) == 1_001


def test_nobody_waits_for_a_log_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "PRESSED", 0)
    with house(settings(tmp_path)) as made:
        assert made.service.state.pressed
        monkeypatch.setattr(made.service.state, "_failed", True)
        assert not made.service.state.pressed


def test_a_full_line_refuses_and_known_answers_pass_it(tmp_path: Path) -> None:
    with house(settings(tmp_path, limits=Limits(waiting_asks=2))) as made:
        made.ask("ada", "smoker")
        table = made.service.tables["people"]
        with table.place(), table.place():
            assert table.waiting == 2
            got = asyncio.run(_all(made, [(ASK, {"where": "smoker"}), (ASK, {"where": "a"})]))
            assert got == [200, 503]
        assert table.waiting == 0
        assert asyncio.run(_all(made, [(ASK, {"where": "a"})])) == [200]


def test_a_line_is_served_in_order(tmp_path: Path) -> None:
    """However many stand in line, those who came first are asked for first, and no other table waits with them."""
    texts = [f"age >= {10 * i} AND {flag}" for i in range(1, 10) for flag in ("smoker", "a", "b", "NOT a", "NOT b")]
    begun: list[str] = []
    held = threading.Event()
    with house(settings(tmp_path)) as made:
        for who in ("ada", "custodian"):
            made.ask(who, "smoker")  # the token is remembered
        session, answered = made.service.tables["people"].session, made.service.tables["people"].session.ask_many

        def noted(asked: list[str], **given: Any) -> Any:
            begun.extend(asked)
            held.wait(30)
            return answered(asked, **given)

        async def asked() -> list[int]:
            line = asyncio.ensure_future(_all(made, [(ASK, {"where": text}) for text in texts]))
            while len(begun) < 16:
                await asyncio.sleep(0.01)
            beside = await _all(made, [("/v1/tables/other/ask", {"where": "a"})], "custodian")
            held.set()
            return beside + await line

        with mock.patch.object(session, "ask_many", noted):
            assert asyncio.run(asked()) == [200] * (len(texts) + 1)
    assert sorted(begun[:16]) == sorted(texts[:16])
    assert sorted(begun) == sorted(texts)


def test_an_aged_token_is_looked_up_once_for_all(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        made.ask("ada", "smoker")
        people, counted = made.service.people, []
        found, later = people.authenticate, people._clock() + CACHED_SECONDS + 1

        def counting(token: str | None) -> Any:
            counted.append(token)
            return found(token)

        with (
            mock.patch.object(people, "_clock", return_value=later),
            mock.patch.object(people, "authenticate", counting),
            mock.patch.object(Shortcut, "_app", create=True),
        ):
            assert asyncio.run(_all(made, [(ASK, {"where": "smoker"})] * 20)) == [200] * 20
        assert len(counted) == 1


def test_a_revoked_token_ends_when_it_is_looked_up_again(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        made.ask("ada", "smoker")
        people = made.service.people
        (one,) = [facts for facts in people.list() if facts.name == "ada"]
        with people._state.begin() as connection:  # by another process
            connection.execute(kept.tokens.update().where(kept.tokens.c.id == one.id).values(revoked=1.0))
        assert asyncio.run(_all(made, [(ASK, {"where": "smoker"})])) == [200], "for a few seconds"
        with mock.patch.object(people, "_clock", return_value=people._clock() + CACHED_SECONDS + 1):
            assert asyncio.run(_all(made, [(ASK, {"where": "smoker"})] * 3)) == [401] * 3


def test_what_is_set_apart_while_serving_is_given_back() -> None:
    before = gc.get_threshold()
    with _settled():
        assert gc.get_freeze_count() > 0
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


def test_whoever_stands_in_line_when_a_table_is_closed_is_refused_and_charged_nothing(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        table, began, go = made.service.tables["people"], threading.Event(), threading.Event()

        async def every() -> list[int]:
            def hold() -> None:
                began.set()
                go.wait(10)

            first = [asyncio.ensure_future(table.lane.run(hold)) for _ in range(table.lane._threads)]
            waiting = asyncio.ensure_future(_all(made, [(ASK, {"where": f"age >= {10 * i}"}) for i in range(1, 9)]))
            while table.waiting < 8:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(table.close)
            go.set()
            await asyncio.gather(*first)
            return await asyncio.wait_for(waiting, 20)

        spent = table.curator.ledger.spent()
        assert asyncio.run(every()) == [503] * 8
        assert table.waiting == 0
    with house(settings(tmp_path)) as made:
        assert made.service.tables["people"].curator.ledger.spent() == spent
