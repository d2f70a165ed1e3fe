"""The generated tables of the suite: one family of dependence each, always the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import maquette as mq

Codes = NDArray[np.int32]
Loaded = tuple[mq.Schema, Codes]


def numbered(sizes: list[int]) -> mq.Schema:
    """Columns c0, c1, ...: yes/no where there are two levels."""
    return mq.Schema([mq.Boolean(f"c{i}") if n == 2 else mq.Integer(f"c{i}", 0, n - 1) for i, n in enumerate(sizes)])


def drawn(probabilities: NDArray[np.float64], rng: np.random.Generator) -> Codes:
    """A level for each row of probabilities."""
    places = rng.random((len(probabilities), 1)) * probabilities.sum(axis=1, keepdims=True)
    return np.minimum((probabilities.cumsum(axis=1) < places).sum(axis=1), probabilities.shape[1] - 1).astype(np.int32)


def given(parent: Codes, levels: int, size: int, rng: np.random.Generator, sharpness: float) -> Codes:
    """A column that depends on another: a random table of conditional probabilities, near one-hot if sharp."""
    return drawn(rng.dirichlet(np.full(size, 1.0 / sharpness), levels)[parent], rng)


def chain() -> Loaded:
    """A tree: every column depends on one of the three before it."""
    rng = np.random.default_rng(101)
    sizes = [4, 6, 3, 8, 2, 10, 5, 12, 2, 7, 4, 9, 3, 6, 2, 16]
    codes = np.zeros((20_000, len(sizes)), dtype=np.int32)
    codes[:, 0] = drawn(np.tile(rng.dirichlet(np.ones(sizes[0])), (len(codes), 1)), rng)
    for i in range(1, len(sizes)):
        parent = int(rng.integers(max(0, i - 3), i))
        codes[:, i] = given(codes[:, parent], sizes[parent], sizes[i], rng, 2.0)
    return numbered(sizes), codes


def latent() -> Loaded:
    """Eight hidden classes: within a class, columns are independent, so every pair depends."""
    rng = np.random.default_rng(102)
    sizes = [5, 3, 2, 8, 4, 6, 2, 10, 3, 5, 7, 2, 4, 12, 3, 6, 2, 5, 9, 4]
    hidden = drawn(np.tile(rng.dirichlet(np.full(8, 2.0)), (10_000, 1)), rng)
    codes = np.stack([given(hidden, 8, size, rng, 1.5) for size in sizes], axis=1)
    return numbered(sizes), codes


def classes() -> Loaded:
    """Four hidden classes and few columns: a release takes a second, so it can be repeated hundreds of times."""
    rng = np.random.default_rng(108)
    sizes = [5, 2, 8, 3, 12, 2, 6]
    hidden = drawn(np.tile(rng.dirichlet(np.full(4, 2.0)), (10_000, 1)), rng)
    codes = np.stack([given(hidden, 4, size, rng, 1.5) for size in sizes], axis=1)
    return numbered(sizes), codes


def functional() -> Loaded:
    """Four free columns; the others are functions of one or two of them, wrong in a row of a hundred."""
    rng = np.random.default_rng(103)
    free = [12, 20, 6, 30]
    sizes = [*free, 4, 5, 2, 8, 3, 10, 2, 6]
    codes = np.zeros((30_000, len(sizes)), dtype=np.int32)
    for i, size in enumerate(free):
        codes[:, i] = drawn(np.tile(rng.dirichlet(np.ones(size)), (len(codes), 1)), rng)
    for i in range(len(free), len(sizes)):
        first, second = rng.choice(len(free), 2, replace=False)
        rule = rng.integers(0, sizes[i], (free[first], free[second] if i % 2 else 1))
        exact = rule[codes[:, first], codes[:, second] % rule.shape[1]]
        wrong = rng.random(len(codes)) < 0.01
        codes[:, i] = np.where(wrong, rng.integers(0, sizes[i], len(codes)), exact)
    return numbered(sizes), codes


def yes_no() -> Loaded:
    """Fifty yes/no columns, driven by five hidden numbers: many weak dependences, some rare columns."""
    rng = np.random.default_rng(104)
    hidden = rng.normal(size=(40_000, 5))
    loads = rng.normal(size=(5, 50)) * (rng.random((5, 50)) < 0.4)
    thresholds = rng.uniform(-0.5, 2.0, 50)
    codes = (hidden @ loads + rng.normal(size=(40_000, 50)) > thresholds).astype(np.int32)
    return numbered([2] * 50), codes


def few_rows() -> Loaded:
    """Thirty columns and 1,200 rows: pairs of columns that copy each other, and noise."""
    rng = np.random.default_rng(105)
    sizes = [2, 3, 5, 8, 12, 4, 2, 6, 10, 3] * 3
    codes = np.zeros((1200, len(sizes)), dtype=np.int32)
    for i, size in enumerate(sizes):
        codes[:, i] = size * rng.random(len(codes)) ** 2
        if i:
            copied = rng.random(len(codes)) < 0.5
            codes[copied, i] = codes[copied, int(rng.integers(max(0, i - 4), i))] % size
    return numbered(sizes), codes


def large_columns() -> Loaded:
    """Ten columns, four of 300 to 500 levels; all move together along a line, and some levels are popular."""
    rng = np.random.default_rng(106)
    sizes = [500, 380, 300, 350, 24, 12, 7, 50, 2, 3]
    codes = np.zeros((200_000, len(sizes)), dtype=np.int32)
    base = rng.random(len(codes)) ** 2
    for i, size in enumerate(sizes):
        width = (0.05, 0.1, 0.3, 1.0)[i % 4]
        moved = np.clip(base + width * rng.normal(size=len(codes)), 0.0, 0.999999)
        codes[:, i] = rng.permutation(size)[(size * moved).astype(int)] if i in (1, 3) else size * moved
    return numbered(sizes), codes


def people() -> Loaded:
    """A plain table of 50,000 people: skewed incomes that depend on age, education and smoking."""
    rng = np.random.default_rng(107)
    rows = 50_000
    age = np.clip(rng.gamma(9.0, 5.0, rows), 18, 99)
    sex = rng.random(rows) < 0.51
    region = rng.choice(8, rows, p=[0.22, 0.18, 0.15, 0.13, 0.12, 0.09, 0.07, 0.04])
    school = np.clip(rng.normal(2.2 - 0.01 * (age - 45), 1.0) + 0.1 * (region < 3), 0, 4).astype(int)
    smoker = rng.random(rows) < 0.34 - 0.05 * school + 0.03 * ~sex
    scale = 13_000 + 6_500 * school + 180 * np.minimum(age, 60) - 3_000 * sex - 4_000 * smoker
    income = np.clip(scale * rng.lognormal(-0.1, 0.5, rows), 0, 199_999)
    children = np.minimum(rng.poisson(np.interp(age, [18, 35, 99], [0.2, 1.6, 2.0])), 6)
    schema = mq.Schema(
        [
            mq.Integer("age", 18, 99),
            mq.Integer("income", 0, 199_999, width=2_000),
            mq.Boolean("smoker"),
            mq.Category("region", ["north", "south", "east", "west", "centre", "coast", "hills", "isles"]),
            mq.Category("sex", ["male", "female"]),
            mq.Category("education", ["none", "primary", "secondary", "college", "doctorate"]),
            mq.Integer("children", 0, 6),
        ]
    )
    codes = np.stack([age - 18, income // 2_000, smoker, region, sex, school, children], axis=1).astype(np.int32)
    return schema, codes


def people_bins() -> Loaded:
    """The same people in wider bins: a universe of 918,400 cells, which can be listed and fitted whole."""
    schema, codes = people()
    wider = [mq.Integer("age", 18, 99, width=2), mq.Integer("income", 0, 199_999, width=10_000), *list(schema)[2:]]
    return mq.Schema(wider), codes // np.array([2, 5, 1, 1, 1, 1, 1], dtype=np.int32)
