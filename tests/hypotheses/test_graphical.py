"""Graphical models against the distribution written out in full."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from graph_checks import MODELS, chosen, counted, random_model, spread, summed, universe, written_out
from hypothesis import given, settings, strategies as st
from hypothesis_checks import ALPHA, SMALL, random_query

from maquette.errors import QueryError
from maquette.hypothesis import Hypothesis, MultiplicativeWeights, factors, inference
from maquette.hypothesis.exponential import exponentials
from maquette.hypothesis.graphical import GraphicalModel
from maquette.query import LinearQuery

SEEDS = st.integers(0, 2**32 - 1)
EXACT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}


@given(MODELS)
@settings(max_examples=80, deadline=None)
def test_partition_function_and_all_marginals_are_exact(model: GraphicalModel) -> None:
    full, total = written_out(model)
    assert model.log_partition == pytest.approx(total, rel=1e-12, abs=1e-9)
    sets = [columns for k in range(len(model.schema) + 1) for columns in combinations(model.schema.names[::-1], k)]
    for columns, table in zip(sets, model.marginals(sets), strict=True):
        assert table.shape == model.schema.shape(columns)
        assert np.allclose(table, summed(model.schema, full, columns), **EXACT)
        assert np.allclose(model.with_potentials({}).marginal(columns), table, **EXACT)
    for clique, table in model.clique_marginals().items():
        assert np.allclose(table, summed(model.schema, full, clique), **EXACT)


@given(MODELS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_answers_and_conditional_answers_are_exact(model: GraphicalModel, seed: int) -> None:
    full, _ = written_out(model)
    rng, schema = np.random.default_rng(seed), model.schema
    for _ in range(6):
        query, given_ = random_query(schema, rng), random_query(schema, rng)
        weights, condition = query.weights(schema.names), given_.weights(schema.names)
        assert model.answer(query) == pytest.approx((full * weights).sum(), abs=1e-10)
        mass = (full * condition).sum()
        if mass > 1e-3:
            expected = (full * weights * condition).sum() / mass
            assert model.answer(query, given=given_) == pytest.approx(expected, abs=1e-8)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_gradient_of_the_partition_function_is_the_clique_marginals(seed: int) -> None:
    model, rng = random_model(seed, scale=1.0), np.random.default_rng(seed)
    step = {clique: rng.normal(0.0, 1.0, model.schema.shape(clique)) for clique in model.cliques}
    start, small = model.potentials, 1e-5

    def moved(by: float) -> float:
        return model.with_potentials({c: start[c] + by * step[c] for c in step}).log_partition

    slope = sum(float((table * step[clique]).sum()) for clique, table in model.clique_marginals().items())
    assert (moved(small) - moved(-small)) / (2 * small) == pytest.approx(slope, abs=1e-6)


@given(MODELS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_growing_keeps_the_distribution_and_the_potentials(model: GraphicalModel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    extra = [chosen(model.schema, rng, 4) for _ in range(rng.integers(1, 4))]
    grown = model.grown(extra)
    assert all(grown.tree.node_of(clique) is not None for clique in extra)
    assert {frozenset(clique) for clique in extra} <= {frozenset(clique) for clique in grown.cliques}
    assert all(np.array_equal(grown.potentials[clique], table) for clique, table in model.potentials.items())
    assert grown.log_partition == pytest.approx(model.log_partition, rel=1e-12, abs=1e-9)
    names = model.schema.names
    assert np.allclose(grown.marginal(names), model.marginal(names), **EXACT)


@given(MODELS)
@settings(max_examples=60, deadline=None)
def test_a_model_comes_back_from_its_state(model: GraphicalModel) -> None:
    state = model.state()
    assert all(array.dtype in {np.dtype("int64"), np.dtype("float64"), np.dtype("bool")} for array in state.values())
    back = GraphicalModel.from_state(model.schema, dict(sorted(state.items(), reverse=True)))
    assert back.cliques == model.cliques
    names = model.schema.names
    assert back.marginal(names).tobytes() == model.marginal(names).tobytes()


@given(MODELS, SEEDS, st.integers(0, 3000))
@settings(max_examples=80, deadline=None)
def test_draws_are_rounded_shares_in_every_node_and_never_impossible(
    model: GraphicalModel, seed: int, rows: int
) -> None:
    records = model.draw(rows, np.random.default_rng(seed))
    for made in (records, model.sample(rows, np.random.default_rng(seed))):
        assert made.shape == (rows, len(model.schema))
        assert made.dtype == np.int32
        for columns, mask in model.zeros:
            assert not (counted(model.schema, made, columns)[mask] > 0).any()
    root = model.tree.nodes[0]
    assert np.abs(counted(model.schema, records, root) - rows * model.marginal(root)).max() < 1 + 1e-6
    for node, separator in zip(model.tree.nodes, model.tree.separators, strict=True):
        axes = [node.index(name) for name in separator]
        joint = np.moveaxis(model.marginal(node), axes, range(len(axes)))
        counts = np.moveaxis(counted(model.schema, records, node), axes, range(len(axes)))
        joint, counts = (t.reshape(*t.shape[: len(axes)], -1) for t in (joint, counts))
        mass, drawn = joint.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True)
        shares = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 1e-12)
        seen = np.broadcast_to(mass > 1e-9, joint.shape)
        assert np.abs(counts - shares * drawn)[seen].max(initial=0.0) < 1 + 1e-4


def chain(columns: int, size: int, seed: int = 0) -> GraphicalModel:
    schema, rng = universe(*[size] * columns), np.random.default_rng(seed)
    model = GraphicalModel(schema, [schema.names[i : i + 2] for i in range(columns - 1)])
    return model.with_potentials({c: rng.normal(0.0, 1.0, schema.shape(c)) for c in model.cliques})


def test_samples_keep_tables_across_nodes_closer_than_independent_draws() -> None:
    model, rows = chain(8, 5), 2000
    names = model.schema.names
    pairs = list(combinations(names, 2))
    full, _ = written_out(model)
    rng = np.random.default_rng(1)

    def error(records: np.ndarray) -> float:
        tables = [counted(model.schema, records, pair) / rows - model.marginal(pair) for pair in pairs]
        return float(np.mean([np.abs(table).sum() for table in tables]))

    drawn = rng.choice(full.size, (4, rows), p=full.reshape(-1))
    apart = [error(np.stack(np.unravel_index(each, full.shape), axis=1).astype(np.int32)) for each in drawn]
    ours = [error(model.sample(rows, rng)) for _ in range(4)]
    assert np.mean(ours) < 0.6 * np.mean(apart)


@pytest.mark.thorough
def test_samples_are_right_on_average_across_nodes() -> None:
    model, draws, rows = chain(4, 3, seed=2), 1500, 5
    rng = np.random.default_rng(3)
    pair = (model.schema.names[0], model.schema.names[3])
    total = sum(counted(model.schema, model.sample(rows, rng), pair) for _ in range(draws))
    # At most `rows` hits a draw, each cell with a variance of at most rows^2 / 4.
    assert np.abs(total / draws - rows * model.marginal(pair)).max() < 6 * rows / 2 / math.sqrt(draws)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
def test_huge_potentials_stay_numbers(scale: float) -> None:
    for seed in range(20):
        model = random_model(seed, scale=scale)
        full, total = written_out(model)
        assert model.log_partition == pytest.approx(total, rel=1e-12)
        for columns in combinations(model.schema.names, min(2, len(model.schema))):
            assert np.allclose(model.marginal(columns), summed(model.schema, full, columns), atol=1e-15 * scale)
        assert len(model.sample(50, np.random.default_rng(seed))) == 50


@pytest.mark.thorough
def test_a_thousand_rounds_of_updates_keep_a_distribution() -> None:
    schema, rng = universe(2, 3, 2, 4, 2, 3, 2), np.random.default_rng(0)
    model = GraphicalModel(schema, step="exact", max_cells=400)
    wide = 0
    for _ in range(1000):
        columns = chosen(schema, rng, 2)
        factors = {name: rng.integers(0, 2, schema[name].size).astype(float) for name in columns}
        try:
            model.update(LinearQuery.product(schema, factors), float(rng.choice([0.0, 0.3, 1.0])))
        except QueryError:
            wide += 1
    assert model.cells <= 400
    assert 0 < wide < 1000
    for columns in combinations(schema.names, 2):
        table = model.marginal(columns)
        assert table.min() >= 0.0
        assert table.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("step", ["theory", "book", "exact"])
def test_updates_are_multiplicative_weights_over_the_whole_universe(step: str) -> None:
    settings_: dict[str, Any] = {"step": step, "alpha": None if step == "exact" else ALPHA}
    graph, dense = GraphicalModel(SMALL, **settings_), MultiplicativeWeights(SMALL, **settings_)
    rng = np.random.default_rng(11)
    for _ in range(30):
        query = random_query(SMALL, rng)
        value = float(np.clip(dense.answer(query) + rng.uniform(-0.1, 0.1), 0.05, 0.95))
        graph.update(query, value)
        dense.update(query, value)
        assert np.allclose(graph.marginal(SMALL.names), dense.marginal(SMALL.names), rtol=0, atol=1e-10)
    model: Hypothesis = graph
    assert model.max_updates(SMALL, ALPHA) == MultiplicativeWeights.max_updates(SMALL, ALPHA)
    assert graph.update_bound == dense.update_bound


def test_scaling_a_marginal_by_its_ratio_is_an_exact_step() -> None:
    model, rng = chain(5, 3), np.random.default_rng(4)
    for columns in (("c3", "c1"), ("c0",), ("c2", "c4", "c0")):
        target = rng.dirichlet(np.ones(model.schema.cells(columns))).reshape(model.schema.shape(columns))
        model.scale_marginal(columns, target / model.marginal(columns))
        assert np.allclose(model.marginal(columns), target, **EXACT)


def test_questions_of_very_many_columns_are_answered_by_elimination() -> None:
    model = chain(60, 4)
    schema, rng = model.schema, np.random.default_rng(5)
    factors = {name: np.where(np.arange(4) == rng.integers(4), rng.choice([0.0, 0.5]), 1.0) for name in schema.names}
    message, scale = factors["c59"], 0.0
    for i in range(58, -1, -1):  # the definition, one column after the other, in scaled numbers
        message = factors[f"c{i}"] * (np.exp(model.potentials[schema.names[i : i + 2]]) @ message)
        scale += math.log(message.max())
        message = message / message.max()
    expected = math.exp(math.log(message.sum()) + scale - model.log_partition)
    query = LinearQuery.product(schema, factors)
    assert model.answer(query) == pytest.approx(expected, rel=1e-9)
    assert model.answer(~query) == pytest.approx(1.0 - expected, abs=1e-12)


def test_large_tables_use_compiled_exponentials_and_stay_exact() -> None:
    schema, rng = universe(64, 50, 60, 3), np.random.default_rng(6)
    zero = np.zeros((64, 50), dtype=bool)
    zero[5] = zero[:, 7] = True
    model = GraphicalModel(schema, [("c0", "c2", "c1"), ("c2", "c3")], zeros=[(("c0", "c1"), zero)])
    assert model.cells >= 2**17
    tables = {clique: rng.normal(0.0, 200.0, schema.shape(clique)) for clique in model.cliques}
    model = model.with_potentials(tables)
    full, total = written_out(model)
    assert model.log_partition == pytest.approx(total, rel=1e-13)
    for clique, table in model.clique_marginals().items():
        assert np.allclose(table, summed(schema, full, clique), rtol=1e-9, atol=1e-15)
    records = model.sample(1000, np.random.default_rng(0))
    assert not zero[records[:, 0], records[:, 1]].any()


def test_compiled_exponentials_are_right_to_two_units_in_the_last_place() -> None:
    rng = np.random.default_rng(7)
    logs = np.concatenate([[0.0, -0.0, -np.inf, -1e300, -708.0, -745.0, 1.0, 699.0], -rng.exponential(60.0, 5000)])
    values = logs.copy()
    exponentials(values, compiled=True)
    ordinary = logs > -708.0
    assert np.allclose(values[ordinary], np.exp(logs[ordinary]), rtol=2**-51, atol=0)
    assert (values[~ordinary] == 0.0).all()


def test_answers_do_not_depend_on_what_was_kept_from_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = list(combinations(chain(7, 3).schema.names, 3))
    plain = chain(7, 3).marginals(sets)
    monkeypatch.setattr(inference, "_KEPT", 40)
    forgetful = chain(7, 3).marginals(sets[::-1])[::-1]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(plain, forgetful, strict=True))


def test_zeros_are_exact_however_the_potentials_pull() -> None:
    schema = universe(3, 4, 2)
    mask = np.zeros((4, 3), dtype=bool)
    mask[1, 2] = mask[0, 0] = True
    model = GraphicalModel(schema, [("c0", "c1", "c2")], zeros=[(("c1", "c0"), mask)], step="exact")
    impossible = LinearQuery.product(schema, {"c0": [0, 0, 1], "c1": [0, 1, 0, 0]})
    for _ in range(5):
        model.update(impossible, 0.9)
    assert model.answer(impossible) == 0.0
    assert model.marginal(("c0", "c1"))[2, 1] == 0.0
    assert (spread(schema, ("c1", "c0"), mask) * model.marginal(schema.names)).sum() == 0.0
    with pytest.raises(QueryError, match="no rows that fit the condition"):
        model.answer(impossible, given=impossible)
    with pytest.raises(QueryError, match="leave no possible record"):
        GraphicalModel(schema, zeros=[(("c2",), np.ones(2, dtype=bool))]).calibrate()


def test_models_made_from_one_do_not_change_with_it() -> None:
    model = GraphicalModel(SMALL, [("a", "b")], step="exact")
    other, larger = model.with_potentials({}), model.grown([("b", "c")])
    model.update(LinearQuery.product(SMALL, {"a": [1, 0, 0]}), 0.9)
    for kept in (other, larger):
        assert np.allclose(kept.marginal(SMALL.names), 1 / SMALL.size)
    assert model.marginal(("a",))[0] == pytest.approx(0.9)


def test_refusals_say_what_to_do() -> None:
    schema = universe(10, 10, 10, 10)
    model = GraphicalModel(schema, [("c0", "c1")], step="exact", max_cells=1000)
    wide = LinearQuery.product(schema, {name: np.arange(10) / 10 for name in schema.names})
    with pytest.raises(QueryError, match=r"c0, c1, c2, c3 would have more cells than the 1,000 allowed.*max_cells"):
        model.update(wide, 0.5)
    with pytest.raises(QueryError, match=r"has 10,000 cells, more than the 1,000 allowed"):
        model.grown([schema.names])
    with pytest.raises(QueryError, match=r"c1, c2 is not a clique of the model; add it with grown"):
        model.with_potentials({("c1", "c2"): np.zeros((10, 10))})
    with pytest.raises(QueryError, match=r"the potential of c0, c1 has shape \(10,\); expected shape \(10, 10\)"):
        model.with_potentials({("c0", "c1"): np.zeros(10)})
    with pytest.raises(QueryError, match="must be finite; declare impossible cells as zeros"):
        model.with_potentials({("c0", "c1"): np.full((10, 10), -np.inf)})
    with pytest.raises(QueryError, match="expected a table of true and false of shape"):
        GraphicalModel(schema, zeros=[(("c0",), np.zeros(10))])
    with pytest.raises(QueryError, match="cannot sample -1 rows"):
        model.sample(-1, np.random.default_rng(0))
    with pytest.raises(QueryError, match="another schema"):
        model.answer(LinearQuery.constant(SMALL))


def test_tables_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain(6, 3)
    monkeypatch.setattr(factors, "MAX_TABLE", 50)
    with pytest.raises(QueryError, match=r"needs an intermediate table of 81 cells, more than 50; ask about fewer"):
        model.marginal(("c0", "c2", "c3", "c5"))
    with pytest.raises(QueryError, match="ask for fewer columns"):
        chain(60, 4).marginal([f"c{i}" for i in range(30)])


def test_the_repr_is_one_line() -> None:
    text = repr(GraphicalModel(SMALL, [("a", "b")]))
    assert text == "GraphicalModel(1 cliques, JunctionTree(2 nodes, 10 cells, the largest node 6))"


@pytest.mark.thorough
def test_an_independent_library_finds_the_same_marginals() -> None:
    mbi = pytest.importorskip("mbi", reason="mbi, the independent oracle of graphical models, is not installed")
    for seed in range(12):
        model = random_model(seed, scale=2.0, zeros=False)
        if not model.cliques:
            continue
        schema = model.schema
        domain = mbi.Domain(schema.names, schema.shape(schema.names))
        factors = {c: mbi.Factor(domain.project(c), table) for c, table in model.potentials.items()}
        potentials = mbi.CliqueVector(domain, list(model.cliques), factors)
        theirs = mbi.marginal_oracles.message_passing_stable(potentials, total=1.0)
        for clique, table in model.clique_marginals().items():
            assert np.allclose(table, np.asarray(theirs[clique].datavector(flatten=False)), atol=1e-5)
