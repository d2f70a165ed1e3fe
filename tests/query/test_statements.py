"""Statements give, group by group, what DuckDB gives on the raw rows."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from query_checks import conditions, encoded, engine_rows, name_sql, schemas, tables

from gate_tools import exact, exact_by_records
from maquette.errors import QueryError
from maquette.query import Buckets, LinearQuery, Marginal, Measure, Statement, where
from maquette.query.linear import FINE
from maquette.schema import Boolean, Category, Integer, Number, Schema
from plain_statements import parse

PEOPLE = Schema(
    [
        Integer("age", 0, 9),
        Boolean("smoker"),
        Category("sex", ["f", "m"], nullable=True),
        Integer("balance", -3, 5, nullable=True),
        Integer("sign", 0, 1),
    ]
)


def totals(marginal: Marginal, records: np.ndarray) -> np.ndarray:
    """The cells of a marginal from records, which must be those from counts over its columns."""
    positions = [marginal.schema.position(name) for name in marginal.columns]
    cells, found = np.unique(records[:, positions], axis=0, return_counts=True)
    counts = np.zeros(marginal.schema.shape(marginal.columns), dtype=np.int64)
    counts[tuple(cells.T)] = found if positions else len(records)
    values = exact_by_records(marginal, records)
    assert (values == exact(marginal, records)).all()
    return values / marginal.grid


def value_of(measure: Measure, records: np.ndarray) -> np.ndarray:
    cells = totals(measure.marginal, records)
    return measure.scale * (cells[..., 1] - cells[..., 0] if measure.signed else cells)


def answers(statement: Statement, records: np.ndarray) -> dict[tuple[str, ...], list[float | None]]:
    """The label of every group, and its aggregates in the order of the select list; an average of nothing is None."""
    groups = Marginal(statement.schema, statement.axes)
    tables = []
    for output in statement.outputs:
        if output.measure is not None:
            values = value_of(output.measure, records)
            number = np.ones(groups.shape) if output.per is None else totals(output.per, records)
            assert values.shape == number.shape == groups.shape
            tables.append((values + output.measure.centre * number, number))
    return {
        tuple(names[i] for names, i in zip(groups.labels, cell, strict=True)): [
            float(values[cell] / number[cell]) if number[cell] else None for values, number in tables
        ]
        for cell in np.ndindex(groups.shape)
    }


def label(value: Any) -> str:
    return "NULL" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@st.composite
def cases(draw: st.DrawFn, schema: Schema) -> str:
    whens = draw(st.lists(st.tuples(conditions(schema), st.sampled_from("pqr")), min_size=1, max_size=3))
    otherwise = draw(st.sampled_from(["", " ELSE 'p'", " ELSE 's'"]))
    return "CASE " + " ".join(f"WHEN {c.text} THEN '{name}'" for c, name in whens) + otherwise + " END"


@st.composite
def aggregates(draw: st.DrawFn, schema: Schema) -> str:
    functions = {column.name: ["count"] for column in schema}
    for column in schema:
        if isinstance(column, Integer):
            functions[column.name] = ["count", "sum", "avg"]
    chosen = draw(st.sampled_from([("count", "*"), *((f, name_sql(n)) for n, fs in functions.items() for f in fs)]))
    keep = draw(st.none() | conditions(schema))
    return f"{chosen[0]}({chosen[1]})" + ("" if keep is None else f" FILTER (WHERE {keep.text})")


@pytest.mark.thorough
@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_statements_agree_with_an_engine_on_raw_rows(data: st.DataObject) -> None:
    schema = data.draw(schemas(fine=True, most=3))
    table = data.draw(tables(schema))
    groups = [name_sql(name) for name in data.draw(st.lists(st.sampled_from(schema.names), max_size=2, unique=True))]
    case = data.draw(st.none() | cases(schema))
    groups += [] if case is None else [case]
    asked = data.draw(st.lists(aggregates(schema), min_size=1, max_size=3, unique=True))
    titles = [f"{body} AS g{i}" if body == case else body for i, body in enumerate(groups)]
    items = data.draw(st.permutations([*titles, *asked]))
    keys = [
        data.draw(st.sampled_from([body, str(items.index(title) + 1), *([f"g{i}"] if body == case else [])]))
        for i, (body, title) in enumerate(zip(groups, titles, strict=True))
    ]
    keep = data.draw(st.none() | conditions(schema))
    text = f"SELECT {', '.join(items)} FROM raw"
    text += "" if keep is None else f" WHERE {keep.text}"
    text += f" GROUP BY {', '.join(keys)}" if keys else ""

    statement = parse(schema, text, table="RAW")
    ours = answers(statement, encoded(schema, table))
    where_is = {output.axis: i for i, output in enumerate(statement.outputs) if output.kind == "group"}
    theirs = {}
    for row in engine_rows(table, text):
        key = tuple(label(row[where_is[axis]]) for axis in range(len(groups)))
        theirs[key] = [value for value, output in zip(row, statement.outputs, strict=True) if output.measure]
    assert theirs.keys() <= ours.keys()
    for key, values in ours.items():
        for i, value in enumerate(values):
            expected = theirs[key][i] if key in theirs else None
            tolerance = 10 * table.num_rows / FINE  # whole-number weights of 1/FINE
            assert math.isclose(value or 0.0, expected or 0.0, abs_tol=tolerance), (text, key)


def test_outputs_describe_the_select_list() -> None:
    statement = parse(PEOPLE, 'SELECT avg(age) AS "mean age", SEX, count(*), sum(balance) FROM people GROUP BY sex')
    assert [(o.title, o.kind, o.axis) for o in statement.outputs] == [
        ("mean age", "avg", None),
        ("sex", "group", 0),
        ("count(*)", "count", None),
        ("sum(balance)", "sum", None),
    ]
    assert statement.axes == ("sex",)
    assert statement.table == "people"


def test_a_count_and_an_average_of_a_known_column_share_a_marginal() -> None:
    shared = parse(PEOPLE, "SELECT count(*), avg(age), count(age) FROM t GROUP BY sex")
    assert len(shared.marginals) == 2
    apart = parse(PEOPLE, "SELECT count(*), avg(balance), count(balance) FROM t GROUP BY sex")
    assert len(apart.marginals) == 3


def test_a_signed_sum_adds_an_axis_of_signs_last() -> None:
    (output,) = parse(PEOPLE, "SELECT sum(balance) FROM t GROUP BY sign, sex").outputs
    assert output.measure is not None
    axis = output.measure.marginal.axes[-1]
    assert isinstance(axis, Buckets)
    assert axis.labels == ("negative", "positive")
    assert (output.measure.signed, output.measure.scale) == (True, 5.0)
    assert output.measure.marginal.shape == (2, 3, 2)
    (unsigned,) = parse(PEOPLE, "SELECT sum(age) FROM t GROUP BY sex").outputs
    assert unsigned.measure is not None
    assert (unsigned.measure.signed, unsigned.measure.scale) == (False, 9.0)


def test_an_average_is_measured_from_the_middle_of_the_range() -> None:
    (output,) = parse(PEOPLE, "SELECT avg(age) FROM t").outputs
    assert output.measure is not None
    assert (output.measure.centre, output.measure.scale, output.measure.signed) == (4.5, 4.5, True)


def test_a_sum_of_nothing_but_zeros_is_zero() -> None:
    schema = Schema([Integer("zero", 0, 0, nullable=True), Number("middle", edges=[-1, 1])])
    records = np.zeros((7, 2), dtype=np.int32)
    for name in schema.names:
        (output,) = parse(schema, f"SELECT avg({name}) FROM t").outputs
        assert output.measure is not None
        assert output.per is not None
        assert value_of(output.measure, records) == 0.0
        assert totals(output.per, records) == 7


def test_every_declared_group_is_returned_in_schema_order() -> None:
    statement = parse(PEOPLE, "SELECT count(*) FROM t WHERE age > 3 GROUP BY sex, age")
    assert statement.marginals[0].shape == (3, 10)
    assert statement.marginals[0].labels[0] == ("f", "m", "NULL")


def test_case_takes_the_first_match_and_merges_equal_labels() -> None:
    case = "CASE WHEN age < 3 THEN 'end' WHEN age < 7 THEN 'mid' WHEN smoker THEN 'end' END"
    (axis,) = parse(PEOPLE, f"SELECT {case} AS g, count(*) FROM t GROUP BY g").axes
    assert isinstance(axis, Buckets)
    assert (axis.name, axis.labels) == ("g", ("end", "mid", "NULL"))
    assert axis.parts == tuple(
        where(PEOPLE, part)
        for part in ("age < 3 OR age >= 7 AND smoker", "age BETWEEN 3 AND 6", "age >= 7 AND NOT smoker")
    )


def test_a_case_that_leaves_no_row_out_has_no_null_bucket() -> None:
    (axis,) = parse(
        PEOPLE, "SELECT count(*) FROM t GROUP BY CASE WHEN age < 3 THEN 'a' WHEN age >= 3 THEN 'b' END"
    ).axes
    assert isinstance(axis, Buckets)
    assert axis.labels == ("a", "b")
    (axis,) = parse(
        PEOPLE, "SELECT count(*) FROM t GROUP BY CASE WHEN sex = 'f' THEN 'a' WHEN sex <> 'f' THEN 'b' END"
    ).axes
    assert isinstance(axis, Buckets)
    assert axis.labels == ("a", "b", "NULL")


def test_a_case_is_recognised_by_what_it_means() -> None:
    one, other = (f"CASE WHEN {text} THEN 'a' ELSE 'b' END" for text in ("NOT age >= 5", "age < 5"))
    assert parse(PEOPLE, f"SELECT {one} AS half, count(*) FROM t GROUP BY {other}").outputs[0].axis == 0


def test_the_table_must_be_the_one_asked_about() -> None:
    assert parse(PEOPLE, 'SELECT count(*) FROM "People"', table="people").table == "People"
    with pytest.raises(QueryError, match="there is no table 'others'; this is about 'people'"):
        parse(PEOPLE, "SELECT count(*) FROM others", table="people")


def test_overlapping_buckets_are_refused_and_disjoint_ones_are_not() -> None:
    def parts(*texts: str) -> Buckets:
        return Buckets("b", tuple(map(str, range(len(texts)))), tuple(where(PEOPLE, text) for text in texts))

    assert len(parts(*(f"age = {i}" for i in range(10))).parts) == 10
    assert len(parts("age < 3 AND smoker", "age < 3 AND NOT smoker", "FALSE").parts) == 3
    for overlapping in (["age < 3", "age < 2"], ["age < 3", "smoker"], ["TRUE", "sex IS NULL"], ["smoker"] * 3):
        with pytest.raises(QueryError, match="overlap"):
            parts(*overlapping)


def test_a_condition_and_what_it_leaves_out_are_two_buckets() -> None:
    for text in ("age < 3", "age < 3 AND smoker", "age < 3 OR smoker", "TRUE", "FALSE"):
        held = where(PEOPLE, text)
        for sides in ((~held, held), (held, ~held)):
            assert Buckets("b", ("one", "other"), sides).parts == sides
            assert Marginal(PEOPLE, [Buckets("b", ("one", "other"), sides)]).columns == held.columns
    half = LinearQuery.product(PEOPLE, {"smoker": [0.5] * PEOPLE["smoker"].size})
    for sides in ((~half, half), (half, ~half)):
        with pytest.raises(QueryError, match="must be a predicate"):
            Buckets("b", ("one", "other"), sides)


def test_rows_in_no_bucket_are_not_counted() -> None:
    ends = Buckets("ends", ("low", "high"), (where(PEOPLE, "age < 2"), where(PEOPLE, "age = 9 AND smoker")))
    marginal = Marginal(PEOPLE, [ends, "sex"], where(PEOPLE, "balance IS NOT NULL"))
    rows = [(0, 0, 0, 1, 0), (1, 1, 2, 0, 0), (5, 1, 0, 0, 0), (9, 1, 1, 2, 1), (9, 0, 1, 2, 0), (0, 1, 0, 9, 1)]
    assert totals(marginal, np.array(rows, dtype=np.int32)).tolist() == [[1, 0, 1], [0, 1, 0]]


def test_different_questions_have_different_keys() -> None:
    texts = [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t GROUP BY sex",
        "SELECT count(*) FROM t GROUP BY age",
        "SELECT count(*) FROM t GROUP BY sex, age",
        "SELECT count(*) FROM t GROUP BY age, sex",
        "SELECT count(balance) FROM t",
        "SELECT sum(age) FROM t",
        "SELECT sum(balance) FROM t",
        "SELECT count(*) FROM t GROUP BY CASE WHEN smoker THEN 'a' ELSE 'b' END",
        "SELECT count(*) FROM t GROUP BY CASE WHEN NOT smoker THEN 'a' ELSE 'b' END",
    ]
    keys = Counter(parse(PEOPLE, text).marginals[0].key for text in texts)
    assert max(keys.values()) == 1
