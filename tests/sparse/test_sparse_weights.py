"""Sparse weights: dense multiplicative weights on the renamed universe, whatever the size of the real one."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights, SparseWeights
from maquette.query import LinearQuery, Lookup, lookup, where
from maquette.schema import Boolean, Integer, Schema
from maquette.theory.updates import sparse

HUGE = Schema([Integer(f"k{i}", 0, 999_999) for i in range(7)])  # 10^42 points
PAIR = Schema([Integer("code", 0, 999_999), Integer("site", 0, 999_999)])


def element(number: int) -> dict[str, object]:
    """A point of the huge universe with this number, spread over its columns."""
    return {f"k{i}": (number * (7919 * i + 1) + 13 * i) % 1_000_000 for i in range(7)}


def asked(numbers: list[int], weights: list[float] | None = None) -> Lookup:
    return lookup(HUGE, [element(number) for number in numbers], weights=weights)


@pytest.mark.parametrize("step", ["theory", "book"])
def test_sparse_is_dense_multiplicative_weights_on_the_renamed_universe(step: str) -> None:
    rng = np.random.default_rng(1)
    model = SparseWeights(HUGE, support=5, alpha=0.2, step=step)  # type: ignore[arg-type]
    line = Schema([Integer("x", 0, model.slots - 1)])
    dense = MultiplicativeWeights(line, alpha=0.2, step=step)  # type: ignore[arg-type]
    names: dict[int, int] = {}
    for _ in range(60):
        numbers = rng.choice(60, size=int(rng.integers(1, 6)), replace=False).tolist()
        weights = rng.choice([0.25, 0.5, 1.0], size=len(numbers)).tolist()
        renamed = np.zeros(model.slots)
        for number, weight in zip(numbers, weights, strict=True):
            renamed[names.setdefault(number, len(names))] = weight
        query, plain = asked(numbers, weights), LinearQuery.product(line, {"x": renamed})
        assert model.answer(query) == pytest.approx(dense.answer(plain), abs=1e-13, rel=1e-11)
        value = float(rng.uniform(0, 1))
        model.update(query, value)
        dense.update(plain, value)
    assert model.touched == len(names)
    every = [model.answer(asked([number])) for number in names]
    assert np.allclose(every, dense.marginal(["x"])[list(names.values())], rtol=1e-11, atol=0)
    assert model.elsewhere == pytest.approx(dense.marginal(["x"])[len(names) :].sum(), rel=1e-9)


def test_a_small_universe_is_dense_multiplicative_weights_itself() -> None:
    schema = Schema([Integer("a", 0, 3), Boolean("b")])
    model, dense = SparseWeights(schema, support=8, alpha=0.1), MultiplicativeWeights(schema, alpha=0.1)
    assert (model.slots, model.update_bound) == (8, dense.update_bound)
    for text, value in (("a < 2", 0.9), ("b AND a = 3", 0.3), ("NOT b", 0.1), ("a IN (0, 3)", 0.2)):
        model.update(where(schema, text), value)
        dense.update(where(schema, text), value)
        assert np.allclose(model.marginal(["b", "a"]), dense.marginal(["b", "a"]), atol=1e-14)


@pytest.mark.parametrize(
    ("support", "alpha", "bound"), [(20, 0.1, 456), (5, 0.1, None), (100, 0.05, None), (1, 0.3, None)]
)
def test_the_bound_is_that_of_the_theory_whatever_the_universe(support: int, alpha: float, bound: int | None) -> None:
    model = SparseWeights(HUGE, support=support, alpha=alpha)
    updates = sparse(support, alpha)
    assert (model.update_bound, model.slots) == (updates, support * updates + 1)
    assert bound is None or updates == bound
    assert model.update_bound < MultiplicativeWeights.max_updates(HUGE, alpha)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("adversary", ["min-gap", "max-gap", "random"])
@pytest.mark.parametrize(("support", "alpha"), [(5, 0.1), (20, 0.1), (5, 0.2)])
def test_sparse_weights_never_exceed_their_update_bound(adversary: str, support: int, alpha: float) -> None:
    """Look-ups of keys that the table has and keys that it lacks, values as wrong as a valid step allows."""
    rng = np.random.default_rng(support)
    held = rng.choice(10**6, 40 if adversary == "random" else 3, replace=False)
    table = dict(zip(held.tolist(), rng.dirichlet(np.full(len(held), 0.5)).tolist(), strict=True))
    pool = []
    for _ in range(60):
        some = rng.choice(held, size=min(len(held), int(rng.integers(1, support + 1))), replace=False).tolist()
        pool.append(list(dict.fromkeys(some + rng.integers(0, 10**6, support).tolist()))[:support])
    queries = [(asked(numbers), sum(table.get(number, 0.0) for number in numbers)) for numbers in pool]
    model, made = SparseWeights(HUGE, support=support, alpha=alpha), 0
    while True:
        gaps = np.array([truth - model.answer(query) for query, truth in queries])
        off = np.flatnonzero(np.abs(gaps) >= alpha)
        if not len(off):
            break
        sizes = np.abs(gaps[off])
        chosen = off[
            {"min-gap": sizes.argmin(), "max-gap": sizes.argmax(), "random": rng.integers(len(off))}[adversary]
        ]
        query, truth = queries[chosen]
        model.update(query, truth - math.copysign(alpha * (1 - 1e-9), gaps[chosen]))
        made += 1
        assert made <= model.update_bound
    assert made > 0
    assert model.touched <= support * made < model.slots


def test_the_potential_falls_by_two_alpha_squared_on_every_valid_step() -> None:
    alpha, model = 0.2, SparseWeights(HUGE, support=3, alpha=0.2)
    table = {1: 0.6, 2: 0.3, 3: 0.1}

    def divergence() -> float:
        return sum(share * math.log(share / model.answer(asked([number]))) for number, share in table.items())

    before = divergence()
    assert before <= math.log(model.slots)
    for numbers in ([1], [1, 2], [1, 2, 3], [2], [1, 50]) * 8:
        truth = sum(table.get(number, 0.0) for number in numbers)
        if abs(truth - model.answer(asked(numbers))) >= alpha:
            model.update(asked(numbers), truth)
            after = divergence()
            assert after <= before - 2 * alpha**2 + 1e-12
            before = after


def test_memory_and_state_grow_with_touched_points_alone() -> None:
    model = SparseWeights(HUGE, support=20, alpha=0.1)
    for number in range(200):  # asking leaves no trace
        model.answer(asked([number]))
    assert (model.touched, len(model._logs), len(model._places)) == (0, 0, 0)
    for number in range(0, 100, 10):
        model.update(asked(list(range(number, number + 10))), 1.0)
    assert model.touched == 100
    assert sys.getsizeof(model._places) + model._logs.nbytes < 20_000


def test_renaming_the_elements_renames_the_model() -> None:
    rng = np.random.default_rng(4)
    renaming = rng.permutation(10**6)
    one, other = (SparseWeights(HUGE, support=4, alpha=0.1) for _ in range(2))
    for _ in range(40):
        numbers, value = rng.choice(30, 4, replace=False).tolist(), float(rng.random())
        one.update(asked(numbers), value)
        other.update(asked([int(renaming[number]) for number in numbers]), value)
    for number in range(35):
        assert one.answer(asked([number])) == pytest.approx(other.answer(asked([int(renaming[number])])), rel=1e-11)


def test_extreme_weights_neither_overflow_nor_get_lost() -> None:
    model = SparseWeights(HUGE, support=1, alpha=1.0)
    one, other = asked([1]), asked([2])
    for _ in range(300):
        model.update(one, 2.0)
        model.update(other, -1.0)
    assert model.answer(asked([1])) == pytest.approx(1.0)
    assert model.answer(asked([2])) == 0.0
    for _ in range(300):
        model.update(one, -1.0)
    assert model.answer(one) == pytest.approx(1 / 2, rel=1e-9)  # it and the one cell that is always left


def test_marginal_and_sample_are_touched_points_and_the_rest_elsewhere() -> None:
    schema = Schema([Integer("code", 0, 999_999), Boolean("b"), Integer("c", 0, 3)])
    model = SparseWeights(schema, support=2, alpha=0.3, columns=["b", "code"])
    key = lookup(schema, {"code": 7, "b": True})
    for _ in range(6):
        model.update(key, 1.0)
    mass = model.answer(key)
    points, masses = model.touched_points()
    assert model.columns == ("code", "b")
    assert (points.tolist(), masses.tolist()) == ([[7, 1]], [mass])
    assert mass + model.elsewhere == pytest.approx(1.0)
    table = model.marginal(["b", "c"])
    rest = model.elsewhere * np.array([10**6, 10**6 - 1]) / (2 * 10**6 - 1)
    assert np.allclose(table, ((rest + np.array([0, mass])) / 4)[:, None] * np.ones(4))
    assert model.marginal(()) == pytest.approx(1.0)
    records = model.sample(1000, np.random.default_rng(3))
    here = (records[:, 0] == 7) & (records[:, 1] == 1)
    assert abs(here.sum() - 1000 * mass) < 1
    assert len(np.unique(records[~here, 0])) > 0.9 * (~here).sum()
    assert set(records[:, 2]) == {0, 1, 2, 3}
    with pytest.raises(QueryError, match="ask for fewer columns"):
        SparseWeights(PAIR, support=2, alpha=0.3).marginal(["code", "site"])


BAD = {
    "support of zero": (lambda: SparseWeights(PAIR, support=0, alpha=0.1), "support is 0"),
    "exact steps": (lambda: SparseWeights(PAIR, support=1, alpha=0.1, step="exact"), "there is no step"),  # type: ignore[arg-type]
    "alpha": (lambda: SparseWeights(PAIR, support=1, alpha=0.0), "alpha is 0.0; expected a number in"),
    "no column": (lambda: SparseWeights(PAIR, support=1, alpha=0.1, columns=["cod"]), "did you mean code"),
    "no columns": (lambda: SparseWeights(PAIR, support=1, alpha=0.1, columns=[]), "at least one key column"),
    "too many keys": (
        lambda: SparseWeights(PAIR, support=2, alpha=0.1).answer(
            lookup(PAIR, [{"code": i, "site": 1} for i in range(3)])
        ),
        "touches 3 points of code, site, more than 2; list fewer keys",
    ),
    "a free column": (
        lambda: SparseWeights(PAIR, support=2, alpha=0.1).answer(lookup(PAIR, {"code": 3})),
        "touches up to 1,000,000 points",
    ),
    "columns beyond the keys": (
        lambda: SparseWeights(PAIR, support=2, alpha=0.1, columns=["code"]).answer(lookup(PAIR, {"site": 3})),
        "depends on site",
    ),
    "another schema": (
        lambda: SparseWeights(HUGE, support=2, alpha=0.1).answer(lookup(PAIR, {"code": 3})),
        "another schema",
    ),
    "no number": (
        lambda: SparseWeights(PAIR, support=2, alpha=0.1).update(lookup(PAIR, {"code": 3, "site": 3}), math.nan),
        "finite fraction",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_asked_is_refused(case: str) -> None:
    act, message = BAD[case]
    with pytest.raises(QueryError, match=message):
        act()


def test_conditions_with_few_points_are_found_without_listing_the_universe() -> None:
    schema = Schema([Integer("code", 0, 9_999), Integer("site", 0, 9_999), Boolean("b")])
    model = SparseWeights(schema, support=4, alpha=0.1)
    texts = ["code = 4711 AND site IN (3, 5)", "code = 1 AND site = 2 AND b OR code = 3 AND site = 4 AND NOT b"]
    keys = [
        [{"code": 4711, "site": s, "b": b} for s, b in itertools.product((3, 5), (False, True))],
        [{"code": 1, "site": 2, "b": True}, {"code": 3, "site": 4, "b": False}],
    ]
    for text, listed in zip(texts, keys, strict=True):
        model.update(where(schema, text), 1.0)
        assert model.answer(where(schema, text)) == model.answer(lookup(schema, listed))
    assert model.touched == 6
    with pytest.raises(QueryError, match="complement the other way round"):
        model.answer(~where(schema, texts[0]))
