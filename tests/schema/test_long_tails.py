"""Drafts of columns that equal bins, or a level for each text, do not suit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.schema import Category, Integer, Number

RNG = np.random.default_rng(4)
ROWS = 4_000


def drafted(name: str, values: Any) -> Any:
    with pytest.warns(mq.PrivacyWarning):
        return mq.Schema.guess({name: values, "a": [True, False] * (len(values) // 2)})


def largest(column: Any, values: Any) -> float:
    """The share of the fullest bin among values that are not atoms."""
    counts = np.bincount(column.encode([v for v in values if v not in column.atoms]))
    return float(counts.max() / counts.sum())


@pytest.mark.parametrize("shift", [0.0, 0.5], ids=["positive", "both signs"])
def test_a_long_tail_gets_bins_that_grow(shift: float) -> None:
    values = np.round(np.exp(RNG.normal(6, 2, ROWS)) * np.where(RNG.random(ROWS) < shift, -1, 1), 2)
    schema = drafted("income", values)
    column = schema["income"]
    assert isinstance(column, Number)
    assert column.edges is not None
    assert column.known <= 34
    assert largest(column, values) < 0.25
    assert column.edges[0] <= values.min() <= values.max() <= column.edges[-1]
    assert any("narrow for small numbers" in line for line in schema.notes["income"])
    middles = np.asarray(column.midpoints)[column.encode(values)]
    assert middles[values > 0].mean() == pytest.approx(values[values > 0].mean(), rel=0.15)


def test_whole_numbers_keep_whole_edges_and_their_atoms() -> None:
    values = np.where(RNG.random(ROWS) < 0.6, 0, np.floor(np.exp(RNG.normal(5, 2, ROWS)))).astype(int)
    column = drafted("paid", values)["paid"]
    assert isinstance(column, Number)
    assert column.edges is not None
    assert column.precision == 0
    assert column.atoms == (0.0,)
    assert all(edge == round(edge) for edge in column.edges)
    drawn = column.spread(column.encode(values), RNG).to_numpy()
    assert (drawn == np.round(drawn)).all()


@pytest.mark.parametrize("values", [RNG.normal(170, 10, ROWS), RNG.integers(0, 5_000, ROWS), np.linspace(0, 1, ROWS)])
def test_values_that_equal_bins_tell_apart_keep_them(values: Any) -> None:
    column = drafted("x", np.round(values, 1))["x"]
    assert isinstance(column, Integer) or column.edges is None


def test_frequent_codes_of_many_are_levels() -> None:
    shares = 1 / np.arange(1, 301) ** 1.2
    codes = RNG.choice([f"C{i:03d}" for i in range(300)], ROWS, p=shares / shares.sum())
    schema = drafted("diagnosis", codes)
    column = schema["diagnosis"]
    assert isinstance(column, Category)
    assert {"C000", "C001", "C002"} <= set(column.levels)
    assert len(column.levels) <= 50
    assert column.other == "other"
    assert any("more than 50 different texts" in line for line in schema.notes["diagnosis"])


@pytest.mark.parametrize("name", ["patient", "patient_id"])
def test_people_do_not_become_levels(name: str) -> None:
    """Even if there are few of them, with many rows each."""
    visits = RNG.integers(1, 41, 70)
    people = np.repeat([f"P{i:02d}" for i in range(70)], visits)[: visits.sum() // 2 * 2]
    schema = drafted(name, people)
    assert schema.names == ("a",)
    assert "more than 50 different values" in schema.skipped[0]


@pytest.mark.parametrize(
    ("values", "cuts"),
    [
        (np.arange(ROWS) % 102, (18, 65, 85)),  # ages
        (np.arange(ROWS) % 182, (15, 30, 45, 60)),  # minutes
        (13_000 + np.arange(ROWS) * 25, (25_000, 50_000)),  # salaries
        (np.round(np.arange(ROWS) % 420 / 10 - 10, 1), (0, 5, 25)),  # degrees
        (np.round(np.arange(ROWS) % 97 / 20, 2), (0.5, 1, 2.5)),
    ],
)
def test_bins_cut_where_people_ask(values: Any, cuts: tuple[float, ...]) -> None:
    schema = drafted("x", values)
    assert schema["x"].known <= 120
    for cut in cuts:
        mq.where(schema, f"x >= {cut}")  # refused where it cuts through a bin
