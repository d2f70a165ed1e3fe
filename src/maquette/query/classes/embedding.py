"""Embedding: Euclidean distances as sums over columns, by public directions.

For a direction u, |<u, x - y>| is a distance along one line; its average over directions is, up to a constant, the
Euclidean distance. So the coordinates along k public directions are k columns in which l1 distances are almost l2
distances. The map is public and works row by row, so it costs no privacy: neighbouring tables stay neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.errors import QueryError
from maquette.query.classes.distances import Box, Point
from maquette.query.linear import LinearQuery
from maquette.schema import Number, Schema

Values = NDArray[np.float64]


class Embedding:
    """Coordinates of a box along `directions` public directions, where l1 distances are almost Euclidean ones.

    For two columns the directions are evenly spread over half a turn. The relative error of every distance is at most
    `distortion`, about (pi / 2k)^2 / 4: one percent for k = 8. For more columns the directions are Gaussian, drawn from
    `rng` (a public seed). A distance is then a mean of k independent terms with relative standard deviation
    `distortion` = sqrt((pi / 2 - 1) / k), about 0.76 / sqrt(k); no k makes it exact for all pairs.

    The custodian opens the table of `transform`ed rows under `schema`, and asks `distance` to a point of the original
    box. Values outside the original box are clamped to it first, so the box's own range holds.

    >>> from maquette import Number, Schema
    >>> plane = Box(Schema([Number("east", 0, 30, bins=30), Number("north", 0, 40, bins=40)]))
    >>> euclid = Embedding(plane, 8, bins=100)
    >>> len(euclid.schema), round(euclid.distortion, 4)
    (8, 0.0097)
    """

    def __init__(self, box: Box, directions: int, *, bins: int = 100, rng: np.random.Generator | None = None) -> None:
        if isinstance(directions, bool) or not isinstance(directions, int) or directions < 1:
            raise QueryError(f"directions is {directions!r}", expected="a whole number of at least 1")
        self.original = box
        sides = [(span.low, span.high, box.scales[name]) for name, span in box.spans.items()]
        self._low, self._high, self._scale = (np.array(numbers) for numbers in zip(*sides, strict=True))
        count = len(box.columns)
        if count == 2:
            angles = (np.arange(directions) + 0.5) * math.pi / directions
            self.directions: Values = np.stack([np.cos(angles), np.sin(angles)], axis=1)
            # The mean of |cos| over evenly spread angles lies between c and c / cos(pi / 2k), c = cot(pi / 2k) / k.
            turn = math.pi / (2 * directions)
            least, most = (math.cos(turn) / (directions * math.sin(turn)), 1 / (directions * math.sin(turn)))
            self._constant = 2 / (least + most)
            self.distortion = (most - least) / (most + least)
        elif rng is None:
            raise QueryError(
                "more than two columns need random directions", advice="give rng=np.random.default_rng(public seed)"
            )
        else:
            self.directions = rng.standard_normal((directions, count))
            self._constant = math.sqrt(math.pi / 2)
            self.distortion = math.sqrt((math.pi / 2 - 1) / directions)
        self._sloped = self.directions * self._scale  # a raw value times this is a coordinate, in units
        ends = np.stack([self._sloped * self._low, self._sloped * self._high])
        low, high = ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)
        names = [f"along_{i}" for i in range(directions)]
        self.schema = Schema(
            [Number(name, float(a), float(b), bins=bins) for name, a, b in zip(names, low, high, strict=True)]
        )
        self.box = Box(self.schema, scales=dict.fromkeys(names, self._constant / directions))

    def transform(self, rows: Mapping[str, ArrayLike]) -> dict[str, Values]:
        """The columns of the embedded table, computed row by row from the original columns."""
        missing = [name for name in self.original.columns if name not in rows]
        if missing:
            raise QueryError(f"the rows lack {', '.join(missing)}", expected=f"{', '.join(self.original.columns)}")
        points = np.stack([np.asarray(rows[name], dtype=np.float64) for name in self.original.columns], axis=1)
        along = np.clip(points, self._low, self._high) @ self._sloped.T
        return {name: along[:, i] for i, name in enumerate(self.schema.names)}

    def distance(self, point: Point) -> LinearQuery:
        """The average Euclidean distance to a point of the original box, divided by the diameter of `box`."""
        place = self.original.place(point)
        along = self._sloped @ np.array([place[name] for name in self.original.columns])
        return self.box.distance(np.clip(along, *self._range))

    @property
    def _range(self) -> tuple[Values, Values]:
        spans = self.box.spans.values()
        return np.array([span.low for span in spans]), np.array([span.high for span in spans])

    def __repr__(self) -> str:
        return f"Embedding({', '.join(self.original.columns)} along {len(self.schema)} directions)"
