"""Describe never charges, Execute charges once, a replay is free, previews and catalogues cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any
from unittest import mock

import pytest
from pg_client import SYNC, RawClient, bind, describe, execute, fields, parse, problem, rows
from pg_door import Door

import maquette as mq
from gate_tools import patched, wrapped
from maquette.service import ServedTable
from maquette.service.pgwire import questions
from maquette.service.pgwire.connection import Connection
from maquette.service.pgwire.purse import Purse
from maquette.session import Session
from maquette.session.knowledge import Knowledge

CONNECTIONS = count()
COUNT = "SELECT count(*) FROM people WHERE age >= 30 AND smoker"
PANELS = [
    f"SELECT count(*) FROM people WHERE {each}"
    for each in (
        "age > 10 AND smoker",
        "age > 10 AND region = 'north'",
        "age > 10 AND born < '1970-01-01'",
        "height < 150 AND smoker",
        "height < 150 AND region = 'north'",
        "height < 150 AND born < '1970-01-01'",
    )
]
PREVIEWS = [
    "SELECT * FROM people",
    "SELECT * FROM people LIMIT 5",
    'SELECT "public"."people"."age", "people"."region" FROM "public"."people" LIMIT 10',
    "SELECT substring(region, 1, 3) AS s, age FROM people ORDER BY age DESC LIMIT 7",
    "SELECT * FROM (SELECT age, region FROM people) AS t WHERE age > 20 LIMIT 3",
    "SELECT DISTINCT region FROM people",
    "SELECT region, smoker FROM people GROUP BY region, smoker ORDER BY 1, 2",
    "SELECT DISTINCT age, region, smoker, height, born FROM people LIMIT 10",
    "SELECT * FROM people WHERE 1 = 0",
    "TABLE people",
    "SELECT NULL FROM people LIMIT 1",
    "COPY people TO STDOUT",
    "COPY people (age, region) TO STDOUT WITH (FORMAT csv, HEADER)",
    "EXPLAIN SELECT count(*), region FROM people GROUP BY region",
    "SHOW maquette.budget",
    "SELECT relname FROM pg_class WHERE relname = 'people'",
    "SELECT column_name FROM information_schema.columns WHERE table_name = 'people'",
]


def charges_once(own_door: Door) -> None:
    """Describe is free; a portal asks once, however often it is executed; what was asked before is free."""
    asks = mock.Mock(side_effect=questions.ask)
    client = RawClient(own_door.port).login("alice", own_door.tokens["alice"])
    with mock.patch.object(questions, "ask", asks), client:
        before = own_door.units()
        client.send(parse(COUNT, "q"), describe("S", "q"), SYNC)
        assert client.kinds() == "1tTZ"
        client.send(bind(name="q"), describe("P"), describe("P"), SYNC)
        assert client.kinds() == "2TTZ"
        assert own_door.units() == before, "Describe has charged"
        client.send(bind(name="q"), describe("P"), execute(), execute(), execute(), SYNC)
        assert client.kinds() == "2TDCCCZ"
        assert asks.call_count == 1, "a portal has asked more than once"
        once = own_door.units()
        assert once > before
        client.send(bind(name="q"), execute(), SYNC)
        assert client.kinds() == "2DCZ"
        assert own_door.units() == once, "what was asked before has charged"


def test_describe_plans_and_execute_charges_once(own_door: Door) -> None:
    charges_once(own_door)


def _describe_asks() -> Any:
    return wrapped(Session, "peek", lambda original, self, asked: self.ask(asked))


def _every_execute_asks() -> Any:
    async def again(original: Any, self: Connection, body: bytes) -> None:
        for portal in self._portals.values():
            portal.result = None
        await original(self, body)

    return wrapped(Connection, "_execute", again)


def _asked_again_is_measured_again() -> Any:
    def ask_many(original: Any, self: Session, *args: Any, **named: Any) -> Any:
        self._answers.clear()
        self._knowledge._settled.clear()
        with patched(Knowledge, "_earliest", lambda self, goal: None):
            return original(self, *args, **named)

    known = patched(ServedTable, "_all_known", lambda self, asked: None)
    return _both(known, wrapped(Session, "ask_many", ask_many))


@contextmanager
def _both(one: Any, two: Any) -> Iterator[None]:
    with one, two:
        yield


def _execute_peeks() -> Any:
    """Answered from the public model, as Describe is."""
    return patched(questions, "ask", lambda table, principal, asked, settings, purse: table.session.peek(asked.text))


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "Describe asks": _describe_asks,
    "every Execute of a portal asks": _every_execute_asks,
    "a question asked again is measured again": _asked_again_is_measured_again,
    "Execute answers without a charge": _execute_peeks,
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_charging_mutant_is_killed(mutant: str, own_door: Door) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        charges_once(own_door)


def test_a_replay_after_a_broken_connection_returns_the_recorded_answer(own_door: Door) -> None:
    asked = "SELECT region, count(*), avg(age) FROM people GROUP BY region"
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        first = list(rows(client.query(asked)))
        broken = "SELECT smoker, count(*) FROM people GROUP BY smoker"
        client.send(parse(broken), bind(), execute(), SYNC)
    own_door.service.tables["people"].session.peek(broken)
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        again = client.query(asked)
        assert list(rows(again)) == first
        second = list(rows(client.query(broken)))
        spent = own_door.units()
        assert list(rows(client.query(broken))) == second
        assert own_door.units() == spent
    with RawClient(own_door.port).login("bob", own_door.tokens["bob"]) as client:
        assert list(rows(client.query(asked))) == first
        assert own_door.units() == spent


def test_a_named_request_is_paid_at_most_once(own_door: Door) -> None:
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        client.query("SET maquette.request = 'monday'")
        first = list(rows(client.query(COUNT)))
        left = list(rows(client.query("SHOW maquette.budget")))
        client.query("SET maquette.request = 'monday'")
        assert list(rows(client.query(COUNT))) == first
        assert list(rows(client.query("SHOW maquette.budget"))) == left, "the cap paid twice"
        client.query("SET maquette.request = 'monday'")
        refused = problem(client.query("SELECT count(*) FROM people WHERE smoker"))
        assert refused["C"] == "23505"


@pytest.mark.thorough
def test_previews_and_catalogues_never_spend(own_door: Door) -> None:
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        before = own_door.units()
        for sql in PREVIEWS:
            said = client.query(sql)
            assert not problem(said), (sql, problem(said))
            if "COPY" not in sql and "SHOW" not in sql:
                client.send(parse(sql), describe("S"), bind(), describe("P"), execute(2), execute(), SYNC)
                assert not problem(client.until()), sql
        assert own_door.units() == before


@pytest.mark.thorough
def test_previews_are_synthetic_and_levels_declared(own_door: Door) -> None:
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        listed = client.query("SELECT DISTINCT region FROM people ORDER BY region")
        assert [row[0] for row in rows(listed)] == ["east", "it's west", "north", "south"]
        shown = client.query("SELECT * FROM people LIMIT 3")
        said = [fields(body)["M"] for kind, body in shown if kind == "N"]
        assert "synthetic" in said[0]
        assert len(list(rows(client.query("SELECT * FROM people")))) == 1000
        client.query("SET maquette.sample_rows = 20")
        assert len(list(rows(client.query("SELECT * FROM people")))) == 20


def test_spending_through_the_door_has_a_cap(own_door: Door) -> None:
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        client.query("SET maquette.max_cost = 0")
        before = own_door.units()
        refused = problem(client.query(COUNT))
        assert refused["C"] == "53400"
        assert "maquette.max_cost" in refused["H"]
        assert own_door.units() == before
        assert not problem(client.query("SELECT DISTINCT region FROM people"))
        client.query("SET maquette.max_cost = unlimited")
        assert not problem(client.query(COUNT))
        client.query("SET maquette.max_cost = 0")
        assert not problem(client.query(COUNT)), "what was answered before is free"


def ends_at_its_cap(own_door: Door) -> None:
    """A dashboard connects for every panel, says its cap each time, and asks something new: it ends at its cap.

    Each panel alone would be within the cap, so only what was spent on other connections can end it.
    """
    table, before = own_door.service.tables["people"], own_door.units()
    cap = table.curator.budget.accountant.share(epsilon=0.45, rho=None, delta=table.curator.budget.delta)
    capped = "-c maquette.max_cost=0.45"

    def refused(analyst: str, sql: str, options: str) -> bool:
        within = table.session.explain(sql).cost.units <= cap
        assert within, "a panel costs more than the cap"
        with RawClient(own_door.port).login(analyst, own_door.tokens[analyst], options=options) as client:
            said = problem(client.query(sql))
        assert said.get("C", "53400") == "53400", said
        return bool(said)

    *panels, other = PANELS
    over = next((sql for sql in panels if refused("alice", sql, capped)), None)
    assert over is not None, "no panel was refused"
    assert before < own_door.units() <= before + cap
    assert refused("alice", over, capped)
    assert not refused("alice", over, ""), "the default cap is a tenth of the budget"
    assert not refused("bob", other, capped), "each analyst has a purse"


def test_a_tool_that_connects_again_gets_no_new_cap(own_door: Door) -> None:
    ends_at_its_cap(own_door)


def _opened(account: Callable[[Purse], str]) -> Any:
    """A purse that is kept under another name."""

    def opened(original: Any, self: Purse, *given: Any) -> None:
        original(self, *given)
        self._account = account(self)

    return wrapped(Purse, "__init__", opened)


PURSES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a cap for each connection": lambda: _opened(lambda purse: f"connection {next(CONNECTIONS)}"),
    "one purse for all analysts": lambda: _opened(lambda purse: "everybody"),
    "what was spent is not noted": lambda: patched(Purse, "pay", lambda self, table, units: None),
    "the cap is not looked at": lambda: patched(Purse, "left", lambda self, table, cap: None),
    "a cap is the table's whole budget": lambda: patched(
        Purse, "left", lambda self, table, cap: table.curator.budget.limit
    ),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mutant", PURSES)
def test_purse_mutant_is_killed(mutant: str, own_door: Door) -> None:
    with PURSES[mutant](), pytest.raises(AssertionError):
        ends_at_its_cap(own_door)


@pytest.mark.parametrize("asks", ["Describe", "EXPLAIN"])
def test_planning_counts_against_the_rate_of_an_analyst(own_door: Door, asks: str) -> None:
    """Describe and EXPLAIN take from the bucket of questions: planning costs no budget, but it costs time."""
    rates = own_door.service.rates
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        taken = []
        with wrapped(type(rates), "take", lambda original, self, *given: taken.append(given[1])):
            if asks == "Describe":
                client.send(parse(COUNT, "q"), describe("S", "q"), SYNC)
                assert client.kinds() == "1tTZ"
            else:
                assert not problem(client.query(f"EXPLAIN {COUNT}"))
        assert taken == [1]


@pytest.mark.thorough
def test_the_default_cap_is_a_tenth_of_the_budget(own_door: Door) -> None:
    """A dashboard that asks new things all the time stops at a tenth of the table's budget."""
    limit = own_door.service.tables["people"].curator.budget.limit
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        client.query("SET maquette.alpha = DEFAULT")
        first = own_door.units()
        refused = {}
        for low in range(60):
            refused = problem(
                client.query(f"SELECT born, height, count(*) FROM people WHERE age > {low} GROUP BY 1, 2")
            )
            if refused:
                break
        assert own_door.units() - first <= limit // 10
        assert not refused or refused["C"] == "53400"


@pytest.mark.parametrize("setting", ["on", "off"])
def test_intervals_as_columns(door: Door, setting: str) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        client.query(f"SET maquette.intervals = {setting}")
        (row,) = rows(client.query("SELECT count(*) AS n FROM people"))
        assert len(row) == (3 if setting == "on" else 1)
        if setting == "on":
            assert float(row[1]) <= float(row[0]) <= float(row[2])


def test_low_and_high(door: Door) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        sql = "SELECT region, low(n) AS l, count(*) AS n, high(count(*)) FROM people GROUP BY region"
        for row in rows(client.query(sql)):
            assert float(row[1]) <= float(row[2]) <= float(row[3])
        client.send(parse(sql), describe("S"), bind(), execute(), SYNC)
        messages = client.until()
        assert not problem(messages), problem(messages)
        assert len(list(rows(messages))) == 4
        refused = problem(client.query("SELECT low(region), count(*) FROM people GROUP BY region"))
        assert refused["C"] == "42883"


def test_columns_may_name_their_table(door: Door) -> None:
    """Metabase writes every column with its schema and its table."""
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        plain = list(rows(client.query("SELECT region, count(*) FROM people WHERE age >= 30 GROUP BY region")))
        written = (
            'SELECT "public"."people"."region" AS "region", count(*) AS "count" FROM "public"."people" '
            'WHERE "public"."people"."age" >= 30 GROUP BY "public"."people"."region"'
        )
        assert list(rows(client.query(written))) == plain
        assert problem(client.query("EXPLAIN SELECT count(*) FROM people, visits"))["C"] == "0A000"


@pytest.mark.thorough
def test_a_view_of_a_release_answers_free(own_door: Door) -> None:
    table = own_door.service.tables["people"]
    table.releases["first"] = mq.release(table.curator, mq.marginals(table.schema, k=1), epsilon=0.5)
    spent = own_door.units()
    with RawClient(own_door.port).login("alice", own_door.tokens["alice"]) as client:
        listed = client.query("SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1")
        assert list(rows(listed)) == [["release_people"], ["release_people_first"]]
        sql = "SELECT region, count(*), avg(age) FROM release_people GROUP BY region"
        answered = client.query(sql)
        assert len(list(rows(answered))) == 4, problem(answered)
        client.send(parse(sql), describe("S"), bind(), execute(), SYNC)
        assert list(rows(client.until())) == list(rows(answered))
        assert len(list(rows(client.query("SELECT * FROM release_people LIMIT 9")))) == 9
        copied = client.query("COPY release_people TO STDOUT CSV")
        assert sum(kind == "d" for kind, _ in copied) == 1000
    assert own_door.units() == spent
