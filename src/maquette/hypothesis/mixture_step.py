"""One step of a mixture of products: every component tilted by 1 + c q(x), and each made a product again.

The tilted component is p_k(x) (1 + c q(x)) / Z_k with Z_k = 1 + c E_k[q]; for a predicate that is the step of
multiplicative weights, exp(eta q). The tilted weights w_k Z_k / Z and the tilted table of every block, p_kB(x_B)
(1 + c E_k[q | x_B]) / Z_k, are exact. What is lost is the dependence between blocks that the tilt makes within a
component, so the strength c is searched for: the answer after the step is to be the value. To first order in c the
answer moves by the variance of E_k[q] over components plus that of E_k[q | x_B] over each block, never the wrong way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from maquette.hypothesis.blocks import Block
from maquette.hypothesis.kernels import Values
from maquette.query import LinearQuery, Term

_LIMIT = 30.0  # largest logarithm of 1 + c
_CLOSE = 1e-9  # an answer this close to the value is equal to it
_TRIES = 60
_NUMBERS = 2**22  # numbers of the factors spread over the cells of a block at a time


class Tilt:
    """A query as the blocks of a mixture see it, and the mixture after a step of any strength s = ln(1 + c)."""

    def __init__(self, weights: Values, parts: Sequence[tuple[Block, Values]], query: LinearQuery) -> None:
        self._weights = weights
        self._coefficients = np.array([term.coefficient for term in query.terms])
        owners = {position: i for i, (block, _) in enumerate(parts) for position in block.positions}
        touching: dict[int, list[int]] = {}
        for t, term in enumerate(query.terms):
            for i in {owners[position] for position in term.factors}:
                touching.setdefault(i, []).append(t)
        self._parts = {i: parts[i] for i in touching}
        self._places = {i: np.array(places) for i, places in touching.items()}  # of the terms about each block
        self._terms = {i: [query.terms[t] for t in places] for i, places in touching.items()}
        self._means = {i: _expected(*parts[i], self._terms[i]) for i in touching}

    def answer(self, strength: float) -> float:
        """The mixture's answer after a step of this strength; before it, at zero."""
        if strength == 0.0:
            return float(self._weights @ self._answers)
        c = math.expm1(strength)
        scale = 1.0 + c * self._answers
        products = np.repeat(self._coefficients[None, :], len(scale), axis=0)
        for i, means in self._means.items():
            products[:, self._places[i]] *= (means + c * self._moments[i]) / scale[:, None]
        weights = self._weights * scale
        return float(weights @ products.sum(axis=1) / weights.sum())

    def strength(self, value: float) -> float:
        """The strength after which the answer is the value, or else the closest of those tried."""
        before = self.answer(0.0)
        side = math.copysign(1.0, value - before)
        tried = {0.0: before - value}
        low, high = 0.0, side * max(1e-3, min(abs(_logit(value) - _logit(before)), _LIMIT))
        while True:
            tried[high] = self.answer(high) - value
            if tried[high] * side >= 0.0 or abs(high) >= _LIMIT:
                break
            low, high = high, side * min(2.0 * abs(high), _LIMIT)
        for _ in range(_TRIES if tried[high] * side > 0.0 else 0):
            middle = _between(low, high, tried[low], tried[high])
            tried[middle] = self.answer(middle) - value
            if abs(tried[middle]) < _CLOSE:
                break
            low, high = (middle, high) if tried[middle] * side < 0.0 else (low, middle)
        return min(tried, key=lambda s: (abs(tried[s]), abs(s)))

    def moved(self, strength: float) -> tuple[Values, dict[int, Values]]:
        """The weights and the tables of the blocks that change, after a step of this strength."""
        c = math.expm1(strength)
        scale = 1.0 + c * self._answers
        weights = self._weights * scale
        tables = {i: table * (1.0 + c * self._given[i]) for i, (_, table) in self._parts.items()}
        return weights / weights.sum(), {i: t / t.sum(axis=1, keepdims=True) for i, t in tables.items()}

    @cached_property
    def _answers(self) -> Values:
        """E_k[q] for every component."""
        return np.asarray(np.clip(self._products.sum(axis=1), 0.0, 1.0))

    @cached_property
    def _products(self) -> Values:
        """The mean of every term in every component."""
        products = np.repeat(self._coefficients[None, :], len(self._weights), axis=0)
        for i, means in self._means.items():
            products[:, self._places[i]] *= means
        return products

    @cached_property
    def _given(self) -> dict[int, Values]:
        """E_k[q | x_B] for every component and every cell of each block that the query is about."""
        given = {}
        for i, others in self._others.items():
            still = self._products.sum(axis=1) - self._products[:, self._places[i]].sum(axis=1)
            total = np.repeat(still[:, None], self._parts[i][0].cells, axis=1)
            for some, factors in _spread(self._parts[i][0], self._terms[i]):
                total += others[:, some] @ factors
            given[i] = np.clip(total, 0.0, 1.0)
        return given

    @property
    def _others(self) -> dict[int, Values]:
        """For each block, the means of the terms about it, without their factors in the block."""
        before = np.repeat(self._coefficients[None, :], len(self._weights), axis=0)
        others: dict[int, Values] = {}
        for i, means in self._means.items():
            others[i] = before[:, self._places[i]]
            before[:, self._places[i]] *= means
        after = np.ones_like(before)
        for i in reversed(self._means):
            others[i] *= after[:, self._places[i]]
            after[:, self._places[i]] *= self._means[i]
        return others

    @cached_property
    def _moments(self) -> dict[int, Values]:
        """For every component, block and term, the mean of the term's factor times E_k[q | x_B]."""
        found = {}
        for i, (block, table) in self._parts.items():
            tilted = table * self._given[i]
            found[i] = np.concatenate([tilted @ factors.T for _, factors in _spread(block, self._terms[i])], axis=1)
        return found


def _expected(block: Block, table: Values, terms: Sequence[Term]) -> Values:
    """The mean of each term's factors in the block, one row per component."""
    return np.concatenate([table @ factors.T for _, factors in _spread(block, terms)], axis=1)


def _spread(block: Block, terms: Sequence[Term]) -> Iterator[tuple[slice, Values]]:
    """The product of each term's factors on every cell of the block, one row per term, a few terms at a time."""
    step = max(1, _NUMBERS // block.cells)
    for start in range(0, len(terms), step):
        yield slice(start, start + step), np.array([_on_cells(block, term) for term in terms[start : start + step]])


def _on_cells(block: Block, term: Term) -> Values:
    cells = np.ones(())
    for position, size in zip(block.positions, block.shape, strict=True):
        cells = np.multiply.outer(cells, term.factors.get(position, np.ones(size)))
    return cells.reshape(-1)


def _between(low: float, high: float, below: float, above: float) -> float:
    """A strength between two: where the straight line meets zero, kept away from both ends."""
    share = below / (below - above)
    return low + min(max(share, 0.05), 0.95) * (high - low)


def _logit(value: float) -> float:
    kept = min(max(value, 1e-12), 1.0 - 1e-12)
    return math.log(kept) - math.log1p(-kept)
