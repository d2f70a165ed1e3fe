"""The cut decomposition: never above its bound, the Perceptron in another form, and its memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cut_checks import ADVERSARIES, Exact, most_updates, random_cut, random_masks, simple_graph

import maquette as mq
from maquette.hypothesis import CutDecomposition, MultiplicativeWeights, Perceptron
from maquette.hypothesis.cut_decomposition import CutStep
from maquette.query import Cuts, LinearQuery, bipartitions, cut, edge_schema
from maquette.schema import Boolean, Schema
from maquette.theory import cuts as theory

VERTICES, ALPHA = 40, 0.05
GRAPH = edge_schema(VERTICES)


def family(undirected: bool) -> Cuts:
    rng = np.random.default_rng(9)
    one, two = random_masks(VERTICES, 300, rng), random_masks(VERTICES, 300, rng)
    cells = np.eye(VERTICES, dtype=np.bool_)
    return Cuts(GRAPH, np.vstack([one, cells]), np.vstack([two, cells[::-1]]), undirected=undirected)


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("edges", [200, 800])
@pytest.mark.parametrize("step", ["theory", "centred"])
def test_frieze_kannan_never_exceeds_its_update_bound(
    step: CutStep, edges: int, adversary: str, undirected: bool
) -> None:
    model = CutDecomposition(GRAPH, alpha=ALPHA, step=step, norm=theory.graph_norm(edges))
    rule = theory.frieze_kannan if step == "theory" else theory.frieze_kannan_centred
    assert model.update_bound == pytest.approx(rule(VERTICES, edges, ALPHA))
    truth = Exact(GRAPH, simple_graph(VERTICES, edges))
    done = most_updates(model, truth, family(undirected), ALPHA, adversary, model.update_bound)
    assert 1 <= done <= model.update_bound


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_bipartitions_have_a_lower_bound(adversary: str) -> None:
    schema = edge_schema(8)
    truth, cuts = Exact(schema, simple_graph(8, 24)), bipartitions(schema)
    step: Any
    for step, rule in (("theory", theory.frieze_kannan), ("centred", theory.frieze_kannan_centred)):
        model = CutDecomposition(schema, alpha=0.03, step=step, norm=24**-0.5, area=float(cuts.areas.max()))
        assert model.update_bound == pytest.approx(rule(8, 24, 0.03, largest=1 / 4))
        assert 1 <= most_updates(model, truth, cuts, 0.03, adversary, model.update_bound) <= model.update_bound


@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_mw_on_pairs_never_exceeds_its_update_bound(adversary: str, undirected: bool) -> None:
    model = MultiplicativeWeights(GRAPH, alpha=ALPHA)
    assert model.update_bound == theory.multiplicative_weights(VERTICES, ALPHA)
    truth = Exact(GRAPH, simple_graph(VERTICES, 200))
    done = most_updates(model, truth, family(undirected), ALPHA, adversary, model.update_bound)
    assert 1 <= done <= model.update_bound


def test_every_step_shortens_the_way_to_the_table_by_what_is_stated() -> None:
    """The squared distance falls by alpha^2 / ||f||^2 at least; centred, by alpha^2 / ||f - mean||^2."""
    table, rng = Exact(GRAPH, simple_graph(VERTICES, 300)), np.random.default_rng(5)
    for step in ("theory", "centred"):
        model = CutDecomposition(GRAPH, alpha=ALPHA, step=step)
        before = float(((table.table - model.marginal(GRAPH.names)) ** 2).sum())
        for _ in range(200):
            query = random_cut(GRAPH, rng)
            weights = query.weights(GRAPH.names)
            if abs(model.answer(query) - (weights * table.table).sum()) < ALPHA:
                continue
            model.update(query, float((weights * table.table).sum()))
            after = float(((table.table - model.marginal(GRAPH.names)) ** 2).sum())
            along = weights if step == "theory" else weights - weights.mean()
            assert before - after >= ALPHA**2 / (along**2).sum() - 1e-12
            before = after


@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
def test_frieze_kannan_is_kaczmarz_on_cut_matrices(undirected: bool) -> None:
    """Term by term, then written out over the cells: the Perceptron's vector, at every step."""
    ours, vector = CutDecomposition(GRAPH, alpha=ALPHA), Perceptron(GRAPH, alpha=ALPHA)
    rng, seen = np.random.default_rng(6), set()
    for _ in range(90):
        query, value = random_cut(GRAPH, rng, undirected=undirected), float(rng.random())
        ours.update(query, value)
        vector.update(query, value)
        seen.add(ours.terms)
        assert ours.answer(query) == pytest.approx(vector.answer(query), abs=1e-12)
    assert np.allclose(ours.marginal(GRAPH.names), vector.marginal(GRAPH.names), rtol=0, atol=1e-12)
    assert np.allclose(ours.marginal(["to"]), vector.marginal(["to"]), rtol=0, atol=1e-12)
    assert np.array_equal(ours.sample(500, np.random.default_rng(1)), vector.sample(500, np.random.default_rng(1)))
    assert 0 in seen
    assert max(seen) > 15


def test_one_step_is_the_published_one() -> None:
    model = CutDecomposition(GRAPH, alpha=ALPHA)
    model.update(cut(GRAPH, range(10), range(5)), 1.0)
    expected = np.zeros((VERTICES, VERTICES))
    expected[:10, :5] = ALPHA / 50
    assert np.allclose(model.marginal(("from", "to")), expected, rtol=0, atol=1e-15)


def test_undirected_questions_leave_a_symmetric_model() -> None:
    rng = np.random.default_rng(7)
    for model in (CutDecomposition(GRAPH, alpha=ALPHA, step="centred"), MultiplicativeWeights(GRAPH, alpha=ALPHA)):
        for _ in range(30):
            model.update(random_cut(GRAPH, rng, undirected=True), float(rng.random()))
        flows = model.marginal(("from", "to"))
        assert np.allclose(flows, flows.T, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("step", ["centred", "exact"])
def test_the_total_stays_one(step: CutStep) -> None:
    rng, model = np.random.default_rng(8), CutDecomposition(GRAPH, alpha=ALPHA, step=step)
    for _ in range(60):
        query, value = random_cut(GRAPH, rng), float(rng.random())
        model.update(query, value)
        if step == "exact" and query.columns:
            assert model.answer(query) == pytest.approx(value, abs=1e-9)
    assert model.answer(LinearQuery.constant(GRAPH)) == pytest.approx(1.0, abs=1e-9)


def test_a_universe_that_cannot_be_listed_can_be_asked() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(100)])
    model = CutDecomposition(schema, alpha=0.1, step="exact")
    model.update(mq.where(schema, "b3 AND b7"), 0.7)
    assert model.answer(mq.where(schema, "b3 AND b7")) == pytest.approx(0.7)
    assert model.answer(mq.where(schema, "b3 AND b7 AND b90")) == pytest.approx(0.35)
    assert model.marginal(["b7", "b3"])[1, 1] == pytest.approx(0.7)
    with pytest.raises(mq.QueryError, match="too many to list"):
        model.sample(1, np.random.default_rng(0))
    assert math.isfinite(CutDecomposition.max_updates(schema, 0.1))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"step": "book"}, "expected one of theory, centred, exact"),
        ({"norm": 1.5}, "expected a bound on .*, from 0.025 .* to 1"),
        ({"norm": 0.01}, "the least over 1,600 cells"),
        ({"area": 0.0}, "expected a positive number"),
        ({"alpha": 2.0}, "alpha is .*; expected a number in"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(mq.QueryError, match=says):
        CutDecomposition(GRAPH, **{"alpha": 0.1, **settings})  # type: ignore[arg-type]


def test_a_question_beyond_the_promised_area_is_refused() -> None:
    model = CutDecomposition(GRAPH, alpha=0.1, area=400)
    assert model.answer(cut(GRAPH, range(20))) == 0.0
    with pytest.raises(mq.QueryError, match=r"\|\|f\|\|\^2 = 800, more than the area 400"):
        model.answer(cut(GRAPH, range(20), range(40)))
