"""The block basis: it holds the table up to gamma, updates no more often than its bound, and refuses the rest."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from maquette.errors import DataError, MaquetteError, QueryError
from maquette.hypothesis import BlockPolynomial, Hypothesis, saving
from maquette.query import LinearQuery, Literals, disjunctions, literal_query, where
from maquette.schema import Boolean, Integer, Schema
from maquette.theory.polynomial import least_weight


def attributes(d: int) -> Schema:
    return Schema([Boolean(f"s{i}") for i in range(d)])


def low_weight(k: int, blocks: int, gamma: float = 0.05) -> list[float]:
    found = least_weight(min(k, blocks), min(k, blocks), blocks, gamma)
    assert found is not None
    return found.newton[1:].tolist()


@pytest.mark.parametrize(("d", "k", "blocks"), [(6, 2, 2), (8, 3, 3), (10, 3, 2), (7, 3, 4)])
@pytest.mark.parametrize("exact", [True, False])
def test_every_row_is_within_gamma_of_a_combination_of_the_basis(d: int, k: int, blocks: int, exact: bool) -> None:
    """For all x and all |y| <= k: sum_j a_j e_j(u) is near OR, with weight at most W."""
    coefficients = None if exact else low_weight(k, blocks)
    model = BlockPolynomial(attributes(d), k=k, alpha=0.2, blocks=blocks, coefficients=coefficients)
    rows = np.array([*itertools.product((0, 1), repeat=d)])
    asked = rows[rows.sum(axis=1) <= k]
    cuts = np.cumsum([0, *(len(block) for block in model.blocks)])
    met = np.stack([rows[:, a:b] @ asked[:, a:b].T > 0 for a, b in itertools.pairwise(cuts)])  # blocks x rows x asked
    value = np.zeros(met.shape[1:])
    for j, a in enumerate(model.coefficients, 1):
        for chosen in itertools.combinations(range(blocks), j):
            value += a * met[list(chosen)].all(axis=0)
    assert np.abs(value - (rows @ asked.T > 0)).max() <= model.gamma + 1e-9
    assert model.gamma == pytest.approx(0.0 if exact else 0.05)
    if not exact:
        assert model.weight < BlockPolynomial(attributes(d), k=k, alpha=0.2, blocks=blocks).weight


def test_sizes_are_those_of_the_theory() -> None:
    model = BlockPolynomial(attributes(20), k=3, alpha=0.1)
    assert model.features == 2 * 1023 + 1023**2
    assert model.weight == 3.0
    assert model.update_bound == pytest.approx(2 * 9 * math.log(2 * model.features) / 0.01)
    assert BlockPolynomial.max_updates(model.schema, 0.1) == pytest.approx(model.update_bound)
    single = BlockPolynomial(attributes(8), k=2, alpha=0.1, blocks=1)
    assert (single.weight, single.features) == (1.0, 255)  # one block is plain multiplicative weights over rows


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", ["max-gap", "min-gap", "random"])
@pytest.mark.parametrize(("blocks", "exact"), [(1, True), (2, True), (2, False), (3, True)])
def test_it_never_exceeds_its_update_bound(kind: str, blocks: int, exact: bool) -> None:
    d, k, alpha = 6, 3, 0.3
    schema, rng = attributes(d), np.random.default_rng(blocks)
    coefficients = None if exact else low_weight(k, blocks)
    model = BlockPolynomial(schema, k=k, alpha=alpha, blocks=blocks, coefficients=coefficients)
    rows = rng.integers(0, 2, (3, d))
    queries = list(disjunctions(schema, k, monotone=True, up_to=True))
    queries += [~query for query in queries[:10]]
    truth = np.array([query.evaluate(rows).mean() for query in queries])
    made = 0
    while made <= model.update_bound + 1:
        gaps = truth - np.array([model.answer(query) for query in queries])
        off = np.flatnonzero(np.abs(gaps) >= alpha)
        if not len(off):
            break
        size = np.abs(gaps[off])
        i = off[{"max-gap": size.argmax(), "min-gap": size.argmin(), "random": rng.integers(len(off))}[kind]]
        # As wrong a value as a valid step allows.
        model.update(queries[i], float(truth[i] - np.sign(gaps[i]) * alpha * (1 - 1e-9)))
        made += 1
    assert 0 < made <= model.update_bound


def test_answers_are_clipped_moved_by_the_sign_and_deterministic() -> None:
    schema = attributes(4)
    first, again = (BlockPolynomial(schema, k=2, alpha=0.2) for _ in range(2))
    query = where(schema, "s0 OR s3")
    for value in (0.9, 0.9, 0.1, 0.7):
        before = first.answer(query)
        first.update(query, value)
        again.update(~query, 1 - value)
        assert (first.answer(query) - before) * (value - before) > 0
        assert first.answer(query) == again.answer(query)
        assert first.answer(~query) == pytest.approx(1 - first.answer(query))
    for _ in range(500):
        first.update(query, 2.0)
    assert first.answer(query) == 1.0
    first.update(query, first.answer(query))
    assert first.answer(query) == 1.0
    model: Hypothesis = first  # the contract, as the type checker sees it
    assert "2 blocks" in repr(model)


def test_it_restores_itself_and_refuses_what_does_not_fit() -> None:
    schema = attributes(4)
    model = BlockPolynomial(schema, k=2, alpha=0.1)
    query = literal_query(schema, Literals("any", schema.names[:2], (1, 1)))
    for value in (0.3, 0.6, 0.4):
        model.update(query, value)
    facts, arrays = json.loads(json.dumps(saving.described(model))), dict(model.arrays())
    assert BlockPolynomial.restore(schema, facts, arrays).answer(query) == model.answer(query)
    odd: list[Any] = [None, -1, 1.5, 2**40, float("nan"), "x", [], {}, [[]], True]
    for name in ("k", "alpha", "blocks", "coefficients"):
        for value in odd:
            with suppress(MaquetteError):
                BlockPolynomial.restore(schema, facts | {name: value}, arrays).answer(query)
    with pytest.raises(DataError, match="shape"):
        BlockPolynomial.restore(schema, facts, arrays | {"logs-0": np.zeros(1)})
    with pytest.raises(DataError, match="missing"):
        BlockPolynomial.restore(schema, facts, {})


def test_marginals_agree_with_the_disjunctions() -> None:
    schema, rng = attributes(5), np.random.default_rng(4)
    model = BlockPolynomial(schema, k=2, alpha=0.2)
    for _ in range(30):
        model.update(disjunctions(schema, 2, monotone=True).sample(1, rng)[0], float(rng.random()))
    for pair in itertools.permutations(schema.names[:3], 2):
        table = model.marginal(pair)
        assert table.sum() == pytest.approx(1.0)
        assert 1 - table[0, 0] == pytest.approx(model.answer(literal_query(schema, Literals("any", pair, (1, 1)))))
        assert table.sum(axis=1) == pytest.approx(model.marginal(pair[:1]))
    assert model.marginal(()) == pytest.approx(1.0)


def test_what_it_cannot_do_is_refused() -> None:
    schema = attributes(4)
    model = BlockPolynomial(schema, k=2, alpha=0.2)
    for text in ("s0 AND s1", "s0 OR NOT s1", "s0 OR s1 OR s2", "TRUE"):
        with pytest.raises(QueryError, match="at most 2 columns that hold"):
            model.answer(where(schema, text))
        with pytest.raises(QueryError, match="at most 2 columns that hold"):
            model.update(where(schema, text), 0.5)
    with pytest.raises(QueryError, match="another schema"):
        model.answer(where(attributes(5), "s0"))
    with pytest.raises(QueryError, match="no records to sample"):
        model.sample(3, np.random.default_rng(0))
    with pytest.raises(QueryError, match="got 3 columns; expected at most 2 different ones"):
        model.marginal(schema.names[:3])
    with pytest.raises(QueryError, match="finite"):
        model.update(where(schema, "s0"), math.nan)
    assert isinstance(where(schema, "s0"), LinearQuery)


@pytest.mark.parametrize(
    ("schema", "settings", "message"),
    [
        (attributes(21), {"k": 2, "alpha": 0.1}, "21 attributes are more than the 20"),
        (attributes(6), {"k": 4, "alpha": 0.1}, "k is 4; expected a whole number from 1 to 3"),
        (attributes(2), {"k": 3, "alpha": 0.1}, "k is 3; expected a whole number from 1 to 2"),
        (attributes(3), {"k": 2, "alpha": 0.1, "blocks": 4}, "blocks is 4; expected a whole number from 1 to 3"),
        (attributes(3), {"k": 2, "alpha": 0.0}, "alpha is .*; expected a number in"),
        (attributes(3), {"k": 2, "alpha": 0.1, "coefficients": [0.8]}, "err by 0.6"),
        (Schema([Boolean("a"), Integer("n", 0, 4)]), {"k": 1, "alpha": 0.1}, r"n \(5\) .* two levels each"),
    ],
)
def test_bad_settings_are_explained(schema: Schema, settings: dict[str, float], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        BlockPolynomial(schema, **settings)  # type: ignore[arg-type]
