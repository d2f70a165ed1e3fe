"""Departures: what measurements say against a model, beyond what their noise explains.

A fit leaves part of its evidence unexplained: a penalty holds it back, its steps end, its family cannot represent the
rest. Where that part exceeds the noise, answers should follow the measurements. Let d be the k measured coefficients of
a set of columns (what its table says beyond its subsets) minus those of the model, and v their variances. If the model
were right and knew nothing of the noise, z = sum of d^2 / v would have mean k and standard deviation sqrt(2 k). Of d,
the part

    1 - (k + sqrt(2 k)) / z,    at least 0,

is added to the model: the factor of James and Stein, held back by one standard deviation. A question gets the sum over
the subsets of its columns, a linear function of its weights. So answers still add up: groups to their total, sums and
counts to averages. Only questions whose every subset was measured are changed. Post-processing: it sees released
numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.evidence import Evidence
from maquette.estimates.merged import MergedEvidence, Merging
from maquette.estimates.residuals import Columns, Residuals, backward, forward, subsets
from maquette.schema import Schema

Values = NDArray[np.float64]


class Tabled(Protocol):
    """A model that has tables."""

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of these columns."""


class Departures:
    """How far the answers of a model are drawn to the evidence; computed when a question needs it, and kept."""

    def __init__(self, schema: Schema, model: Tabled, evidence: Evidence) -> None:
        self._schema, self._model, self._evidence = schema, model, evidence
        self._fine: Residuals | None = None
        self._coarse: Residuals | None = None
        self._merging: Merging | None = None
        if isinstance(evidence, MergedEvidence):
            self._fine, self._coarse, self._merging = evidence.fine, evidence.coarse, evidence.merging
        elif isinstance(evidence, Residuals):
            self._coarse = evidence
        self._moved: dict[Columns, Values | None] = {}
        self._shares: dict[str, Values] = {}

    def total(self, weights: Values, columns: Columns) -> float:
        """What is added to the model's total (in counts) of these weights over the cells of `columns`."""
        if self._coarse is None or self.closed(columns) or not self._evidence.covers(columns):
            return 0.0
        return sum(self._part(weights, columns, part) for part in subsets(columns) if part)

    def ratio(
        self, weights: Values, per: Values, columns: Columns, model: tuple[float, float], between: tuple[float, float]
    ) -> float:
        """The ratio of two totals of the model (in counts), both drawn; as it was where that would be impossible."""
        total, rows = model[0] + self.total(weights, columns), model[1] + self.total(per, columns)
        least, most = between
        if rows < 1.0 or not least * rows <= total <= most * rows:
            total, rows = model
        return min(max(total / max(rows, 1.0), least), most)

    def closed(self, columns: Columns) -> bool:
        """Whether these hold an impossible combination: they are left to the model, which knows the empty cells."""
        return any(set(names) <= set(columns) for names, _ in self._schema.zeros)

    def _part(self, weights: Values, columns: Columns, part: Columns) -> float:
        """What one set of columns adds: its moved cells, weighted by the mean over all other columns."""
        if part not in self._moved:
            self._moved[part] = self._found(part)
        moved = self._moved[part]
        if moved is None:
            return 0.0
        seen = self._grouped(weights, columns, but=() if self._by_groups(part) else part)
        others = tuple(axis for axis, name in enumerate(columns) if name not in part)
        return float((moved * seen.mean(axis=others)).sum())

    def _by_groups(self, part: Columns) -> bool:
        """Whether a set was measured in groups of levels, or without any merging."""
        return self._coarse is not None and part in self._coarse

    def _found(self, part: Columns) -> Values | None:
        """The cells of a set that are added to those of the model; None if noise explains the difference."""
        source = self._coarse if self._by_groups(part) else self._fine
        if source is None or part not in source:
            return None  # a column of one level
        values, variances = source.coefficients(part)
        cells = self._model.marginal(part) * self._evidence.rows
        if self._by_groups(part):
            cells = self._summed(cells, part)
        apart = values - forward(cells)[tuple(slice(1, None) for _ in part)]
        count, size = apart.size, float((apart**2 / variances).sum())
        factor = 1.0 - (count + math.sqrt(2.0 * count)) / size if size > 0.0 else 0.0
        if factor <= 0.0:
            return None
        whole = np.zeros(cells.shape)
        whole[tuple(slice(1, None) for _ in part)] = factor * apart
        return backward(whole)

    def _summed(self, cells: Values, columns: Columns) -> Values:
        """The cells of groups."""
        for axis, name in enumerate(columns):
            if self._merging is not None and name in self._merging.changed:
                cells = self._gathered(cells, name, axis)
        return cells

    def _grouped(self, weights: Values, columns: Columns, but: Columns) -> Values:
        """The mean weight of each cell of groups; within a group, levels have the shares that the model gives them."""
        for axis, name in enumerate(columns):
            if self._merging is not None and name in self._merging.changed and name not in but:
                share = self._share(name).reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
                weights = self._gathered(weights * share, name, axis)
        return weights

    def _gathered(self, cells: Values, name: str, axis: int) -> Values:
        """Cells added up by the groups of one column."""
        assert self._merging is not None, "only merged columns have groups"
        groups = self._merging.groups[name]
        members = (groups == np.arange(int(groups.max()) + 1)[:, None]).astype(np.float64)
        return np.moveaxis(np.tensordot(members, cells, axes=(1, axis)), 0, axis)

    def _share(self, name: str) -> Values:
        """The share of each level in its group."""
        if name not in self._shares:
            assert self._merging is not None, "only merged columns have groups"
            groups, mass = self._merging.groups[name], self._model.marginal((name,)) + 1e-12
            self._shares[name] = mass / np.bincount(groups, weights=mass)[groups]
        return self._shares[name]
