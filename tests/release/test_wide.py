"""Tables of many columns: which pairs are looked at, the tree that holds them, and a release of all pairs."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.hypothesis import GraphicalModel, JunctionTree
from maquette.hypothesis.junction_tree import WIDE as MANY_NODES
from maquette.releases import watch_progress
from maquette.releases.methods.gathered import ADDED, WIDE, _forest, _held
from maquette.releases.methods.weighing import MANY, NEAR, Weighing

NAMES = [f"c{i}" for i in range(300)]
PAIRS: dict[tuple[str, ...], float] = dict.fromkeys(itertools.combinations(NAMES, 2), 1.0)


def listed(sets: dict[tuple[str, ...], float], most: int, target: str | None = None) -> dict[tuple[str, ...], float]:
    plain: Any = SimpleNamespace(names=NAMES, target=target)
    return Weighing._listed(plain, sets, most)


def test_few_pairs_are_all_looked_at() -> None:
    few = dict(itertools.islice(PAIRS.items(), 50))
    assert listed(few, 50) == few


@pytest.mark.thorough
def test_of_many_pairs_neighbours_the_target_and_some_of_every_column_are_looked_at() -> None:
    found = listed(PAIRS, MANY, "c7")
    assert len(found) == MANY < len(PAIRS)
    assert list(found) == [pair for pair in PAIRS if pair in found]  # in the order of the workload
    near = [pair for pair in PAIRS if int(pair[1][1:]) - int(pair[0][1:]) <= NEAR]
    assert set(near) <= set(found)
    assert all(pair in found for pair in PAIRS if "c7" in pair)
    partners = {name: sum(name in pair for pair in found) for name in NAMES}
    assert min(partners.values()) > 70  # about 134 are expected
    assert found == listed(PAIRS, MANY, "c7")


def test_the_forest_links_columns_by_their_best_pairs() -> None:
    ranked = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "d"), ("d", "e"), ("c", "e")]
    assert _forest(ranked) == [("a", "b"), ("b", "c"), ("d", "e"), ("c", "e")]


@pytest.mark.thorough
def test_a_wide_tree_holds_the_forest_and_few_tables_more() -> None:
    schema = mq.Schema([mq.Boolean(name) for name in NAMES[: 2 * WIDE]])
    rng = np.random.default_rng(3)
    gains: dict[tuple[str, ...], float] = {
        pair: float(rng.random()) for pair in itertools.combinations(schema.names, 2)
    }
    tree, kept = _held(schema, gains, 20_000)
    forest = _forest(sorted(gains, key=lambda each: -gains[each]))
    assert kept[: len(forest)] == forest
    assert len(forest) == len(schema.names) - 1 < len(kept) <= len(forest) + ADDED
    assert tree.cells <= 20_000
    assert all(tree.holds(pair) for pair in kept)
    narrow, alone = _held(schema, gains, 2 * WIDE * 3)  # no forest fits
    assert narrow.cells <= 2 * WIDE * 3
    assert len(alone) < len(forest)


def test_one_large_table_does_not_keep_several_others_out_of_a_tree() -> None:
    schema = mq.Schema([*(mq.Integer(name, 0, 99) for name in "ab"), *(mq.Integer(name, 0, 9) for name in "cde")])
    gains: dict[tuple[str, ...], float]
    gains = {("a", "b"): 1.0, ("a", "c"): 0.9, ("b", "c"): 0.8, ("c", "d"): 0.7, ("d", "e"): 0.6}
    tree, kept = _held(schema, gains, 10_100)
    assert tree.cells <= 10_100
    assert set(kept) == set(gains) - {("a", "b")}  # the largest gain alone would fill it
    tree, kept = _held(schema, {("a", "b"): 9.0, ("c", "d"): 0.7}, 10_100)  # and here it is worth it
    assert kept == [("a", "b")]
    assert tree.holds(("a", "b"))


def test_small_tables_do_not_keep_a_table_of_three_columns_out_of_a_tree() -> None:
    """What three columns say together is seldom implied by others: here the largest gain comes first."""
    schema = mq.Schema([mq.Integer(name, 0, 9) for name in "abcd"])
    gains: dict[tuple[str, ...], float]
    gains = {("a", "b", "c"): 1.0, ("a", "d"): 0.9, ("b", "d"): 0.9, ("c", "d"): 0.9}
    _, kept = _held(schema, gains, 1_100)
    assert kept == [("a", "b", "c"), ("a", "d")]


@pytest.mark.parametrize("size", [20, 2 * MANY_NODES])
def test_a_tree_that_grows_by_one_clique_is_a_junction_tree(size: int) -> None:
    rng = np.random.default_rng(size)
    names = NAMES[:size]
    tree = JunctionTree(dict.fromkeys(names, 2))
    for _ in range(40):
        one, other = (names[i] for i in sorted(rng.choice(size, 2, replace=False)))
        expected = tree.cells_with((one, other))
        tree = tree.with_cliques([(one, other)])
        assert tree.cells <= expected
        assert tree.holds((one, other))
    for name in names:  # the nodes of a column are connected: all but one have it in common with their parent
        inside = [i for i, node in enumerate(tree.nodes) if name in node]
        assert sum(name in tree.separators[i] for i in inside) == len(inside) - 1


def test_a_model_grows_on_a_tree_that_is_given() -> None:
    schema = mq.Schema([mq.Boolean(name) for name in "abcd"])
    tree = JunctionTree(dict.fromkeys("abcd", 2), [("a", "b"), ("b", "c")])
    model = GraphicalModel(schema, [(name,) for name in "abcd"]).grown([("a", "b"), ("b", "c")], tree=tree)
    assert model.tree.nodes == tree.nodes
    assert model.marginal(("a", "c")).sum() == pytest.approx(1.0)


@pytest.mark.thorough
def test_all_pairs_of_many_columns_are_nearer_than_independent_columns_and_progress_is_true() -> None:
    rng = np.random.default_rng(5)
    hidden = rng.random(20_000) < 0.5
    columns = {f"c{i}": hidden ^ (rng.random(len(hidden)) < (0.15 if i % 2 else 0.5)) for i in range(WIDE + 2)}
    schema = mq.Schema([mq.Boolean(name) for name in columns])
    told: list[tuple[int, int]] = []
    curator = mq.Curator(mq.open_table(columns, schema), mq.Budget(epsilon=1.0, delta=1e-9))
    with curator, watch_progress(lambda _, done, steps: told.append((done, steps))):
        made = mq.release(curator, mq.marginals(schema, k=2))
    steps = [done for done, _ in told]
    assert steps == sorted(steps)
    assert told[-1][0] == told[-1][1]
    assert len({done for done in steps if done < 0.9 * told[-1][1]}) >= 4  # it moves while it asks, and while it fits
    errors, alone = [], []
    for one, other in itertools.islice(itertools.combinations(columns, 2), 0, None, 7):
        true = np.histogram2d(columns[one], columns[other], bins=2, range=[[0, 1], [0, 1]])[0] / len(hidden)
        errors.append(np.abs(np.asarray(made.marginal(one, other)) - true).sum() / 2)
        alone.append(np.abs(np.multiply.outer(true.sum(axis=1), true.sum(axis=0)) - true).sum() / 2)
    assert np.mean(errors) < 0.5 * np.mean(alone)
    assert "product of columns" in " ".join(made.explanation)  # it was compared
