"""Products of values at the wall: exact, clamped row by row, and no more lost on any neighbour than was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import lose_no_more_than_charged, one_contribution, patched
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, compiled, factors
from maquette.curator.compile import Compiler
from maquette.curator.compiled import Multiplied
from maquette.curator.engines import encoded
from maquette.curator.factors import Factor
from maquette.errors import QueryError
from maquette.query import Moves, ValueProducts, forms
from maquette.query.forms import LevelNumbers, ValueSteps
from maquette.schema import Boolean, Integer, Number, Schema

SCHEMA = Schema([
    Integer("gain", -20, 99, width=40, atoms=[0], nullable=True, missing=["?"]),
    Number("score", edges=[0, 1, 5], precision=1),
    Boolean("a"),
])  # fmt: skip
POINTS = [("-50", "0.3", True), ("0", "9", False), ("77", "4.96", True), ("?", "0", False), ("120", "2.5", True)]
BASE = ((POINTS[0],), (POINTS[3],))
BUDGET = mq.Budget(epsilon=9e3)
SETTINGS = [("add-remove", 1), ("replace", 1), ("add-remove", 2), ("replace", 2), ("add-remove", 3), ("replace", 3)]
FEW = [POINTS[0], POINTS[3], POINTS[4]]  # the least value, a missing one, the largest
GAIN, SCORE = ValueSteps("gain", -20, 99, 40, 3), ValueSteps("score", 0, 50, 25, 1)
SIGN = LevelNumbers("a", (-2, 5))


def asked() -> list[ValueProducts]:
    holds = mq.where(SCHEMA, "a")
    off = ValueSteps("gain", 10, 30, -60, 5)  # 0 is no value of this factor, and no square of it is below 196
    return [
        ValueProducts(SCHEMA, [GAIN, GAIN]),
        ValueProducts(SCHEMA, [off, off], axes=["a"]),
        ValueProducts(SCHEMA, [GAIN, SCORE], where=holds),
        ValueProducts(SCHEMA, [SCORE, SIGN]),
        ValueProducts(SCHEMA, [SCORE, SCORE], axes=["a"], where=mq.where(SCHEMA, "gain > 0")),
        ValueProducts(SCHEMA, [off, SIGN]),
    ]


def gate(settings: Any = tuple(SETTINGS)) -> None:
    for relation, m in settings:
        lose_no_more_than_charged(SCHEMA, asked(), BASE, POINTS if m < 3 else FEW, [(relation, m)])


@pytest.mark.thorough
def test_products_of_values_lose_no_more_than_they_are_charged() -> None:
    gate()


@contextmanager
def _not_clamped() -> Iterator[None]:
    """Values, factors and products are all clamped, and one of these is enough: no row may add more."""
    with ExitStack() as stack:
        stack.enter_context(patched(encoded, "clamped", lambda values, amount: values.astype(np.int64) - amount.centre))
        for module in (compiled, factors):
            stack.enter_context(patched(module, "clamped", lambda values, low, high: values))
        yield


@contextmanager
def _priced(change: Callable[[int], int]) -> Iterator[None]:
    """Another range of products is priced than is added up."""
    original = ValueProducts.moves.fget  # type: ignore[attr-defined]

    def moves(self: ValueProducts) -> Moves:
        known = original(self)
        return Moves(change(known.low), change(known.high), known.cells, everywhere=known.everywhere)

    with (
        patched(compiled, "clamped", lambda values, low, high: values),
        patched(ValueProducts, "moves", property(moves)),
    ):
        yield


def _values_changed(change: Callable[[Any], Any]) -> Any:
    original = Multiplied.values
    return patched(Multiplied, "values", lambda self, engine: change(original(self, engine)))


def _other_rows_meet() -> Any:
    """The second factor is that of another row, so that one person changes the products of others."""
    original = Factor.of

    def of(self: Factor, records: Any, amounts: Any) -> Any:
        found = original(self, records, amounts)
        return found[::-1] if self.amount is not None and self.amount.column == "score" else found

    return patched(Factor, "of", of)


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing is clamped": _not_clamped,
    "one factor is paid for": lambda: _priced(lambda end: int(abs(end) ** 0.5) * (1 if end > 0 else -1)),
    "half of the product is paid for": lambda: _priced(lambda end: end // 2),
    "a row's product is in every cell": lambda: _values_changed(lambda v: v + v.sum() if v.size > 1 else v),
    "a row is multiplied twice": lambda: _values_changed(lambda v: 2 * v),
    "values of two rows are multiplied": _other_rows_meet,
    "products ignore contributions": one_contribution,
}
LEAST = {"products ignore contributions": 2}
MOST = {"values of two rows are multiplied": 2}  # three rows of a person cost more than the products of others change
CASES = [
    (name, setting) for name in MUTANTS for setting in SETTINGS if LEAST.get(name, 1) <= setting[1] <= MOST.get(name, 3)
]


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize(("mutant", "setting"), CASES, ids=str)
def test_product_mutant_is_killed(mutant: str, setting: tuple[str, int]) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        gate(settings=[setting])


def plainly(rows: list[tuple[Any, ...]], question: ValueProducts) -> list[int]:
    """One row at a time, in fractions."""
    records = SCHEMA.encode({name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)})
    total = np.zeros(question.shape, dtype=np.int64)
    cells = dict(question.queries())
    for row, record in zip(rows, records, strict=True):
        one, other = (_number(row, factor) for factor in question.factors)
        for cell, query in cells.items():
            total[cell] += round(float(query.evaluate(record[None, :])[0])) * one * other
    return [int(number) for number in np.ravel(total)]


def _number(row: tuple[Any, ...], factor: Any) -> int:
    raw = row[SCHEMA.position(factor.column)]
    if isinstance(factor, LevelNumbers):
        return factor.numbers[int(raw)]
    if raw == "?":
        return 0
    grid = SCHEMA[factor.column].value_grid
    assert grid is not None
    steps = max(min(round(float(raw) / float(grid.step)), factor.high), factor.low)
    return round(Fraction(steps - factor.centre, factor.step))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("memory_limit", [2**30, 0], ids=["memory", "duckdb"])
def test_products_are_those_of_a_plain_loop(memory_limit: int) -> None:
    rng = np.random.default_rng(3)
    rows = [POINTS[i] for i in rng.integers(0, len(POINTS), 200)]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)}
    table = mq.open_table(columns, SCHEMA, memory_limit=memory_limit)
    with Curator(table, BUDGET, noise=ScriptedNoise([0] * 99)) as curator:
        for question in asked():
            assert np.ravel(curator.measure(question, epsilon=1.0).values).tolist() == plainly(rows, question)


@pytest.mark.parametrize("low", [-20, 0, 17])
@pytest.mark.parametrize("step", [1, 3, 7])
def test_a_price_covers_every_product_and_no_more(low: int, step: int) -> None:
    """All products of two factors, one by one: the price is the largest, and it is reached."""
    first, second = ValueSteps("gain", low, 99, 40, step), ValueSteps("score", 3, 50, 25, 1)
    ranges = [
        [round(Fraction(value - factor.centre, factor.step)) for value in range(factor.low, factor.high + 1)]
        for factor in (first, second)
    ]
    for pair, products in (
        ([first, second], [a * b for a in ranges[0] for b in ranges[1]]),
        ([first, first], [a * a for a in ranges[0]]),
    ):
        moves = ValueProducts(SCHEMA, pair).moves
        assert (moves.low, moves.high) == (min(0, *products), max(0, *products))


def test_questions_that_multiply_other_numbers_have_other_names_also_at_the_wall() -> None:
    """A name is what a recorded answer is found by; the order of the factors is no part of it."""
    changed = [replace(GAIN, low=-19), replace(GAIN, high=98), replace(GAIN, centre=41), replace(GAIN, step=5)]
    pairs: list[tuple[forms.Factor, forms.Factor]]
    pairs = [(GAIN, SCORE), (GAIN, GAIN), (SCORE, SCORE), (GAIN, SIGN), (GAIN, LevelNumbers("a", (-2, 4)))]
    pairs += [(one, SCORE) for one in changed]
    holds = mq.where(SCHEMA, "a")
    asked = [ValueProducts(SCHEMA, pair) for pair in pairs]
    asked += [ValueProducts(SCHEMA, pairs[0], axes=["a"]), ValueProducts(SCHEMA, pairs[0], where=holds)]
    names = [question.key for question in asked]
    assert len(set(names)) == len(names)
    compiler = Compiler(SCHEMA, values=True)
    assert [compiler(question).key for question in asked] == names
    assert ValueProducts(SCHEMA, (SCORE, GAIN)).key == names[0]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ([GAIN], "two factors"),
        ([SIGN, SIGN], "at least is of values"),
        ([GAIN, ValueSteps("score", 0, 50, 25, 2)], "odd whole number"),
        ([GAIN, ValueSteps("score", 0, 50, 25, 0)], "odd whole number"),
        ([GAIN, ValueSteps("score", 50, 0, 25, 1)], "values run from"),
        ([GAIN, ValueSteps("a", 0, 1, 0, 1)], "no values beside its levels"),
        ([GAIN, LevelNumbers("a", (1, 2, 3))], "a whole number for each"),
        ([GAIN, LevelNumbers("a", (1, 2**40))], "exceed"),
        ([ValueSteps("gain", 0, 2**20, 0, 1)] * 2, "exceed"),
    ],
)
def test_bad_products_are_refused(pair: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ValueProducts(SCHEMA, pair)


def test_hostile_factors_are_refused_at_the_wall() -> None:
    """What a question says of itself is not what is compiled: its form is read once, and checked."""
    table = mq.open_table({"gain": ["1"], "score": ["1"], "a": [True]}, SCHEMA)
    where = mq.where(SCHEMA, "a").form
    with Curator(table, BUDGET) as curator:
        for factor in (ValueSteps("gain", 0, 9, 0.5, 1), ValueSteps("gain", 0, 9, 0, True), "gain", None, GAIN.column):  # type: ignore[arg-type]
            form = forms.ValueProducts([factor, SCORE], [], where)  # type: ignore[list-item]
            with pytest.raises(QueryError):
                curator.measure(SimpleNamespace(form=form), epsilon=1.0)
        assert curator.spent.epsilon == 0
