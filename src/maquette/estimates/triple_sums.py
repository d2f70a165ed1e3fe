"""Measured triples in the fit of a mixture: their squared residuals and the gradients of these.

Triples that share two columns are worked on together: the products of the shared features stand for cells, and one
matrix product has the sums over all components. Features come with a row for each and a column for every component, so
that those of a column are neighbours in memory. Public computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float32]


@dataclass(frozen=True)
class Triples:
    """Triples that share two columns: targets by the cells of these and the features of all third columns."""

    places: tuple[slice, slice]
    others: NDArray[np.intp]
    target: Table
    precision: Table

    @classmethod
    def joined(
        cls, shared: tuple[slice, slice], others: Sequence[slice], tables: Sequence[Table], precisions: Sequence[float]
    ) -> Triples:
        """All triples that share two columns: place, target and precision of every third one."""
        places = np.concatenate([np.arange(place.start, place.stop) for place in others])
        each = np.repeat(np.asarray(precisions, np.float32), [table.shape[1] for table in tables])
        return cls(shared, places, np.hstack(tables), each)

    @property
    def shape(self) -> tuple[int, int]:
        """The features of the shared columns."""
        one, two = self.places
        return one.stop - one.start, two.stop - two.start


class TripleSums:
    """The sums of all triples, in memory that is used again: asking for new memory takes longer than the arithmetic."""

    def __init__(self, triples: Sequence[Triples], width: int, components: int) -> None:
        """For components of so many features."""
        largest = max((each.shape[0] * each.shape[1] for each in triples), default=0)
        self._triples = triples
        self._products, self._back = (np.empty((largest, components), np.float32) for _ in range(2))
        self._gradient = np.zeros((width if triples else 0, components), np.float32)
        self._scores, self._squares = np.zeros(components, np.float32), 0.0

    def add(self, features: Table, weights: Table, gradient: Table, scores: Table, *, anew: bool = True) -> float:
        """Add the gradients with respect to features and weights; returns the squared residuals over variances.

        Those of the last time, if they are not computed `anew`: after one short step they are nearly the same.
        """
        if not self._triples:
            return 0.0
        if anew:
            self._gradient[...], self._scores[...] = 0.0, 0.0
            turned = np.ascontiguousarray(features.T)
            self._squares = sum(self._add(each, turned, weights) for each in self._triples)
        gradient += self._gradient.T
        scores += self._scores
        return self._squares

    def _add(self, triples: Triples, features: Table, weights: Table) -> float:
        """The same for some triples, with a row for each feature."""
        first, second = (features[place] for place in triples.places)
        others = features[triples.others]
        shape = (*triples.shape, features.shape[1])
        cells = shape[0] * shape[1]
        both, back = self._products[:cells], self._back[:cells]
        np.multiply(first[:, None], second[None], out=both.reshape(shape))
        weighted = weights * others
        apart = both @ weighted.T
        apart -= triples.target
        pulled = triples.precision * apart
        towards = pulled.T @ both
        self._scores += np.einsum("ok,ok->k", towards, others)
        towards *= weights
        self._gradient[triples.others] += towards
        cellwise = np.matmul(pulled, weighted, out=back).reshape(shape)
        one, two = triples.places
        self._gradient[one] += np.einsum("abk,bk->ak", cellwise, second)
        self._gradient[two] += np.einsum("abk,ak->bk", cellwise, first)
        return float(np.vdot(pulled, apart))
