"""A condition means the same as an expression, as text, on cells, on records, as SQL, and to DuckDB on raw rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from query_checks import conditions, encoded, engine_rows, schemas, tables

from gate_tools import exact_by_records
from maquette.errors import QueryError
from maquette.query import LinearQuery, col, parse, question, where
from maquette.query.expression import And, Or
from maquette.query.sql.statement import Statement
from maquette.schema import Boolean, Category, Integer, Number, Schema

PEOPLE = Schema(
    [
        Integer("age", 0, 99),
        Boolean("smoker"),
        Category("sex", ["f", "m"], nullable=True),
        Boolean("ill", nullable=True),
    ]
)


def cells_at(query: LinearQuery, records: np.ndarray) -> np.ndarray:
    levels = tuple(records[:, query.schema.position(name)] for name in query.columns)
    return np.broadcast_to(query.weights()[levels], len(records))


def by_engine(table: pa.Table, *expressions: str) -> np.ndarray:
    """One row of numbers per expression."""
    asked = ", ".join(f"CAST({expression} AS DOUBLE)" for expression in expressions)
    return np.array(engine_rows(table, f"SELECT {asked} FROM raw")).T


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_all_readings_of_a_condition_agree(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    table = data.draw(tables(schema))
    condition = data.draw(conditions(schema))
    records = encoded(schema, table)
    query = where(schema, condition.expression)
    expected, weights = by_engine(table, f"(({condition.text}) IS TRUE)", query.sql())

    assert query == where(schema, condition.text)
    assert query.is_predicate
    assert (query.evaluate(records) == expected).all()
    assert (cells_at(query, records) == expected).all()
    assert (weights == expected).all()
    assert (by_engine(schema.decode(records), query.sql()) == expected).all()
    statement = parse(schema, f"SELECT count(*) FROM t WHERE {condition.text}")
    assert exact_by_records(statement.marginals[0], records) == expected.sum()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_complement_of_a_query_weighs_the_rest(data: st.DataObject) -> None:
    schema = data.draw(schemas(most=3))
    query = where(schema, data.draw(conditions(schema)).expression)
    assert (query.weights(schema.names) + (~query).weights(schema.names) == 1.0).all()


def test_operators_build_the_conditions_that_text_does() -> None:
    same = {
        "age >= 65 AND smoker": (col("age") >= 65) & col("smoker"),
        "NOT (sex = 'f') OR sex IS NULL": ~(col("sex") == "f") | col("sex").is_null(),
        "sex <> 'f'": col("sex") != "f",
        "age IN (1, 2) AND NOT smoker": col("age").isin([1, np.int64(2)]) & ~col("smoker"),
        "age BETWEEN 18 AND 64": col("age").between(18, 64.0),
        "10 < age": 10 < col("age"),  # noqa: SIM300
        "age <= 3 AND age < 5 AND age > 1": (col("age") <= 3) & (col("age") < 5) & (col("age") > 1),
    }
    for text, expression in same.items():
        assert where(PEOPLE, text) == where(PEOPLE, expression), text
    assert len({where(PEOPLE, text) for text in same}) == len(same)


def test_a_missing_value_satisfies_neither_a_condition_nor_its_negation() -> None:
    on_sex = ("sex = 'f'", "sex <> 'f'", "sex IN ('f', 'm')", "sex NOT IN ('f')", "NOT (sex = 'f' OR sex = 'm')")
    for column, texts in {"sex": on_sex, "ill": ("ill", "NOT ill", "ill = FALSE", "ill <> TRUE")}.items():
        for text in texts:
            for query in (where(PEOPLE, text), where(PEOPLE, f"NOT ({text})")):
                assert query.weights([column])[-1] == 0.0, text
    assert where(PEOPLE, "sex IS NULL OR sex IS NOT NULL") == LinearQuery.constant(PEOPLE)
    assert where(PEOPLE, "sex = 'f' OR sex <> 'f'") == where(PEOPLE, "sex IS NOT NULL")


def test_names_match_without_case_unless_quoted_or_ambiguous() -> None:
    assert where(PEOPLE, "AGE >= 65 and Smoker") == where(PEOPLE, 'age >= 65 AND "smoker"')
    with pytest.raises(QueryError, match="there is no column 'Age'"):
        where(PEOPLE, '"Age" >= 65')
    twins = Schema([Boolean("Up"), Boolean("up"), Boolean("DOWN"), Boolean("down"), Boolean("date")])
    assert where(twins, "Up").columns == ("Up",)
    assert where(twins, "date").columns == ("date",)
    with pytest.raises(QueryError, match=r'may be "DOWN", "down".*quote'):
        where(twins, "Down")


def test_long_chains_on_one_column_stay_one_factor() -> None:
    wide = Schema([Integer("age", 0, 999), Boolean("smoker"), Category("sex", ["f", "m"])])
    chain = " OR ".join(f"age = {i}" for i in range(0, 800, 2))
    assert len(where(wide, chain).terms) == 1
    mixed = " OR ".join(f"age = {i} OR sex = 'f'" for i in range(0, 400, 2))
    assert len(where(wide, mixed).terms) <= 2
    disjoint = " OR ".join(f"(age = {i} AND sex = '{'fm'[i % 2]}')" for i in range(150))
    assert len(where(wide, disjoint).terms) <= 2


def test_a_question_may_touch_very_many_columns() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(1200)])
    every = where(schema, And(tuple(col(name) for name in schema.names)))
    some = where(schema, ~Or(tuple(~col(name) for name in reversed(schema.names))))
    assert every == some
    assert len(every.columns) == 1200
    assert every.evaluate(np.ones((1, 1200), dtype=np.int32)) == 1.0


def test_a_linear_query_passes_through_unless_it_is_of_another_schema() -> None:
    query = where(PEOPLE, "smoker")
    assert where(PEOPLE, query) is query
    with pytest.raises(QueryError, match="another schema"):
        where(Schema([Boolean("smoker")]), query)


def test_question_tells_statements_from_conditions() -> None:
    assert isinstance(question(PEOPLE, "/* how many */ select count(*) from people"), Statement)
    assert question(PEOPLE, "smoker -- yes") == question(PEOPLE, col("smoker")) == where(PEOPLE, "smoker")


def test_between_on_real_numbers_includes_the_top_edge_only_where_it_can() -> None:
    schema = Schema([Number("bmi", edges=[10, 18.5, 25, 60])])
    assert where(schema, "bmi BETWEEN 18.5 AND 60") == where(schema, "bmi >= 18.5")
    with pytest.raises(QueryError, match=r"use bmi >= 10 AND bmi < 25"):
        where(schema, col("bmi").between(10, 25))
