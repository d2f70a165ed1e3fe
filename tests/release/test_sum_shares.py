"""How a release splits the price of its sums: least total of squared relative errors, from public numbers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.releases.sum_shares import split_of
from maquette.schema import Boolean, Integer, Schema

SCHEMA = Schema([
    Integer("gain", 0, 99_999, width=5_000, atoms=[0]),
    Integer("weight", 0, 999, width=50),
    Integer("change", -999, 999, width=100),
    Boolean("a"),
    Integer("place", 0, 49),
])  # fmt: skip
NAMES = ["gain", "weight", "change"]
ROWS = 30_000
BUDGETS = [mq.Budget(epsilon=1.0), mq.Budget(epsilon=1.0, delta=1e-9)]


class Known:
    """A public model: gain is 0 for nine in ten, the other columns are even."""

    def marginal(self, names: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
        size = SCHEMA[names[0]].size
        if names != ["gain"]:
            return np.full(size, 1 / size)
        few = np.where(np.arange(size) == 1, 0.1, 0.0)
        few[0] = 0.9
        return few


SIZES = {"gain": 0.1 * 2_500, "weight": 499.5, "change": 499.5}


def split(budget: mq.Budget, k: int, value: int = 1) -> tuple[list[Any], list[float]]:
    with mq.Curator(mq.open_table(table(value), SCHEMA), budget) as curator:
        units = curator.remaining.units // 2
        return split_of(curator, mq.marginals(SCHEMA, k=k, sums=NAMES), Known(), ROWS, units)


def errors(budget: mq.Budget, asked: list[Any], shares: list[float]) -> list[float]:
    """The deviation of each sum beside the size of an average cell."""
    with mq.Curator(mq.open_table(table(1), SCHEMA), budget) as curator:
        noise = curator.expected(asked, units=curator.remaining.units // 2, shares=shares)
    return [float(m.deviation) / (SIZES[q.column] * ROWS / q.cells) for q, m in zip(asked, noise, strict=True)]


def table(value: int) -> dict[str, list[Any]]:
    return {name: [value] for name in (*NAMES, "place")} | {"a": [True]}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_no_other_split_has_a_smaller_total_of_squared_relative_errors(budget: mq.Budget) -> None:
    asked, shares = split(budget, k=1)
    least = sum(e**2 for e in errors(budget, asked, shares))
    rng = np.random.default_rng(3)
    for _ in range(20):
        other = [share * float(rng.uniform(0.5, 2)) for share in shares]
        assert sum(e**2 for e in errors(budget, asked, other)) > 0.999 * least


def test_a_column_with_a_small_need_is_not_starved() -> None:
    asked, shares = split(BUDGETS[1], k=1)
    found = dict(zip((q.column for q in asked), errors(BUDGETS[1], asked, shares), strict=True))
    assert found["weight"] < found["gain"] / 5
    assert found["weight"] == pytest.approx(found["change"], rel=0.05)  # signs do not make a column needy


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_table_that_noise_would_hide_is_not_bought_and_its_price_goes_to_the_whole_sum(budget: mq.Budget) -> None:
    asked, shares = split(budget, k=2)
    bought = {(q.column, q.names) for q in asked}
    assert {("gain", ()), ("weight", ()), ("change", ()), ("weight", ("a",))} <= bought
    assert ("gain", ("place",)) not in bought
    assert max(e for q, e in zip(asked, errors(budget, asked, shares), strict=True) if q.names) <= 0.5
    parts = [sum(s for q, s in zip(asked, shares, strict=True) if q.column == name) for name in NAMES]
    assert np.allclose(parts, split(budget, k=1)[1])


def test_the_split_does_not_depend_on_the_rows() -> None:
    assert split(BUDGETS[1], k=2, value=1) == split(BUDGETS[1], k=2, value=49)


def test_a_release_says_which_sums_it_bought() -> None:
    schema = Schema([Integer("gain", 0, 99, width=10, atoms=[0]), Boolean("a"), Integer("place", 0, 49)])
    rows = mq.open_table({"gain": [0, 5, 70] * 99, "a": [True, False, True] * 99, "place": [1, 2, 3] * 99}, schema)
    with mq.Curator(rows, mq.Budget(epsilon=2.0, delta=1e-9)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=2, sums=["gain"]))
    (told,) = (line for line in made.explanation if line.startswith("sums of gain: over all rows"))
    assert "place" not in told
    assert {table.by for table in made.sums} <= {None, "a"}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("width", [1, 100])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_zeros_is_never_told_to_be_impossible(sign: int, width: int) -> None:
    schema = Schema([Integer("z", *sorted((0, sign * 10 * width)), width=width), Boolean("b")])
    table = mq.open_table({"z": np.zeros(300, int), "b": [True, False] * 150}, schema)
    asked = ("SELECT sum(z), avg(z) FROM t", "SELECT b, sum(z), avg(z) FROM t GROUP BY b")
    for _ in range(4):
        curator = mq.Curator(table, mq.Budget(epsilon=10.0, delta=1e-9))
        release = mq.release(curator, mq.marginals(schema, k=2, sums=["z"] if width > 1 else []), epsilon=1.0)
        session = mq.online(curator, alpha=0.1)
        told = [release.answer(one) for one in asked] + [session.ask(one) for one in asked]
        told += [mq.answer(curator, one, epsilon=0.1) for one in asked]
        for number in (number for one in told for number in one.numbers):
            assert sign * number.value >= 0
            assert min(sign * number.low, sign * number.high) >= 0


@pytest.mark.parametrize("sign", [1, -1])
def test_an_average_from_a_sum_that_cannot_be_is_told_in_order(sign: int) -> None:
    schema = Schema([Integer("z", *sorted((0, sign * 90)), width=10), Boolean("b")])
    table = mq.open_table({"z": np.zeros(300, int), "b": [True, False] * 150}, schema)
    with mq.Curator(table, mq.Budget(epsilon=10.0, delta=1e-9)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=1, sums=["z"]), epsilon=5.0)
    (whole,) = (each for each in made.sums if each.by is None)
    made.sums = (replace(whole, values=np.array(-90.0 * sign), deviation=1.0),)
    total, average = made.answer("SELECT sum(z), avg(z) FROM t").numbers
    assert {total.low, total.value, total.high} == {average.low, average.value, average.high} == {0.0}
