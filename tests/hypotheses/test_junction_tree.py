"""Junction trees: every clique fits, every column's nodes are connected, and cells are counted right."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from maquette.errors import QueryError
from maquette.hypothesis.elimination import Triangulation, cells_of, mask_of, sizes_of, triangulated
from maquette.hypothesis.junction_tree import JunctionTree


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    count = draw(st.integers(1, 9))
    sizes = {f"c{i}": draw(st.integers(1, 6)) for i in range(count)}
    column = st.sampled_from(sorted(sizes))
    cliques = draw(st.lists(st.lists(column, min_size=1, max_size=3, unique=True).map(tuple), max_size=10))
    return sizes, cliques


def check(tree: JunctionTree, cliques: list[tuple[str, ...]]) -> None:
    assert all(any(set(clique) <= set(node) for node in tree.nodes) for clique in cliques)
    assert {name for node in tree.nodes for name in node} == set(tree.sizes)
    assert tree.cells == sum(math.prod(tree.sizes[name] for name in node) for node in tree.nodes)
    assert tree.parents[0] == -1
    assert not any(
        set(a) < set(b) or (a == b and i != j) for i, a in enumerate(tree.nodes) for j, b in enumerate(tree.nodes)
    )
    for i, (node, parent) in enumerate(zip(tree.nodes, tree.parents, strict=True)):
        assert parent < i
        inherited = set(tree.nodes[parent]) if parent >= 0 else set()
        assert set(tree.separators[i]) == set(node) & inherited
        # The running intersection property: what a node shares with anything before it, it shares with its parent.
        assert set(node) & {name for other in tree.nodes[:i] for name in other} <= inherited


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_every_clique_fits_and_the_nodes_of_a_column_are_connected(
    graph: tuple[dict[str, int], list[tuple[str, ...]]],
) -> None:
    check(JunctionTree(*graph), graph[1])


@given(graphs(), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_what_if_bounds_the_cells_of_the_tree_that_grows(
    graph: tuple[dict[str, int], list[tuple[str, ...]]], seed: int
) -> None:
    sizes, cliques = graph
    rng, tree = np.random.default_rng(seed), JunctionTree(sizes, cliques)
    for _ in range(8):
        extra = tuple(str(n) for n in rng.permutation(list(sizes))[: rng.integers(1, min(4, len(sizes)) + 1)])
        expected = tree.cells_with(extra)
        fits = tree.node_of(extra) is not None
        grown = tree.with_cliques([extra])
        cliques = [*cliques, extra]
        check(grown, cliques)
        assert grown.cells <= expected
        assert not fits or grown.nodes == tree.nodes
        tree = grown


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_greedy_orders_are_close_to_the_best_one(graph: tuple[dict[str, int], list[tuple[str, ...]]]) -> None:
    # Columns of one level are left out: a larger table with them costs nothing, which no order of elimination knows.
    sizes = {name: graph[0][name] + 1 for name in list(graph[0])[:6]}
    cliques = [tuple(name for name in clique if name in sizes) for clique in graph[1]]

    def cells(order: tuple[str, ...]) -> int:
        links = {name: {o for c in cliques if name in c for o in c} - {name} for name in sizes}
        tables: list[set[str]] = []
        for name in order:
            near = links.pop(name)
            for other in near:
                links[other] = (links[other] | near) - {name, other}
            if not any(near | {name} <= table for table in tables):
                tables.append(near | {name})
        return sum(math.prod(sizes[n] for n in table) for table in tables)

    best = min(map(cells, permutations(sizes)))
    assert best <= JunctionTree(sizes, cliques).cells <= 1.5 * best


def test_a_chordal_graph_gets_no_new_edges() -> None:
    masks = [mask_of(c) for c in ((0, 1, 2), (1, 2, 3), (2, 3, 4), (4, 5), (6,))]
    sizes = sizes_of([3] * 7)
    found = triangulated(sizes, masks)
    assert set(found.cliques) == set(masks)
    assert found.cells == sum(cells_of(mask, sizes) for mask in masks)


def test_what_is_known_is_kept_only_if_every_rule_needs_more_cells() -> None:
    sizes, cycle = sizes_of([2, 50, 2, 50]), [mask_of(c) for c in ((0, 1), (1, 2), (2, 3), (3, 0))]
    best = triangulated(sizes, cycle)
    assert best.cells == 400
    for cells, better in ((399, False), (400, True), (401, True)):
        known = Triangulation((mask_of(range(4)),), cells, best.rule)
        assert triangulated(sizes, cycle, known=known) == (best if better else known)


def test_a_cycle_gets_the_cheapest_chord() -> None:
    tree = JunctionTree({"a": 2, "b": 50, "c": 2, "d": 50}, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    assert set(tree.nodes) == {("a", "b", "c"), ("a", "c", "d")}
    assert tree.separators[1] == ("a", "c")


def test_a_hundred_columns_in_a_grid() -> None:
    names = {(i, j): f"c{i}_{j}" for i in range(10) for j in range(10)}
    cliques: list[tuple[str, ...]] = [(names[i, j], names[i + 1, j]) for i in range(9) for j in range(10)]
    cliques += [(names[i, j], names[i, j + 1]) for i in range(10) for j in range(9)]
    tree = JunctionTree(dict.fromkeys(names.values(), 2), cliques)
    check(tree, cliques)
    assert max(map(len, tree.nodes)) <= 14  # the treewidth of the grid is 10


def test_columns_outside_the_tree_are_refused() -> None:
    with pytest.raises(QueryError, match="there is no column 'z'; columns are a, b"):
        JunctionTree({"a": 2, "b": 2}, [("a", "z")])


def test_the_repr_is_one_line() -> None:
    assert repr(JunctionTree({"a": 2, "b": 3}, [])) == "JunctionTree(2 nodes, 5 cells, the largest node 3)"
