"""Windows: share of a total, running sums, ranks and neighbours over answered groups.

For every row the other rows of its partition are in the window by value, for sure, or possibly: sorted by a public
column all three agree; sorted by noisy numbers they differ where intervals overlap. Sums and ranks are bounded by that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.answers.frame import Flags, Frame, Vector, as_noisy, exact
from maquette.errors import QueryError

MOST = 3_000  # rows of a partition


def window(frame: Frame, described: dict[str, Any]) -> Vector:
    """The column of a window function."""
    from maquette.answers.relations import joined_up

    parts: list[Any] = [(None, None, math.nan, math.nan, 2, True)] * frame.size
    partitions: dict[Any, list[int]] = {}
    for row in range(frame.size):
        partitions.setdefault(tuple(frame.columns[n].values[row] for n in described["partition"]), []).append(row)
    noisy = [name for name in [described["argument"], *(k.column for k in described["order"])] if name is not None]
    for listed in partitions.values():
        if len(listed) > MOST:
            raise QueryError(
                f"a window over {len(listed):,} groups, more than {MOST:,}",
                advice="partition it, or group by fewer levels",
            )
        rows = np.array(listed, dtype=np.int64)
        for row, part in zip(rows, _Partition(frame, rows, described).results(), strict=True):
            parts[row] = part
    made = joined_up(parts)
    if not any(frame.columns[name].noisy for name in noisy) and (frame.inside == frame.maybe).all():
        return exact(list(made.values))
    return made


class _Partition:
    """One partition: its rows in order, and how its members compare."""

    def __init__(self, frame: Frame, rows: NDArray[np.int64], described: dict[str, Any]) -> None:
        from maquette.answers.relations import order_of

        self.frame, self.described, self.keys = frame, described, described["order"]
        self.rows = rows[order_of(frame.take(rows), self.keys)] if self.keys else rows
        self.given = rows
        self.inside, self.surely = frame.inside[self.rows], frame.surely[self.rows]
        self.open = any(frame.columns[key.column].noisy for key in self.keys)
        size = len(self.rows)
        nothing: Flags = np.zeros((size, size), dtype=bool)
        compared = self._compared() if self.keys else (nothing, nothing, nothing)
        self.before, self.surely_before, self.maybe_before = compared

    def results(self) -> list[Any]:
        """One result for each row, in the order in which rows were given."""
        function = self.described["function"]
        if function in ("sum", "count", "avg", "min", "max"):
            found = self._totals(function)
        elif function in ("lag", "lead", "first_value", "last_value"):
            found = [self._neighbour(place, function) for place in range(len(self.rows))]
        else:
            found = [self._rank(place, function) for place in range(len(self.rows))]
        by_row = dict(zip(self.rows.tolist(), found, strict=True))
        return [by_row[row] for row in self.given.tolist()]

    def _compared(self) -> tuple[Flags, Flags, Flags]:
        """before[i, j]: row i comes strictly before row j by value; surely; possibly."""
        from maquette.answers.relations import ranks

        size = len(self.rows)
        before, tied = np.zeros((size, size), dtype=bool), np.ones((size, size), dtype=bool)
        surely, maybe = before.copy(), before.copy()
        level = np.ones((size, size), dtype=bool)  # all keys until here may be tied
        for key in self.keys:
            vector = self.frame.columns[key.column]
            number = ranks(vector)[self.rows]
            sign = -1.0 if key.descending else 1.0
            empty = np.where(np.isnan(number), -np.inf if key.nulls_first else np.inf, sign * number)
            less, same = empty[:, None] < empty[None, :], empty[:, None] == empty[None, :]
            if vector.noisy and vector.low is not None and vector.high is not None:
                ends = [np.nan_to_num(sign * e[self.rows], nan=np.inf) for e in (vector.low, vector.high)]
                low, high = (ends[1], ends[0]) if key.descending else (ends[0], ends[1])
                sure, can = high[:, None] < low[None, :], low[:, None] <= high[None, :]
                overlap = can & can.T
            else:
                sure = can = less
                overlap = same
            before, tied = before | (tied & less), tied & same
            surely, maybe, level = surely | (level & sure & ~maybe.T), maybe | (level & can), level & overlap
        np.fill_diagonal(maybe, val=False)
        return before, surely, maybe

    def _members(self, place: int) -> tuple[Flags, Flags, Flags]:
        """Rows in the window of a row: by value, surely, possibly."""
        size, frame = len(self.rows), self.described["frame"]
        possible = self.frame.maybe[self.rows]
        if not self.keys and frame is None:
            return self.inside, self.surely, possible
        if frame is not None and (frame[0] == "ROWS" or not self.keys):
            _, start, end = frame
            places = np.arange(size)
            own = np.ones(size, dtype=bool)
            own &= places >= place - start if start is not None else True
            own &= places <= place + end if end is not None else True
            if self.open and (start, end) != (None, None):
                itself = places == place
                return self.inside & own, self.surely & itself & own, possible
            return self.inside & own, self.surely & own, possible & own
        own, sure = ~self.before[place], ~self.maybe_before[place]  # not after this row: before it, or its peers
        can = ~self.surely_before[place]
        sure[place] = True
        return self.inside & own, self.surely & sure, possible & can

    def _totals(self, function: str) -> list[Any]:
        """The aggregate of each row's window. Where that is the whole partition, all rows share one number."""
        from maquette.answers.relations import summand

        argument, frame, size = self.described["argument"], self.described["frame"], len(self.rows)
        vector = exact([1] * self.frame.size) if argument is None else self.frame.columns[argument]
        vector = summand(vector, function)
        if not self.keys if frame is None else (frame[0] == "ROWS" or not self.keys) and frame[1:] == (None, None):
            return [self._total(0, function, vector)] * size
        return [self._total(place, function, vector) for place in range(size)]

    def _total(self, place: int, function: str, vector: Vector) -> Any:
        from maquette.answers.relations import total

        inside, surely, possible = self._members(place)
        chosen = possible | inside
        return total(self.frame, vector, self.rows[chosen], inside[chosen], surely[chosen], function)

    def _rank(self, place: int, function: str) -> Any:
        possible, size = self.frame.maybe[self.rows], int(self.inside.sum())
        least = int((self.surely_before[:, place] & self.surely).sum())
        most = int((self.maybe_before[:, place] & possible).sum())
        if function == "row_number":
            value: float = int(self.inside[:place].sum()) + 1
            most = max(most, int(value) - 1) if not self.open else most
            least = min(least, int(value) - 1) if self.open else int(value) - 1
        elif function == "dense_rank":
            earlier = self.before[:, place] & self.inside
            value = len({self._peers(int(i)) for i in np.flatnonzero(earlier)}) + 1
            least = min(1, least) if self.open else int(value) - 1
        else:
            value = int((self.before[:, place] & self.inside).sum()) + 1
        low, high = (least + 1, most + 1) if self.open or not (self.surely == possible).all() else (value, value)
        if function == "percent_rank":
            low, value, high = ((x - 1) / max(size - 1, 1) for x in (low, value, high))
        if function == "cume_dist":
            share = int((~self.before[place] & self.inside).sum()) / max(size, 1)
            low, value, high = (0.0, share, 1.0) if self.open else (share,) * 3
        if function == "ntile":
            tiles = self.described["number"] or 1
            first = int(self.inside[:place].sum())
            large, base = size % tiles, size // tiles
            cut = large * (base + 1)
            value = first // (base + 1) + 1 if first < cut else large + (first - cut) // max(base, 1) + 1
            low, high = (1, tiles) if self.open else (value, value)
        low, high = min(float(low), float(value)), max(float(high), float(value))
        return value, self.frame.box.add(low, high), low, high, 2, self._promised()

    def _promised(self) -> bool:
        vectors = [self.frame.columns[key.column] for key in self.keys]
        return all(bool(v.promised[self.rows].all()) for v in vectors if v.promised is not None)

    def _peers(self, place: int) -> Any:
        return tuple(self.frame.columns[key.column].values[self.rows[place]] for key in self.keys)

    def _neighbour(self, place: int, function: str) -> Any:
        vector = as_noisy(self.frame.columns[self.described["argument"]])
        steps = self.described["number"] if self.described["number"] is not None else 1
        among = np.flatnonzero(self.inside)
        at = int(np.searchsorted(among, place))
        target = {"lag": at - steps, "lead": at + steps, "first_value": 0, "last_value": len(among) - 1}[function]
        if function == "last_value" and self.keys and self.described["frame"] is None:
            target = int((self.inside & ~self.before[place]).sum()) - 1  # the last of its peers
        if not 0 <= target < len(among):
            return None, None, math.nan, math.nan, 2, True
        row = self.rows[among[target]]
        low, high, form = vector.low[row], vector.high[row], (vector.forms or [None] * (row + 1))[row]  # type: ignore[index]
        if self.open or not (self.surely == self.frame.maybe[self.rows]).all():
            low, high = np.nanmin(vector.low[self.rows]), np.nanmax(vector.high[self.rows])  # type: ignore[index]
            form = self.frame.box.add(float(low), float(high))
        weakest = int(vector.weakest[row]) if vector.weakest is not None else 2
        value = self.frame.columns[self.described["argument"]].values[row]
        return (
            value,
            form,
            float(low),
            float(high),
            weakest,
            bool(vector.promised[row]) if vector.promised is not None else True,
        )
