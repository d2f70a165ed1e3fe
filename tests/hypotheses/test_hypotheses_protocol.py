"""Every registered update rule keeps the same contract, and so does the one that CONTRIBUTING shows.

To run a rule of your own through this suite, give `EXAMPLES` of `hypothesis_checks` a way to build it.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis_checks import ALPHA, EXAMPLES, SMALL, VARIANTS, Variant

from maquette.errors import MaquetteError
from maquette.hypothesis import HYPOTHESES, Hypothesis, Savable, saving
from maquette.query import LinearQuery, Marginal

EVERYONE = {**VARIANTS, **EXAMPLES}
CASES = [pytest.param(variant, id=f"{name} {variant}") for name, made in EVERYONE.items() for variant in made]
EVERY_VARIANT = pytest.mark.parametrize("variant", CASES)


def trained(variant: Variant, steps: int = 12, seed: int = 3) -> Hypothesis:
    model, rng = variant.build(), np.random.default_rng(seed)
    for _ in range(steps):
        model.update(variant.ask(SMALL, rng), float(rng.uniform(0.2, 0.8)))
    return model


def bits(model: Hypothesis) -> bytes:
    return model.marginal(SMALL.names).tobytes()


def test_every_registered_class_is_tested() -> None:
    assert set(VARIANTS) == set(HYPOTHESES)
    for name, variants in VARIANTS.items():
        assert all(type(variant.build()) is HYPOTHESES[name] for variant in variants)


@pytest.mark.thorough(fast=12)
@EVERY_VARIANT
def test_the_answer_to_a_cell_is_the_cell_of_the_marginal(variant: Variant) -> None:
    model = trained(variant)
    for columns in ((), ("b",), ("c", "a"), ("b", "c", "a")):
        table = model.marginal(columns)
        assert table.shape == SMALL.shape(columns)
        answers = {cell: model.answer(query) for cell, query in Marginal(SMALL, columns).queries()}
        assert all(abs(table[cell] - answer) < 1e-12 for cell, answer in answers.items())


@pytest.mark.thorough(fast=15)
@EVERY_VARIANT
def test_a_distribution_answers_a_complement_with_the_rest(variant: Variant) -> None:
    model, rng = trained(variant), np.random.default_rng(4)
    if not variant.distribution:
        assert variant.name in {"theory", "book", "norm", "random net", "centred", "exact"}
        return
    assert model.marginal(SMALL.names).min() >= 0.0
    assert abs(model.answer(LinearQuery.constant(SMALL)) - 1.0) < 1e-12
    for _ in range(20):
        query = variant.ask(SMALL, rng)
        assert abs(model.answer(query) + model.answer(~query) - 1.0) < 1e-9


@pytest.mark.thorough(fast=12)
@EVERY_VARIANT
def test_an_update_moves_the_answer_towards_the_value(variant: Variant) -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        model, query = variant.build(), variant.ask(SMALL, rng)
        before = model.answer(query)
        low, high = query.bounds
        value = low if before - low > high - before else high
        if abs(value - before) >= ALPHA:
            model.update(query, value)
            assert (model.answer(query) - before) * (value - before) > 0


@pytest.mark.thorough(fast=9)
@EVERY_VARIANT
def test_replaying_a_transcript_gives_identical_bits_whatever_was_asked_between(variant: Variant) -> None:
    rng = np.random.default_rng(8)
    transcript = [(variant.ask(SMALL, rng), float(rng.uniform(0.2, 0.8))) for _ in range(15)]
    plain, curious = variant.build(), variant.build()
    for query, value in transcript:
        plain.update(query, value)
        curious.answer(variant.ask(SMALL, rng))
        curious.marginal(["a", "c"])
        curious.update(query, value)
        curious.sample(5, rng)
    assert bits(plain) == bits(curious)


@EVERY_VARIANT
def test_only_the_side_of_the_value_matters_to_a_theory_step(variant: Variant) -> None:
    rng = np.random.default_rng(9)
    near, far = variant.build(), variant.build()
    for _ in range(10):
        query = variant.ask(SMALL, rng)
        side = rng.choice([-1.0, 1.0])
        answer = near.answer(query)
        near.update(query, answer + 0.01 * side)
        far.update(query, answer + 0.7 * side)
    assert (bits(near) == bits(far)) == variant.signs_only


@EVERY_VARIANT
def test_a_value_equal_to_the_answer_changes_nothing(variant: Variant) -> None:
    model, query = trained(variant), variant.ask(SMALL, np.random.default_rng(2))
    before = model.marginal(SMALL.names)
    model.update(query, model.answer(query))
    assert np.allclose(model.marginal(SMALL.names), before, rtol=0, atol=1e-12)


@EVERY_VARIANT
def test_sampled_marginals_are_within_one_row_per_cell(variant: Variant) -> None:
    model, rows = trained(variant), 5000
    records = model.sample(rows, np.random.default_rng(7))
    assert records.shape == (rows, 3)
    assert records.dtype == np.int32
    assert ((records >= 0) & (records < SMALL.shape(SMALL.names))).all()
    if variant.distribution:
        counts = np.zeros(SMALL.shape(SMALL.names))
        np.add.at(counts, tuple(records.T), 1)
        assert np.abs(counts - rows * model.marginal(SMALL.names)).max() < 1 + 1e-6
    assert model.sample(0, np.random.default_rng(7)).shape == (0, 3)
    assert np.array_equal(records, model.sample(rows, np.random.default_rng(7)))


@pytest.mark.thorough(fast=17)
@EVERY_VARIANT
def test_a_model_is_restored_from_plain_facts_and_finite_arrays(variant: Variant) -> None:
    model, rng = trained(variant), np.random.default_rng(11)
    assert isinstance(model, Savable)
    facts = json.loads(json.dumps(saving.described(model)))
    arrays = {name: np.array(values) for name, values in model.arrays().items()}
    assert all(values.dtype.kind in "biuf" and np.isfinite(values).all() for values in arrays.values())
    again = type(model).restore(SMALL, facts, arrays)
    assert facts["kind"] == type(model).kind == again.kind
    assert np.allclose(again.marginal(SMALL.names), model.marginal(SMALL.names), rtol=0, atol=1e-12)
    for _ in range(5):
        query, value = variant.ask(SMALL, rng), float(rng.uniform(0.2, 0.8))
        model.update(query, value)
        again.update(query, value)
        assert again.answer(query) == pytest.approx(model.answer(query), abs=1e-9)


@EVERY_VARIANT
def test_arrays_of_another_shape_are_not_restored(variant: Variant) -> None:
    model = trained(variant)
    facts, arrays = saving.described(model), dict(model.arrays())
    for name, held in list(arrays.items()):
        for odd in (np.ones((1, 1, 1, 1)), np.full(held.shape, np.nan)):
            if held.dtype.kind != "b" and odd.size:
                with pytest.raises(MaquetteError):
                    type(model).restore(SMALL, facts, {**arrays, name: odd})


@pytest.mark.parametrize("name", EVERYONE)
def test_a_finer_goal_allows_more_updates(name: str) -> None:
    kind = type(EVERYONE[name][0].build())
    bounds = [kind.max_updates(SMALL, alpha) for alpha in (0.4, 0.2, 0.1, 0.05)]
    assert all(math.isfinite(bound) and bound > 0 for bound in bounds)
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("most", [True, False], ids=["most wrong", "least wrong"])
def test_an_example_never_exceeds_its_update_bound(name: str, most: bool) -> None:
    """Of all cells and pairs of columns, the one most or least wrong, but by alpha or more, until there is none."""
    model, alpha = EXAMPLES[name][0].build(), ALPHA
    truth = np.random.default_rng(0).dirichlet(np.full(SMALL.size, 0.1)).reshape(SMALL.shape(SMALL.names))
    queries = [q for c in (("a",), ("b", "c"), ("a", "c"), ("a", "b", "c")) for _, q in Marginal(SMALL, c).queries()]
    truths = [float((truth * query.weights(SMALL.names)).sum()) for query in queries]
    updates = 0
    while True:
        gaps = [abs(model.answer(query) - value) for query, value in zip(queries, truths, strict=True)]
        wrong = [(gap, i) for i, gap in enumerate(gaps) if gap >= alpha]
        if not wrong:
            break
        chosen = (max if most else min)(wrong)[1]
        model.update(queries[chosen], truths[chosen])
        updates += 1
        assert updates <= type(model).max_updates(SMALL, alpha)
    assert updates > 0
