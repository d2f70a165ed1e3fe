"""Look-ups: questions about a few listed keys of a universe that may be far too large to list.

A key gives the level of every key column. Only the listed keys are stored, so the key columns may have a million
levels each, and 10^40 combinations: rows are matched against the listed keys.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query import forms
from maquette.query.linear import MAX_CELLS, LinearQuery, Term, Weights
from maquette.query.marginal import Buckets, Marginal
from maquette.query.moves import Moves
from maquette.schema import Column, Integer, Schema

ENUMERATED = 2**16  # maximum points searched for the support of a question, and maximum points of a support
_NAMED_LEVELS = 2**12  # up to this total number of levels, the digest is that of any equivalent question
_NAMED_KEYS = 64
_WRITTEN = 2**22  # maximum numbers in the factors of a look-up that is combined with other questions

Key = Mapping[str, object]
Points = NDArray[np.int32]


class Lookup(LinearQuery):
    """A linear query with positive weight on a few listed points of its key columns only; `lookup` builds one.

    It is a `LinearQuery`, so every door, session and model accepts it. A small one equals the same question written in
    another way; the digest of a large one is computed from its keys. Large ones cannot be combined with `&`, `|` and
    `~`: list the keys instead.
    """

    def __init__(self, schema: Schema, columns: Sequence[str], points: Points, values: Weights) -> None:
        """`points` are codes, one row per key and one column per key column; equal points must have equal weights."""
        self.schema = schema
        given, weights = checked_points(schema, columns, points), np.array(values, dtype=np.float64)
        if weights.shape != (len(given),):
            raise QueryError(f"got weights of shape {weights.shape} for {len(given)} keys", expected="one for each")
        order = sorted(range(len(columns)), key=lambda i: schema.position(columns[i]))
        self._columns = tuple(columns[i] for i in order)
        self.points, first, inverse = np.unique(given[:, order], axis=0, return_index=True, return_inverse=True)
        self.values: Weights = weights[first]
        if not np.array_equal(self.values[inverse.reshape(-1)], weights):
            raise QueryError("a key is listed twice with different weights", advice="list each key once")
        if not ((self.values > 0) & (self.values <= 1)).all():
            raise QueryError("the weight of a key must lie in (0, 1]", advice="leave out keys that do not count")
        self.points.flags.writeable = self.values.flags.writeable = False
        self._index = KeyIndex(self.points)

    @property
    def form(self) -> forms.Weight:
        """The weight as data, for the wall."""
        return forms.Points(self._columns, self.points, self.values)

    @cached_property
    def terms(self) -> tuple[Term, ...]:  # type: ignore[override]
        """One product for each key; refused if that is too large."""
        levels = sum(self.schema.shape(self._columns))
        if levels * len(self.points) > _WRITTEN:
            raise QueryError(
                f"{self!r} is over {levels:,} levels in all, too many to be joined with other questions",
                advice="put all keys into one list for `lookup`, or ask the questions one by one",
            )
        positions = [self.schema.position(name) for name in self._columns]
        products = []
        for point, value in zip(self.points, self.values, strict=True):
            factors = {
                p: np.arange(self.schema.columns[p].size) == code for p, code in zip(positions, point, strict=True)
            }
            products.append(Term(float(value), {p: factor.astype(np.float64) for p, factor in factors.items()}))
        return LinearQuery(self.schema, products).terms

    @property
    def sum(self) -> None:
        """None: a look-up is evaluated by its keys, never column by column."""
        return

    @cached_property
    def key(self) -> str:
        """The digest of the question: of its decision diagram if that is small, else of its keys."""
        if sum(self.schema.shape(self._columns)) <= _NAMED_LEVELS and len(self.points) <= _NAMED_KEYS:
            return LinearQuery(self.schema, self.terms).key
        return _named("lookup", self.schema, self._columns, self.points.tobytes() + self.values.tobytes())

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns, in schema order."""
        return self._columns

    @property
    def is_predicate(self) -> bool:
        """Whether every listed key weighs 1."""
        return bool((self.values == 1.0).all())

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight."""
        some_left = len(self.points) < self.schema.cells(self._columns)
        return 0.0 if some_left else float(self.values.min()), float(self.values.max())

    def weights(self, columns: Sequence[str] | None = None) -> Weights:
        """The weight of every cell over `columns` (default: the key columns), one axis per column."""
        columns = self._columns if columns is None else tuple(columns)
        missing = set(self._columns) - set(columns)
        if missing:
            raise QueryError(f"the query depends on {', '.join(sorted(missing))}, which is not among {columns}")
        if self.schema.cells(columns) > MAX_CELLS:
            raise QueryError(f"{self.schema.cells(columns):,} cells over {len(columns)} columns are too many to list")
        total = np.zeros(self.schema.shape(columns))
        where: list[Any] = [slice(None)] * len(columns)
        for point, value in zip(self.points, self.values, strict=True):
            for name, code in zip(self._columns, point, strict=True):
                where[columns.index(name)] = code
            total[tuple(where)] = value
        return total

    def evaluate(self, records: NDArray[np.integer[Any]]) -> Weights:
        """The weight of each encoded record (one column of `records` per schema column)."""
        found = self.locate(records)
        return np.where(found >= 0, self.values[found], 0.0)

    def locate(self, records: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The index of each encoded record's key; -1 if the key is not listed."""
        return self._index.locate([records[:, self.schema.position(name)] for name in self._columns])

    def sql(self) -> str:
        """The weight of a raw row as a SQL expression (DuckDB) over the table's own columns."""
        codes = []
        for name in self._columns:
            quoted = name.replace('"', '""')
            codes.append(self.schema[name].code_sql(f'"{quoted}"'))
        cases = (
            f"WHEN {' AND '.join(f'{code} = {level}' for code, level in zip(codes, point, strict=True))} THEN {value!r}"
            for point, value in zip(self.points.tolist(), self.values.tolist(), strict=True)
        )
        return f"CASE {' '.join(cases)} ELSE 0 END"

    def __repr__(self) -> str:
        return f"Lookup({len(self.points):,} keys of {', '.join(self._columns)})"


def _named(kind: str, schema: Schema, columns: Sequence[str], points: bytes) -> str:
    """The digest of the keys; codes that could be read as one more column name are preceded by a mark."""
    head = "\0".join([kind, *columns, ""]).encode()
    if any(points.startswith(name.encode() + b"\0") for name in schema.names):
        head += b"\0"
    return hashlib.sha256(head + points).hexdigest()


class Keys(Marginal):
    """A table of listed keys: the number of rows with each key. Rows with any other key are not counted.

    Privacy: keys are distinct, so a row falls into at most one cell. The whole table therefore costs as much as a
    marginal: under add-remove, as much as one cell, for any number of keys.

    >>> from maquette import Integer, Schema
    >>> schema = Schema([Integer("code", 0, 999_999), Integer("site", 0, 9_999)])
    >>> Keys(schema, [{"code": 4711, "site": 12}, {"code": 815, "site": 12}])
    Keys(2 keys of code, site)
    """

    def __init__(self, schema: Schema, keys: Key | Iterable[Key] | Lookup) -> None:
        self._listed = keys if isinstance(keys, Lookup) else lookup(schema, keys)
        self.points = self._listed.points
        super().__init__(schema, [_KeyAxis(self._listed)])

    @property
    def form(self) -> forms.Form:
        """The question as data, for the wall."""
        return forms.Listed(self.columns, self.points)

    @property
    def moves(self) -> Moves:
        """A row adds 1 to its key, if the key is listed."""
        return Moves(1, 1, self.cells, everywhere=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """One cell for each key."""
        return (len(self.points),)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The codes of each key."""
        return (tuple(", ".join(map(str, point)) for point in self.points),)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The key columns, in schema order."""
        return self._listed.columns

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        return _named("keys", self.schema, self.columns, self.points.tobytes())

    def query(self, cell: Sequence[int]) -> Lookup:
        """The look-up of one key."""
        (place,) = cell
        return Lookup(self.schema, self.columns, self.points[place][None], np.ones(1))

    def __repr__(self) -> str:
        return f"Keys({len(self.points):,} keys of {', '.join(self.columns)})"


class _KeyAxis(Buckets):
    """The axis of a table of keys: one bucket of all listed keys, which the table divides into its cells.

    A single bucket overlaps no other, so there is nothing to check.
    """

    def __init__(self, listed: Lookup) -> None:
        for name, value in (("name", "keys"), ("labels", ("listed",)), ("parts", (listed,))):
            object.__setattr__(self, name, value)


def checked_points(schema: Schema, columns: Sequence[str], points: object) -> Points:
    """A copy of the points, checked: whole numbers, each a code of its column."""
    if not columns or len(set(columns)) < len(columns):
        raise QueryError(f"the columns are {', '.join(columns) or 'none'}", expected="different columns, at least one")
    given = np.array(points)
    if given.ndim != 2 or given.shape[1] != len(columns) or not len(given) or given.dtype.kind not in "iu":
        raise QueryError(
            f"points are {given.dtype} of shape {given.shape}",
            expected="whole numbers, one row for each key (at least "
            f"one) and one column for each of {', '.join(columns)}",
        )
    for name, codes in zip(columns, given.T, strict=True):
        size = schema[name].size
        if int(codes.min()) < 0 or int(codes.max()) >= size:
            raise QueryError(f"a point has a code outside column {name!r}, whose codes run from 0 to {size - 1}")
    return given.astype(np.int32)


class KeyIndex:
    """Finds each record's index among distinct, sorted points, column by column.

    A step knows the levels that occur in its column and the prefixes that occur before it. Records that match no prefix
    are dropped at once, so numbers stay below points * levels and most records are visited once.
    """

    def __init__(self, points: Points) -> None:
        prefix = np.zeros(len(points), dtype=np.int64)
        self._steps = []
        for column in points.T:
            levels, code = np.unique(column, return_inverse=True)
            prefixes, prefix = np.unique(prefix * len(levels) + code, return_inverse=True)
            self._steps.append((levels.astype(np.int64), prefixes))

    def locate(self, columns: Sequence[NDArray[np.integer[Any]]]) -> NDArray[np.int64]:
        """The index of each record's point; -1 if the record is none of the points."""
        alive = np.arange(len(columns[0]))
        prefix = np.zeros(len(alive), dtype=np.int64)
        for (levels, prefixes), column in zip(self._steps, columns, strict=True):
            code, known = _position(levels, column[alive].astype(np.int64))
            alive, prefix = alive[known], prefix[known] * len(levels) + code[known]
            code, known = _position(prefixes, prefix)
            alive, prefix = alive[known], code[known]
        found = np.full(len(columns[0]), -1, dtype=np.int64)
        found[alive] = prefix
        return found


def _position(among: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The position of each number in a sorted list, and whether the list contains it."""
    place = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return place, among[place] == wanted


def lookup(schema: Schema, keys: Key | Iterable[Key], *, weights: Sequence[float] | None = None) -> Lookup:
    """The number of rows with one of the listed keys; every key gives values for the same columns.

    `weights` in (0, 1] make it a weighted total. In a key, None means a missing value, and a label means a bin.

    >>> from maquette import Integer, Schema
    >>> schema = Schema([Integer("code", 0, 999_999), Integer("site", 0, 9_999), Integer("year", 1900, 2099)])
    >>> lookup(schema, [{"code": 4711, "site": 12}, {"site": 7, "code": 815}])
    Lookup(2 keys of code, site)
    """
    listed = [keys] if isinstance(keys, Mapping) else list(keys)
    if not listed or not all(isinstance(key, Mapping) and key for key in listed):
        raise QueryError(
            "there is no key, or one that is no mapping from columns to values",
            expected='keys such as {"code": 4711, "site": 12}, one or a list of at least one',
        )
    names = sorted(listed[0], key=schema.position)
    for key in listed:
        if set(key) != set(names):
            raise QueryError(
                f"every key must say the same columns: the first has {', '.join(names)}, another "
                f"{', '.join(map(str, key))}",
                advice="ask about other columns in a question of their own",
            )
    if weights is not None and len(weights) != len(listed):
        raise QueryError(f"got {len(weights)} weights for {len(listed)} keys", expected="one for each")
    columns = [schema[name] for name in names]
    codes = [[_code(column, key[column.name]) for column in columns] for key in listed]
    values = np.ones(len(listed)) if weights is None else np.asarray(weights, dtype=np.float64)
    return Lookup(schema, names, np.array(codes, dtype=np.int32), values)


def _code(column: Column, value: object) -> int:
    """The code of a value that has a level to itself; values are neither clamped nor sent to `other` silently."""
    if value is None:
        if not column.nullable:
            raise QueryError(
                f"column {column.name!r} has no missing values", expected="a value, or declare it nullable"
            )
        return column.known
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(column, Integer) and column.width == 1 and type(plain) is int:
        if not column.low <= plain <= column.high:
            raise QueryError(
                f"column {column.name!r} (integer): {plain} is out of range",
                advice=f"declared values run from {column.low} to {column.high}",
            )
        return plain - column.low
    if isinstance(plain, str) and column.size <= ENUMERATED and plain in column.labels[: column.known]:
        return column.labels.index(plain)
    (level,) = np.flatnonzero(column.compare("=", plain))
    return int(level)


def support(query: LinearQuery, columns: Sequence[str], limit: int) -> tuple[Points, Weights]:
    """The sorted points over `columns` with positive weight, and their weights; more than `limit` points are refused.

    They are found from the factors of the query's terms: the universe is never listed.
    """
    outside = sorted(set(query.columns) - set(columns))
    if outside:
        raise QueryError(
            f"the question depends on {', '.join(outside)}", expected=f"one over {', '.join(columns)} alone"
        )
    schema = query.schema
    if isinstance(query, Lookup) and query.columns == tuple(columns):
        _refuse(len(query.points), limit, columns)
        return query.points, query.values
    sizes = schema.shape(columns)
    boxes = [[box.get(name) for name in columns] for box in _boxes(query)]
    counts = [
        math.prod(s if levels is None else len(levels) for s, levels in zip(sizes, box, strict=True)) for box in boxes
    ]
    _refuse(sum(counts), max(limit, ENUMERATED), columns, at_most=True)
    parts = []
    for box in boxes:
        levels = [np.arange(s) if found is None else found for s, found in zip(sizes, box, strict=True)]
        parts.append(np.stack(np.meshgrid(*levels, indexing="ij"), axis=-1).reshape(-1, len(columns)))
    points = np.unique(np.concatenate([*parts, np.zeros((0, len(columns)), dtype=np.int64)]), axis=0).astype(np.int32)
    records = np.zeros((len(points), len(schema)), dtype=np.int32)
    records[:, [schema.position(name) for name in columns]] = points
    values = query.evaluate(records)
    _refuse(int((values > 0).sum()), limit, columns)
    return points[values > 0], values[values > 0]


def _boxes(query: LinearQuery) -> list[dict[str, NDArray[np.int64]]]:
    """Products of level sets that cover every point of positive weight; a column without an entry has all levels."""
    if isinstance(query, Lookup):
        return [dict(zip(query.columns, point.astype(np.int64)[:, None], strict=True)) for point in query.points]
    names = query.schema.names
    return [{names[p]: np.flatnonzero(factor) for p, factor in term.factors.items()} for term in query.terms]


def _refuse(points: int, limit: int, columns: Sequence[str], *, at_most: bool = False) -> None:
    if points > limit:
        shown = f"{points:,}" if points < 10**12 else f"about 10^{math.log10(points):.0f}"
        raise QueryError(
            f"the question touches {'up to ' * at_most}{shown} points of {', '.join(columns)}, more than {limit:,}",
            advice="list fewer keys, ask a complement the other way round, or use a model of the whole universe",
        )
