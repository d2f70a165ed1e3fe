"""Yes/no columns: conjunctions, disjunctions and parities of them, and fast transforms between these bases.

A table over k two-level columns is an array with k axes of length 2. Three other arrays of the same shape hold the same
information; in each, index 1 along an axis means that the column belongs to the set S:

* conjunctions: entry S counts the rows in which every column of S holds (the second level, "true");
* disjunctions: entry S counts the rows in which some column of S holds, and entry 0 is the total;
* parities: entry S sums (-1)^(number of columns of S that hold).

Each transform takes k sums or differences of halves. Nothing here sees a row or costs budget. Suppose every entry has
independent noise of standard deviation s. A cell with z columns false then gets noise s 2^(z/2) from conjunctions
(Moebius inversion), at worst s 2^(k/2), but s 2^(-k/2) from parities (Walsh-Hadamard). So measure parities or the
table, never conjunctions. Mechanisms §8.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.linear import LinearQuery
from maquette.schema import Schema

Values = NDArray[np.float64]
Join = Literal["any", "all"]

_SUM = np.array([[1.0, 1.0], [0.0, 1.0]])  # index 0: all rows; index 1: the rows in which the column holds
_MOEBIUS = np.array([[1.0, -1.0], [0.0, 1.0]])
_SIGNS = np.array([[1.0, 1.0], [1.0, -1.0]])
_NONE = np.array([[1.0, 1.0], [1.0, 0.0]])  # index 0: all rows; index 1: the rows in which it does not hold
_SOME = np.array([[0.0, 1.0], [1.0, -1.0]])


class Literals(NamedTuple):
    """A question about literals: `any` or `all` of these columns at these levels (0 or 1)."""

    join: Join
    columns: tuple[str, ...]
    levels: tuple[int, ...]

    @property
    def dual(self) -> Literals:
        """De Morgan: the complement of `any` of some literals is `all` of their opposites."""
        return Literals("all" if self.join == "any" else "any", self.columns, tuple(1 - level for level in self.levels))


def conjunctions_of(table: NDArray[Any]) -> Values:
    """Every monotone conjunction of a table of counts or fractions."""
    return _transform(table, _SUM)


def table_of_conjunctions(conjunctions: NDArray[Any]) -> Values:
    """The table with these monotone conjunctions (Moebius inversion); noise may grow by 2^(k/2)."""
    return _transform(conjunctions, _MOEBIUS)


def parities_of(table: NDArray[Any]) -> Values:
    """Every parity of a table (Walsh-Hadamard transform)."""
    return _transform(table, _SIGNS)


def table_of_parities(parities: NDArray[Any]) -> Values:
    """The table with these parities; noise shrinks by 2^(k/2)."""
    return _transform(parities, _SIGNS / 2)


def disjunctions_of(table: NDArray[Any]) -> Values:
    """Every monotone disjunction of a table; entry 0 holds the total instead of the empty disjunction, which is 0."""
    return _complemented(_transform(table, _NONE))


def table_of_disjunctions(disjunctions: NDArray[Any]) -> Values:
    """The table with these monotone disjunctions, entry 0 being the total; noise may grow by 2^(k/2)."""
    return _transform(_complemented(_checked(disjunctions)), _SOME)


def conjunctions_of_parities(parities: NDArray[Any]) -> Values:
    """Every monotone conjunction from every parity: entry S is a mean of 2^|S| signed parities."""
    return _transform(parities, _SUM @ _SIGNS / 2)


def parities_of_conjunctions(conjunctions: NDArray[Any]) -> Values:
    """Every parity from every monotone conjunction; noise may grow by 5^(k/2)."""
    return _transform(conjunctions, _SIGNS @ _MOEBIUS)


def disjunctions_of_conjunctions(conjunctions: NDArray[Any]) -> Values:
    """Inclusion and exclusion: every monotone disjunction from every monotone conjunction."""
    return disjunctions_of(table_of_conjunctions(conjunctions))


def doubled(records: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Public 0/1 records of d columns with d negated columns appended, so that every literal is a column.

    >>> doubled(np.array([[0, 1, 1]])).tolist()
    [[0, 1, 1, 1, 0, 0]]
    """
    codes = np.asarray(records)
    if codes.ndim != 2 or not np.isin(codes, (0, 1)).all():
        raise QueryError(f"got an array of shape {codes.shape}", expected="rows of 0 and 1")
    return np.hstack([codes, 1 - codes])


def literal_query(schema: Schema, literals: Literals) -> LinearQuery:
    """The linear query of a question about literals.

    >>> from maquette import Boolean, Schema, where
    >>> schema = Schema([Boolean("cough"), Boolean("fever")])
    >>> literal_query(schema, Literals("any", ("cough", "fever"), (1, 0))) == where(schema, "cough OR NOT fever")
    True
    """
    two_level_columns(schema, literals.columns)
    all_of = literals if literals.join == "all" else literals.dual
    factors = {name: np.arange(2) == level for name, level in zip(all_of.columns, all_of.levels, strict=True)}
    product = LinearQuery.product(schema, factors)
    return product if literals.join == "all" else ~product


def literals_of(query: LinearQuery) -> Literals | None:
    """The literals of a query, if it is `any` or `all` of literals on different two-level columns; else None.

    A single literal is `any` of one.
    """
    columns = query.columns
    two_levels = all(query.schema[name].size == 2 for name in columns)
    return literals_in(query.weights(columns), columns) if columns and two_levels else None


def literals_in(weights: Values, columns: tuple[str, ...]) -> Literals | None:
    """As `literals_of`, for weights over cells of two-level columns: one cell is 1 and all others 0, or the reverse."""
    ones = int((weights == 1.0).sum())
    if not columns or ones + int((weights == 0.0).sum()) < weights.size:
        return None
    if ones == weights.size - 1:  # a disjunction is false in one cell: where all its literals are
        return Literals("any", columns, tuple(1 - int(level) for level in np.argwhere(weights == 0.0)[0]))
    if ones == 1:
        return Literals("all", columns, tuple(int(level) for level in np.argwhere(weights == 1.0)[0]))
    return None


def two_level_columns(schema: Schema, columns: Iterable[str] | None = None) -> tuple[str, ...]:
    """These columns (default: all), each of which must have exactly two levels, the second meaning that it holds."""
    if isinstance(columns, str):
        raise QueryError(f"got the text {columns!r}", expected="a list of column names", advice=f"write [{columns!r}]")
    names = schema.names if columns is None else tuple(columns)
    wide = [f"{name} ({schema[name].size})" for name in names if schema[name].size != 2]
    if wide:
        shown = ", ".join(wide[:5]) + (", ..." if len(wide) > 5 else "")
        raise QueryError(
            f"got {shown} with the number of their levels",
            expected="columns of two levels each (yes/no, without NULL)",
            advice="list the two-level columns to use, or declare a column Boolean",
        )
    if not names or len(set(names)) < len(names):
        raise QueryError(f"the columns are {', '.join(names) or 'none'}", expected="different columns, at least one")
    return names


def _transform(array: NDArray[Any], matrix: Values) -> Values:
    """Apply one 2 x 2 matrix along every axis."""
    values = _checked(array)
    for axis in range(values.ndim):
        values = np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return np.array(values, order="C")


def _complemented(array: Values) -> Values:
    """The total minus every entry, except entry 0, which stays the total; its own inverse."""
    total = array[(0,) * array.ndim]
    opposite = np.array(total - array)
    opposite[(0,) * array.ndim] = total
    return opposite


def _checked(array: NDArray[Any] | Sequence[Any]) -> Values:
    values = np.asarray(array, dtype=np.float64)
    if set(values.shape) - {2}:
        raise QueryError(f"got shape {values.shape}", expected="one axis of length 2 for each column")
    return values
