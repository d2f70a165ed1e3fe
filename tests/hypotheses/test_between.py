"""Tables between a node and its cliques: the same sums, of far fewer numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import maquette as mq
from maquette.hypothesis import GraphicalModel, JunctionTree
from maquette.hypothesis.between import FEWEST, SMALLER, between
from maquette.hypothesis.elimination import cells_of, mask_of, sizes_of
from maquette.hypothesis.propagation import Plan

SIZES = [2, 3, 4, 2, 5, 2, 3, 2, 2, 2]
PAIRS = list(itertools.combinations(range(len(SIZES)), 2))


def test_the_tables_are_small_and_hold_several_cliques_each() -> None:
    sizes, node = sizes_of(SIZES), mask_of(range(len(SIZES)))
    masks = [mask_of(pair) for pair in PAIRS]
    found = between(node, masks, sizes)
    assert found
    assert len(set(found)) == len(found)
    for table in found:
        assert table & ~node == 0
        assert cells_of(table, sizes) <= cells_of(node, sizes) // SMALLER
        assert sum(pair & ~table == 0 for pair in masks) >= FEWEST


def test_a_small_node_and_one_with_few_cliques_have_none() -> None:
    sizes = sizes_of([2, 3, 4, 5])
    assert between(0b1111, [0b0011, 0b0110, 0b1100, 0b1001], sizes) == []
    large = sizes_of([50, 60, 70])
    assert between(0b111, [0b011, 0b110], large) == []


@pytest.mark.parametrize("cliques", [PAIRS, [*PAIRS, *itertools.combinations(range(5), 3)]], ids=["pairs", "triples"])
def test_far_fewer_numbers_are_summed(cliques: list[tuple[int, ...]]) -> None:
    names = [f"c{i}" for i in range(len(SIZES))]
    tree = JunctionTree(dict(zip(names, SIZES, strict=True)), [names])
    plan = Plan(tree, cliques)
    summed = [plan.cells(plan.entries[e.source].columns) if e.source >= 0 else tree.cells for e in plan.entries]
    assert sum(summed) < 0.4 * len(cliques) * tree.cells


def test_marginals_and_potentials_are_those_of_the_whole_table() -> None:
    """Against the table of all columns, made without a tree."""
    schema = mq.Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate(SIZES)])
    rng = np.random.default_rng(0)
    cliques = [tuple(schema.names[i] for i in pair) for pair in PAIRS]
    model = GraphicalModel(schema, [*cliques, schema.names])
    potentials = {clique: rng.normal(0, 1, schema.shape(clique)) for clique in cliques}
    fitted = model.with_potentials(potentials)
    logs = np.zeros(SIZES)
    for clique, table in potentials.items():
        logs += table.reshape([schema[name].size if name in clique else 1 for name in schema.names])
    whole = np.exp(logs)
    assert fitted.log_partition == pytest.approx(math.log(whole.sum()), rel=1e-12)
    whole /= whole.sum()
    for clique, found in fitted.clique_marginals().items():
        gone = tuple(i for i, name in enumerate(schema.names) if name not in clique)
        np.testing.assert_allclose(found, whole.sum(axis=gone), rtol=1e-11, atol=1e-15)
