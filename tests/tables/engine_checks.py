"""One judgement for all engines: the numbers of the engine in memory, exactly, for every form of question."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import maquette as mq
from maquette.curator import Amount, PrivateTable, ValueEngine
from maquette.curator.compile import Compiler
from maquette.curator.compiled import tally
from maquette.curator.table import engine_of
from maquette.query import Marginal, ValueProducts, ValueSums, forms
from maquette.query.classes.distances import Box

SCHEMA = mq.Schema([
    mq.Boolean("a"),
    mq.Integer("b", 0, 299),
    mq.Integer("c", 0, 99, width=10, nullable=True),
    mq.Category("d", ["x", "y", "z"], other="other", nullable=True),
    mq.Number("e", 0, 50, bins=5, precision=1),
])  # fmt: skip
UNIT: dict[str, Any] = {"privacy_unit": "who", "max_contributions": 2}
SETS = [(), ("b",), *combinations(SCHEMA.names, 2), ("d", "a", "c")]
AMOUNTS = [Amount("c", 5, 60, 7), Amount("e", -100, 333), Amount("c", 0, 0, -4)]


def rows(count: int = 3_000, seed: int = 0) -> pa.Table:
    """A random table: values out of range, missing ones, unknown levels, and several rows of a person."""
    rng = np.random.default_rng(seed)
    return pa.table({
        "a": rng.integers(0, 2, count),
        "b": rng.integers(-5, 400, count),
        "c": pa.array(rng.integers(-20, 130, count), mask=rng.random(count) < 0.1),
        "d": pa.array([("x", "y ", "z", "q", None)[i] for i in rng.integers(0, 5, count)], pa.string()),
        "e": np.where(rng.random(count) < 0.02, np.inf, rng.normal(20, 25, count)),
        "who": rng.integers(0, max(count // 3, 1), count),
    })  # fmt: skip


def questions() -> list[Any]:
    """One of every form that reads rows."""
    holds = mq.where(SCHEMA, "a and b > 100")
    points = [[0, 17], [1, 3], [1, 299]]
    made = [
        forms.Cells([], forms.Points(["a", "b"], points, [1.0, 0.5, 0.25])),
        forms.Listed(["a", "b"], points),
        forms.Combined(forms.Listed(["a", "b"], points), [[[1, -1, 0], [1, 1, 1]]]),
        forms.Residual(["a", "d"]),
        forms.ParitySums(["a"], 1),
    ]
    near = Box(SCHEMA, ["b", "e"]).distance({"b": 120, "e": 10.0})
    sums = [ValueSums(SCHEMA, "c", low=3, high=80, centre=9, axes=["d"], where=mq.where(SCHEMA, "b < 250"))]
    one, other = forms.ValueSteps("c", 3, 80, 9, 5), forms.ValueSteps("e", -100, 333, 20, 1)
    three = forms.LevelNumbers("a", (-3, 4))
    products = [ValueProducts(SCHEMA, pair, axes=["d"]) for pair in ((one, one), (one, other), (three, other))]
    return [
        Marginal(SCHEMA, ["d"], holds),
        Marginal(SCHEMA, [], near),
        *sums,
        *products,
        *(SimpleNamespace(form=form) for form in made),
    ]


def tallied(table: PrivateTable) -> list[np.ndarray]:
    """Every question, from counts and, where the form can, record by record."""
    values = []
    for few in (2**22, 0):
        with mock.patch("maquette.curator.compile.FEW_CELLS", few):
            compile_ = Compiler(SCHEMA, values=True)
            values += [tally(engine_of(table), compile_(question)) for question in questions()]
    return values


def same(table: PrivateTable, held: PrivateTable) -> None:
    """The engine agrees with the one in memory."""
    engine, memory = engine_of(table), engine_of(held)
    assert isinstance(engine, ValueEngine)
    assert isinstance(memory, ValueEngine)
    assert (engine.rows, engine.fingerprint) == (memory.rows, memory.fingerprint)
    engine.prefetch(SETS[:6])
    for names in SETS:
        assert np.array_equal(engine.counts(names), memory.counts(names)), names
    for amount in AMOUNTS:
        assert np.array_equal(engine.sums(["d", "a"], amount), memory.sums(["d", "a"], amount)), amount
    for question, (one, other) in enumerate(zip(tallied(table), tallied(held), strict=True)):
        assert np.array_equal(one, other), question
