"""Sums of blocks: the centred tables of sets of columns, and the transpose of making them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import maquette as mq
from maquette.estimates.block_sums import BlockSums
from maquette.hypothesis import Block, laid_out

SIZES = {"a": 3, "b": 2, "c": 4, "d": 5}
SETS: dict[str, list[tuple[str, ...]]] = {
    "single columns": [("a",), ("b",), ("c",), ("d",)],
    "all on the right": [("c", "d"), ("d",)],
    "all on the left": [("a", "b"), ("b",)],
    "both sides": [("a",), ("a", "c"), ("b", "d"), ("a", "b", "c", "d"), ("b", "c", "d")],
}


def block() -> Block:
    schema = mq.Schema([mq.Integer(name, 0, size - 1) for name, size in SIZES.items()])
    (found,) = laid_out(schema, [tuple(SIZES)])
    return found


def centred(cells: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """By the definition: sums over the other columns, less their mean along each axis."""
    table = cells.reshape(list(SIZES.values())).sum(axis=tuple(i for i, name in enumerate(SIZES) if name not in names))
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return np.asarray(table).reshape(-1)


@pytest.mark.parametrize("name", SETS)
def test_they_are_the_centred_tables(name: str) -> None:
    cells = np.random.default_rng(0).random((7, math.prod(SIZES.values())), dtype=np.float32)
    wanted = np.array([np.concatenate([centred(row, names) for names in SETS[name]]) for row in cells])
    made = np.empty(wanted.shape, np.float32)
    BlockSums(block(), SETS[name]).forward(cells, made)
    assert made == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", SETS)
def test_backward_is_the_transpose(name: str) -> None:
    """<g, forward(x)> = <backward(g), x> for every component."""
    rng = np.random.default_rng(1)
    cells = rng.random((7, math.prod(SIZES.values())), dtype=np.float32)
    made = np.empty((7, sum(math.prod(SIZES[c] for c in names) for names in SETS[name])), np.float32)
    gradient, pulled = rng.standard_normal(made.shape, dtype=np.float32), np.empty_like(cells)
    sums = BlockSums(block(), SETS[name])
    sums.forward(cells, made)
    sums.backward(gradient, pulled)
    assert (gradient * made).sum(axis=1) == pytest.approx((pulled * cells).sum(axis=1), rel=1e-3, abs=1e-3)
