"""The wall compiles: nothing of the caller's matters after the door, and no row adds more than was priced."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import maquette as mq
from gate_tools import Rows, compiled, exact, exact_by_records
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.curator.compiled import AtPoints, ByRecord, Compiled, Weighed, tally
from maquette.errors import QueryError
from maquette.privacy import DiscreteLaplace, Relation
from maquette.query import (
    Amounts,
    Buckets,
    Contrasts,
    Keys,
    LinearQuery,
    Lookup,
    LowSensitivityQuery,
    Marginal,
    Parities,
    Statistic,
    additive,
    forms,
    lookup,
    residual,
)
from maquette.query.linear import Term
from maquette.query.moves import Moves
from maquette.schema import Boolean, Category, Integer, Schema

PEOPLE = Schema(
    [
        Integer("age", 0, 99),
        Boolean("smoker"),
        Category("city", ["Oslo", "Rome", "Bern"], nullable=True),
        Integer("x", 0, 9),
    ]
)
WIDE = Schema([Integer(f"c{i}", 0, 40) for i in range(6)])
BITS = Schema([Boolean(name) for name in "abcde"])
SMALL = Schema([Integer("x", 0, 3)])
THIRDS = LinearQuery.product(PEOPLE, {"city": [0.25, 1 / 3, 0.9, 0.0], "smoker": [1, 0.5]})


def of_version_0_1() -> Iterator[tuple[str, Any]]:
    """Questions whose digests ledgers of version 0.1 hold."""
    rng = np.random.default_rng(5)
    old, young = mq.where(PEOPLE, "age < 30"), mq.where(PEOPLE, "age >= 60 AND smoker")
    keys = [{"age": 3, "x": 4}, {"age": 99, "x": 0}, {"age": 0, "x": 9}]
    yield "rows", Marginal(PEOPLE)
    yield "table", Marginal(PEOPLE, ["city", "age"])
    yield "where", Marginal(PEOPLE, ["smoker"], mq.where(PEOPLE, "age>=65 OR city='Oslo'"))
    yield "weighted", Marginal(PEOPLE, ["age"], THIRDS)
    yield "total", Marginal(PEOPLE, (), THIRDS)
    yield "buckets", Marginal(PEOPLE, [Buckets("k", ("one", "two"), (old, young)), "smoker"])
    yield "additive small", Marginal(PEOPLE, (), additive(PEOPLE, {"smoker": [0, 1], "x": np.arange(10) / 9}))
    yield "additive large", Marginal(WIDE, (), additive(WIDE, {c.name: np.linspace(0, 1, 41) for c in WIDE}))
    yield "keys", Keys(PEOPLE, keys)
    yield "lookup", Marginal(PEOPLE, (), lookup(PEOPLE, keys[:2], weights=[0.5, 1.0]))
    listed = [{f"c{i}": int(v) for i, v in enumerate(row)} for row in rng.integers(0, 41, (100, 6))]
    yield "large lookup", Marginal(WIDE, (), lookup(WIDE, listed))
    yield "residual", residual(PEOPLE, ["x", "city"])
    yield "residual of none", residual(PEOPLE, [])
    matrices = [np.array([[1, -1]]), np.array([[2, -1, -1, 0], [0, 3, -3, 1]])]
    yield "contrasts", Contrasts(Marginal(PEOPLE, ["smoker", "city"], THIRDS), matrices)
    yield "parities", Parities(BITS, ["c", "a", "e", "b"], 2)
    yield "function", Statistic(SMALL, LowSensitivityQuery("largest", np.max, sensitivity=0.01), rows=100)


def others() -> Iterator[tuple[str, Any]]:
    yield "amounts", Amounts(PEOPLE, "age", axes=["smoker"])
    yield "signed amounts", Amounts(PEOPLE, "x", np.arange(10) - 5, low=-3, where=mq.where(PEOPLE, "smoker"))
    buckets = Buckets("k", ("one",), (mq.where(WIDE, "c0 > 7 AND c5 > 2"),))
    yield "wide", Marginal(WIDE, [buckets, "c1"], LinearQuery.product(WIDE, {"c2": np.linspace(0, 1, 41)}))
    yield "wide amounts", Amounts(WIDE, "c4", axes=["c1"], where=mq.where(WIDE, "c0 > 30 OR c2 < 9 AND c3 > 3"))


QUESTIONS = dict([*of_version_0_1(), *others()])


def curator(schema: Schema, rows: int = 50, **named: Any) -> Curator:
    codes = np.random.default_rng(rows).integers(0, [c.size for c in schema], (rows, len(schema)))
    table = mq.open_table(schema.decode(codes), schema)
    return Curator(table, mq.Budget(epsilon=10.0), noise=ScriptedNoise([0] * 10_000), **named)


def test_digests_of_version_0_1_are_kept() -> None:
    kept = json.loads(Path(__file__).with_name("digests_of_version_0_1.json").read_text())
    assert {name: compiled(question).key for name, question in of_version_0_1()} == kept


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_and_what_the_wall_makes_of_it_agree(name: str) -> None:
    question = QUESTIONS[name]
    made = compiled(question)
    told = (question.key, question.columns, question.shape, question.grid, question.moves)
    assert (made.key, made.columns, made.shape, made.grid, made.moves) == told
    relations = [Relation(kind, m) for kind in ("add-remove", "replace") for m in (1, 3)]
    for relation in relations:
        assert relation.l1(made) == relation.l1(question)
        assert relation.l2_squared(made) == relation.l2_squared(question)


# Break 1: a part that wraps at -2^63.


def wrapping() -> LinearQuery:
    schema = Schema([Integer("age", 0, 99), Integer("x", 0, 99)])
    levels = np.arange(100)
    return LinearQuery.constant(schema, 2.0**24) & ~additive(schema, {"age": levels != 42, "x": levels != 0})


DOORS: dict[str, Callable[[Curator, Any], Any]] = {
    "measure": lambda c, q: c.measure(q, epsilon=1e-5),
    "measure_error": lambda c, q: c.measure_error([q], [0.0], epsilon=1e-5),
    "select_worst": lambda c, q: c.select_worst([q], [0.0], epsilon=1e-5),
    "select_best": lambda c, q: c.select_best([q], [[0.0], [1.0]], epsilon=1e-5),
    "guard": lambda c, q: c.guard(5.0, epsilon=0.5).test(q, 0.0),
    "lottery": lambda c, q: c.lottery([q]).draw([0.0], draws=1, epsilon=1e-5),
}


@pytest.mark.parametrize("door", DOORS)
def test_weights_that_would_wrap_are_refused_before_any_charge(door: str) -> None:
    with curator(Schema([Integer("age", 0, 99), Integer("x", 0, 99)])) as opened:
        with pytest.raises(QueryError):
            DOORS[door](opened, wrapping())
        assert [charge for charge in opened.ledger.charges() if door != "guard"] == []


@given(st.integers(-70, 70), st.integers(-1, 1), st.integers(0, 99))
def test_products_that_cancel_are_exact_or_refused(power: int, nudge: int, level: int) -> None:
    """c (1 - [age != level]) with c anywhere from 2^-70 to 2^70: within [0, 1] it is right, otherwise refused."""
    schema = Schema([Integer("age", 0, 99), Integer("x", 0, 99)])
    scale = float(np.nextafter(2.0**power, nudge * np.inf)) if nudge else 2.0**power
    other = np.arange(100) != level
    try:
        query = LinearQuery.constant(schema, scale) & ~additive(schema, {"age": other, "x": other})
        made = compiled(Marginal(schema, (), query))
    except QueryError:
        assert scale > 1.0
        return
    rows = np.array([[level, level], [level, 0], [0, level], [1, 1]])
    for row in rows:
        weight = scale * (1 - float((row != level).sum()) / 2)
        assert abs(int(tally(Rows(schema, [row]), made)) - weight * made.grid) <= 1
        assert made.moves.low <= int(tally(Rows(schema, [row]), made)) <= made.moves.high <= made.grid


# Break 2: points that were changed, or never checked.


def test_points_changed_after_they_were_checked_are_refused() -> None:
    keys = Keys(PEOPLE, [{"age": a, "x": x} for a in range(50) for x in range(10)])
    with pytest.raises(ValueError, match="read-only"):
        keys.points[:] = 7
    keys.points = np.full_like(keys.points, 7)
    with curator(PEOPLE) as opened:
        with pytest.raises(QueryError, match="different and in increasing order"):
            opened.measure(keys, epsilon=0.1)
        assert opened.ledger.spent() == 0


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("points", [[[-1], [99]], [[100]], [[0.5]], [["0"]], [[2**40]], [[np.nan]], [], [[0, 1]]])
def test_points_outside_their_columns_are_refused(points: Any) -> None:
    with pytest.raises(QueryError):
        Lookup(PEOPLE, ["age"], np.array(points), np.ones(len(points)))
    for form in (forms.Listed(["age"], points), forms.Cells((), forms.Points(["age"], points, np.ones(len(points))))):
        with curator(PEOPLE) as opened, pytest.raises(QueryError):
            opened.measure(Given(form), epsilon=0.1)


# Whatever an object says or does, the wall evaluates its own copy.


class Given:
    """A question of another package: a form, and nothing else."""

    def __init__(self, form: Any) -> None:
        self.form = form


class Liar(Marginal):
    """Says of itself what it is not, everywhere but in its data."""

    grid = 1
    shape = (1,)
    cells = 1
    key = "a" * 64
    columns = ()
    moves = Moves(0, 0, 1)

    def tally(self, counts: Any) -> Any:
        raise AssertionError("the wall ran a question's own code on counts")

    tally_records = evaluate = fixed = tally


def test_a_subclass_that_lies_about_itself_changes_nothing() -> None:
    honest, liar = Marginal(PEOPLE, ["city"], THIRDS), Liar(PEOPLE, ["city"], THIRDS)
    with curator(PEOPLE) as opened:
        told = [opened.measure(question, epsilon=0.5) for question in (honest, liar)]
        first, second = opened.ledger.charges()
    assert np.array_equal(told[0].values, told[1].values)
    assert told[0].event == told[1].event
    assert first.digest == second.digest
    assert first.units == second.units


class Shifting:
    """Numbers that change every time they are looked at."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.turns.pop(0) if len(self.turns) > 1 else self.turns[0], dtype=dtype)


def test_numbers_are_looked_at_once() -> None:
    small, large = [0.0] * 9 + [0.001], [1.0] * 10
    asked = Given(forms.Cells((), forms.Products([(1.0, {"x": Shifting(small, large)})])))
    with curator(PEOPLE, 50, relation="replace") as opened:
        measured = opened.measure(asked, epsilon=0.5)
        rows = opened.measure(["x"], epsilon=0.5).values
    assert abs(float(measured.values) - 0.001 * rows[9]) < 1e-3
    assert isinstance(measured.event, DiscreteLaplace)
    assert measured.event.sensitivity == round(0.001 * 2**20)


def test_answers_and_tables_changed_while_a_door_works_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's arrays are written to between the charge and the reading of rows."""
    matrix, factor, public = np.array([[1, -1]]), np.array([0.0, 0.5]), np.zeros((1,))
    asked = Given(forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {"smoker": factor})])), [matrix]))
    with curator(PEOPLE) as opened:
        before = opened.measure(asked, epsilon=0.5).values
        reserve = opened.ledger.reserve

        def changing(request: Any) -> Any:
            matrix[:], factor[:], public[:] = 10**6, 1.0, 10**9
            return reserve(request)

        monkeypatch.setattr(opened.ledger, "reserve", changing)
        assert np.array_equal(opened.measure(asked, epsilon=0.5).values, before)
        matrix[:], factor[:], public[:] = [[1, -1]], [0.0, 0.5], 0.0
        error = opened.measure_error([asked], [public], epsilon=0.5).values
        assert error.tolist() == np.abs(before).tolist()


def test_nothing_the_wall_holds_can_be_written_to() -> None:
    for question in QUESTIONS.values():
        for value in vars(compiled(question)).values():
            for array in value if isinstance(value, tuple) else [value]:
                if isinstance(array, np.ndarray):
                    with pytest.raises(ValueError, match=r"cannot set WRITEABLE|read-only"):
                        array.flags.writeable = True


@pytest.mark.thorough(fast=9)
@pytest.mark.parametrize(
    "form",
    [
        None,
        "age",
        forms.Cells(["nobody"], forms.Products([(1.0, {})])),
        forms.Cells(["age", "age"], forms.Products([(1.0, {})])),
        forms.Cells([7], forms.Products([(1.0, {})])),  # type: ignore[list-item]
        forms.Cells((), "everyone"),  # type: ignore[arg-type]
        forms.Cells((), forms.Products([(np.inf, {})])),
        forms.Cells((), forms.Products([(np.nan, {})])),
        forms.Cells((), forms.Products([(2.0, {})])),
        forms.Cells((), forms.Products([(-(2.0**-30), {})])),
        forms.Cells((), forms.Products([(1.0, {"smoker": [0, 1, 0]})])),
        forms.Cells((), forms.Products([(1.0, {"smoker": [0, -1]})])),
        forms.Cells((), forms.Products([(1.0, {"smoker": ["no", "yes"]})])),
        forms.Cells((), forms.Products([(1.0, {"smoker": [0, 2**70]})])),
        forms.Cells([[forms.Products([(0.5, {})])]], forms.Products([(1.0, {})])),
        forms.Cells([[forms.Products([(1.0, {})])] * 2], forms.Products([(1.0, {})])),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), []),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), [[[1, 2, 3]]]),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), [[[1, 2**28 + 1]]]),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), [[[1, -(2**63)]]]),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), [[[1, 2**64]]]),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(1.0, {})])), [[[1, 0.5]]]),
        forms.Combined(forms.Cells(["smoker"], forms.Products([(0.5, {})])), [[[1, 2**20]]]),
        forms.Combined(forms.Residual(["smoker"]), [[[1, 1]]]),  # type: ignore[arg-type]
        forms.Residual(["smoker", "smoker"]),
        forms.Residual("smoker"),
        forms.ParitySums(["smoker", "age"], 1),
        forms.ParitySums(["smoker"], 2),
        forms.Amounts("age", np.arange(99), 0, 9, (), forms.Products([(1.0, {})])),
        forms.Amounts("smoker", [0, 1], 1, 0, (), forms.Products([(1.0, {})])),
        forms.Amounts("smoker", [0, 1], 0, 2**28 + 1, (), forms.Products([(1.0, {})])),
        forms.Amounts("smoker", [0.5, 1], 0, 2, (), forms.Products([(1.0, {})])),
        forms.Amounts("smoker", [0, 1], 0, 2, (), forms.Products([(0.5, {})])),
        forms.Amounts("smoker", [0, 1], 0.0, 2, (), forms.Products([(1.0, {})])),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_forms_that_make_no_sense_are_refused_before_any_charge(form: Any) -> None:
    with curator(PEOPLE) as opened:
        with pytest.raises(QueryError):
            opened.measure(Given(form), epsilon=0.1)
        assert opened.ledger.spent() == 0


# Clamped where it is added: tables that nobody priced cannot release more than was paid.


def corrupted(sound: Compiled) -> Compiled:
    """What would be evaluated if the tables behind a price were others, as large as they can be."""
    wild = np.int64(2**40)
    if isinstance(sound, Weighed):
        return dataclasses.replace(sound, weights=np.full_like(sound.weights, wild))
    if isinstance(sound, ByRecord):
        return dataclasses.replace(sound, weigh=lambda records: np.full(len(records), -wild))
    assert isinstance(sound, AtPoints)
    return dataclasses.replace(sound, weights=np.full_like(sound.weights, wild))


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("name", ["where", "weighted", "buckets", "lookup", "large lookup", "wide", "amounts"])
def test_tables_that_nobody_priced_are_clamped(name: str) -> None:
    question = QUESTIONS[name]
    sound = compiled(question)
    rng = np.random.default_rng(1)
    for row in rng.integers(0, [c.size for c in question.schema], (200, len(question.schema))):
        moved = tally(Rows(question.schema, [row]), corrupted(sound))
        assert np.abs(moved).sum() <= Relation().l1(sound)


@pytest.mark.parametrize("name", [n for n in QUESTIONS if n not in ("function",)])
def test_rows_by_counts_and_one_by_one_give_the_same_whole_numbers(name: str) -> None:
    question = QUESTIONS[name]
    records = np.random.default_rng(2).integers(0, [c.size for c in question.schema], (300, len(question.schema)))
    assert np.array_equal(exact(question, records), exact_by_records(question, records))


def test_amounts_are_the_sums_of_their_clamped_numbers() -> None:
    records = np.random.default_rng(2).integers(0, [c.size for c in PEOPLE], (300, len(PEOPLE)))
    age, smoker, _, x = records.T
    by_smoker = exact(Amounts(PEOPLE, "age", axes=["smoker"]), records)
    assert by_smoker.tolist() == [int(age[smoker == s].sum()) for s in (0, 1)]
    signed = Amounts(PEOPLE, "x", np.arange(10) - 5, low=-3, where=mq.where(PEOPLE, "smoker"))
    assert int(exact(signed, records)) == int(np.maximum(x - 5, -3)[smoker == 1].sum())
    assert (signed.moves.low, signed.moves.high) == (-3, 4)
    with pytest.raises(QueryError, match="guard tests counts"):
        curator(PEOPLE).guard(5.0, epsilon=0.5).test(signed, 0.0)


@given(st.integers(1, 3), st.sampled_from(["add-remove", "replace"]), st.integers(-9, 9), st.integers(0, 9), st.data())
def test_units_move_signed_amounts_by_no_more_than_the_relation_says(
    rows: int, kind: Any, low: int, span: int, data: st.DataObject
) -> None:
    numbers = np.linspace(low, low + span, 10).round().astype(np.int64)
    axes = data.draw(st.sampled_from([[], ["smoker"]]))
    where = data.draw(st.sampled_from([None, "city = 'Oslo'"]))
    weight = None if where is None else mq.where(PEOPLE, where)
    made = compiled(Amounts(PEOPLE, "x", numbers, low=low, high=low + span, axes=axes, where=weight))
    unit = st.lists(st.tuples(st.just(0), st.integers(0, 1), st.integers(0, 1), st.integers(0, 9)), max_size=rows)
    leaving = data.draw(unit)
    entering = [] if kind == "add-remove" else data.draw(unit)
    if rows == 1 and kind == "replace":  # a row for a row
        leaving, entering = leaving or [(0, 0, 0, 0)], entering or [(0, 1, 1, 9)]
    relation = Relation(kind, rows)
    change = tally(Rows(PEOPLE, entering), made) - tally(Rows(PEOPLE, leaving), made)
    assert np.abs(change).sum() <= relation.l1(made)
    assert (change**2).sum() <= relation.l2_squared(made)
    assert np.abs(change).max() <= relation.one_cell(made)


def test_terms_are_written_by_position_and_read_by_name() -> None:
    """A term handed over for another schema's columns is refused by its length."""
    query = LinearQuery(WIDE, [Term(1.0, {0: np.ones(41) / 2})])
    with curator(PEOPLE) as opened, pytest.raises(QueryError, match="another schema"):
        opened.measure(query, epsilon=0.1)
