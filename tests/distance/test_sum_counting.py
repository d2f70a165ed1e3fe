"""Audit of counting sums over columns from the counts of each: every neighbour of tiny tables, and broken variants."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from gate_tools import Rows, compiled, exact_by_records, tallied
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, compile as compile_module
from maquette.curator.compile import _summed as compile_summed
from maquette.curator.compiled import Summed, tally
from maquette.curator.engines.api import Engine
from maquette.curator.table import engine_of
from maquette.query import Box, LinearQuery, Marginal, additive
from maquette.query.moves import Moves
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


@pytest.mark.thorough(fast=1)
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


RIGHT = Summed.values


def _twice(self: Summed, engine: Engine) -> Any:
    """A column is counted twice."""
    return RIGHT(self, engine) + int(engine.counts(["a"]) @ self.parts["a"])


def _with(self: Summed, **changed: Any) -> Summed:
    return dataclasses.replace(self, **changed)


def _coarse(self: Summed, engine: Engine) -> Any:
    """Each part is rounded up on its own, to multiples of 2^-18."""
    coarse = {name: -(-part // 4) * 4 for name, part in self.parts.items()}
    return RIGHT(_with(self, parts=coarse, tops=dict.fromkeys(coarse, 2**30)), engine)


def _no_constant(self: Summed, engine: Engine) -> Any:
    """What every row weighs is forgotten."""
    return RIGHT(_with(self, constant=0), engine)


def _plus_rows(self: Summed, engine: Engine) -> Any:
    """A row weighs its sum and one more."""
    return RIGHT(self, engine) + engine.rows * 2**20


def _reversed(self: Summed, engine: Engine) -> Any:
    """Levels are read backwards."""
    return RIGHT(_with(self, parts={name: part[::-1] for name, part in self.parts.items()}), engine)


def _unpriced(self: Summed, engine: Engine) -> Any:
    """Parts are added that nobody priced, and nothing clamps them."""
    total = self.constant * engine.rows
    return np.array(total + sum(int(engine.counts([name]) @ (2 * part)) for name, part in self.parts.items()))


@pytest.mark.parametrize("broken", [_twice, _coarse, _no_constant, _plus_rows, _reversed, _unpriced])
def test_the_gate_catches_broken_counting(broken: Callable[..., Any]) -> None:
    with mock.patch.object(Summed, "values", broken), pytest.raises(AssertionError):
        gate("add-remove")


def test_the_gate_catches_a_sensitivity_that_forgets_a_column() -> None:
    def short(facts: Any, weight: LinearQuery) -> Any:
        made = compile_summed(facts, weight)
        assert made is not None
        return _with(made, moves=Moves(made.moves.low, made.constant + max(made.tops.values()), 1))

    with mock.patch.object(compile_module, "_summed", short), pytest.raises(AssertionError):
        gate("add-remove")


def test_parts_that_changed_after_pricing_are_clamped_to_what_was_priced() -> None:
    """A row adds no more than was paid for, even if the tables behind it were not those that were priced."""
    sound = compiled(Marginal(SCHEMA, (), QUERIES[0]))
    assert isinstance(sound, Summed)
    wild = _with(sound, parts={name: part * 1000 - 7 for name, part in sound.parts.items()})
    moved = [int(tally(Rows(SCHEMA, [point]), wild)) for point in POINTS]
    assert min(moved) >= sound.moves.low
    assert max(moved) <= sound.moves.high


def test_columns_and_records_give_the_same_whole_number() -> None:
    rng = np.random.default_rng(1)
    schema = Schema([Integer(f"c{i}", 0, 6) for i in range(9)])
    rows = rng.integers(0, 7, (5000, 9))
    table = mq.open_table({f"c{i}": rows[:, i] for i in range(9)}, schema)
    engine = engine_of(table)
    for _ in range(20):
        query = additive(schema, {c.name: rng.random(7) for c in schema})
        total = Marginal(schema, (), query)
        by_record = sum(int(exact_by_records(total, block)) for block in engine.blocks())
        with mock.patch.object(compile_module, "_summed", return_value=None):
            by_record_too = int(tallied(engine, total))
        assert int(tallied(engine, total)) == by_record == by_record_too


def test_sums_that_are_not_whole_are_counted_as_before() -> None:
    thirds = LinearQuery(SCHEMA, [t.scaled(1 / 3) for q in ("a = 1", "b = 2") for t in mq.where(SCHEMA, q).terms])
    assert thirds.sum is not None
    assert thirds.sum.whole(thirds.grid) is None
    rows = (POINTS[5], POINTS[3])
    assert released(rows, "replace", thirds)[0] == sum(weight(thirds, row) for row in rows)
