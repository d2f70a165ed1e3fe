"""One protocol for one number and for a table of them."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.answers import Answered, OutputColumn, Row, tabulate
from maquette.query import Statement, parse

LOSS = mq.Loss(epsilon=0.5, delta=0.0, rho=None, units=1, currency="pure")
FREE = mq.Loss(epsilon=0.0, delta=0.0, rho=None, units=0, currency="pure")


def one(value: float, guarantee: str | None = "all of it") -> mq.Answer:
    return mq.Answer(
        value=value, low=value - 1, high=value + 1, confidence=0.9, count=value, source="measured", cost=LOSS,
        guarantee=guarantee,
    )  # fmt: skip


def table(*values: float) -> mq.AnswerTable:
    rows = tuple(Row((f"g{i}",), {"n": one(value)}) for i, value in enumerate(values))
    return mq.AnswerTable(("g",), ("n",), rows, LOSS)


@pytest.mark.parametrize("kind", [mq.Answer, mq.AnswerTable])
def test_both_kinds_have_every_part_of_the_protocol(kind: type) -> None:
    promised = {name for name in vars(Answered) if not name.startswith("_")} | {"_repr_html_"}
    fields = set(inspect.signature(kind).parameters)
    assert {name for name in promised if name not in fields and not hasattr(kind, name)} == set()


@pytest.mark.parametrize("answer", [one(3.0), table(3.0)])
def test_one_number_is_read_the_same_way(answer: Answered) -> None:
    assert (answer.value, answer.low, answer.high, answer.count) == (3.0, 2.0, 4.0, 3.0)
    assert (answer.source, answer.confidence, answer.guarantee) == ("measured", 0.9, "all of it")
    assert [number.value for number in answer.numbers] == [3.0]
    assert [float(row[answer.columns[-1]]) for row in answer.rows] == [3.0]
    assert answer.to_arrow().column(answer.columns[-1]).to_pylist() == [3.0]
    assert len(answer.to_pandas()) == 1
    doubled = answer.each(lambda number: one(2 * number.value))
    assert (doubled.value, doubled.cost) == (6.0, LOSS)
    again = answer.recalled(FREE)
    assert (again.source, again.cost, again.numbers[0].cost, again.value) == ("cache", FREE, FREE, 3.0)
    assert "3" in answer._repr_html_()


def test_a_changed_copy_is_that_of_the_standard_library() -> None:
    answer = one(3.0)
    assert answer.recalled(FREE) == replace(answer, source="cache", cost=FREE)
    assert hash(answer.recalled(FREE)) == hash(replace(answer, source="cache", cost=FREE))
    assert not any(
        "__post_init__" in vars(kind) or "__slots__" in vars(kind) for kind in (mq.Answer, mq.AnswerTable, Row)
    )


def test_groups_and_their_numbers_stay_together() -> None:
    schema = mq.Schema([mq.Category("a", ["x", "y"]), mq.Integer("b", 1, 3)])
    statement = parse(schema, "SELECT a, b, count(*) AS n FROM t GROUP BY a, b")
    assert isinstance(statement, Statement)
    values = np.arange(6.0).reshape(2, 3)
    found = tabulate(statement, {"n": OutputColumn(values, values - 1, values + 1)}, 0.9, LOSS, "measured")
    told = [(row.groups, row.values, row["n"].value, row["n"].low, row["n"].high) for row in found.rows]
    assert told == [
        ((a, str(b)), (a, b), values[i, j], values[i, j] - 1, values[i, j] + 1)
        for i, a in enumerate("xy")
        for j, b in enumerate((1, 2, 3))
    ]


@pytest.mark.parametrize("answer", [one(1 / 3), table(1 / 3)])
def test_fields_are_noted_on_every_number(answer: Answered) -> None:
    assert answer.noted(counted="10 rows").numbers[0].counted == "10 rows"
    settled = answer.settled(FREE)
    assert (settled.value, settled.count, settled.remaining, settled.bound) == (*[0.333333333333] * 2, FREE, "measured")
    assert answer.settled(FREE, counted="10 rows", wider=True) == settled.noted(counted="10 rows", wider=True)
    assert answer.numbers[0].value == 1 / 3, "the answer itself is as it was"
    guessed = answer.noted(guarantee=None, source="hypothesis")
    assert (guessed.bound, guessed.settled(FREE).bound) == ("measured", "logical")


def test_a_table_of_several_numbers_says_how_to_read_it() -> None:
    answer: Answered = table(1.0, 2.0)
    for part in ("value", "low", "high", "count"):
        refusal = rf"a table of 2 numbers; {part} is defined for a single number only; read \.rows"
        with pytest.raises(mq.QueryError, match=refusal):
            getattr(answer, part)
    assert answer.row("g1")["n"].value == 2.0
    with pytest.raises(KeyError, match="no group"):
        answer.row("nothing")
    kind = {"bound": "measured", "standing": "promised"}
    assert answer.as_dict() == {
        "rows": [{"g": "g0", "n": {"value": 1.0, "low": 0.0, "high": 2.0, **kind}},
                 {"g": "g1", "n": {"value": 2.0, "low": 1.0, "high": 3.0, **kind}}],
        "confidence": 0.9, "together": False,
    }  # fmt: skip


def test_a_table_promises_what_all_its_numbers_promise() -> None:
    full = table(1.0, 2.0)
    assert full.guarantee == "all of it"
    assert full.each(lambda number: one(number.value, None if number.value > 1 else "all of it")).guarantee is None


def test_a_single_number_has_one_row_of_no_group() -> None:
    (row,) = one(1.0).rows
    assert (row.groups, one(1.0).row(), one(1.0).columns) == ((), row, ("value",))
    with pytest.raises(KeyError, match="labelled by nothing"):
        one(1.0).row("f")


def test_the_rowset_has_the_columns_as_the_statement_lists_them() -> None:
    schema = mq.Schema([mq.Integer("age", 30, 31), mq.Category("sex", ["f", "m"], nullable=True)])
    rows = {"age": [30, 31] * 20, "sex": ["f", None] * 20}
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=9.0)) as curator:
        found = mq.answer(curator, "SELECT count(*) AS n, sex, age FROM t GROUP BY age, sex", epsilon=4.0).rowset
        alone = mq.answer(curator, "SELECT count(*) FROM t", epsilon=4.0).rowset
    assert found.names == ("n", "sex", "age")
    assert [(column.type, column.noisy) for column in found.columns] == [
        ("number", True), ("text", False), ("integer", False)
    ]  # fmt: skip
    assert [row[1:] for row in found] == [("f", 30), ("m", 30), (None, 30), ("f", 31), ("m", 31), (None, 31)]
    assert set(found["n"].standing) == {"promised"}
    assert (alone.names, len(alone)) == (("count(*)",), 1)
    assert alone.columns[0].low is not None


def test_guesses_look_different_from_promises() -> None:
    assert "guess" in str(one(3.0, None))
    assert "guess" not in str(one(3.0))
    assert "at 90%" in repr(one(3.0))
    assert "at 90%" not in repr(one(3.0, None))
    assert one(3.0, None).as_dict()["confidence"] is None
    drawn = table(1.0, 2.0).each(lambda number: one(number.value, None))._repr_html_()
    assert "stroke-dasharray" in drawn
    assert "without a promise" in drawn
    assert "stroke-dasharray" not in table(1.0, 2.0)._repr_html_()
    assert list(table(1.0).to_pandas()["n_standing"]) == ["promised"]


def test_a_chart_has_a_bar_for_every_interval() -> None:
    pytest.importorskip("altair")
    drawn = table(1.0, 2.0).plot().to_dict()
    assert len(drawn["data"]["values"]) == 2
    assert {record["high"] - record["low"] for record in drawn["data"]["values"]} == {2.0}


def test_a_public_number_of_rows_is_neither_noisy_nor_charged() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker")])
    table = mq.open_table({"age": [30, 40] * 500, "smoker": [True, False] * 500}, schema)  # far from where counts end
    public = mq.Curator(table, mq.Budget(epsilon=5.0), relation="replace")
    (number,) = mq.answer(public, "SELECT count(*) FROM people", epsilon=1.0).numbers
    assert (number.low, number.value, number.high, public.spent.epsilon) == (1_000, 1_000, 1_000, 0.0)
    told = mq.answer(public, "SELECT avg(age), count(*), count(*) FILTER (WHERE smoker) AS s FROM people", epsilon=1.0)
    average, rows, smokers = told.numbers
    assert (rows.low, rows.high) == (1_000, 1_000)
    assert smokers.low < smokers.high
    assert average.low < average.high
    assert public.spent.epsilon == 1.0
    private = mq.Curator(table, mq.Budget(epsilon=5.0))
    (number,) = mq.answer(private, "SELECT count(*) FROM people", epsilon=1.0).numbers
    assert number.low < number.high
    assert private.spent.epsilon == 1.0
    people = mq.open_table(
        {"age": [30] * 900, "smoker": [True] * 900, "who": range(900)}, schema, privacy_unit="who", max_contributions=2
    )
    several = mq.Curator(people, mq.Budget(epsilon=5.0), relation="replace")  # a person may have one row or two
    (number,) = mq.answer(several, "SELECT count(*) FROM people", epsilon=1.0).numbers
    assert number.low < number.high
