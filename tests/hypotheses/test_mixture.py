"""The mixture of products: against a dense table, with impossible combinations, with 500 columns, from bad files."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis_checks import SMALL, random_mixture, random_query, random_sum

from maquette.errors import DataError, QueryError
from maquette.hypothesis import Mixture, blocks_of, rule_of, saving
from maquette.query import LinearQuery, where
from maquette.schema import Boolean, Category, Integer, Schema

Named = tuple[str, ...]

BARRED = Schema(
    [Integer("age", 0, 4), Boolean("married"), Category("sex", ["f", "m"]), Boolean("pregnant"), Integer("x", 0, 2)],
    impossible=[{"age": ["0", "1"], "married": "true"}, {"sex": "m", "pregnant": "true"}, {"age": "0", "sex": "m"}],
)


def dense(model: Mixture) -> np.ndarray:
    """The whole universe, the slow way."""
    schema, total = model.schema, np.zeros(model.schema.shape(model.schema.names))
    for k, weight in enumerate(model.weights):
        product = np.full((1,) * len(schema), weight)
        for block in model.blocks:
            shape = [column.size if i in block.positions else 1 for i, column in enumerate(schema)]
            product = product * model.tables[block.columns][k].reshape(shape)
        total += product
    return total


def barred(components: int = 4, seed: int = 0) -> Mixture:
    """A random mixture that respects the impossible combinations of BARRED."""
    rng, blocks = np.random.default_rng(seed), []
    for columns in blocks_of(BARRED):
        table = rng.dirichlet(np.full(BARRED.cells(columns), 0.6), components)
        for names, mask in BARRED.zeros:
            if set(names) <= set(columns):
                shape = [BARRED[name].size if name in names else 1 for name in columns]
                table[:, np.broadcast_to(mask.reshape(shape), BARRED.shape(columns)).reshape(-1)] = 0.0
        blocks.append((columns, table / table.sum(axis=1, keepdims=True)))
    return Mixture(BARRED, rng.dirichlet(np.ones(components)), blocks)


def partition(draw: Any, names: Named) -> list[Named]:
    group = [draw(st.integers(0, 2)) for _ in names]
    return [tuple(n for n, g in zip(names, group, strict=True) if g == i) for i in sorted(set(group), reverse=True)]


@st.composite
def mixtures(draw: Any) -> Mixture:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    schema = Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])
    return random_mixture(schema, partition(draw, schema.names), draw(st.integers(1, 6)), draw(st.integers(0, 99)))


@settings(max_examples=60, deadline=None)
@given(mixtures(), st.integers(0, 10**6), st.data())
def test_answers_and_marginals_are_those_of_the_dense_table(model: Mixture, seed: int, data: Any) -> None:
    table, rng = dense(model), np.random.default_rng(seed)
    columns = data.draw(st.permutations(model.schema.names))[: data.draw(st.integers(0, len(model.schema)))]
    positions = [model.schema.position(name) for name in columns]
    gone = tuple(i for i in range(table.ndim) if i not in positions)
    kept = np.transpose(table.sum(axis=gone), [sorted(positions).index(p) for p in positions])
    found = model.marginal(columns)
    assert found.dtype == np.float64
    assert abs(found.sum() - 1.0) < 1e-12
    assert np.allclose(found, kept, rtol=0, atol=1e-14)
    for make in (random_query, random_sum):
        query = make(model.schema, rng)
        assert model.answer(query) == pytest.approx((table * query.weights(model.schema.names)).sum(), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(mixtures(), st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_a_step_leads_towards_the_value_and_not_beyond_it(model: Mixture, seed: int, value: float) -> None:
    query = random_query(model.schema, np.random.default_rng(seed))
    before = model.answer(query)
    model.update(query, value)
    after = model.answer(query)
    assert abs(after - value) <= abs(before - value) + 1e-6
    assert abs(dense(model).sum() - 1.0) < 1e-12


def test_one_step_reaches_a_value_on_one_column_and_leaves_others_as_they_were_where_they_are_independent() -> None:
    model = random_mixture(SMALL, [("a",), ("b",), ("c",)], components=1)
    query, others = LinearQuery.product(SMALL, {"a": [1.0, 0.0, 0.0]}), model.marginal(["b", "c"])
    model.update(query, 0.3)
    assert model.answer(query) == pytest.approx(0.3, abs=1e-8)
    assert np.allclose(model.marginal(["b", "c"]), others, rtol=0, atol=1e-15)


def test_one_step_tilts_weights_and_blocks_as_written() -> None:
    """Against the tilt 1 + c q of the whole universe: weights and blocks are its own, component by component."""
    model = random_mixture(SMALL, [("b",), ("a", "c")])
    query = LinearQuery.product(SMALL, {"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0]}) | LinearQuery.product(
        SMALL, {"c": [0.2, 0.9, 0.0, 0.4]}
    )
    parts, start, weighed = model.tables, model.weights, query.weights(SMALL.names)
    model.update(query, 0.8)
    ratios = []
    for k in range(model.components):
        joint = start[k] * np.einsum("b,ac->abc", parts["b",][k], parts["a", "c"][k].reshape(3, 4))
        first, last = (joint * weighed).sum(axis=(0, 2)) / joint.sum(axis=(0, 2)), model.tables["b",][k]
        moved = last / parts["b",][k]
        c = (moved[1] - moved[0]) / (moved[0] * first[1] - moved[1] * first[0])
        tilted = joint * (1 + c * weighed)
        assert np.allclose(tilted.sum(axis=1) / tilted.sum(), model.tables["a", "c"][k].reshape(3, 4), atol=1e-9)
        ratios.append(tilted.sum() / model.weights[k])
    assert np.allclose(ratios, ratios[0])


@pytest.mark.thorough
def test_many_steps_fit_every_pair() -> None:
    truth = np.random.default_rng(3).dirichlet(np.full(24, 0.5)).reshape(3, 2, 4)
    model = random_mixture(SMALL, [("a",), ("b",), ("c",)], components=30)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    gone = {("a", "b"): 2, ("a", "c"): 1, ("b", "c"): 0}
    for _ in range(30):
        for pair in pairs:
            for cell, value in np.ndenumerate(truth.sum(axis=gone[pair])):
                factors = {n: np.eye(SMALL[n].size)[level] for n, level in zip(pair, cell, strict=True)}
                model.update(LinearQuery.product(SMALL, factors), float(value))
    assert max(np.abs(model.marginal(pair) - truth.sum(axis=gone[pair])).max() for pair in pairs) < 0.01


def test_blocks_hold_every_connected_set_of_impossible_combinations() -> None:
    assert blocks_of(BARRED) == [("age", "married", "sex", "pregnant"), ("x",)]
    assert blocks_of(SMALL) == [("a",), ("b",), ("c",)]
    assert blocks_of(SMALL, [("c", "a")]) == [("a", "c"), ("b",)]


def test_impossible_combinations_stay_impossible() -> None:
    model, rng = barred(), np.random.default_rng(1)
    for _ in range(10):
        model.update(random_query(BARRED, rng), float(rng.uniform(0.1, 0.9)))
    for columns, mask in BARRED.zeros:
        assert (model.marginal(columns)[mask] == 0.0).all()
        records = model.sample(3000, rng)[:, [BARRED.position(name) for name in columns]]
        assert not mask[tuple(records.T)].any()


@pytest.mark.parametrize("rows", [1, 37, 5000])
def test_draws_from_a_large_universe_are_rounded_shares_in_every_block_of_a_component(rows: int) -> None:
    schema = Schema([Integer(f"c{i}", 0, 19) for i in range(6)])
    rng, blocks = np.random.default_rng(4), [("c0",), ("c1", "c3"), ("c2",), ("c4",), ("c5",)]
    tables = [(columns, rng.dirichlet(np.full(schema.cells(columns), 0.3), 1)) for columns in blocks]
    for _, table in tables:
        table[:, ::3] = 0.0
        table[:, -2:] = 0.0
    model = Mixture(schema, np.ones(1), [(columns, table / table.sum()) for columns, table in tables])
    records = model.draw(rows, rng)
    for columns, table in model.tables.items():
        places = [records[:, schema.position(name)] for name in columns]
        counts = np.bincount(np.ravel_multi_index(places, schema.shape(columns)), minlength=table.shape[1])
        assert np.abs(counts - rows * table[0]).max() < 1 + 1e-6
        assert not counts[table[0] == 0.0].any()


@pytest.mark.thorough
def test_five_hundred_columns() -> None:
    schema = Schema([Integer(f"c{i}", 0, 9) for i in range(500)])
    model, rng = random_mixture(schema, [(name,) for name in schema.names], components=300), np.random.default_rng(2)
    start = time.process_time()
    tables = [model.marginal(list(rng.choice(schema.names, 3, replace=False))) for _ in range(50)]
    assert (time.process_time() - start) / 50 < 0.05
    assert all(abs(table.sum() - 1.0) < 1e-12 for table in tables)
    query = random_sum(schema, rng)
    model.update(query, model.answer(query) + 0.01)
    model.update(where(schema, "c3 < 4 AND c99 < 2"), 0.2)
    assert model.answer(where(schema, "c3 < 4 AND c99 < 2")) == pytest.approx(0.2, abs=1e-6)
    records = model.sample(2000, rng)
    shares = model.marginal(["c7"])
    assert np.abs(np.bincount(records[:, 7], minlength=10) / 2000 - shares).max() < 0.02
    again = Mixture.restore(schema, saving.described(model), model.arrays())
    assert np.array_equal(again.marginal(["c1", "c2"]), model.marginal(["c1", "c2"]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_kept_as_given_and_scaled_to_sum_to_one(dtype: type[np.floating[Any]]) -> None:
    made = random_mixture(SMALL, [("a", "b"), ("c",)])
    tables = [(columns, table.astype(dtype)) for columns, table in made.tables.items()]
    model = Mixture(SMALL, made.weights.astype(dtype), tables)
    assert model.arrays()["tables"].dtype == dtype
    assert abs(model.marginal(SMALL.names).sum() - 1.0) < 1e-15
    again = Mixture.restore(SMALL, json.loads(json.dumps(saving.described(model))), model.arrays())
    assert np.array_equal(again.marginal(SMALL.names), model.marginal(SMALL.names))
    assert all(np.array_equal(values, again.arrays()[name]) for name, values in model.arrays().items())


def test_a_mixture_has_no_bound_on_its_updates_so_no_promise_is_made_with_it() -> None:
    with pytest.raises(QueryError, match="no bound on its updates"):
        rule_of(SMALL, random_mixture(SMALL, [SMALL.names]))


HALF = np.full((2, 3), 1 / 3)
GOOD: list[tuple[Named, Any]] = [(("a",), HALF), (("b",), np.full((2, 2), 0.5)), (("c",), np.full((2, 4), 0.25))]


@pytest.mark.parametrize(
    ("weights", "blocks", "said"),
    [
        ([0.5, 0.6], GOOD, "weights: probabilities sum to one only within 0.1"),
        ([1.5, -0.5], GOOD, "finite and not negative"),
        ([0.5, np.nan], GOOD, "finite and not negative"),
        ([1.0], GOOD, "shape"),
        ([], GOOD, "shape"),
        ([0.5, 0.5], GOOD[:2], "not in one block: c"),
        ([0.5, 0.5], [*GOOD, GOOD[0]], "not in one block: a"),
        ([0.5, 0.5], [(("c", "a"), np.full((2, 12), 1 / 12)), GOOD[1]], "in schema order"),
        ([0.5, 0.5], [((), np.ones((2, 1))), *GOOD], "in schema order"),
        ([0.5, 0.5], [(("z",), HALF), *GOOD[1:]], "no column 'z'"),
        ([0.5, 0.5], [(("a",), HALF.T), *GOOD[1:]], "the block a: the table has shape"),
        ([0.5, 0.5], [(("a",), HALF * 2), *GOOD[1:]], "the block a: probabilities sum"),
    ],
)
def test_what_is_not_a_mixture_is_refused(weights: list[float], blocks: Any, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        Mixture(SMALL, np.array(weights), blocks)


def test_blocks_that_do_not_respect_impossible_combinations_are_refused() -> None:
    apart = [((name,), np.full((1, BARRED[name].size), 1 / BARRED[name].size)) for name in BARRED.names]
    with pytest.raises(QueryError, match="have impossible combinations and are not in one block"):
        Mixture(BARRED, np.ones(1), apart)
    whole = [(BARRED.names, np.full((1, BARRED.size), 1 / BARRED.size))]
    with pytest.raises(QueryError, match="gives impossible combinations some mass"):
        Mixture(BARRED, np.ones(1), whole)


@pytest.mark.parametrize(
    ("facts", "arrays"),
    [
        ({"blocks": None}, {}),
        ({"blocks": [["a"], ["b"]]}, {}),
        ({"blocks": [["a"], ["b"], ["c"], ["c"]]}, {}),
        ({"blocks": [["a", "b", "c"]]}, {}),
        ({"blocks": [["a"], ["b"], ["d"]]}, {}),
        ({"blocks": ["abc"]}, {}),
        ({"blocks": []}, {"tables": np.zeros((2, 0))}),
        ({"floor": "small"}, {}),
        ({"floor": 0.7}, {}),
        ({}, {"weights": np.array([0.5, 0.4])}),
        ({}, {"weights": np.array([0.5, 0.5, 0.0])}),
        ({}, {"weights": np.zeros(0), "tables": np.zeros((0, 9))}),
        ({}, {"tables": np.full((2, 9), -0.25)}),
        ({}, {"tables": np.full((2, 9), 1e300)}),
        ({}, {"tables": np.full((2, 9), True)}),
    ],
)
def test_a_file_that_describes_no_mixture_is_refused(facts: dict[str, Any], arrays: dict[str, Any]) -> None:
    model = Mixture(SMALL, np.full(2, 0.5), GOOD)
    with pytest.raises(DataError):
        Mixture.restore(SMALL, {**saving.described(model), **facts}, {**model.arrays(), **arrays})
    with pytest.raises(DataError):
        Mixture.restore(SMALL, saving.described(model), {**model.arrays(), "tables": np.zeros((2, 10))})
