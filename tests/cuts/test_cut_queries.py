"""Cuts as linear queries: the identities of q(S, T) = 1_S^T A 1_T / m, their families, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from cut_checks import Exact, multigraph, opened, random_masks, simple_graph

import maquette as mq
from maquette.query import LinearQuery, Marginal, bipartitions, cut, cuts, degrees, edge_schema
from maquette.query.classes.cuts import Flows, flow_matrix
from maquette.schema import Boolean, Integer, Schema

NAMES = ["north", "south", "east", "west", "sea"]
GRAPH = edge_schema(NAMES)
EDGES = multigraph(5, 200)
TRUTH = Exact(GRAPH, EDGES)
WEIGHTED = edge_schema(5, weighted=4)


def value(query: LinearQuery) -> float:
    return float(query.evaluate(EDGES).mean())


def test_a_cut_is_the_indicator_product_over_the_edges() -> None:
    rng, adjacency = np.random.default_rng(0), TRUTH.table
    for _ in range(50):
        one, two = random_masks(5, 2, rng)
        assert value(cut(GRAPH, one, two)) == pytest.approx(one @ adjacency @ two)
        named = cut(GRAPH, list(np.array(NAMES)[one]), list(np.array(NAMES)[two]))
        assert named == cut(GRAPH, one, two)
        if not one.all():
            assert cut(GRAPH, one) == cut(GRAPH, one, ~one)


def test_cuts_are_additive_in_either_set() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        one, two, other = random_masks(5, 3, rng)
        other &= ~one
        if other.any():
            assert value(cut(GRAPH, one | other, two)) == pytest.approx(
                value(cut(GRAPH, one, two)) + value(cut(GRAPH, other, two))
            )
            assert value(cut(GRAPH, two, one | other)) == pytest.approx(
                value(cut(GRAPH, two, one)) + value(cut(GRAPH, two, other))
            )


def test_the_cuts_of_a_partition_sum_to_one() -> None:
    parts = [["north", "sea"], ["south"], ["east", "west"]]
    assert sum(value(cut(GRAPH, s, t)) for s, t in itertools.product(parts, parts)) == pytest.approx(1.0)


def test_a_complement_is_the_rest() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        one, two = random_masks(5, 2, rng)
        query = cut(GRAPH, one, two)
        assert value(query) + value(~query) == pytest.approx(1.0)
        every = np.ones(5, dtype=np.bool_)
        if not two.all():
            assert value(cut(GRAPH, one, every)) == pytest.approx(value(query) + value(cut(GRAPH, one, ~two)))


def test_an_undirected_cut_does_not_care_which_end_comes_first() -> None:
    rng = np.random.default_rng(3)
    turned = np.where(rng.random((len(EDGES), 1)) < 0.5, EDGES, EDGES[:, ::-1])
    for _ in range(50):
        one, two = random_masks(5, 2, rng)
        query = cut(GRAPH, one, two, undirected=True)
        assert query == cut(GRAPH, two, one, undirected=True)
        assert query.is_predicate
        assert query.evaluate(EDGES).tolist() == query.evaluate(turned).tolist()
        met = [(one[u] and two[v]) or (two[u] and one[v]) for u, v in EDGES]
        assert query.evaluate(EDGES).tolist() == met


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("schema", [GRAPH, WEIGHTED], ids=["counts", "weights"])
def test_all_bipartitions_of_a_small_graph_by_brute_force(schema: Schema, undirected: bool) -> None:
    edges = EDGES if schema is GRAPH else np.hstack([EDGES, np.random.default_rng(4).integers(0, 5, (200, 1))])
    family = bipartitions(schema, undirected=undirected)
    expected = {}
    for size in range(1, 5):
        for chosen in itertools.combinations(range(5), size):
            crossing = [e for e in edges.tolist() if (e[0] in chosen) and (e[1] not in chosen)]
            crossing += [e for e in edges.tolist() if undirected and (e[1] in chosen) and (e[0] not in chosen)]
            total = len(crossing) if schema is GRAPH else sum(e[2] / 4 for e in crossing)
            expected[cut(schema, np.isin(np.arange(5), chosen), undirected=undirected)] = total / 200
    assert family.size == len(expected) == (15 if undirected else 30)
    together = family.answers(Exact(schema, edges))
    for i, query in enumerate(family):
        assert together[i] == pytest.approx(expected[query])
        assert query.evaluate(edges).mean() == pytest.approx(expected[query])
        assert family.areas[i] == pytest.approx((query.weights(schema.names) ** 2).sum())


def test_listed_cuts_and_degrees_keep_their_order() -> None:
    listed = cuts(GRAPH, [(["sea"], None), (["north"], ["north", "south"])])
    assert [*listed] == [cut(GRAPH, ["sea"]), cut(GRAPH, ["north"], ["north", "south"])]
    assert [marginal.names for marginal in listed.marginals] == [("from", "to")]
    out = degrees(GRAPH)
    counts = np.bincount(EDGES[:, 0], minlength=5), np.bincount(EDGES[:, 1], minlength=5)
    assert np.allclose(out.answers(TRUTH) * 200, np.concatenate(counts))
    assert {marginal.names for marginal in out.marginals} == {("from",), ("to",)}
    at = degrees(GRAPH, undirected=True)
    loops = np.bincount(EDGES[EDGES[:, 0] == EDGES[:, 1], 0], minlength=5)
    assert np.allclose(at.answers(TRUTH) * 200, counts[0] + counts[1] - loops)


def test_weights_that_are_multiples_are_kept_exactly() -> None:
    rows = {"from": [0, 0, 1], "to": [1, 2, 2], "weight": [0.25, 1.0, 0.5]}
    encoded = WEIGHTED.encode(rows)
    assert encoded[:, 2].tolist() == [1, 4, 2]
    assert cut(WEIGHTED, [0]).evaluate(encoded).tolist() == [0.25, 1.0, 0.0]
    assert cut(WEIGHTED, [0], weighted=False).evaluate(encoded).tolist() == [1.0, 1.0, 0.0]
    assert WEIGHTED.encode({**rows, "weight": [-3.0, 9.0, 0.5]})[:, 2].tolist() == [0, 4, 2]
    table, budget = mq.open_table(rows, WEIGHTED), mq.Budget(epsilon=9e3)
    with mq.Curator(table, budget) as curator:
        assert float(curator.measure(cut(WEIGHTED, [0]), epsilon=4e3).values) == pytest.approx(1.25, abs=0.01)
    assert flow_matrix(Exact(WEIGHTED, encoded.astype(np.int64)))[0, 2] == pytest.approx(1 / 3)


def test_further_columns_make_cuts_of_a_part() -> None:
    schema = edge_schema(3, columns=[Integer("hour", 0, 23)])
    early = cut(schema, [0]) & mq.where(schema, "hour < 12")
    encoded = schema.encode({"from": [0, 0], "to": [1, 1], "hour": [3, 20]})
    assert early.evaluate(encoded).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda: cut(GRAPH, []), "S is empty; expected at least one of the 5 vertices"),
        (lambda: cut(GRAPH, ["north"], []), "T is empty"),
        (lambda: cut(GRAPH, ["Nort"]), "S holds 'Nort', which is not a declared vertex; did you mean north"),
        (lambda: cut(GRAPH, ["north"], ["zz"]), "T holds 'zz'.*vertices are north, south"),
        (lambda: cut(GRAPH, "north"), r"S is 'north'; expected a set of vertices; write \['north'\]"),
        (lambda: cut(GRAPH, NAMES), "S holds every vertex"),
        (lambda: cut(GRAPH, np.ones(4, dtype=np.bool_)), r"shape \(4,\); expected one for each of 5"),
        (lambda: cut(Schema([Boolean("a")]), [0]), "make the schema with edge_schema"),
        (lambda: cut(edge_schema(3, columns=[Integer("weight", 0, 9)]), [0]), "weights from 0 to 1.*weighted=False"),
        (lambda: cut(GRAPH, ["north"], weighted=True), "no column 'weight'"),
        (lambda: cuts(GRAPH, []), "the list of cuts is empty"),
        (lambda: bipartitions(edge_schema(17)), "at most 16 vertices.*`cuts`"),
    ],
)
def test_refusals_say_what_to_do(work: Callable[[], object], says: str) -> None:
    with pytest.raises(mq.QueryError, match=says):
        work()


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda: edge_schema(1), "the graph has 1 vertices; expected at least 2"),
        (lambda: edge_schema("north"), "expected a list of names"),
        (lambda: edge_schema(["a", "a"]), "repeated levels: a"),
        (lambda: edge_schema(3, weighted=-1), "weighted is -1"),
        (lambda: edge_schema(3, weighted=True), "weighted is True"),
    ],
)
def test_graphs_that_are_none_are_refused(work: Callable[[], object], says: str) -> None:
    with pytest.raises(mq.SchemaError, match=says):
        work()


def test_an_edge_of_an_undeclared_vertex_is_refused_at_opening() -> None:
    with pytest.raises(mq.MaquetteError, match=r"outside the declared universe \(to: 1\)"):
        mq.open_table({"from": [0, 1], "to": [1, 7]}, edge_schema(3))


def test_a_whole_table_of_pairs_answers_every_cut() -> None:
    edges = simple_graph(6, 20)
    schema = edge_schema(6)
    with mq.Curator(opened(schema, edges), mq.Budget(rho=9e3, delta=1e-9)) as curator:
        made = mq.release(curator, bipartitions(schema), method="gaussian")
    truth = Exact(schema, edges)
    released = cast(Flows, made.model)
    assert np.allclose(bipartitions(schema).answers(released), bipartitions(schema).answers(truth), atol=1e-6)
    assert Marginal(schema, ["from", "to"]) == next(bipartitions(schema).marginals)
