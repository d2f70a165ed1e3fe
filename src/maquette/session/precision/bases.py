"""Bases: the ways in which one part can be measured, each under a key of its own.

A part is measured in Helmert contrasts, which treat all levels alike, under its own name. With ordered columns it can
also be measured as *waves*, in which every range has little noise (`maquette.query.waves`); and for SUM and AVG of a
column as *sums*, in which the column enters by its numbers alone: one contrast of its levels instead of all of them.
Such a basis is a whole-number matrix for each column, whose rows sum to zero, so no smaller part enters. A *whole*
table with ordered columns can be measured at once (`maquette.query.steps`); it answers by itself, and tells of the part
of all its columns too. A question whose weights lie in the span of the rows is estimated by the inverse. Public
computation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.query import (
    LARGEST,
    RANGE_BASES,
    BareBasis,
    Contrasts,
    Marginal,
    RangeBasis,
    gains_of,
    helmert,
    inverse_waves,
    is_ordered,
    scale_of,
    waves_of,
    whole_inverse,
    whole_scale,
    whole_table,
)
from maquette.schema import Schema

Values = NDArray[np.float64]

WholeKind = RangeBasis | Literal["starts"]
WHOLE_KINDS: tuple[WholeKind, ...] = ("starts", *RANGE_BASES)  # starts: steps with a smaller family
MARK = ""  # begins every key that is not a part's own name: no column has this name
KEPT = 2**12
BEGINS, ENDS = "<", ">"  # of a corner: one for each ordered column
BARE: Mapping[str, BareBasis] = {"steps": "bare steps", "waves": "bare waves"}  # without a row for everything
WIDEST, MOST = 3, 2**13  # columns and numbers of a whole table, at most
ANCHOR = (MARK, MARK, MARK, "rows")  # the number of rows, measured once for all counts (`anchor`)
_SCALE = 2**8  # of Helmert rows beside a sum, at most


def waves_key(part: Columns) -> Columns:
    """The key of a part measured as waves."""
    return (MARK, *part)


def sums_key(part: Columns, name: str) -> Columns:
    """The key of a part measured as sums of one of its columns."""
    return (MARK, MARK, name, *part)


def whole_key(kind: WholeKind, columns: Columns) -> Columns:
    """The key of a whole table measured at once."""
    return (MARK, MARK, MARK, kind, *columns)


def corner_key(columns: Columns, corner: str) -> Columns:
    """The key of a table of steps promised for ranges alone that have these ends of their ordered columns."""
    return (MARK, MARK, MARK, "starts" if set(corner) == {BEGINS} else f"steps {corner}", *columns)


def ends_of(schema: Schema, key: Columns) -> dict[str, str] | None:
    """The ends at which the ranges lie that a whole table is promised for, by column; None if at either."""
    if not is_whole(key) or (key[3] != "starts" and not key[3].startswith("steps ")):
        return None
    ordered = [name for name in plain(key) if is_ordered(schema, name)]
    corner = BEGINS * len(ordered) if key[3] == "starts" else key[3].partition(" ")[2]
    return dict(zip(ordered, corner, strict=True))


def tells(key: Columns) -> bool:
    """Whether other questions are read from a whole table, too."""
    return key[3] in WHOLE_KINDS


def bare_kind(key: Columns) -> BareBasis | None:
    """How a key measures a table that is read together with the number of rows, if it does."""
    return next((kind for kind in BARE.values() if is_whole(key) and key[3] == kind), None)


def whole_kind(key: Columns) -> RangeBasis | None:
    """How a key measures a whole table, if it does."""
    if key[:3] != (MARK, MARK, MARK):
        return None
    if (bare := bare_kind(key)) is not None:
        return bare
    return "waves" if key[3] == "waves" else "steps"


@lru_cache(KEPT)
def whole_keys(schema: Schema, columns: Columns) -> tuple[Columns, ...]:
    """The ways to measure the whole table of some columns: none without an ordered one, or where it is too large."""
    ordered = any(is_ordered(schema, name) for name in columns)
    if not ordered or len(columns) > WIDEST or math.prod(schema[name].size + 1 for name in columns) > MOST:
        return ()
    return tuple(whole_key(kind, columns) for kind in WHOLE_KINDS)


def is_whole(key: Columns) -> bool:
    """Whether a key measures a whole table."""
    return key[:3] == (MARK, MARK, MARK)


def plain(key: Columns) -> Columns:
    """The part that a key is about."""
    if key[:3] == (MARK, MARK, MARK):
        return key[4:]
    if key[:2] == (MARK, MARK):
        return key[3:]
    return key[1:] if key[:1] == (MARK,) else key


def is_plain(key: Columns) -> bool:
    """Whether a key is the part's own name."""
    return key[:1] != (MARK,)


def summed(key: Columns) -> str | None:
    """The column whose sums a key measures, if it does."""
    return key[2] or None if key[:2] == (MARK, MARK) else None


@lru_cache(KEPT)
def question_of(schema: Schema, key: Columns) -> Contrasts:
    """What is measured under a key that is not a part's own name."""
    part, name = plain(key), summed(key)
    if (kind := whole_kind(key)) is not None:
        return whole_table(schema, kind, part)
    if name is None:
        return waves_of(schema, part)
    matrices = [_matrix(schema, each, name, _beside(schema, part, name)) for each in part]
    return Contrasts.of(Marginal(schema, part), tuple(matrices), [gains_of(matrix) for matrix in matrices])


@lru_cache(KEPT)
def scale(schema: Schema, key: Columns) -> float:
    """By how much the whole numbers exceed contrasts of unit scale."""
    part, name = plain(key), summed(key)
    if whole_kind(key) is not None:
        return float(whole_scale(schema, part) ** sum(is_ordered(schema, each) for each in part))
    if name is None:
        return float(scale_of(schema, part) ** len(part))
    numbers = numbers_of(schema, name)
    assert numbers is not None, "only a column with numbers is summed"
    return float(np.abs(numbers).max()) * float(_beside(schema, part, name) ** (len(part) - 1))


@lru_cache(KEPT)
def inverse(schema: Schema, key: Columns, name: str) -> Values:
    """Weights of a column over its levels, times this, are its weights over the rows of its matrix at unit scale."""
    which = summed(key)
    if (kind := whole_kind(key)) is not None:
        return whole_inverse(schema, kind, plain(key), name)
    if which is None:
        return inverse_waves(schema, plain(key), name)
    return _inverse_sums(schema, name, which, _beside(schema, plain(key), which))


@lru_cache(KEPT)
def _inverse_sums(schema: Schema, name: str, which: str, beside: int) -> Values:
    matrix = _matrix(schema, name, which, beside)
    unit = float(np.abs(matrix).max()) if name == which else float(beside)
    found = np.linalg.pinv(matrix / unit).astype(np.float64)
    found.flags.writeable = False
    return found


def _matrix(schema: Schema, name: str, which: str, beside: int) -> NDArray[np.int64]:
    numbers = numbers_of(schema, which) if name == which else None
    return helmert(schema[name].size, beside) if numbers is None else numbers[None, :]


@lru_cache(KEPT)
def _beside(schema: Schema, part: Columns, name: str) -> int:
    """The scale of the Helmert rows beside a sum: the largest at which no weight is too large."""
    numbers = numbers_of(schema, name)
    assert numbers is not None, "only a column with numbers is summed"
    room = LARGEST / float(np.abs(numbers).max())
    found = _SCALE
    others = [schema[each].size for each in part if each != name]
    while found > 1 and math.prod(int(np.abs(helmert(size, found)).max()) for size in others) > room:
        found //= 2
    return found


@lru_cache(KEPT)
def numbers_of(schema: Schema, name: str) -> NDArray[np.int64] | None:
    """The numbers of a column less their mean, as whole numbers in exact proportion; None if it has none so small."""
    column = schema[name]
    if column.midpoints is None or column.nullable or column.size < 2:
        return None
    exact = [Fraction(float(value)) for value in column.midpoints]
    mean = sum(exact, Fraction(0)) / len(exact)
    common = math.lcm(*((value - mean).denominator for value in exact))
    whole = [int((value - mean) * common) for value in exact]
    divisor = math.gcd(*whole)
    if divisor == 0 or max(map(abs, whole)) // divisor > LARGEST >> 8:
        return None
    found = np.array([value // divisor for value in whole], dtype=np.int64)
    found.flags.writeable = False
    return found
