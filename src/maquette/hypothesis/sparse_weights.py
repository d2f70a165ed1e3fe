"""Sparse weights: multiplicative weights for questions about a few points each, in a universe of any size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import check_schema, positions_of, totals
from maquette.hypothesis.multiplicative_weights import StepRule
from maquette.hypothesis.sampling import snake, systematic
from maquette.query import MAX_OUTPUT, LinearQuery, Points, support
from maquette.schema import Schema

SparseStep = Literal["theory", "book"]

EXACT = 2**53  # with more untouched points than this, the touched ones do not change a cell's share of them
_LISTED = 2**16  # a sample lists the points of universes up to this size
_TRIES = 1000

Values = NDArray[np.float64]


class SparseWeights:
    """Multiplicative weights on the points that updates have touched, and `slots` exchangeable cells for all the rest.

    Points are combinations of levels of `columns` (default: all). A question may give weight to at most m = `support`
    points; a question about more is refused. A point that no update has touched takes a fresh cell with the initial
    weight. After T updates at most mT cells are taken, so slots = mT + 1 suffice (or the number of points, if smaller).

    Privacy: post-processing of released values. Accuracy: T(alpha) = min{T : T >= ln(mT + 1) / (2 alpha^2)} for a
    universe of any size: map each touched point to a cell of its own and all other rows of the table to the last cell,
    and this is `MultiplicativeWeights` on `slots` cells (Mechanisms §4.7, after Blum and Roth). Memory: one number for
    each touched point. Time: an answer reads the question's points only; an update also sums over the touched points.

    The theorem is about `answer`. Its answers do not come from one distribution if the universe has more than `slots`
    points: an untouched point counts as a whole cell while it is asked about, and there are more such points than
    cells. `marginal` and `sample` use the distribution that gives touched points their answers and spreads the
    remaining mass, `elsewhere`, evenly over all other points. Columns outside `columns` are uniform, as nothing is
    known about them.

    >>> from maquette import Integer, Schema
    >>> from maquette.query.classes.lookups import lookup
    >>> schema = Schema([Integer("code", 0, 999_999), Integer("site", 0, 999_999)])
    >>> model = SparseWeights(schema, support=20, alpha=0.1)
    >>> model.update_bound, model.slots
    (456.0, 9121)
    >>> model.update(lookup(schema, {"code": 4711, "site": 12}), 0.3)
    >>> model.touched, round(model.answer(lookup(schema, {"code": 4711, "site": 12})) * model.slots, 2)
    (1, 1.49)
    """

    kind: ClassVar[str] = "sparse-weights"

    def __init__(
        self,
        schema: Schema,
        *,
        support: int,
        alpha: float,
        columns: Sequence[str] | None = None,
        step: SparseStep = "theory",
    ) -> None:
        if isinstance(support, bool) or not isinstance(support, int) or support < 1:
            raise QueryError(f"support is {support!r}", expected="how many points a question may touch, at least 1")
        if step not in get_args(SparseStep):
            raise QueryError(f"there is no step {step!r}", expected=f"one of {', '.join(get_args(SparseStep))}")
        names = schema.names if columns is None else tuple(columns)
        positions = positions_of(schema, names)
        if not names:
            raise QueryError("there is no key column", expected="at least one key column")
        self.schema = schema
        self.columns = tuple(schema.names[i] for i in sorted(positions))
        self.support = support
        self._rule = StepRule(step=step, alpha=alpha)
        self._points_in_all = schema.cells(self.columns)
        most = _least_updates(support, self._rule)
        self.slots = min(support * most + 1, self._points_in_all)
        self._bound = min(float(most), self._rule.max_updates(math.log(self._points_in_all)))
        self._places: dict[bytes, int] = {}
        self._logs = np.zeros(0)
        self._top, self._total = 0.0, float(self.slots)

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """ln N / (2 alpha^2), which holds for any support; `update_bound` uses this model's support."""
        return StepRule(alpha=alpha).max_updates(math.log(schema.size))

    @property
    def alpha(self) -> float:
        """The error that a step corrects."""
        assert self._rule.alpha is not None
        return self._rule.alpha

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step and support."""
        return self._bound

    @property
    def touched(self) -> int:
        """The number of points with weights of their own."""
        return len(self._logs)

    @property
    def elsewhere(self) -> float:
        """The mass of all points that no update has touched."""
        return self._untouched * math.exp(-self._top) / self._total

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows; refused for a question about more than `support` points."""
        points, weights = self._points(query)
        return self._answer(points, weights)

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value; only the sign of value - answer matters."""
        points, weights = self._points(query)
        eta = self._rule.eta(value, self._answer(points, weights), lambda: (weights, weights))
        if eta == 0.0:
            return
        places = np.array([self._places.setdefault(key, len(self._places)) for key in _names(points)], dtype=np.int64)
        self._logs = np.append(self._logs, np.zeros(len(self._places) - len(self._logs)))
        self._logs[places] += eta * weights
        self._add_up()

    def _add_up(self) -> None:
        """Sum the weights relative to the largest, so nothing overflows; one that underflows keeps its logarithm."""
        self._top = max(0.0, float(self._logs.max(initial=0.0)))
        self._total = float(np.exp(self._logs - self._top).sum()) + self._untouched * math.exp(-self._top)

    def marginal(self, columns: Sequence[str]) -> Values:
        """The touched points' masses and the mass elsewhere, spread evenly, over the cells of these columns."""
        positions = positions_of(self.schema, columns)
        if self.schema.cells(columns) > MAX_OUTPUT:
            raise QueryError(
                f"{self.schema.cells(columns):,} cells over {len(columns)} columns are more than {MAX_OUTPUT:,}",
                advice="ask for fewer columns, or for `touched_points`",
            )
        kept = [name for name in self.columns if self.schema.position(name) in positions]
        shape = self.schema.shape(kept)
        points, masses = self.touched_points()
        own = points[:, [self.columns.index(name) for name in kept]]
        entries = np.zeros(len(points), dtype=np.int64)
        for column, size in zip(own.T, shape, strict=True):
            entries = entries * size + column
        held, used = (totals(entries, w, math.prod(shape)).reshape(shape) for w in (masses, np.ones(len(points))))
        each, left = self._points_in_all // math.prod(shape), self._points_in_all - self.touched
        if left:  # a ratio of integers that may be too large for a float
            held += self.elsewhere * ((each - used) / left if left < EXACT else np.full(shape, each / left))
        free = [name for name in columns if name not in kept]
        spread = held.reshape((*shape, *[1] * len(free))) / self.schema.cells(free)
        full = np.broadcast_to(spread, (*shape, *self.schema.shape(free)))
        order = [*kept, *free]
        return np.array(np.transpose(full, [order.index(name) for name in columns]), order="C")

    def touched_points(self) -> tuple[Points, Values]:
        """The touched points, as codes of `columns`, and the mass of each."""
        codes = np.frombuffer(b"".join(self._places), dtype=np.int32).reshape(-1, len(self.columns))
        return codes, np.exp(self._logs - self._top) / self._total

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records: touched points appear their share of `rows` times, rounded; the rest are uniform elsewhere.

        In a small universe, untouched points too appear their share of times.
        """
        points, masses = self.touched_points()
        if self._points_in_all <= _LISTED:
            shape = self.schema.shape(self.columns)
            points = np.indices(shape).reshape(len(shape), -1).T.astype(np.int32)
            masses = self.marginal(self.columns).reshape(-1)
            order = snake(points, shape)
            keys = points[order[systematic(masses[order], rows, rng)]]
        else:
            chosen = systematic(np.append(masses, self.elsewhere), rows, rng)
            here = chosen < len(points)
            keys = np.empty((rows, len(self.columns)), dtype=np.int32)
            keys[here] = points[chosen[here]]
            keys[~here] = self._strangers(int((~here).sum()), rng)
        records = rng.integers(self.schema.shape(self.schema.names), size=(rows, len(self.schema)), dtype=np.int32)
        records[:, [self.schema.position(name) for name in self.columns]] = keys
        return records

    def facts(self) -> dict[str, Any]:
        """The settings."""
        settings = {"support": self.support, "alpha": self.alpha, "step": self._rule.step}
        return {**settings, "columns": list(self.columns)}

    def arrays(self) -> Arrays:
        """The touched points and the logarithms of their weights."""
        return {"points": self.touched_points()[0], "logs": self._logs}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        alpha, columns = saving.number(facts, "alpha"), saving.names(facts, "columns")
        model = cls(schema, support=facts["support"], alpha=alpha, columns=columns, step=facts["step"])
        points = saving.array(arrays, "points", [saving.ANY, len(model.columns)], np.int32)
        model._logs = saving.array(arrays, "logs", [len(points)], most=saving.LARGEST)
        model._places = {key: place for place, key in enumerate(_names(points))}
        if not ((points >= 0) & (points < schema.shape(model.columns))).all() or len(model._places) < len(points):
            raise saving.unfit("touched points do not fit the schema, or come twice")
        model._add_up()
        return model

    def _strangers(self, count: int, rng: np.random.Generator) -> Points:
        """Uniform points that no update has touched, by redrawing; in a large universe nearly all are."""
        drawn = np.empty((count, len(self.columns)), dtype=np.int32)
        missing = np.arange(count)
        for _ in range(_TRIES):
            if not len(missing):
                break
            fresh = rng.integers(
                self.schema.shape(self.columns), size=(len(missing), len(self.columns)), dtype=np.int32
            )
            drawn[missing] = fresh
            missing = missing[[key in self._places for key in _names(fresh)]]
        return drawn

    @property
    def _untouched(self) -> int:
        """Cells left. One is kept for the rest of the table even after T updates, which valid values never exceed."""
        return max(self.slots - self.touched, int(self.slots < self._points_in_all))

    def _points(self, query: LinearQuery) -> tuple[Points, Values]:
        check_schema(query, self.schema)
        return support(query, self.columns, self.support)

    def _answer(self, points: Points, weights: Values) -> float:
        places = np.array([self._places.get(key, -1) for key in _names(points)], dtype=np.int64)
        logs = np.zeros(len(places))
        logs[places >= 0] = self._logs[places[places >= 0]]
        return float((weights * np.exp(logs - self._top)).sum()) / self._total

    def __repr__(self) -> str:
        return f"SparseWeights({self.touched:,} points touched, {self.slots:,} slots, step {self._rule.step})"


def _names(points: Points) -> list[bytes]:
    """Each point as bytes, to look it up by."""
    rows = np.ascontiguousarray(points, dtype=np.int32)
    width, whole = rows.shape[1] * rows.itemsize, rows.tobytes()
    return [whole[i : i + width] for i in range(0, len(whole), width)]


def _least_updates(support: int, rule: StepRule) -> int:
    """The least T >= 1 with T >= T(alpha) for a uniform start over mT + 1 cells.

    The logarithm is concave, so if T is enough, every larger T is too.
    """

    def enough(updates: int) -> bool:
        return updates >= rule.max_updates(math.log(support * updates + 1))

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
