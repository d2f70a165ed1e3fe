"""Shares of a total take work that grows with the number of groups, not with its square; and ratios are exact."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.answers.frame import Box
from maquette.answers.ratios import Form, partials

ROWS = 4_000


class Counting(list[float]):
    """A list that counts how often it is read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        Counting.reads += 1
        return super().__getitem__(place)


def work(monkeypatch: pytest.MonkeyPatch, groups: int, item: str) -> tuple[int, list[Any]]:
    """How often ends of intervals are read to answer one statement, and the answer."""
    began = Box.__init__

    def counted(box: Box) -> None:
        began(box)
        box.low, box.high = Counting(), Counting()

    schema = mq.Schema([mq.Integer("a", 0, groups // 4 - 1), mq.Integer("b", 0, 3)])
    rng = np.random.default_rng(2)
    rows = {"a": rng.integers(0, groups // 4, ROWS), "b": rng.integers(0, 4, ROWS)}
    with monkeypatch.context() as patch, mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=9e3)) as curator:
        patch.setattr(Box, "__init__", counted)
        Counting.reads = 0
        found: Any = mq.answer(curator, f"SELECT a, b, {item} AS share FROM t GROUP BY a, b", epsilon=100.0)
        return Counting.reads, list(found)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    "item",
    [
        "count(*) / sum(count(*)) OVER ()",
        "100.0 * count(*) / sum(count(*)) OVER ()",
        "count(*) / sum(count(*)) OVER (PARTITION BY b)",
        "count(*) / (2 * sum(count(*)) OVER () + 1)",
        "sum(count(*)) OVER () / count(*)",
    ],
)
def test_the_work_of_a_share_grows_with_the_groups(monkeypatch: pytest.MonkeyPatch, item: str) -> None:
    few, _ = work(monkeypatch, 160, item)
    many, _ = work(monkeypatch, 640, item)
    assert 0 < many <= 6 * few, (few, many)  # four times the groups; their square would be sixteen times the work


def test_shares_add_up_and_lie_in_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = work(monkeypatch, 160, "count(*) / sum(count(*)) OVER ()")
    assert len(found) == 160
    shares = [row["share"] for row in found]
    assert sum(share.value for share in shares) == pytest.approx(1.0)
    assert all(0.0 <= share.low <= share.value <= share.high <= 1.0 for share in shares)


def _form(rng: random.Random, size: int, most: int) -> Form:
    chosen = rng.sample(range(size), min(size, rng.randrange(1, most)))
    form = {variable: rng.choice([1.0, 1.0, 0.0, 2.5, -0.5]) for variable in chosen}
    return form | ({-1: rng.uniform(0, 30)} if rng.random() < 0.4 else {})


def _exact(form: Form, point: dict[int, Fraction]) -> Fraction:
    return sum((Fraction(c) * (1 if v < 0 else point[v]) for v, c in form.items()), Fraction(0))


@pytest.mark.parametrize("seed", range(60))
def test_a_ratio_lies_between_its_ends_at_every_vertex_and_reaches_them(seed: int) -> None:
    rng, box = random.Random(seed), Box()
    size = rng.randrange(1, 7)
    for _ in range(size):
        low = rng.uniform(-1, 9)
        box.add(low, low + rng.choice([0.0, rng.uniform(0, 4)]))
    above, below = _form(rng, size, 6), _form(rng, size, 6)
    if box.bounds(below)[0] <= 0:
        below[-1] = below.get(-1, 0.0) + 1.0 - box.bounds(below)[0]
    low, high = box.ratio(above, below)
    ends = [(Fraction(box.low[v]), Fraction(box.high[v])) for v in range(size)]
    points = [dict(enumerate(point)) for point in product(*ends)]
    ratios = [_exact(above, point) / _exact(below, point) for point in points]
    assert low <= min(ratios) + Fraction(1, 10**12)
    assert max(ratios) <= high + Fraction(1, 10**12)
    assert float(min(ratios)) == pytest.approx(low, abs=1e-9)
    assert float(max(ratios)) == pytest.approx(high, abs=1e-9)


def test_a_long_form_gives_what_short_ones_give() -> None:
    box, rng = Box(), random.Random(3)
    for _ in range(400):
        low = rng.choice([1e-9, 1.0, 1e9])
        box.add(low, 2 * low)
    total = dict.fromkeys(range(400), 1.0)
    for variable in range(0, 400, 37):
        others = [v for v in total if v != variable]
        most = Fraction(box.high[variable]) / (Fraction(box.high[variable]) + sum(Fraction(box.low[v]) for v in others))
        low, high = box.ratio({variable: 1.0}, total)
        assert most <= high <= float(most) + 2e-12
        assert 0.0 <= low <= high


def test_partial_sums_lose_nothing() -> None:
    rng = random.Random(1)
    numbers = [rng.choice([1.0, -1.0]) * 2.0 ** rng.randrange(-300, 300) for _ in range(500)]
    assert sum(map(Fraction, partials(numbers))) == sum(map(Fraction, numbers))


def test_infinite_ends_bound_nothing() -> None:
    box = Box()
    one, wild = box.add(1.0, 2.0), box.add(-np.inf, np.inf)
    assert box.ratio(wild, one) == (-np.inf, np.inf)
    assert box.ratio(one, {0: 1.0}) == pytest.approx((1.0, 1.0))
