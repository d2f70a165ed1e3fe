"""Descriptions are a prefix code: whatever is asked, the shares of the doubt add up to at most one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

import maquette as mq
from maquette.estimates.residuals import subsets
from maquette.query import Marginal, Statement
from maquette.schema import Schema
from maquette.schema.columns import Column
from maquette.session.precision.description import KIND, Description, Named, _condition, described, weighed
from maquette.session.precision.view_of import view_of
from maquette.session.question import goals_of
from plain_statements import parse

Values = np.typing.NDArray[np.float64]

TINY = {
    "one": Schema([mq.Category("a", ["x"])]),
    "numbers": Schema([mq.Integer("a", 0, 2), mq.Boolean("b")]),
    "signs": Schema([mq.Number("a", edges=[-2.0, 0.0, 1.0], nullable=True), mq.Category("b", ["x", "y"])]),
    "three": Schema([mq.Boolean("a"), mq.Boolean("b"), mq.Category("c", ["x", "y"])]),
    "longer": Schema([mq.Integer("a", 0, 4), mq.Category("b", ["x", "y"])]),
}
each = pytest.mark.parametrize("schema", TINY.values(), ids=TINY)


def rows(column: Column) -> list[Values]:
    """Every condition on a column, and everything SUM and AVG make of its numbers on some of its levels."""
    functions = [np.ones(column.size)]
    if column.midpoints is not None:
        values = np.append(column.midpoints, 0.0) if column.nullable else column.midpoints
        for centre in (0.0, (column.midpoints.min() + column.midpoints.max()) / 2):
            moved = np.where(column.is_null(), 0.0, values - centre)
            largest = np.abs(moved).max() or 1.0
            functions += [moved / largest, np.abs(moved) / largest]
    made = (np.array(held) * f for held in itertools.product((0.0, 1.0), repeat=column.size) for f in functions)
    return list({(row + 0.0).tobytes(): row + 0.0 for row in made}.values())


def products(schema: Schema, columns: tuple[str, ...]) -> Iterator[Description]:
    for chosen in itertools.product(*(rows(schema[name]) for name in columns)):
        yield described(schema, {n: Named(schema[n], row[None, :]) for n, row in zip(columns, chosen, strict=True)})


def tables(schema: Schema, columns: tuple[str, ...]) -> Iterator[Description]:
    shape = schema.shape(columns)
    for chosen in itertools.product((0.0, 1.0), repeat=schema.cells(columns)):
        yield weighed(schema, columns, np.array(chosen).reshape(shape))


def share(bits: float) -> float:
    return math.pow(2.0, -bits)


@pytest.mark.thorough(fast=2)
@each
def test_all_codes_together_keep_krafts_inequality(schema: Schema) -> None:
    total = 0.0
    for columns in subsets(schema.names):
        named = [*products(schema, columns), *tables(schema, columns)]
        assert all(math.isfinite(one.bits) for one in named)
        assert {one.cells for one in named} == {schema.cells(columns)}
        total += sum(share(one.bits) + share(one.over_rows.bits) for one in named)
        total += sum(share(one.averaged(one, len(schema)).bits) for one in named) * len(schema)
        directions = named[0], named[0].over_rows, *[named[0].averaged(named[0], len(schema))] * len(schema)
        total += sum(share(one.set_bits + KIND) for one in directions)
    assert 0.4 < total <= 1.0


@pytest.mark.thorough(fast=3)
@each
def test_the_kinds_of_one_set_of_columns_take_their_part_each(schema: Schema) -> None:
    for columns in subsets(schema.names):
        of_set = [share(one.bits - one.set_bits) for one in products(schema, columns)]
        assert sum(of_set) <= 2 * share(KIND) * (1 + 1e-12)  # a cell, or a product
        assert sum(share(one.bits - one.set_bits) for one in tables(schema, columns)) == pytest.approx(share(KIND))
    sets = [next(tables(schema, columns)).set_bits for columns in subsets(schema.names)]
    assert sum(map(share, sets)) == pytest.approx(1.0)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(
    "schema",
    [*TINY.values(), Schema([mq.Integer("a", 0, 3), mq.Number("b", edges=[-2.0, -1.0, 0.0, 4.0], nullable=True)])],
    ids=[*TINY, "numbers alone"],
)
def test_products_that_are_no_cells_take_one_kind_together(schema: Schema) -> None:
    for columns in subsets(schema.names):
        cell = KIND + math.log2(schema.cells(columns))
        named = [one.bits - one.set_bits for one in products(schema, columns)]
        assert sum(abs(bits - cell) < 1e-9 for bits in named) >= schema.cells(columns)
        others = sum(map(share, named)) - schema.cells(columns) * share(cell)
        assert others <= share(KIND) * (1 + 1e-12)


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("levels", [1, 2, 3, 5, 9])
def test_the_conditions_of_a_column_take_no_more_than_all_of_it(levels: int) -> None:
    for column in (mq.Integer("a", 0, levels - 1), mq.Number("a", edges=[float(i - 2) for i in range(levels + 1)])):
        assert sum(share(_condition(column, row)) for row in rows(column)) <= 1.0 + 1e-12


@each
def test_a_ratio_is_named_by_its_kind_what_is_counted_and_which_column(schema: Schema) -> None:
    for one in products(schema, schema.names):
        assert one.over_rows.bits == KIND + one.bits
        averages = len(schema) * share(one.averaged(one, len(schema)).bits)
        assert averages <= share(KIND + one.bits) * (1 + 1e-12)
        assert one.averaged(one, len(schema)).cells == 2 * one.cells  # directions of both numbers


def test_what_sql_asks_of_products_has_a_name() -> None:
    schema = Schema(
        [mq.Integer("age", 0, 99, width=5), mq.Number("gain", edges=[-9.0, 0.0, 5.0], nullable=True), mq.Boolean("b")]
    )
    texts = [
        "SELECT sum(age), avg(age), sum(gain), avg(gain) FROM t WHERE b AND age >= 20",
        "SELECT age, avg(gain), count(gain) FROM t WHERE age < 50 GROUP BY age",
        "SELECT b, avg(age) FROM t WHERE age BETWEEN 10 AND 14 OR age >= 60 GROUP BY b",
        "SELECT CASE WHEN age < 20 THEN 'x' ELSE 'y' END AS c, sum(gain) FROM t GROUP BY c",
    ]
    for text in texts:
        statement = parse(schema, text)
        assert isinstance(statement, Statement)
        for output in statement.outputs:
            for goal in goals_of(output):
                assert math.isfinite(view_of(goal.marginal, signed=goal.signed).description.bits), (text, goal)


def test_weights_that_no_code_names_have_directions_only() -> None:
    schema = TINY["numbers"]
    assert weighed(schema, ("a",), np.array([0.3, 1.0, 0.0])).bits == math.inf
    assert described(schema, {"a": Named(schema["a"], np.array([[0.3, 1.0, 0.0]]))}).bits == math.inf
    assert weighed(schema, ("a",), np.array([-1.0, 1.0, 0.0])).bits == math.inf


def test_a_cell_of_a_group_by_is_named_as_a_cell_whatever_the_condition_on_its_column() -> None:
    schema = TINY["longer"]
    plain = view_of(Marginal(schema, ["a"])).description
    assert view_of(Marginal(schema, ["a"], mq.where(schema, "a IN (0, 2, 4)"))).description == plain
    assert plain.bits == pytest.approx(plain.set_bits + KIND + math.log2(5))


def test_averages_with_the_same_numbers_above_and_others_below_are_told_apart() -> None:
    """The middle level weighs nothing in an average, but whether its rows count depends on the condition."""
    schema = TINY["numbers"]
    asked = [
        parse(schema, f"SELECT avg(a) FROM t WHERE {where}").outputs[0]
        for where in ("a IN (0, 1, 2)", "a IN (0, 2)", "a <> 1 OR b")
    ]
    above = [view_of(output.measure.marginal, signed=output.measure.signed) for output in asked if output.measure]
    below = [view_of(output.per) for output in asked if output.per is not None]
    assert len({view.description for view in above}) == 1
    names = {
        (len(view.columns), view.description.averaged(over.description, len(schema)).bits)
        for view, over in zip(below, above, strict=True)
    }
    assert len(names) == 3
