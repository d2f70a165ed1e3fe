"""Cuts released offline and asked online: promises kept, prices charged, refusals free, and graphs drawn."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from cut_checks import Exact, Seeded, multigraph, opened, random_masks, simple_graph

import maquette as mq
from maquette.hypothesis import CutDecomposition, MultiplicativeWeights
from maquette.query import bipartitions, cut, cuts, degrees, edge_schema
from maquette.query.classes.cuts import Flows
from maquette.releases import cut_construction, synthetic_graph
from maquette.releases.classes.cuts import RULES
from maquette.session import OnlineIC, cut_rule
from maquette.theory.cuts import graph_norm

VERTICES = 6
GRAPH = edge_schema(VERTICES)
EDGES = np.repeat(simple_graph(VERTICES, 18), 10_000, axis=0)
TRUTH = Exact(GRAPH, EDGES)
FAMILY = bipartitions(GRAPH)
NORM = graph_norm(len(EDGES), multiplicity=10_000)
BUDGETS = {"pure": mq.Budget(epsilon=1.0), "zcdp": mq.Budget(epsilon=1.0, delta=1e-9)}


@cache
def table() -> mq.PrivateTable:
    return opened(GRAPH, EDGES)


def worst(model: Any) -> float:
    return float(np.abs(np.clip(FAMILY.answers(model), 0, 1) - FAMILY.answers(TRUTH)).max())


def made(hypothesis: str, seed: int, relation: Any = "replace", budget: str = "zcdp", **settings: Any) -> mq.Release:
    with mq.Curator(table(), BUDGETS[budget], relation=relation, noise=Seeded(seed)) as curator:
        found = cut_construction(curator, FAMILY, hypothesis=hypothesis, norm=NORM, **settings)
        assert found.certificate.units == curator.ledger.spent() <= curator.budget.limit
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("hypothesis", RULES)
def test_the_promise_on_every_cut_is_kept(hypothesis: str, relation: Any) -> None:
    for seed in range(2):
        found = made(hypothesis, seed, relation, calibration="theory")
        promise = re.search(r"every listed cut within ([\d.e-]+) of the edges", found.certificate.accuracy or "")
        assert promise
        assert worst(found.model) <= float(promise[1]) < 1


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("hypothesis", RULES)
def test_practical_rounds_come_close(hypothesis: str, budget: str) -> None:
    found = made(hypothesis, 1, budget=budget, rounds=20)
    assert worst(found.model) < 0.05
    assert found.certificate.accuracy is None
    assert abs(found.rows - len(EDGES)) < 1
    start = MultiplicativeWeights(GRAPH)
    assert worst(found.model) < worst(start) / 3


def test_weighted_and_undirected_cuts_are_released() -> None:
    schema = edge_schema(4, weighted=4)
    edges = np.hstack([multigraph(4, 40_000), np.random.default_rng(0).integers(0, 5, (40_000, 1))])
    family = bipartitions(schema, undirected=True)
    for calibration in ("practical", "theory"):
        with mq.Curator(opened(schema, edges), BUDGETS["zcdp"], noise=Seeded(3)) as curator:
            found = cut_construction(curator, family, calibration=calibration, rounds=8)
        error = np.abs(family.answers(cast(Flows, found.model)) - family.answers(Exact(schema, edges))).max()
        assert error < (0.02 if calibration == "practical" else 0.5)


def test_a_round_is_one_selection_and_one_measurement() -> None:
    with mq.Curator(table(), BUDGETS["zcdp"], relation="replace", noise=Seeded(0)) as curator:
        cut_construction(curator, FAMILY, rounds=3)
        doors = [charge.description for charge in curator.ledger.charges()]
    assert len(doors) == 6
    assert [door.split()[0].rstrip(":(") for door in doors[:2]] == [d.split()[0].rstrip(":(") for d in doors[2:4]]


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda c: cut_construction(c, FAMILY, hypothesis="median"), "expected one of multiplicative-weights"),
        (lambda c: cut_construction(c, FAMILY, calibration="book"), "expected one of practical, theory"),  # type: ignore[arg-type]
        (lambda c: cut_construction(c, FAMILY, rounds=0), "at least 1 round"),
        (lambda c: cut_construction(c, FAMILY, beta=2.0), "0 < beta < 1"),
        (lambda c: cut_construction(c, mq.marginals(GRAPH, k=2)), "expected cuts made by"),  # type: ignore[arg-type]
        (lambda c: cut_construction(c, bipartitions(edge_schema(5))), "another schema"),
        (
            lambda c: cut_construction(c, FAMILY, hypothesis="cut-decomposition", norm=0.01),
            "norm is .*; expected a bound",
        ),
        (lambda c: cut_construction(c, FAMILY, epsilon=5.0), "only .* remains"),
        (lambda c: cut_construction(c, cuts(c.schema, [(["9"], None)])), "S holds '9'"),
        (lambda c: cut_construction(c, FAMILY, rows=20, calibration="theory"), "which says nothing"),
        (lambda c: OnlineIC(c, cut_rule(GRAPH, "median"), queries=10), "expected one of multiplicative-weights"),
        (lambda c: OnlineIC(c, cut_rule(GRAPH, norm=2.0), queries=10), "norm is .*; expected a bound"),
        (lambda c: OnlineIC(c, cut_rule(GRAPH, area=-1.0), queries=10), "area is .*; expected a positive number"),
        (lambda c: OnlineIC(c, cut_rule(GRAPH, "perceptron", area=3.0), queries=10), "does not use area"),
        (lambda c: OnlineIC(c, cut_rule(GRAPH, norm=0.5), queries=10, rows=20), "which says nothing"),
    ],
)
def test_refusals_charge_nothing(work: Callable[[mq.Curator], object], says: str) -> None:
    with mq.Curator(table(), BUDGETS["zcdp"], noise=Seeded(0)) as curator:
        with pytest.raises(mq.MaquetteError, match=says):
            work(curator)
        assert curator.ledger.spent() == 0


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("hypothesis", RULES)
def test_an_online_session_keeps_its_promise_on_cuts(hypothesis: str) -> None:
    rng = np.random.default_rng(2)
    one, two = random_masks(VERTICES, 150, rng), random_masks(VERTICES, 150, rng)
    with mq.Curator(table(), BUDGETS["zcdp"], relation="replace", noise=Seeded(5)) as curator:
        session = OnlineIC(curator, cut_rule(GRAPH, hypothesis, norm=NORM), queries=150)
        assert session.alpha < 0.5
        spent = curator.ledger.spent()
        for s, t in zip(one, two, strict=True):
            query = cut(GRAPH, s, t)
            answer = session.ask(query)
            assert abs(answer.value - query.evaluate(EDGES[::10_000]).mean()) <= session.alpha
        assert curator.ledger.spent() == spent
        assert session.status == "open"


def test_a_dense_graph_gets_a_better_promise_from_the_decomposition() -> None:
    """Simple graphs on 60 vertices with half of all pairs; area known."""
    schema = edge_schema(60)
    table = opened(schema, simple_graph(60, 1800))
    promises = {}
    for name in ("multiplicative-weights", "cut-decomposition"):
        settings = {} if name == "multiplicative-weights" else {"norm": graph_norm(1800), "area": 900.0}
        with mq.Curator(table, mq.Budget(epsilon=30.0, delta=1e-9), relation="replace", noise=Seeded(0)) as curator:
            session = OnlineIC(curator, cut_rule(schema, name, **settings), queries=100)
            promises[name] = session.alpha
            if name == "cut-decomposition":
                with pytest.raises(mq.QueryError, match="more than the area"):
                    session.ask(cut(schema, range(50), range(50)))
    assert promises["cut-decomposition"] < promises["multiplicative-weights"] < 1


@pytest.mark.thorough
def test_a_practical_session_answers_cuts() -> None:
    with mq.Curator(table(), BUDGETS["zcdp"], relation="replace", noise=Seeded(0)) as curator:
        session = mq.online(curator, alpha=0.02)
        for query in FAMILY.sample(10, np.random.default_rng(0)):
            answer = session.ask(query)
            assert isinstance(answer, mq.Answer)
            assert answer.low <= query.evaluate(EDGES[::10_000]).mean() <= answer.high


@pytest.mark.thorough
@pytest.mark.parametrize("undirected", [False, True])
def test_a_synthetic_graph_has_every_pair_to_within_an_edge(undirected: bool) -> None:
    nx = pytest.importorskip("networkx")
    found = made("multiplicative-weights", 0, rounds=8)
    graph = synthetic_graph(found, undirected=undirected, rng=np.random.default_rng(0))
    assert type(graph) is (nx.Graph if undirected else nx.DiGraph)
    assert list(graph) == [str(i) for i in range(VERTICES)]
    assert sum(weight for _, _, weight in graph.edges(data="weight")) == len(EDGES)
    flows = found.marginal("from", "to") * len(EDGES)
    expected = flows + flows.T - np.diag(np.diag(flows)) if undirected else flows
    for u, v, weight in graph.edges(data="weight"):
        assert abs(weight - expected[int(u), int(v)]) < 1 + undirected + 1e-6


@pytest.mark.thorough
def test_a_synthetic_graph_from_signed_models_and_with_weights() -> None:
    pytest.importorskip("networkx")
    model = CutDecomposition(GRAPH, alpha=0.1, step="exact")
    model.update(cut(GRAPH, [0], [1]), 0.9)
    graph = synthetic_graph(model, edges=100, rng=np.random.default_rng(0))
    assert graph["0"]["1"]["weight"] >= 88
    assert graph.size(weight="weight") == 100
    with pytest.raises(mq.QueryError, match="how many edges there are; say so"):
        synthetic_graph(model)
    with pytest.raises(mq.QueryError, match="expected a whole number"):
        synthetic_graph(model, edges=-1)
    with pytest.raises(mq.QueryError, match="make the schema with edge_schema"):
        synthetic_graph(MultiplicativeWeights(mq.Schema([mq.Boolean("a")])), edges=3)
    schema = edge_schema(3, weighted=2)
    weighted = MultiplicativeWeights(schema, step="exact")
    weighted.update(mq.where(schema, '"from" = 0 AND "to" = 1 AND weight >= 0.75'), 1.0)
    assert synthetic_graph(weighted, edges=50)["0"]["1"]["weight"] == pytest.approx(50, abs=1)
    assert len(synthetic_graph(weighted, edges=0).edges) == 0


def test_without_networkx_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(mq.QueryError, match=r"pip install 'maquette\[graphs\]'"):
        synthetic_graph(MultiplicativeWeights(GRAPH), edges=3)
    importlib.import_module("maquette.releases.classes.graphs")


def test_degrees_are_released_as_two_small_tables() -> None:
    with mq.Curator(table(), BUDGETS["zcdp"], noise=Seeded(0)) as curator:
        found = mq.release(curator, degrees(GRAPH), method="gaussian")
    assert np.allclose(found.marginal("from"), TRUTH.marginal(["from"]), atol=0.01)
