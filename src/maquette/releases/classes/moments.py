"""Projection of three- and four-way parities: noise on all of them, then the nearest ones that a table could have.

With the two levels of a column read as +1 and -1, a table has a matrix M[A, B] = E[x_(A xor B)] over the sets A and B
of at most two columns. It is positive semidefinite, its diagonal is one, and places of the same parity are equal. These
matrices are a convex set that contains every table's; the nearest point in it to the noisy parities is nearer to the
truth than they were. For k = 3 the parities of four columns are not measured: they are free.

Privacy: one `Curator.measure_many` of signed sums; the projection is post-processing. Accuracy:
`maquette.theory.projection`. Time: an eigenvalue decomposition of a matrix of 1 + d + d (d - 1) / 2 rows in each step,
so seconds for 20 columns. Reference: Dwork, Nikolov and Talwar 2015; Mechanisms §8.7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import Arrays, on_simplex, saving
from maquette.query import LinearQuery, Marginal, table_of_parities
from maquette.schema import Schema

Values = NDArray[np.float64]

MAX_COLUMNS = 24  # a matrix of 301 rows
_STEPS = 3000
_TOLERANCE = 1e-6
_WEIGHT = 0.2  # of the constraint in the method of multipliers


@dataclass(frozen=True, eq=False, repr=False)
class MomentModel:
    """Every marginal of at most k two-level columns, from parities that come from one feasible matrix.

    `levels[s]` holds the parities, as fractions of rows, of all s-subsets of `columns` in lexicographic order.
    Everything here is post-processing of the measurement: asking costs nothing.
    """

    kind: ClassVar[str] = "moments"
    schema: Schema
    columns: tuple[str, ...]
    levels: tuple[Values, ...]

    @property
    def k(self) -> int:
        """The most columns of a marginal."""
        return len(self.levels) - 1

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of at most k columns, axes in the order asked: the nearest distribution."""
        names = Marginal(self.schema, columns).names
        unknown = [name for name in names if name not in self.columns]
        if unknown or len(names) > self.k:
            raise QueryError(
                f"the question is about {', '.join(names)}",
                expected=f"at most {self.k} of {', '.join(self.columns)}",
                advice="sample records and count on them, or release a workload of wider marginals",
            )
        places, parities = [self.columns.index(name) for name in names], np.zeros((2,) * len(names))
        for chosen in itertools.product((0, 1), repeat=len(names)):
            held = tuple(sorted(place for place, used in zip(places, chosen, strict=True) if used))
            parities[chosen] = self.levels[len(held)][self._rank(held)]
        return on_simplex(np.asarray(table_of_parities(parities)))

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        if query.schema != self.schema:
            raise QueryError("the query was built for another schema", advice="build it from the model's schema")
        return float((query.weights() * self.marginal(query.columns)).sum())

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records whose expected pairs come close to the model's; wider tables follow as far as pairs go."""
        from maquette.releases.classes.projection import ParityModel

        size = len(self.columns)
        pairs = np.eye(size + 1)
        pairs[0, 1:] = pairs[1:, 0] = -self.levels[1]  # there the second level counts +1
        upper = np.triu_indices(size, 1)
        pairs[1:, 1:][upper] = self.levels[2]
        pairs[1:, 1:].T[upper] = self.levels[2]
        return ParityModel(self.schema, self.columns, pairs).sample(rows, rng)

    def facts(self) -> dict[str, Any]:
        """The columns, and how many of them a marginal may have."""
        return {"columns": list(self.columns), "k": self.k}

    def arrays(self) -> Arrays:
        """The parities, level by level."""
        return {str(i): level for i, level in enumerate(self.levels)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        columns, k = two_level(schema, facts["columns"]), int(saving.number(facts, "k"))
        if not 2 <= k <= len(columns):
            raise saving.unfit("parities are over more columns than there are")
        return cls(
            schema,
            columns,
            tuple(saving.array(arrays, str(i), [math.comb(len(columns), i)]) for i in range(k + 1)),
        )

    def _rank(self, places: tuple[int, ...]) -> int:
        """The place of a set among all of its size, in lexicographic order."""
        size, rank, before = len(self.columns), 0, -1
        for i, place in enumerate(places):
            rank += sum(math.comb(size - 1 - skipped, len(places) - 1 - i) for skipped in range(before + 1, place))
            before = place
        return rank

    def __repr__(self) -> str:
        return f"MomentModel({len(self.columns)} columns, k = {self.k})"


def two_level(schema: Schema, found: object) -> tuple[str, ...]:
    """Columns named in a saved file, at least one, all with two levels."""
    columns = saving.columns(schema, found)
    if not columns or any(schema[name].size != 2 for name in columns):
        raise saving.unfit("parities are of columns that do not have two levels")
    return columns


def project_moments(noisy: Sequence[Values], columns: int) -> tuple[Values, ...]:
    """The nearest parities of a feasible matrix to `noisy`, level by level from 1 to k; k is 3 or 4.

    The method of multipliers: the parities and the matrix are two copies of one point, which are drawn together; the
    matrix is kept positive semidefinite by dropping negative eigenvalues. At the end the point is shrunk towards zero
    until its own matrix is, so that the answer is feasible. Optimal up to about 1e-6.
    """
    sets = [held for size in range(5) for held in itertools.combinations(range(columns), size)]
    number = {held: i for i, held in enumerate(sets)}
    rows = [held for held in sets if len(held) <= 2]
    at = np.array([[number[_apart(a, b)] for b in rows] for a in rows])
    places = np.bincount(at.reshape(-1), minlength=len(sets)).astype(np.float64)
    measured = np.concatenate([np.ones(1), *noisy])
    wanted, weight = np.zeros(len(sets)), np.zeros(len(sets))
    wanted[: len(measured)], weight[: len(measured)] = measured, 1.0
    point, dual = wanted.copy(), np.zeros(at.shape)
    point[0] = 1.0
    for _ in range(_STEPS):
        matrix = _positive(point[at] - dual)
        pulled = np.bincount(at.reshape(-1), weights=(matrix + dual).reshape(-1), minlength=len(sets))
        after = (weight * wanted + _WEIGHT * pulled) / (weight + _WEIGHT * places)
        after[0] = 1.0
        dual += matrix - after[at]
        moved, apart = float(np.abs(after - point).max()), float(np.abs(matrix - after[at]).max())
        point = after
        if max(moved, apart) <= _TOLERANCE:
            break
    short = max(0.0, -float(np.linalg.eigvalsh(point[at])[0]))
    point[1:] /= 1.0 + short
    ends = np.cumsum([1, *(len(level) for level in noisy)])
    return tuple(point[start:end] for start, end in itertools.pairwise(ends))


def _apart(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(a) ^ set(b)))


def _positive(matrix: Values) -> Values:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
