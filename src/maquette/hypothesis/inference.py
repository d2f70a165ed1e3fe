"""Inference across the nodes of a junction tree: marginals and answers whose columns lie far apart, by elimination.

Only the nodes between the columns asked about are visited. A node passes on a table over the separator and those of
the columns asked about that it has met. Tables are cached for other questions about the same distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maquette.hypothesis.factors import Factor, Values
from maquette.hypothesis.propagation import Calibration
from maquette.query import Term

_KEPT = 2**24  # numbers in cached tables: 128 MB
_HERE, _JOINT, _GIVEN = -2, -3, -4  # no neighbour; cache keys of a node's joint and conditional tables

Wanted = frozenset[int]


class Inference:
    """Questions about one calibrated distribution."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.plan = calibration.plan
        self._kept: dict[tuple[int, int, Wanted], Factor] = {}
        self._size = 0

    def marginal(self, columns: Sequence[int]) -> Values:
        """The probabilities of all cells of these columns, axes in this order."""
        wanted = frozenset(columns)
        return np.array(self._gathered(self._pivot(wanted), _HERE, wanted).ordered(columns), order="C")

    def weighted(self, terms: Sequence[Term]) -> list[float]:
        """The expected product of each term's factors (coefficients aside)."""
        wanted = frozenset(position for term in terms for position in term.factors)
        found = self._terms(self._top(wanted), wanted, [term.factors for term in terms], joint=True)
        return [float(each) for each in found]

    def _top(self, wanted: Wanted) -> int:
        """The lowest node that has all wanted columns in it or below it."""
        nodes, below, top = self.plan.nodes, self.plan.below, 0
        while True:
            lower = [j for j in nodes[top].children if wanted <= below[j].union(nodes[j].separator)]
            if not lower:
                return top
            top = lower[0]

    def _pivot(self, wanted: Wanted) -> int:
        """The smallest node that holds all wanted columns; if none does, the node with the smallest messages to it."""
        nodes = self.plan.nodes
        holding = [i for i, node in enumerate(nodes) if wanted.issubset(node.columns)]
        if holding:
            return min(holding, key=lambda i: self.plan.cells(nodes[i].columns))
        top = pivot = self._top(wanted)
        cells = self.plan.cells
        best, costs, open_ = 0.0, {top: 0.0}, [top]
        while open_:  # moving the pivot from a node to its child reverses one message only
            i = open_.pop()
            for child, part in self._under(i, wanted).items():
                boundary = cells(nodes[child].separator)
                others = wanted.difference(part, nodes[child].separator)
                costs[child] = costs[i] + boundary * float(cells(tuple(others)) - cells(tuple(part)))
                if costs[child] < best:
                    best, pivot = costs[child], child
                open_.append(child)
        return pivot

    def _gathered(self, i: int, towards: int, wanted: Wanted) -> Factor:
        """The distribution of the wanted columns, all in node i or beyond it, given its separator towards a neighbour.

        Without a neighbour it is the joint distribution.
        """
        key = (i, towards, wanted)
        known = self._kept.get(key)
        if known is not None:
            return known
        node = self.plan.nodes[i]
        parts = {j: part for j, part in self._under(i, wanted).items() if j != towards}
        beyond = wanted.difference(self.plan.below[i], node.separator)
        if beyond and towards != node.parent:
            parts[node.parent] = beyond
        boundary = frozenset() if towards == _HERE else frozenset(self._separator(i, towards))
        inner = [frozenset(self._separator(i, j)) for j in parts]
        result = self._reduced(i, towards, wanted.intersection(node.columns).union(boundary, *inner))
        for place, (j, part) in enumerate(parts.items()):
            needed = wanted.union(boundary, *inner[place + 1 :])
            result = result.times(self._gathered(j, i, part), needed)
        result = result.onto(wanted | boundary)
        if towards in node.children:  # these tables are joint ones
            mass = self._reduced(i, _HERE, boundary)
            shares = np.divide(1.0, mass.table, out=np.zeros_like(mass.table), where=mass.table > 0.0)
            result = Factor(result.table * Factor(shares, mass.columns).spread(result.columns), result.columns)
        return self._keep(key, result)

    def _separator(self, i: int, j: int) -> tuple[int, ...]:
        """The separator between two neighbours."""
        return self.plan.nodes[i if self.plan.nodes[i].parent == j else j].separator

    def _reduced(self, i: int, towards: int, columns: Wanted) -> Factor:
        """The table of a node over some of its columns; conditional on its separator if `towards` is its parent."""
        conditional = towards >= 0 and towards == self.plan.nodes[i].parent
        key = (i, _GIVEN if conditional else _JOINT, columns)
        known = self._kept.get(key)
        if known is not None:
            return known
        source = self.calibration.conditionals[i] if conditional else self.calibration.joints[i]
        return self._keep(key, source.onto(columns))

    def _keep(self, key: tuple[int, int, Wanted], factor: Factor) -> Factor:
        if self._size + factor.table.size > _KEPT:
            self._kept.clear()
            self._size = 0
        self._kept[key] = factor
        self._size += factor.table.size
        return factor

    def _under(self, i: int, wanted: Wanted) -> dict[int, Wanted]:
        """The children below which there are wanted columns, and those columns."""
        parts = {child: wanted & self.plan.below[child] for child in self.plan.nodes[i].children}
        return {child: part for child, part in parts.items() if part}

    def _terms(self, i: int, wanted: Wanted, products: Sequence[Mapping[int, Values]], *, joint: bool) -> list[Values]:
        """For each product of factors over the wanted columns, its expectation given the node's separator."""
        node, parts = self.plan.nodes[i], self._under(i, wanted)
        outside = () if joint else node.separator
        local = wanted.intersection(node.columns if joint else node.own)
        inner = [self.plan.nodes[child].separator for child in parts]
        base = self._reduced(i, _HERE if joint else node.parent, local.union(outside, *inner))
        below: list[list[Values | None]] = []
        for child, part in parts.items():
            below.append(self._shared(child, part, products))
        soon = [column for column in local if not any(column in each for each in inner) and column not in outside]
        results: list[Values] = []
        for place, product in enumerate(products):
            factor = base
            for column in local:
                if column in product and column in soon:
                    weights = Factor(product[column], (column,))
                    factor = factor.times(weights, set(factor.columns) - {column})
            factor = factor.onto({column for column in factor.columns if column not in soon})
            table = factor.table
            for column in local:
                if column in product and column not in soon:
                    table = table * Factor(product[column], (column,)).spread(factor.columns)
            for columns, messages in zip(inner, below, strict=True):
                message = messages[place]
                if message is not None:
                    table = table * Factor(message, columns).spread(factor.columns)
            results.append(Factor(table, factor.columns).onto(outside).ordered(outside))
        return results

    def _shared(self, child: int, part: Wanted, products: Sequence[Mapping[int, Values]]) -> list[Values | None]:
        """The messages of a child for each product; products with the same factors under it share one."""
        narrowed = [{column: p[column] for column in sorted(part) if column in p} for p in products]
        keys = [tuple((column, factor.tobytes()) for column, factor in each.items()) for each in narrowed]
        distinct = {key: each for key, each in zip(keys, narrowed, strict=True) if key}
        found = dict(zip(distinct, self._terms(child, part, list(distinct.values()), joint=False), strict=True))
        return [found.get(key) for key in keys]
