"""Tables, noise and gates for the query-release game; gates see outputs, requested noise and charges only."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import maquette as mq
from maquette.audit.reference import exponential_law
from maquette.curator import Curator, cap, lottery
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LinearQuery, Marginal
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["x", "y", "z"])])
POINTS = [(a, b) for a in (False, True) for b in "xyz"]
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)
TOLERANCE = 1 + 1e-9
FOURTHS = LinearQuery.product(SCHEMA, {"b": [0.25, 1 / 3, 0.9]})
ASKED = (Marginal(SCHEMA, ["b", "a"]), Marginal(SCHEMA, (), mq.where(SCHEMA, "a")), Marginal(SCHEMA, ["a"], FOURTHS))
CELLS = 6 + 1 + 2
ANSWERS = (np.linspace(0.2, 1.7, CELLS), np.linspace(1.9, 0.1, CELLS))
RELATIONS = [("add-remove", 1), ("replace", 1), ("add-remove", 2)]

Rows = tuple[tuple[bool, str], ...]


@functools.cache
def table(units: tuple[Rows, ...], contributions: int) -> mq.PrivateTable:
    rows = [(name, *row) for name, unit in enumerate(units) for row in unit]
    columns = {"person": [r[0] for r in rows], "a": [r[1] for r in rows], "b": [r[2] for r in rows]}
    if contributions == 1:
        return mq.open_table(columns, SCHEMA)
    return mq.open_table(columns, SCHEMA, privacy_unit="person", max_contributions=contributions)


def neighbours(relation: str, contributions: int) -> list[tuple[tuple[Rows, ...], tuple[Rows, ...]]]:
    base: tuple[Rows, ...] = (((False, "x"),), ((True, "z"),), ((True, "z"),))
    every = [u for size in range(1, contributions + 1) for u in itertools.combinations_with_replacement(POINTS, size)]
    if relation == "add-remove":
        return [(base, (*base, unit)) for unit in every]
    return [((*base, one), (*base, other)) for one, other in itertools.combinations(every, 2)]


class Watching:
    """Index zero for every selection; keeps scores and scales. Not private."""

    def __init__(self) -> None:
        self.seen: list[tuple[np.ndarray, Fraction]] = []

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        self.seen.append((scores.copy(), scale))
        return 0

    def laplace(self, scale: Fraction, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)

    gaussian = laplace

    def permute_and_flip(self, scores: np.ndarray, scale: Fraction) -> int:
        raise AssertionError("a lottery is an exponential mechanism")


class Seeded(Watching):
    """Selections of the right law from a numpy generator, and no other noise. Not private."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        return int(np.argmax(scores / float(scale) + self.rng.gumbel(size=len(scores))))


class Observed:
    """Lotteries of every kind on one table: scores, scales and log-laws of each draw, and what each lottery cost."""

    def __init__(self, units: tuple[Rows, ...], relation: Any, m: int, budget: mq.Budget) -> None:
        noise = Watching()
        price: dict[str, Any] = {"epsilon": 0.9} if budget is PURE else {"rho": 0.9}
        with Curator(table(units, m), budget, relation=relation, noise=noise) as curator:
            signed, between = curator.lottery(ASKED), curator.lottery(ASKED, between=(0.5, 1.5))
            for door, limit in itertools.product((signed, between), (None, 8)):
                for answers in (ANSWERS[0], ANSWERS):
                    door.draw(answers, draws=3, cap=limit, **price)
            self.charged = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
        self.scores = [scores for scores, _ in noise.seen]
        self.scales = [scale for _, scale in noise.seen]
        assert all(scores.dtype == np.int64 for scores in self.scores), "scores must be integers"
        assert len(self.scores) == 3 * len(self.charged), "not every draw has randomness of its own"
        self.laws = [np.log(exponential_law(scores, float(scale))) for scores, scale in noise.seen]


def gate_lottery() -> None:
    """The exact law of three draws on all neighbours stays within the charge, capped or not, in every setting."""
    for (relation, m), budget in itertools.product(RELATIONS, (PURE, ZCDP)):
        if m > 1 and budget is PURE:
            continue  # the scores are the same, and these tables are many
        known: dict[Any, Observed] = {}
        for pair in neighbours(relation, m):
            for units in pair:
                if units not in known:
                    known[units] = Observed(units, relation, m, budget)
            first, second = (known[units] for units in pair)
            assert first.charged == second.charged, "the charge depends on the rows"
            assert first.scales == second.scales, "the scale depends on the rows"
            for i, (one, two) in enumerate(zip(first.laws, second.laws, strict=True)):
                paid = first.charged[i // 3] / 3
                lost, allowed = (
                    (np.abs(one - two).max(), paid) if budget is PURE else (np.ptp(one - two), math.sqrt(8 * paid))
                )
                assert lost <= allowed * TOLERANCE, f"{relation}, {m}, lottery {i // 3}: lost {lost}, paid {allowed}"


def gate_scores() -> None:
    """Scores equal a short reference, and indices are read back as cells and signs."""
    units: tuple[Rows, ...] = (((False, "x"),), ((True, "z"),), ((True, "z"),))
    counts = np.array([1, 0, 0, 0, 0, 2, 2, *(np.rint(np.array([0.25, 1.8]) * 2**20) / 2**20)])
    seen = Observed(units, "add-remove", 1, ZCDP).scores
    error = [counts - answers for answers in ANSWERS]
    for start, signed in ((0, True), (12, False)):
        for lot, picked in enumerate((error[:1], error)):
            scores = seen[start + 3 * lot] / lottery.GRID
            total = sum(picked) if signed else sum(np.clip(np.abs(e), 0.5, 1.5) for e in picked)
            expected = np.concatenate([total, -total]) if signed else total
            assert np.abs(scores - expected).max() < 1e-5


def gate_cap() -> None:
    """No probability exceeds 1/cap, the order is kept, and it is the water-filling of the plain weights."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        size = int(rng.integers(4, 40))
        scale, limit = Fraction(int(rng.integers(20, 4000))), int(rng.integers(1, size + 1))
        scores = np.rint(rng.normal(0, float(scale) * 10 ** rng.uniform(-1, 1.3), size)).astype(np.int64)
        law = exponential_law(cap.clipped(scores, scale, limit), float(scale))
        assert law.max() <= 1 / limit * (1 + 1e-9)
        filled = water_filling(np.exp((scores - scores.max()) / float(scale)), limit)
        # The level is a whole number, so up to one step of a score below the exact one.
        assert np.abs(np.log(law) - np.log(filled)).max() <= 1.0 / float(scale) + 1e-9


def gate_clip() -> None:
    """Clipped scores move no further than the scores do, and sometimes as far."""
    rng = np.random.default_rng(1)
    tightest = 0.0
    for _ in range(1000):
        size = int(rng.integers(3, 12))
        scores = rng.integers(-60, 60, size)
        moved = scores + rng.integers(-7, 8, size)
        scale, limit = Fraction(int(rng.integers(1, 40))), int(rng.integers(1, size + 1))
        change = np.abs(cap.clipped(scores, scale, limit) - cap.clipped(moved, scale, limit)).max()
        allowed = max(1, np.abs(scores - moved).max())
        assert change <= allowed
        tightest = max(tightest, change / allowed)
    assert tightest == 1.0


def water_filling(weights: np.ndarray, limit: int) -> np.ndarray:
    """A reference: cap the largest until the rest, in proportion, stays below."""
    order, law = np.argsort(-weights), np.zeros(len(weights))
    rest, total = 1.0, weights.sum()
    for k, i in enumerate(order):
        if rest * weights[i] / total <= 1 / limit or k == len(order) - 1:
            law[order[k:]] = rest * weights[order[k:]] / weights[order[k:]].sum()
            return law
        law[i] = 1 / limit
        rest, total = rest - 1 / limit, weights[order[k + 1 :]].sum()
    return law


GATES = {gate.__name__.removeprefix("gate_"): gate for gate in (gate_lottery, gate_scores, gate_cap, gate_clip)}


def binary(columns: int, rows: int, seed: int) -> np.ndarray:
    """Correlated binary rows: a mixture of four groups."""
    rng = np.random.default_rng(seed)
    likely = np.clip(rng.beta(0.6, 0.9, (4, columns)), 0.03, 0.97)
    return np.asarray(rng.random((rows, columns)) < likely[rng.integers(4, size=rows)]).astype(int)


def booleans(records: np.ndarray) -> mq.Schema:
    return mq.Schema([mq.Boolean(f"c{i}") for i in range(records.shape[1])])


def opened(records: np.ndarray) -> tuple[mq.Schema, mq.PrivateTable]:
    schema = booleans(records)
    return schema, mq.open_table({f"c{i}": records[:, i].astype(bool) for i in range(records.shape[1])}, schema)


def largest_error(release: mq.Release, records: np.ndarray, sets: Sequence[tuple[int, ...]]) -> float:
    worst = 0.0
    for chosen in sets:
        truth = np.zeros((2,) * len(chosen))
        np.add.at(truth, tuple(records[:, j] for j in chosen), 1 / len(records))
        worst = max(worst, float(np.abs(release.marginal(*(f"c{j}" for j in chosen)) - truth).max()))
    return worst
