"""Groups of levels: finer ones are kept where a look predicts less error, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from release_checks import Seeded

import maquette as mq
from maquette.curator import Curator
from maquette.estimates import Merging
from maquette.releases.methods.gathering import Gathering
from maquette.releases.methods.grouping import Compared, PairLook, finer, grouped

SCHEMA = mq.Schema([mq.Integer("month", 0, 59), mq.Integer("season", 0, 3), mq.Boolean("old")])
ROWS = 20_000


def table(*, seasonal: bool) -> Any:
    """Months of five years: they tell the season if `seasonal`, and in any case who is old."""
    rng = np.random.default_rng(3)
    month = rng.integers(0, 60, ROWS)
    season = month % 4 if seasonal else rng.integers(0, 4, ROWS)
    return mq.open_table({"month": month, "season": season, "old": month + rng.normal(0, 20, ROWS) > 30}, SCHEMA)


def gathered(*, seasonal: bool) -> Gathering:
    budget = mq.Budget(epsilon=0.3, delta=1e-9)
    with Curator(table(seasonal=seasonal), budget, noise=Seeded(1)) as curator:
        gathering = Gathering(curator, mq.marginals(SCHEMA, k=2), budget.limit, None)
        gathering.run(0.01, 0.03)
    return gathering


def test_levels_that_neighbours_do_not_resemble_keep_their_groups() -> None:
    gathering = gathered(seasonal=True)
    assert any(line.startswith("month: from ") for line in gathering.said)
    assert gathering.found.merging.merged["month"].size == 60


def test_levels_like_their_neighbours_stay_merged() -> None:
    gathering = gathered(seasonal=False)
    assert not any(line.startswith("month: from ") for line in gathering.said)
    assert gathering.found.merging.merged["month"].size < 40


@pytest.mark.parametrize("levels", [5, 16])
def test_a_column_of_few_levels_keeps_them_all(levels: int) -> None:
    """Codes of few levels are often names; merging them saves little noise."""
    schema = mq.Schema([mq.Integer("code", 0, levels - 1)])
    assert grouped(schema, "code", np.ones(levels), 1000.0).max() + 1 == levels


def compared(lost: float, noise: float) -> Compared:
    one = np.array([1000.0])
    return Compared(one, one + lost, np.array([100.0]), np.array([noise]), np.ones(1))


@pytest.mark.parametrize(
    ("lost", "noise", "pays"), [(5000.0, 400.0, True), (0.0, 400.0, False), (50.0, 4000.0, False), (300.0, 110.0, True)]
)
def test_finer_groups_pay_where_more_is_lost_than_noise_costs(lost: float, noise: float, pays: bool) -> None:
    assert (compared(lost, noise).gain(100.0) > 0) == pays


def test_a_gain_within_the_noise_of_the_look_is_none() -> None:
    found = compared(5000.0, 400.0)
    assert found.sure(100.0, doubt=10.0)
    assert not found.sure(100.0, doubt=5000.0)


def test_a_look_asks_each_pair_in_groups_and_once_more_for_each_finer_column() -> None:
    counts = np.full(60, ROWS / 60)
    base = Merging(SCHEMA, {"month": grouped(SCHEMA, "month", counts, 60.0)})
    fine = finer(base, {"month": grouped(SCHEMA, "month", counts, 60.0, fine=True)})
    look = PairLook([("month", "season"), ("month", "old"), ("season", "old")], base, fine)
    assert [s for s, _ in look.entries] == [*look.sets, ("month", "season"), ("month", "old")]
    even = {column.name: np.full(column.size, 1 / column.size) for column in SCHEMA}
    products = look.products(even)
    assert [each.sum() for each in products] == pytest.approx([1.0] * 5)
    assert products[3].shape == (60, 4)
    merging, errors = look.refined(["month"], np.array([1.0, 2.0, 3.0, 10.0, 1.5]))
    assert merging.merged["month"].size == 60
    assert errors == {("month", "season"): 10.0, ("month", "old"): 2.0, ("season", "old"): 3.0}
    assert look.refined([], np.array([1.0, 2.0, 3.0, 10.0, 1.5]))[1][("month", "season")] == 1.0


def test_groups_that_are_hardly_finer_are_not_looked_at() -> None:
    base = Merging(SCHEMA, {"month": np.arange(60) // 2})
    assert not finer(base, {"month": np.minimum(np.arange(60), 34)})
    assert finer(base, {"month": np.arange(60)})
