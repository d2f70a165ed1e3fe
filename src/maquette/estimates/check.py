"""Check: how far a finished model is from the rows on every table of a workload, and the bounds that follow.

The model is frozen first. For each table T its counts are rounded to whole numbers r, and the curator measures the L1
distance between r and the exact counts c with noise. Nothing is fitted to the result. Let d = c - r, n the number of
rows and R the sum of r. Then the positive and the negative parts of d satisfy

    D+ + D- = L1   and   D+ - D- = n - R,   so   D+ = (L1 + n - R) / 2   and   D- = (L1 - n + R) / 2.

A question with weights w in [0, 1] over the cells of T has the exact count <w, c> = <w, r> + <w, d>, and <w, d> lies
between -D- and D+. A question over some columns of T is a question over T that ignores the others, so the distance on T
bounds the error on every smaller table. Every distance is at most its noisy value plus the quantile of the noise; the
quantile is taken so that all distances, of all models that were checked together, and the number of rows hold at once.
So the caller may keep the best model, and an answer may use the table with the smallest distance, without a further
price. docs/theory/certified-check.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis import Arrays, saving
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, from_dict, half_width, sum_half_width
from maquette.schema import Schema

Values = NDArray[np.float64]
Columns = tuple[str, ...]  # in schema order
Interval = tuple[float, float]
Noise = DiscreteGaussian | DiscreteLaplace

TIE = 1e-6  # a count this close to a half may be rounded either way on another computer


def restored_noise(facts: Mapping[str, Any], where: str) -> Noise:
    """The noise that a saved file describes: additive, and of a scale that a door can draw."""
    event = from_dict(facts)
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        raise saving.unfit(f"{where} noise of an unknown law")
    if not 1 <= 2**100 * (event.variance if isinstance(event, DiscreteGaussian) else event.scale) <= 2**200:
        raise saving.unfit("noise has a scale outside the possible range")
    return event


def spread_of(event: Noise) -> float:
    """The standard deviation of the continuous law of the same scale, for which tail bounds are proven."""
    return math.sqrt(event.variance) if isinstance(event, DiscreteGaussian) else math.sqrt(2.0) * float(event.scale)


def _two_sided(confidence: float) -> float:
    """The confidence of the interval whose upper end holds at `confidence`."""
    return max(2.0 * confidence - 1.0, 0.01)


def rounded(probabilities: Values, rows: float) -> Values:
    """The model's counts as the whole numbers with which the rows are compared."""
    return np.rint(np.asarray(probabilities, dtype=np.float64) * rows)


def ties(probabilities: Values, rows: float) -> int:
    """The number of cells whose rounding may differ between computers: each can change a distance by one."""
    counts = np.asarray(probabilities, dtype=np.float64) * rows
    return int(np.count_nonzero(np.abs(counts - np.floor(counts) - 0.5) < TIE))


@dataclass(frozen=True)
class Typical:
    """The mean error of a public family of questions, in rows: measured, with the law of its noise.

    `mean` is the noisy mean of |count - answer|, `spread` the standard deviation of its noise, `largest` that of its
    largest part; `slack` bounds what rounding the answers changed.
    """

    questions: int
    mean: float
    spread: float
    largest: float
    gaussian: bool
    slack: float

    def bound(self, confidence: float) -> float:
        """The mean error is at most this, with probability `confidence` over the noise."""
        width = sum_half_width(self.spread, self.largest, _two_sided(confidence), gaussian=self.gaussian)
        return max(0.0, self.mean) + width + self.slack  # noise below zero says nothing more


@dataclass(frozen=True)
class Reach:
    """What one table of a check says at one confidence: whole public counts, and how far the exact ones can be.

    `farthest` bounds the L1 distance and `rows` the number of rows.
    """

    cells: Values
    farthest: float
    rows: Interval

    def total(self, weights: Values) -> Interval:
        """Bounds on the sum of `weights` (any numbers that broadcast to the cells) over the rows.

        With a and b the least and the largest weight, <w, d> = a (n - R) + (b - a) <v, d> for weights v in [0, 1].
        """
        least, most = float(weights.min()), float(weights.max())
        centre = float((weights * self.cells).sum())
        ends = [
            (least * gap - (most - least) * fewer, least * gap + (most - least) * more)
            for gap, more, fewer in self._moves()
        ]
        return centre + min(low for low, _ in ends), centre + max(high for _, high in ends)

    def ratio(self, weights: Values, per: Values, between: Interval) -> Interval:
        """Bounds on sum of `weights` / sum of `per`, where each weight is its `per` times a number in `between`.

        A value t is possible if the total of weights - t per can be zero. That total is linear in t, so its root is the
        bound: D+ rows more at one end of the range, and D- rows fewer at the other.
        """
        least, most = between
        above, below = float((weights * self.cells).sum()), float((per * self.cells).sum())
        size = float(per.max(initial=0.0))
        lows, highs = [], []
        for gap, more, fewer in self._moves():
            base = below + size * gap
            if base <= 0:
                return between
            highs.append((above + size * (most * more - least * fewer)) / base)
            lows.append((above + size * (least * more - most * fewer)) / base)
        return max(least, min(lows)), min(most, max(highs))

    def most(self, weights: Values) -> float:
        """The largest total of `weights` over the rows, of counts that are not below zero; reached, but for fractions.

        k rows are taken from the cells that weigh least, and k + n - R are added where the weight is largest. The total
        is concave in k and linear between the sums of the cells taken, so it is largest at one of these or at an end.
        """
        (low, _, _), (high, _, _) = self._moves()
        if max(low, -high) > self.farthest:
            return math.inf  # the check has failed: it says nothing
        flat, cells = weights.reshape(-1), self.cells.reshape(-1)
        order = np.argsort(flat, kind="stable")
        taken = np.concatenate([[0.0], np.cumsum(cells[order])])
        gained = np.concatenate([[0.0], -np.cumsum(flat[order] * cells[order])])
        last = min((self.farthest - low) / 2, float(taken[-1]))
        first = max(0.0, -high)
        steps = np.append(taken, [first, (self.farthest - high) / 2, -low, last])
        steps = np.clip(steps, first, max(first, last))
        largest = float(flat.max())
        gaps = np.minimum(high, self.farthest - 2 * steps) if largest >= 0 else np.maximum(low, -steps)
        return float(flat @ cells + (largest * (gaps + steps) + np.interp(steps, taken, gained)).max())

    def _moves(self) -> list[tuple[float, float, float]]:
        """For the least and the largest number of rows: n - R, D+ and D-."""
        total = float(self.cells.sum())
        low, high = self.rows
        if total - self.farthest <= high and total + self.farthest >= low:  # |n - R| is at most the distance
            low, high = max(low, total - self.farthest), min(high, total + self.farthest)
        gaps = (low - total, high - total)
        return [(gap, max(0.0, (self.farthest + gap) / 2), max(0.0, (self.farthest - gap) / 2)) for gap in gaps]


@dataclass(frozen=True)
class Check:
    """Noisy distances between a frozen model and the rows, in counts, one for each of `tables`.

    `rows` is the number of rows by which the model's probabilities were multiplied; `counted` the noisy number of rows
    of the same charge (exact if `public`). `together` is the number of noisy values that must hold at once, over all
    models of the charge.
    """

    kind: ClassVar[str] = "check"
    tables: tuple[Columns, ...]
    distances: Values
    rows: float
    counted: float
    public: bool
    event: Noise
    together: int
    typical: Typical | None = None

    def doubt(self, confidence: float) -> float:
        """The failure probability of each tail; the number of rows has two."""
        return (1.0 - confidence) / (self.together + 2)

    def quantile(self, confidence: float) -> float:
        """What the noise adds to or takes from each value at most, all of them together."""
        return float(half_width(self.event, 1.0 - 2.0 * self.doubt(confidence)))

    def table(self, columns: Sequence[str]) -> Columns | None:
        """The table with the smallest distance among those that hold all these columns; None if none does."""
        held = [i for i, table in enumerate(self.tables) if set(columns) <= set(table)]
        return self.tables[min(held, key=lambda i: float(self.distances[i]))] if held else None

    def farthest(self, table: Columns, confidence: float) -> float:
        """The L1 distance on a table is at most this; all bounds of a check hold together."""
        return max(0.0, float(self.distances[self.tables.index(table)]) + self.quantile(confidence))

    def rows_width(self, confidence: float) -> float:
        """How far `counted` can be from the number of rows, by itself."""
        return 0.0 if self.public else float(half_width(self.event, confidence))

    @property
    def mean(self) -> float:
        """The mean over tables of half the distance, as a fraction of rows: the typical error of a table."""
        return max(0.0, float(self.distances.mean())) / 2.0 / max(1.0, self.rows)

    def mean_bound(self, confidence: float) -> float:
        """The mean of half the exact distances, as a fraction of rows, is at most this."""
        count, half = len(self.tables), (1.0 + confidence) / 2.0
        each, gaussian = spread_of(self.event), isinstance(self.event, DiscreteGaussian)
        width = sum_half_width(each / math.sqrt(count), each / count, _two_sided(half), gaussian=gaussian)
        return (max(0.0, float(self.distances.mean())) + width) / 2.0 / max(1.0, self.counted - self.rows_width(half))

    def typical_bound(self, confidence: float) -> float | None:
        """The mean error of the public family of questions, as a fraction of rows, is at most this."""
        if self.typical is None:
            return None
        half = (1.0 + confidence) / 2.0
        return self.typical.bound(half) / max(1.0, self.counted - self.rows_width(half))

    def statement(self, confidence: float = 0.95) -> str:
        """The typical errors in words, for certificates and reports."""
        within, number = self.mean_bound(confidence), len(self.tables)
        tables = f"a typical table by at most {within:.2%} of rows (mean of {number:,} tables)"
        found = self.typical_bound(confidence)
        if found is None or self.typical is None:
            return f"the model is off on {tables}, certified at {confidence:.0%}"
        question = (
            f"a typical question is off by at most {found:.2%} of rows (mean of {self.typical.questions:,} "
            "questions to the model alone)"
        )
        return f"{question}, {tables}, each certified at {confidence:.0%}"

    def facts(self) -> dict[str, Any]:
        """The tables, the number of rows, and the law of the noise."""
        typical = None if self.typical is None else dict(vars(self.typical))
        return {
            "tables": [list(table) for table in self.tables],
            "rows": self.rows,
            "counted": self.counted,
            "public": self.public,
            "event": self.event.as_dict(),
            "together": self.together,
            "typical": typical,
        }

    def arrays(self) -> Arrays:
        """The noisy distances."""
        return {"distances": self.distances}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The check that `facts` and `arrays` describe."""
        tables = tuple(saving.columns(schema, listed) for listed in facts["tables"])
        event, together = restored_noise(facts["event"], "check has"), facts["together"]
        if type(together) is not int or not len(tables) <= together < 2**40 or not tables:
            raise saving.unfit("check lists no tables, or fewer than it measured")
        return cls(
            tables,
            saving.array(arrays, "distances", [len(tables)], most=saving.LARGEST),
            saving.number(facts, "rows", most=saving.LARGEST),
            saving.number(facts, "counted", most=saving.LARGEST),
            facts["public"] is True,
            event,
            together,
            _typical(facts["typical"]),
        )

    def __repr__(self) -> str:
        return f"Check({len(self.tables)} tables, typical distance {self.mean:.2%} of rows)"


def _typical(facts: Any) -> Typical | None:
    if facts is None:
        return None
    numbers = {name: saving.number(facts, name, most=saving.LARGEST) for name in ("mean", "spread", "largest", "slack")}
    questions = facts["questions"]
    possible = min(numbers[name] for name in ("spread", "largest", "slack")) >= 0
    possible &= numbers["largest"] > 0 or numbers["spread"] == 0  # noise has a largest part
    if type(questions) is not int or questions < 1 or not possible:
        raise saving.unfit("typical error lacks its questions or its noise")
    return Typical(questions=questions, gaussian=facts["gaussian"] is True, **numbers)
