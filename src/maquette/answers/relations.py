"""Relations: sorting, filtering, joining and totalling answered groups, with which rows are surely and possibly in.

A row is chosen by the released numbers. Because the noise may have chosen another, every row also knows whether it is
in for sure and whether it may be in, given the intervals; totals over chosen rows are bounded accordingly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.answers.frame import Box, Flags, Frame, Vector, as_noisy, exact, stacked
from maquette.answers.ratios import Form
from maquette.answers.rowset import type_of
from maquette.answers.scalars import evaluate
from maquette.answers.windows import window
from maquette.errors import QueryError
from maquette.query import (
    Answers,
    Attach,
    Core,
    Extend,
    Filter,
    Join,
    Limit,
    Listed,
    Pick,
    Program,
    Sort,
    Stack,
    Total,
    Windowed,
)

MOST = 100_000  # groups of a program


class Evaluation:
    """Evaluates the relation of one program, from the frames of its statements."""

    def __init__(self, program: Program, cores: list[Frame], box: Box) -> None:
        self.program, self.cores, self.box = program, cores, box
        self._known: dict[int, Frame] = {}

    def frame(self, relation: Answers) -> Frame:
        """The rows of a relation; each relation is evaluated once."""
        if id(relation) not in self._known:
            self._known[id(relation)] = self._frame(relation)
        return self._known[id(relation)]

    def _frame(self, relation: Answers) -> Frame:
        match relation:
            case Core() | Listed():
                return self._core(relation)
            case Extend(child, columns):
                frame = self.frame(child)
                for name, expression in columns:
                    frame = frame.with_columns(
                        {**frame.columns, name: evaluate(expression, frame, self.program.schema)}
                    )
                return frame
            case Windowed(child, name, described):
                frame = self.frame(child)
                return frame.with_columns({**frame.columns, name: window(frame, dict(described))})
            case Filter(child, condition):
                return _filtered(self.frame(child), evaluate(condition, self.frame(child), self.program.schema))
            case Sort(child, keys):
                frame = self.frame(child)
                return frame.take(order_of(frame, keys))
            case Limit(child, count, offset):
                return self._limited(relation, self.frame(child), count, offset)
            case Pick(child, columns, distinct):
                frame = self.frame(child)
                frame = frame.with_columns({new: frame.columns[old] for new, old in columns})
                return _different(frame) if distinct else frame
            case Total(child, keys, numbers):
                return _totalled(self.frame(child), keys, numbers)
            case Stack(children, columns, names):
                return self._stacked([self.frame(child) for child in children], columns, names)
            case Join(left, right, on, outer):
                return _joined(self.frame(left), self.frame(right), on, outer)
            case Attach(child, name, other, column):
                return _attached(self.frame(child), name, self.frame(other), column)
        raise AssertionError(relation)

    def _core(self, core: Core | Listed) -> Frame:
        if isinstance(core, Listed):
            made = {name: exact(values) for name, values in zip(core.names, core.columns, strict=True)}
            return Frame(made, len(core.columns[0]), self.box)
        found = self.cores[core.statement]
        columns = {name: found.columns[f"axis {i}"] for i, name in enumerate(core.groups)}
        columns |= {name: found.columns[title] for name, title in core.numbers}
        columns |= {name: exact([value] * found.size) for name, value in core.fixed}
        return Frame(columns, found.size, self.box)

    def _stacked(self, frames: list[Frame], columns: Any, names: tuple[str, ...]) -> Frame:
        if sum(frame.size for frame in frames) > MOST:
            raise QueryError(f"the union has more than {MOST:,} rows", advice="ask it in parts")
        made = {
            name: stacked([frame.columns[listed[i]] for frame, listed in zip(frames, columns, strict=True)])
            for i, name in enumerate(names)
        }
        flags = [np.concatenate([getattr(frame, part) for frame in frames]) for part in ("inside", "surely", "maybe")]
        return Frame(made, sum(frame.size for frame in frames), self.box, *flags)

    def _limited(self, limit: Limit, frame: Frame, count: int | None, offset: int) -> Frame:
        """The first rows by value; a row is surely in if at most that many may come before it."""
        place = np.cumsum(frame.inside) - 1
        last = np.inf if count is None else offset + count
        chosen = frame.inside & (place >= offset) & (place < last)
        child = limit.child
        keys = child.keys if isinstance(child, Sort) else ()
        before_surely, before_maybe = _before(frame, keys)
        surely = frame.surely & (before_surely >= offset) & (before_maybe < last)
        maybe = frame.maybe & (before_maybe >= offset) & (before_surely < last)
        kept = Frame(frame.columns, frame.size, frame.box, chosen, surely & chosen, maybe | chosen)
        return kept.take(np.flatnonzero(kept.maybe))


def _before(frame: Frame, keys: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many rows surely, and at most, come before each row."""
    noisy = [frame.columns[key.column].noisy for key in keys]
    places = np.arange(frame.size)
    if not any(noisy):
        return np.cumsum(frame.surely) - frame.surely, np.cumsum(frame.maybe) - frame.maybe
    if not noisy[0] or frame.size > 5_000:
        return np.zeros_like(places), np.full_like(places, frame.size)
    vector, falling = frame.columns[keys[0].column], keys[0].descending
    assert vector.low is not None
    assert vector.high is not None
    low, high = (-vector.high, -vector.low) if falling else (vector.low, vector.high)
    low, high = np.nan_to_num(low, nan=np.inf), np.nan_to_num(high, nan=np.inf)
    surely = ((high[:, None] < low[None, :]) & frame.surely[:, None]).sum(axis=0)
    maybe = ((low[:, None] <= high[None, :]) & frame.maybe[:, None]).sum(axis=0) - frame.maybe
    return surely, maybe


def _filtered(frame: Frame, condition: Vector) -> Frame:
    truth = np.array([value is not None and bool(value) for value in condition.values], dtype=bool)
    if not condition.noisy:
        kept = Frame(
            frame.columns, frame.size, frame.box, frame.inside & truth, frame.surely & truth, frame.maybe & truth
        )
    else:
        assert condition.low is not None
        assert condition.high is not None
        sure, open_ = (np.nan_to_num(end) for end in (condition.low, condition.high))
        kept = Frame(
            frame.columns, frame.size, frame.box, frame.inside & truth, frame.surely & (sure >= 1),
            frame.maybe & (open_ > 0),
        )  # fmt: skip
    return kept.take(np.flatnonzero(kept.maybe))


def ranks(vector: Vector) -> NDArray[np.float64]:
    """Numbers that order the values of a column; NULL is NaN."""
    if vector.rank is not None:
        return np.where([value is None for value in vector.values], np.nan, vector.rank).astype(np.float64)
    present = sorted({value for value in vector.values if value is not None}, key=_comparable)
    place = {value: float(i) for i, value in enumerate(present)}
    return np.array([math.nan if value is None else place[value] for value in vector.values], dtype=np.float64)


def _comparable(value: Any) -> tuple[str, Any]:
    return ("" if isinstance(value, bool | int | float) else type(value).__name__, value)


def order_of(frame: Frame, keys: Any) -> NDArray[np.int64]:
    """The rows in the order of some keys; ties stay as they are."""
    order = np.arange(frame.size)
    for key in reversed(keys):
        number = ranks(frame.columns[key.column])
        empty = np.isnan(number)
        number = np.where(empty, 0.0, -number if key.descending else number)
        group = np.where(empty, -1 if key.nulls_first else 1, 0)
        order = order[np.lexsort((number[order], group[order]))]
    return order


def _different(frame: Frame) -> Frame:
    """Different rows: one is in if any of its equals is."""
    seen: dict[Any, list[int]] = {}
    for row in range(frame.size):
        seen.setdefault(tuple(vector.values[row] for vector in frame.columns.values()), []).append(row)
    equals = [np.array(rows, dtype=np.int64) for rows in seen.values()]
    first = np.array([rows[0] for rows in equals], dtype=np.int64)
    flags = [
        np.array([part[rows].any() for rows in equals], dtype=bool)
        for part in (frame.inside, frame.surely, frame.maybe)
    ]
    return Frame(frame.take(first).columns, len(first), frame.box, *flags)


def _joined(left: Frame, right: Frame, on: Any, outer: bool) -> Frame:
    _check_alike(left, right, on)
    index: dict[Any, list[int]] = {}
    for row in range(right.size):
        index.setdefault(tuple(right.columns[b].values[row] for _, b in on), []).append(row)
    pairs: list[tuple[int, int]] = []
    alone: dict[int, list[int]] = {}  # rows without a partner, or that may have none; and who it may be
    for row in range(left.size):
        key = tuple(left.columns[a].values[row] for a, _ in on)
        found = [] if None in key else index.get(key, [])
        pairs += [(row, other) for other in found]
        if outer and not right.surely[found].any():
            alone[len(pairs)] = found
            pairs.append((row, -1))
        if len(pairs) > MOST:
            raise QueryError(f"the join has more than {MOST:,} rows", advice="join on more columns")
    ours = left.take(np.array([a for a, _ in pairs], dtype=np.int64))
    places = np.array([b for _, b in pairs], dtype=np.int64)
    columns = dict(ours.columns)
    for name, vector in right.columns.items():
        extended = stacked([vector, exact([None])])
        columns[name] = extended.take(np.where(places < 0, len(vector), places))
    partner = [np.append(flags, True)[places] for flags in (right.inside, right.surely, right.maybe)]
    for place, others in alone.items():
        partner[0][place], partner[1][place] = not right.inside[others].any(), not right.maybe[others].any()
    flags = [a & b for a, b in zip((ours.inside, ours.surely, ours.maybe), partner, strict=True)]
    return Frame(columns, ours.size, left.box, *flags)


def _check_alike(left: Frame, right: Frame, on: Any) -> None:
    """Refuse to compare texts with numbers or days: no pair of them would be equal."""
    for a, b in on:
        one, two = (type_of(list(frame.columns[name].values)) for frame, name in ((left, a), (right, b)))
        if {one, two} in ({"text", "integer"}, {"text", "number"}, {"text", "date"}) and left.size and right.size:
            raise QueryError(
                f"a JOIN on {one} and {two} finds no equal values",
                advice="join on columns of one type; labels of bins and of a category are texts",
            )


def _attached(frame: Frame, name: str, other: Frame, column: str) -> Frame:
    rows = np.flatnonzero(other.inside)
    if len(rows) > 1 or other.maybe.sum() != other.surely.sum():
        raise QueryError(
            "a subquery used as a number has several rows, or one that depends on the noise",
            advice="aggregate it to one row",
        )
    value = other.columns[column].take(rows) if len(rows) else exact([None])
    return frame.with_columns({**frame.columns, name: value.take(np.zeros(frame.size, dtype=np.int64))})


def _totalled(frame: Frame, keys: tuple[str, ...], numbers: Any) -> Frame:
    groups: dict[Any, list[int]] = {} if keys else {(): []}
    for row in range(frame.size):
        groups.setdefault(tuple(frame.columns[key].values[row] for key in keys), []).append(row)
    rows = [np.array(listed, dtype=np.int64) for listed in groups.values()]
    columns = {key: frame.columns[key].take(np.array([r[0] for r in rows], dtype=np.int64)) for key in keys}
    for name, function, argument in numbers:
        vector = exact([1] * frame.size) if argument is None else frame.columns[argument]
        if function in ("min", "max") and not _adds(vector) and (frame.surely == frame.maybe).all():
            columns[name] = exact([_extreme(vector, r, function) for r in rows])
            continue
        vector = summand(vector, function)
        columns[name] = joined_up([total(frame, vector, r, frame.inside[r], frame.surely[r], function) for r in rows])
    flags: list[Flags] = [
        np.array([not keys or bool(part[r].any()) for r in rows], dtype=bool)
        for part in (frame.inside, frame.surely, frame.maybe)
    ]
    return Frame(columns, len(rows), frame.box, *flags)


def _adds(vector: Vector) -> bool:
    """Whether a column holds numbers."""
    return vector.noisy or all(value is None or isinstance(value, bool | int | float) for value in vector.values)


def summand(vector: Vector, function: str) -> Vector:
    """What an aggregate adds up of a column: for count, 1 where there is a public value."""
    if vector.noisy:
        return vector
    if function == "count":
        vector = exact([None if value is None else 1 for value in vector.values])
    return replace(as_noisy(vector), never_null=True)


def _extreme(vector: Vector, rows: NDArray[np.int64], function: str) -> Any:
    """The first or last of some public values, which may be texts or days; NULL where there is none."""
    present = [row for row in rows if vector.values[row] is not None]
    order = ranks(vector)
    pick = max if function == "max" else min
    return vector.values[pick(present, key=lambda row: order[row])] if present else None


Totalled = tuple[Any, Form | None, float, float, int, bool]


def joined_up(parts: list[Totalled]) -> Vector:
    """A noisy column from its values, forms, intervals, kinds and promises."""
    values = np.empty(len(parts), dtype=object)
    values[:] = [part[0] for part in parts]
    low, high = (np.array([part[i] for part in parts], dtype=np.float64) for i in (2, 3))
    weakest = np.array([part[4] for part in parts], dtype=np.int8)
    return Vector(values, [part[1] for part in parts], low, high, weakest, np.array([p[5] for p in parts], dtype=bool))


def total(  # noqa: PLR0917
    frame: Frame, vector: Vector, rows: NDArray[np.int64], inside: Flags, surely: Flags, function: str
) -> Totalled:
    """An aggregate of some rows, of which `inside` are in by value and `surely` for certain; the others may be in."""
    assert vector.low is not None
    assert vector.high is not None
    known = np.array([vector.values[row] is not None for row in rows], dtype=bool)
    most = int(known.sum()) if vector.never_null else len(rows)
    rows, inside, surely = rows[known], inside[known], surely[known]
    weakest = int(vector.weakest[rows].min(initial=2)) if vector.weakest is not None else 2
    promised = bool(vector.promised[rows].all()) if vector.promised is not None else True
    chosen = [float(vector.values[row]) for row in rows[inside]]
    box = frame.box
    if function == "count":
        low, high = float(surely.sum()) if vector.never_null else 0.0, float(most)
        value: float = len(chosen)
        return value, ({-1: float(value)} if low == high else box.add(low, high)), low, high, weakest, promised
    if not chosen:
        return None, None, math.nan, math.nan, weakest, promised
    lows, highs = vector.low[rows], vector.high[rows]
    if function in ("min", "max"):
        pick = max if function == "max" else min
        sure_lows, sure_highs = lows[surely], highs[surely]
        low = pick(sure_lows, default=lows.min()) if function == "max" else float(lows.min())
        high = float(highs.max()) if function == "max" else pick(sure_highs, default=highs.max())
        value = pick(chosen)
        return value, box.add(float(low), float(high)), float(low), float(high), weakest, promised
    form: Form = {}
    for row, sure in zip(rows, surely, strict=True):
        part = (vector.forms or [None])[row] if vector.forms else None
        if part is None:
            continue
        if not sure:
            part = box.add(min(0.0, float(vector.low[row])), max(0.0, float(vector.high[row])))
        for variable, coefficient in part.items():
            form[variable] = form.get(variable, 0.0) + coefficient
    value = math.fsum(chosen)
    if function == "avg":
        value /= len(chosen)
        if surely.all():
            form = {variable: coefficient / len(rows) for variable, coefficient in form.items()}
        else:
            form = box.add(float(lows.min()), float(highs.max()))
    low, high = box.bounds(form)
    return min(max(value, low), high), form, low, high, weakest, promised  # rounding moves the ends, too
