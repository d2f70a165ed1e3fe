"""Random questions through every door against exact fractions: at least 20,000, always the same ones."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit import Findings, audit_batch, audit_questions, questions
from maquette.audit.compiling import CompiledOnce
from maquette.audit.mutants import MUTANTS
from maquette.audit.questions import PER_TABLE, Asked
from maquette.audit.reference.conditions import Condition
from maquette.audit.reference.drawing import Drawing
from maquette.audit.reference.forms import Form, Total
from maquette.audit.reference.hostile import TRICKS, Hostile
from maquette.audit.reference.leaves import Additive
from maquette.audit.reference.quiet import QuietNoise
from maquette.audit.reference.universes import record, universe
from maquette.audit.reference.weighing import And, Constant, Not, Product
from maquette.query import Buckets, Keys, LinearQuery, Lookup, Marginal, additive

QUESTIONS = 20_000
PARTS = -(-QUESTIONS // PER_TABLE)


@functools.cache
def asked(part: int) -> Findings:
    """One set of tables: to ask one question more would begin another."""
    return audit_questions(PER_TABLE, seed=1_000 * part)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_question_gets_what_it_means_and_what_it_pays_for(part: int) -> None:
    found = asked(part)
    assert found.questions >= PER_TABLE
    assert found.sound, _told(found)


@pytest.mark.thorough
def test_every_sort_of_question_is_asked_of_every_door() -> None:
    """The grammar reaches all classes: seen in a few parts already."""
    found = Findings()
    for part in range(PARTS // 4):
        found.add(asked(part))
    doors = {door.split(" ")[0] for door in found.doors}
    assert doors == {
        "measure", "measure_many", "measure_error", "select_worst", "select_best", "lottery", "guard.test",
        "lazy_guard.test", "count_rows",
    }  # fmt: skip
    sorts = {"columns", "keys", "rawkeys", "contrasted", "residual", "parities", "marginal", "weighted marginal"}
    sorts |= {"bucketed marginal", "bucketed weighted marginal", "sum in SQL", "function of the histogram"}
    sorts |= {"amounts", "sums of values", "products of values", "held less not held"}
    weights = ("and", "or", "not", "product", "additive", "distance", "listed", "constant", "condition", "cut")
    sorts |= {f"total of {weight}" for weight in weights}
    assert sorts <= set(found.kinds)
    assert found.refused < found.questions / 2


def _told(found: Findings) -> str:
    several = Counter((fault.door, fault.question.partition("(")[0]) for fault in found.faults)
    return f"{found}: {several.most_common(5)}; the first is {found.faults[0]}"


LONG = mq.Schema([mq.Integer("age", 0, 99), mq.Integer("x", 0, 99)])


def _but(level: int) -> tuple[float, ...]:
    return tuple((np.arange(100) != level).astype(float).tolist())


def _asked(form: Form) -> Findings:
    return audit_batch(5, forms=[form])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("exponent", range(20, 30))
def test_the_wrap_of_an_additive_query_is_found(exponent: int) -> None:
    """Break 1: 2^24 and not a sum of columns; the fixed point of its parts is -2^63."""
    every_but_one = Additive(LONG, {"age": _but(42), "x": _but(0)})
    found = _asked(Total(And(Constant(LONG, 2.0**exponent), Not(every_but_one)), as_marginal=False))
    assert found.sound, _told(found)


def test_an_additive_query_of_weights_beyond_one_is_refused_before_any_charge() -> None:
    """Break 1 as it was reported."""
    query = additive(LONG, {"age": np.arange(100) != 42, "x": np.arange(100) != 0})
    table = mq.open_table({"age": [42, 1, 42], "x": [5, 0, 6]}, LONG)
    with mq.Curator(table, mq.Budget(epsilon=1.0), noise=QuietNoise()) as curator:
        with pytest.raises(mq.errors.QueryError):
            curator.measure(LinearQuery.constant(LONG, 2.0**24) & ~query, epsilon=1e-5)
        assert curator.spent.epsilon == 0.0


def _released(keys: Any, rows: list[int], schema: mq.Schema) -> np.ndarray:
    table = mq.open_table({"code": rows}, schema)
    with mq.Curator(table, mq.Budget(epsilon=1.0), noise=QuietNoise()) as curator:
        return np.asarray(curator.measure(keys, epsilon=0.1).values)


def test_keys_that_are_rewritten_after_they_were_priced_move_no_more() -> None:
    """Break 2: all points of a table of keys set to one."""
    schema = mq.Schema([mq.Integer("code", 0, 1_999)])
    keys = Keys(schema, [{"code": code} for code in range(2_000)])
    with contextlib.suppress(ValueError):
        keys.points[:] = 7
    one, other = (_released(keys, rows, schema) for rows in ([1, 7], [1]))
    assert np.abs(one - other).sum() <= 1


@pytest.mark.parametrize("how", ["query", "table"])
def test_a_negative_point_counts_no_cell_twice(how: str) -> None:
    """Break 2: a code of -1 is no other name of the last level."""
    schema = mq.Schema([mq.Integer("code", 0, 9)])
    try:
        doubled = Lookup(schema, ["code"], np.array([[-1], [9]], dtype=np.int32), np.ones(2))
        asked = doubled if how == "query" else Keys(schema, doubled)
        one, other = (_released(asked, rows, schema) for rows in ([1, 9], [1]))
    except mq.errors.QueryError:
        return
    assert np.abs(one - other).sum() <= 1


BINNED = mq.Schema([mq.Integer("age", 0, 99), mq.Integer("pay", 0, 9_999, width=100)])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("schema", [LONG, BINNED], ids=["levels", "values"])
@pytest.mark.parametrize("trick", TRICKS)
def test_a_hostile_question_moves_no_more_than_it_pays_for(trick: str, schema: mq.Schema) -> None:
    found = _asked(Hostile(schema, (42, 0), trick))
    assert found.sound, _told(found)


def test_records_that_agree_in_the_columns_that_matter_add_the_same() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        schema = universe(rng)
        drawing = Drawing(schema, record(rng, schema), rng)
        forms = [form for form in (drawing.form() for _ in range(40)) if form.trusted]
        rows = [record(rng, schema) for _ in range(30)]
        for form in forms:
            asked = Asked(form, None, 2**20, form.shape)
            assert [asked.adds(row) for row in rows] == [form.contribution(row, 2**20) for row in rows], form


SMALL = mq.Schema([mq.Integer("n", 0, 3, nullable=True), mq.Boolean("a")])


def test_batches_that_compile_once_ask_and_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    once = audit_batch(41, size=24)
    monkeypatch.setattr(questions, "ANEW", 1)
    assert audit_batch(41, size=24) == once
    assert once.sound, _told(once)


def test_only_a_question_of_known_meaning_is_compiled_once() -> None:
    """A door wraps a query in a marginal of its own; a hostile question may read differently each time."""
    compiled: list[Any] = []
    once, query = CompiledOnce(), LinearQuery.product(SMALL, {"a": [0.0, 1.0]})

    def compiler(question: Any) -> int:
        compiled.append(question)
        return len(compiled)

    assert [once.of(Marginal(SMALL, (), query), compiler) for _ in range(2)] == [1, 2]
    once.shared = True
    assert [once.of(Marginal(SMALL, axes, query), compiler) for axes in ((), (), ("n",), ("n",))] == [3, 3, 4, 4]
    once.shared = False
    assert once.of(Marginal(SMALL, (), query), compiler) == 5


def test_the_reference_weighs_by_hand() -> None:
    half = Product(SMALL, {"n": (0.0, 2.0**-21, 3 * 2.0**-21, 1.0, 0.5)})
    assert [half.range((level, 0), 2**20) for level in range(5)] == [
        (0, 0), (0, 0), (2, 2), (2**20, 2**20), (2**19, 2**19),
    ]  # fmt: skip
    condition = ("not", ("and", (("n", ">=", 2, (False, False, True, True, None)), ("a", "=", True, (False, True)))))
    truths = Condition(SMALL, condition, as_text=True)
    assert [int(truths.weigh((level, a))) for level in range(5) for a in range(2)] == [1, 1, 1, 1, 1, 0, 1, 0, 1, 0]
    assert truths.text(condition) == 'NOT (("n" >= 2) AND ("a" = true))'
    huge = And(Constant(SMALL, 2.0**24), Not(half))
    assert huge.weigh((3, 0)) == 0
    assert huge.range((0, 0), 2**20) == (2**20, 2**20)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    "accepts",
    [
        lambda self: len(self.parts) == 2,
        lambda self: len(self.parts) == 2 and self.parts[0].negates(self.parts[1]),
    ],
    ids=["any two parts", "weights that are no predicates"],
)
def test_questions_alone_find_buckets_that_are_not_checked(monkeypatch: pytest.MonkeyPatch, accepts: Any) -> None:
    """What a condition leaves out needs no check; everything else does."""
    monkeypatch.setattr(Buckets, "_is_either_or", property(accepts))
    assert any(not audit_batch(seed, doors=False).sound for seed in range(40, 52))


PRICES = (
    "contribution bound ignored",
    "replace counted as add-remove",
    "one weighted bucket priced by high - low",
    "permute-and-flip priced as a selection under zCDP",
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PRICES)
def test_questions_alone_find_a_broken_price(name: str) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    with mutant.applied():
        assert any(_priced_wrongly(audit_batch(seed)) for seed in range(40, 40 + 720 // PER_TABLE))


def _priced_wrongly(found: Findings) -> bool:
    """A fault in the price of a question that means what it says."""
    honest = [fault for fault in found.faults if not fault.question.startswith(("hostile", "rawkeys"))]
    return any("priced" in fault.what for fault in honest)
