"""Audit of counting sums over columns from the counts of each: every neighbour of tiny tables, and broken variants."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from maquette.audit import ScriptedNoise
from maquette.curator import Curator
from maquette.curator import table as table_module
from maquette.curator.table import Engine
from maquette.query import Box, LinearQuery, Marginal, additive
from maquette.schema import Integer, Schema

SCHEMA = Schema([Integer("a", 0, 1), Integer("b", 0, 2)])
POINTS = list(itertools.product(range(2), range(3)))
QUERIES = (
    additive(SCHEMA, {"a": [0, 1], "b": [0, 0.5, 1]}),
    additive(SCHEMA, {"a": [1 / 3, 1], "b": [1, 1 / 7, 0.2]}, shares={"a": 0.3, "b": 0.6}),
    ~additive(SCHEMA, {"a": [0.1, 0.9], "b": [0.3, 0.3, 0.7]}),
    Box(SCHEMA).distance([1, 0.4]),
)
Row = tuple[int, int]
Release = Callable[[tuple[Row, ...], str, LinearQuery], tuple[int, Fraction]]


@functools.cache
def opened(rows: tuple[Row, ...]) -> mq.PrivateTable:
    return mq.open_table({"a": [r[0] for r in rows], "b": [r[1] for r in rows]}, SCHEMA)


def released(rows: tuple[Row, ...], relation: str, query: LinearQuery) -> tuple[int, Fraction]:
    """The door's answer with no noise, in units of 1/grid, and the variance it asked for."""
    noise = ScriptedNoise([0])
    budget = mq.Budget(rho=1e3, delta=1e-9)
    with Curator(opened(rows), budget, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
        measured = curator.measure(query, rho=0.5, noise="gaussian")
    (call,) = noise.calls
    return round(float(measured.values) * query.grid), Fraction(call[1])


def neighbours(relation: str) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    for base in ((POINTS[0],), (POINTS[0], POINTS[5]), (POINTS[2], POINTS[3], POINTS[3])):
        if relation == "add-remove":
            yield from ((base, (*base, point)) for point in POINTS)
        else:
            yield from (((*base, one), (*base, other)) for one, other in itertools.permutations(POINTS, 2))


def weight(query: LinearQuery, row: Row) -> int:
    """By definition: the query's weight of a record, rounded to the grid."""
    return round(float(query.evaluate(np.array([row]))[0]) * query.grid)


def gate(relation: str) -> None:
    """The answer is the sum over rows; noise of rho 1/2 has at least the variance of the largest squared move."""
    for query in QUERIES:
        assert query.grid == 2**20
        door = functools.cache(released)
        for one, other in neighbours(relation):
            (before, variance), (after, same) = (door(rows, relation, query) for rows in (one, other))
            assert before == sum(weight(query, row) for row in one)
            assert variance == same
            assert (after - before) ** 2 <= variance * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_row_moves_a_sum_by_its_weight_and_the_noise_covers_it(relation: str) -> None:
    gate(relation)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_noise_is_no_larger_than_the_largest_move(relation: str) -> None:
    for query in QUERIES:
        door = functools.cache(released)
        moves = [
            abs(door(one, relation, query)[0] - door(other, relation, query)[0]) for one, other in neighbours(relation)
        ]
        variance = released((POINTS[0],), relation, query)[1]
        assert max(moves) ** 2 >= variance * Fraction(999, 1000)


Parts = Mapping[str, np.ndarray]
RIGHT = table_module._tally_sum


def _twice(engine: Engine, constant: int, parts: Parts) -> Any:
    """A column is counted twice."""
    return RIGHT(engine, constant, parts) + int(engine.counts(["a"]) @ parts["a"])


def _coarse(engine: Engine, constant: int, parts: Parts) -> Any:
    """Each part is rounded up on its own, to multiples of 2^-18."""
    return RIGHT(engine, constant, {name: -(-part // 4) * 4 for name, part in parts.items()})


def _no_constant(engine: Engine, constant: int, parts: Parts) -> Any:
    """What every row weighs is forgotten."""
    return RIGHT(engine, 0, parts)


def _plus_rows(engine: Engine, constant: int, parts: Parts) -> Any:
    """A row weighs its sum and one more."""
    return RIGHT(engine, constant, parts) + engine.rows * 2**20


def _reversed(engine: Engine, constant: int, parts: Parts) -> Any:
    """Levels are read backwards."""
    return RIGHT(engine, constant, {name: part[::-1] for name, part in parts.items()})


@pytest.mark.parametrize("broken", [_twice, _coarse, _no_constant, _plus_rows, _reversed])
def test_the_gate_catches_broken_counting(broken: Callable[..., Any]) -> None:
    with mock.patch.object(table_module, "_tally_sum", broken), pytest.raises(AssertionError):
        gate("add-remove")


def test_the_gate_catches_a_sensitivity_that_forgets_a_column() -> None:
    def short(self: LinearQuery) -> tuple[int, int]:
        whole = self.sum.whole(self.grid)  # type: ignore[union-attr]
        assert whole is not None
        return whole[0], whole[0] + max(int(part.max()) for part in whole[1].values())

    with mock.patch.object(LinearQuery, "whole_bounds", property(short)), pytest.raises(AssertionError):
        gate("add-remove")


def test_columns_and_records_give_the_same_whole_number() -> None:
    rng = np.random.default_rng(1)
    schema = Schema([Integer(f"c{i}", 0, 6) for i in range(9)])
    rows = rng.integers(0, 7, (5000, 9))
    table = mq.open_table({f"c{i}": rows[:, i] for i in range(9)}, schema)
    engine = table_module.engine_of(table)
    for _ in range(20):
        query = additive(schema, {c.name: rng.random(7) for c in schema})
        total = Marginal(schema, (), query)
        by_record = sum(total.tally_records(block) for block in engine.blocks())
        assert table_module.tally(engine, total) == by_record


def test_sums_that_are_not_whole_are_counted_as_before() -> None:
    thirds = LinearQuery(SCHEMA, [t.scaled(1 / 3) for q in ("a = 1", "b = 2") for t in mq.where(SCHEMA, q).terms])
    assert thirds.sum is not None
    assert thirds.sum.whole(thirds.grid) is None
    rows = (POINTS[5], POINTS[3])
    assert released(rows, "replace", thirds)[0] == sum(weight(thirds, row) for row in rows)
