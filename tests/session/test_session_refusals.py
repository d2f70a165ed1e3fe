"""What a session refuses: a clear error, and nothing charged."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from session_checks import SeededNoise, curator_of
from session_gates import numbers

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.errors import BudgetError, BudgetExceeded, LedgerError, MaquetteError, QueryError, RequestConflict
from maquette.session import Session

SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 99, width=20), mq.Category("region", ["north", "east", "south"]), mq.Boolean("smoker")]
)


@functools.cache
def opened_table() -> mq.PrivateTable:
    return mq.open_table(
        {
            "age": [5, 25, 45, 65, 85] * 400,
            "region": ["north", "east"] * 1_000,
            "smoker": [True, False, False, False] * 500,
        },
        SCHEMA,
    )


PURE, ZCDP = mq.Budget(epsilon=1.0), mq.Budget(epsilon=1.0, delta=1e-9)
WIDE = mq.Schema([mq.Boolean(f"q{i}") for i in range(40)])


@functools.cache
def wide_table() -> mq.PrivateTable:
    return mq.open_table({f"q{i}": [True, False] * 1_000 for i in range(40)}, WIDE)


@contextmanager
def unchanged(curator: Curator) -> Iterator[None]:
    """Whatever happens inside, nothing is charged by it."""
    before = curator.ledger.spent(), len(list(curator.ledger.charges()))
    yield
    assert (curator.ledger.spent(), len(list(curator.ledger.charges()))) == before, "a refusal was charged"


@contextmanager
def session(budget: mq.Budget = ZCDP, table: mq.PrivateTable | None = None, **named: Any) -> Iterator[Session]:
    curating = {key: named.pop(key) for key in ("relation", "noise") if key in named}
    with Curator(table or opened_table(), budget, **curating) as curator:
        yield mq.online(curator, **{"alpha": 0.1, "simultaneous": False, **named})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("height > 5", "there is no column 'height'"),
        ("region = 'weest'", "did you mean 'east'"),
        ("age >= 'old'", "is not a number"),
        ("", "empty"),
        ("SELECT", "FROM"),
        ("SELECT max(age) FROM people", "max, which is the value of one row, is not supported"),
        ("SELECT * FROM people", "rows are never shown"),
        ("SELECT count(*) FROM people, others", "one private table"),
        ("smoker; DROP TABLE people", "one at a time"),
        ("1 / 0", "not supported"),
        ("smoker AND " * 600 + "smoker", "characters"),
        (None, "the question is of type NoneType; expected"),
        (5, "the question is of type int; expected"),
        (b"smoker", "the question is of type bytes; expected"),
        (["smoker"], "the question is of type list; expected"),
        (mq.where(WIDE, "q1"), "another schema"),
        (mq.col("height") > 5, "there is no column 'height'"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_question_outside_the_schema_is_refused(asked: Any, words: str) -> None:
    with session() as asking:
        for ask in (asking.ask, asking.explain, lambda one: asking.ask_many(["smoker", one])):
            with unchanged(asking.curator), pytest.raises(QueryError, match=words):
                ask(asked)


def test_a_batch_is_a_list_of_questions() -> None:
    with session() as asking, unchanged(asking.curator):
        assert asking.ask_many([]) == []
        with pytest.raises(QueryError, match="list of questions"):
            asking.ask_many("smoker")
        with pytest.raises(QueryError, match="list of questions"):
            asking.ask_many(None)  # type: ignore[arg-type]


def test_a_table_of_too_many_cells_is_refused() -> None:
    with session(mq.Budget(epsilon=5.0), wide_table()) as asking:
        columns = ", ".join(WIDE.names[:30])
        with unchanged(asking.curator), pytest.raises(QueryError, match="use fewer columns"):
            asking.ask(f"SELECT count(*) FROM people GROUP BY {columns}")


def test_questions_about_very_many_columns_are_measured_as_they_are() -> None:
    with session(mq.Budget(epsilon=5.0), wide_table()) as asking:
        for asked in (" AND ".join(WIDE.names[:20]), " OR ".join(WIDE.names[:30])):
            answer = asking.ask(asked)
            assert isinstance(answer, mq.Answer)
            assert (answer.source, answer.guarantee is not None) == ("measured", True)


def test_a_histogram_of_a_large_universe_is_refused() -> None:
    with Curator(wide_table(), PURE) as curator, pytest.raises(QueryError, match="cells"), unchanged(curator):
        mq.online(curator, alpha=0.1, rows=2_000, warm_start="histogram").ask("q1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; expected a number between 0 and 1"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": "0.1"}, "alpha is '0.1'"),
        ({"alpha": None}, "alpha is None"),
        ({"alpha": True}, "alpha is True"),
        ({"beta": 0.0}, "beta is 0.0"),
        ({"beta": 2}, "beta is 2"),
        ({"beta": [0.5]}, "beta is"),
        ({"rows": 0}, "rows is 0; expected a whole number of at least 1"),
        ({"rows": -5}, "rows is -5"),
        ({"rows": 2.5}, "rows is 2.5"),
        ({"rows": float("inf")}, "rows is inf"),
        ({"rows": "many"}, "rows is 'many'"),
        ({"rows": True}, "rows is True"),
        ({"expect": 0}, "expect is 0"),
        ({"expect": 1.5}, "expect is 1.5"),
        ({"warm_start": "hot"}, "warm_start is 'hot'; expected"),
        ({"warm_start": None}, "warm_start is None"),
        ({"guard": "maybe"}, "guard is 'maybe'"),
        ({"guard": None}, "guard is None"),
        ({"simultaneous": "no"}, "simultaneous is 'no'"),
        ({"name": ""}, "name of a session is ''"),
        ({"name": "a:b"}, "without a colon"),
        ({"name": None}, "name of a session is None"),
        ({"name": 5}, "name of a session is 5"),
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with Curator(opened_table(), ZCDP) as curator, unchanged(curator), pytest.raises(QueryError) as refusal:
        mq.online(curator, **{"alpha": 0.1, **options})
    assert words in str(refusal.value)


def test_a_session_needs_a_curator() -> None:
    with pytest.raises(QueryError, match="Curator"):
        mq.online(opened_table(), alpha=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("analyst", [None, "", 5])
def test_an_analyst_has_a_name(analyst: Any) -> None:
    with session() as asking, unchanged(asking.curator):
        with pytest.raises(QueryError, match="analyst"):
            asking.ask("smoker", analyst=analyst)
        with pytest.raises(QueryError, match="analyst"):
            asking.limit(analyst, epsilon=0.1)


@pytest.mark.parametrize("size", [-1, "x", 1.5])
def test_an_outlook_is_for_a_number_of_columns(size: Any) -> None:
    with session() as asking, unchanged(asking.curator), pytest.raises(QueryError, match="columns"):
        asking.outlook(size)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({}, "exactly one of them"),
        ({"epsilon": 1.0, "rho": 1.0}, "exactly one of them"),
        ({"epsilon": -1.0}, "above 0"),
        ({"epsilon": "x"}, "above 0"),
        ({"rho": float("inf")}, "above 0"),
    ],
    ids=str,
)
def test_a_limit_that_makes_no_sense_is_refused(limit: dict[str, Any], words: str) -> None:
    with session() as asking, unchanged(asking.curator), pytest.raises(BudgetError, match=words):
        asking.limit("ann", **limit)


def test_a_limit_below_what_was_spent_is_refused_with_what_to_do() -> None:
    with session() as asking:
        asking.ask("smoker", analyst="ann")
        with unchanged(asking.curator), pytest.raises(BudgetError, match="spend nothing more"):
            asking.limit("ann", epsilon=1e-6)


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_an_alpha_out_of_reach_is_refused_with_one_that_is_not(budget: mq.Budget, relation: Any) -> None:
    with Curator(opened_table(), budget, relation=relation) as curator, unchanged(curator):
        with pytest.raises(BudgetError, match="Ask for alpha of about") as refusal:
            mq.online(curator, alpha=1e-4, rows=2_000, simultaneous=False)
        least = float(str(refusal.value).split("alpha of about ")[1].split()[0])
        assert 1e-4 < least < 0.1
    with Curator(opened_table(), budget, relation=relation) as curator:  # and the advice holds
        assert mq.online(curator, alpha=least * 1.25, rows=2_000, simultaneous=False).alpha > least


def test_a_table_too_small_for_its_budget_is_refused_and_the_search_for_its_size_is_cheap() -> None:
    few = mq.open_table({"age": [1] * 8, "region": ["north"] * 8, "smoker": [True] * 8}, SCHEMA)
    with Curator(few, mq.Budget(epsilon=0.1)) as curator:
        with pytest.raises(BudgetError, match="larger alpha"):
            mq.online(curator, alpha=0.05)
        assert curator.spent.epsilon <= 0.1
        with unchanged(curator), pytest.raises(BudgetError):  # and is not paid again
            mq.online(curator, alpha=0.05)


def test_an_exhausted_analyst_hears_the_model_and_pays_nothing() -> None:
    with session(PURE, warm_start="none") as asking:
        asking.ask("smoker")
        asking.limit("ann", epsilon=1e-6)
        with unchanged(asking.curator):
            for asked in ("age >= 60 AND smoker", "SELECT region, avg(age), count(*) FROM people GROUP BY region"):
                answer = asking.ask(asked, analyst="ann")
                rows = answer.numbers
                assert {one.guarantee for one in rows} == {None}
                assert {one.cost.units for one in rows} == {0}
                assert all(one.low <= one.value <= one.high for one in rows)
                with pytest.raises(BudgetExceeded, match="Nothing was charged") as refusal:
                    asking.ask(asked, analyst="ann", strict=True)
                assert refusal.value.requested > refusal.value.remaining
            assert asking.ask("smoker", analyst="ann").guarantee is not None
            assert asking.spent_by("ann").units == 0
        paid = asking.ask("age >= 60 AND smoker", analyst="bob")
        assert paid.guarantee is not None
        assert numbers(asking.ask("age >= 60 AND smoker", analyst="ann", strict=True)) == numbers(paid)


def test_an_exhausted_table_promises_nothing_new_and_forgets_nothing_old() -> None:
    with session(mq.Budget(epsilon=0.08), relation="replace", warm_start="none") as asking:
        questions = [f"age >= {age} AND region = '{name}'" for age in (20, 40, 60, 80) for name in ("north", "east")]
        answers = [asking.ask(asked) for asked in questions]
        promised = [one.guarantee is not None for one in answers]
        assert promised[0]
        assert not promised[-1]
        with unchanged(asking.curator):
            with pytest.raises(BudgetExceeded, match="Nothing was charged"):
                asking.ask(questions[-1], strict=True)
            assert "without a guarantee" in str(asking.explain(questions[-1]))
            for asked, answer, kept in zip(questions, answers, promised, strict=True):
                if kept:
                    assert numbers(asking.ask(asked, strict=True)) == numbers(answer)
        assert asking.spent.epsilon <= 0.08


def test_of_a_batch_that_cannot_be_paid_what_can_be_is_answered() -> None:
    with session(mq.Budget(epsilon=0.08), relation="replace", warm_start="none") as asking:
        questions = [f"age >= {age} AND region = '{name}'" for age in (20, 40, 60, 80) for name in ("north", "east")]
        with unchanged(asking.curator), pytest.raises(BudgetExceeded, match="Nothing was charged"):
            asking.ask_many(questions, strict=True)
        answers = asking.ask_many(questions)
        promised = [one.guarantee is not None for one in answers]
        assert promised[0]
        assert not all(promised)


def test_a_request_of_the_session_cannot_be_replayed_with_another_question() -> None:
    with session(PURE) as asking:
        asking.ask("smoker", analyst="ann")
        *_, last = asking.curator.ledger.charges()
        with unchanged(asking.curator):
            with pytest.raises(RequestConflict, match="another analyst or for another question"):
                asking.curator.measure(["age"], epsilon=0.01, request=last.id, analyst="ann")
            with pytest.raises(RequestConflict, match="Use a fresh id"):
                asking.curator.measure(["smoker"], epsilon=0.01, request=last.id, analyst="bob")


def test_nobody_can_choose_the_noise_of_a_session() -> None:
    for function in (mq.online, Session.ask, Session.ask_many, Session.explain):
        assert not {"seed", "rng", "noise", "random_state"} & set(inspect.signature(function).parameters)


def test_a_closed_curator_answers_nothing_new() -> None:
    with session(PURE, warm_start="none") as asking:
        asking.ask("smoker")
    for ask in (asking.ask, asking.explain):
        with pytest.raises(LedgerError, match="closed"):
            ask("age >= 60 AND smoker")
    with pytest.raises(LedgerError, match="closed"):
        mq.online(asking.curator, alpha=0.2, name="another")


def test_no_refusal_shows_a_number_of_the_table() -> None:
    """Two tables that differ in everything refuse in the same words."""
    other = mq.open_table({"age": [5] * 2_000, "region": ["south"] * 2_000, "smoker": [True] * 2_000}, SCHEMA)
    told: list[list[str]] = []
    for rows in (opened_table(), other):
        lines: list[str] = []
        with session(mq.Budget(epsilon=0.08), rows, relation="replace", noise=ScriptedNoise([0] * 999)) as asking:
            for asked in (
                "smoker",
                "age >= 20",
                "age >= 60 AND smoker",
                "region = 'east' OR smoker",
                "height",
                "age >",
            ):
                try:
                    asking.ask(asked, strict=True)
                except MaquetteError as refusal:
                    lines.append(str(refusal))
            for limit in (1e-9, 1e9):
                try:
                    asking.limit("custodian", epsilon=limit)
                except MaquetteError as refusal:
                    lines.append(str(refusal))
        told.append(lines)
    assert told[0] == told[1]
    assert len(told[0]) > 3


def test_a_session_that_only_counted_its_rows_can_be_continued() -> None:
    table = {"age": np.arange(2_000) % 6}
    schema = mq.Schema([mq.Integer("age", 0, 5)])
    with curator_of(schema, table, mq.Budget(epsilon=1.0), SeededNoise(0)) as whole:
        session = mq.online(whole, alpha=0.05, rows=2_000)
        assert whole.spent.epsilon == 0.0  # what is public costs nothing
        session.ask("TRUE")
        price = whole.spent.epsilon
    with curator_of(schema, table, mq.Budget(epsilon=1.01 * price), SeededNoise(0)) as curator:
        for _ in range(2):
            assert mq.online(curator, alpha=0.05, rows=2_000).ask("TRUE").guarantee is not None
    with (
        curator_of(schema, table, mq.Budget(epsilon=0.9 * price), SeededNoise(0)) as curator,
        pytest.raises(BudgetError, match="Ask for alpha"),
    ):
        mq.online(curator, alpha=0.05, rows=2_000)
