"""Forms: questions as plain data. The wall compiles these and nothing else.

A new class of questions needs a property `form` that returns one of them. The wall reads it once, copies every number,
checks it against its own schema and evaluates the copy: nothing that the object says or does later matters. The list is
closed; a new form is a new kind of access to rows and belongs to `curator/compiled.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from maquette.query.classes.low_sensitivity import LowSensitivityQuery


@dataclass(frozen=True, eq=False)
class Products:
    """A weight in [0, 1]: the sum of coefficient * product over columns of factor[level]."""

    terms: Sequence[tuple[float, Mapping[str, ArrayLike]]]


@dataclass(frozen=True, eq=False)
class Points:
    """A weight in (0, 1] for each listed point of a few columns (by code), and 0 for every other row."""

    columns: Sequence[str]
    points: ArrayLike
    values: ArrayLike


Weight = Products | Points


@dataclass(frozen=True, eq=False)
class Cells:
    """The total weight of the rows in every cell; an axis is a column, or a list of disjoint predicates."""

    axes: Sequence[str | Sequence[Weight]]
    weight: Weight


@dataclass(frozen=True, eq=False)
class Amounts:
    """For every cell, the sum of a column's `numbers` (one per level) over the rows for which `where` holds.

    Numbers may be negative; they are clamped to [`low`, `high`], from which the price is computed.
    """

    column: str
    numbers: ArrayLike
    low: int
    high: int
    axes: Sequence[str | Sequence[Weight]]
    where: Weight


@dataclass(frozen=True, eq=False)
class ValueSums:
    """For every cell, the sum of a column's values less `centre`, over the rows for which `where` holds.

    Values are clamped to [`low`, `high`], from which the price is computed; a missing value adds 0. All numbers are
    steps of the column's `value_grid`.
    """

    column: str
    low: int
    high: int
    centre: int
    axes: Sequence[str | Sequence[Weight]]
    where: Weight


@dataclass(frozen=True)
class ValueSteps:
    """A factor: a column's value less `centre`, in whole numbers of an odd `step`, to the nearest; 0 if it is missing.

    Values are clamped to [`low`, `high`]; all numbers are steps of the column's `value_grid`.
    """

    column: str
    low: int
    high: int
    centre: int
    step: int


@dataclass(frozen=True)
class LevelNumbers:
    """A factor: a whole number for each level of a column."""

    column: str
    numbers: tuple[int, ...]


Factor = ValueSteps | LevelNumbers


@dataclass(frozen=True, eq=False)
class ValueProducts:
    """For every cell, the sum of the product of two factors over the rows for which `where` holds.

    At least one is of values. A square is the same factor twice.
    """

    factors: Sequence[Factor]
    axes: Sequence[str | Sequence[Weight]]
    where: Weight


@dataclass(frozen=True, eq=False)
class UnitCells:
    """For every cell, the number of privacy units that have a row in it for which `where` holds."""

    axes: Sequence[str | Sequence[Weight]]
    where: Weight


@dataclass(frozen=True, eq=False)
class Listed:
    """The number of rows at each listed point of a few columns (by code); points in increasing order."""

    columns: Sequence[str]
    points: ArrayLike


@dataclass(frozen=True, eq=False)
class Combined:
    """Whole-number combinations of the cells of a table, with one matrix per axis."""

    cells: Cells | Listed
    matrices: Sequence[ArrayLike]


@dataclass(frozen=True, eq=False)
class Residual:
    """What a table over some columns says beyond its subsets: Helmert contrasts along every axis."""

    columns: Sequence[str]


@dataclass(frozen=True, eq=False)
class ParitySums:
    """For every set of `level` of the columns, the sum over rows of (-1)^(number of columns of the set that hold)."""

    columns: Sequence[str]
    level: int


@dataclass(frozen=True, eq=False)
class OfHistogram:
    """A function of the whole histogram with a declared sensitivity: trusted code, see `LowSensitivityQuery`."""

    query: LowSensitivityQuery
    rows: float
    sensitivity: float


Form = Cells | UnitCells | Amounts | ValueSums | ValueProducts | Listed | Combined | Residual | ParitySums | OfHistogram


class Asked(Protocol):
    """A question that the doors accept: any object with a form."""

    @property
    def form(self) -> Form:
        """The question as data."""
