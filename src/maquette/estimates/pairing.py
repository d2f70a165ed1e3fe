"""Sharp pairs of a mixture: two columns whose dependence too few components can hold depend within each of them.

A mixture makes columns depend by letting them vary together over its components. Hundreds of columns share these, so
where two large columns depend sharply, on each other alone, a fit leaves them independent. Such a pair becomes one
block: in every component its table has the component's own columns and, in all of them, the same interaction, chosen so
that the mixture has the wanted table of the pair. Every table that lacks one of the two columns stays as it is.
Public computation: a function of fitted models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.residuals import Columns
from maquette.hypothesis import Mixture

FAR = 0.04  # half L1 distance of a pair from its wanted table, from which on it gets a block
LARGEST = 4096  # cells of such a block
ROUNDS, SWEEPS = 12, 6  # corrections of an interaction, and adjustments to the columns before each
LAST_SWEEPS, CLOSE = 300, 1e-5  # adjustments at the end, at most, and how far from a column they may stop
MOST = 5.0  # factor of one correction
SMALLEST = 1e-12

Values = NDArray[np.float64]


def paired(mixture: Mixture, wanted: Mapping[Columns, Values]) -> tuple[Mixture, list[Columns]]:
    """The mixture with a block for each pair that is far from its wanted table, farthest first; and these pairs.

    A column is in one pair at most, and stays alone if impossible combinations have put it in a block already.
    """
    tables = mixture.tables
    chosen: dict[Columns, Values] = {}
    for pair in _farthest(mixture, wanted):
        if all((name,) in tables for name in pair):
            one, other = (tables.pop((name,)) for name in pair)
            chosen[pair] = _joined(mixture.weights, one, other, wanted[pair]).reshape(len(one), -1)
    blocks = [(columns, table.astype(np.float32)) for columns, table in {**tables, **chosen}.items()]
    return (Mixture(mixture.schema, mixture.weights, blocks) if chosen else mixture), list(chosen)


def _farthest(mixture: Mixture, wanted: Mapping[Columns, Values]) -> Iterable[Columns]:
    small = [pair for pair in wanted if mixture.schema.cells(pair) <= LARGEST]
    apart = {pair: float(np.abs(mixture.marginal(pair) - wanted[pair]).sum()) / 2 for pair in small}
    return sorted((pair for pair in small if apart[pair] >= FAR), key=lambda pair: (-apart[pair], pair))


def _joined(weights: Values, one: Values, other: Values, wanted: Values) -> Values:
    """Tables of a pair, one of each component, with these columns, whose weighted sum is about the wanted table."""
    wanted = np.maximum(wanted, SMALLEST)
    interaction = wanted / np.multiply.outer(wanted.sum(axis=1), wanted.sum(axis=0))
    found: Values = interaction * one[:, :, None] * other[:, None, :]
    for _ in range(ROUNDS):
        _adjust(found, one, other, SWEEPS)
        ratio = wanted / np.maximum(np.tensordot(weights, found, axes=1), SMALLEST)
        found *= np.clip(ratio, 1 / MOST, MOST)
    _adjust(found, one, other, LAST_SWEEPS)
    return found


def _adjust(found: Values, one: Values, other: Values, sweeps: int) -> None:
    """Give each component's table its columns, by iterative proportional fitting: its interaction stays as it is."""
    for _ in range(sweeps):
        found *= (other / np.maximum(found.sum(axis=1), SMALLEST))[:, None, :]
        sums = np.maximum(found.sum(axis=2), SMALLEST)
        found *= (one / sums)[:, :, None]
        if np.abs(sums - one).max() < CLOSE:
            return
