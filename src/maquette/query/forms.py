"""Forms: what a question is made of, as plain data. The wall compiles these and nothing else.

Whoever adds a class of questions gives it a property `form` that returns one of them. The wall reads it once, copies
every number, checks it against its own schema and evaluates its copy: nothing that an object says or does later
matters. The list is closed; a new form is a new kind of access to rows and belongs to `curator/compiled.py`.
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
    """A weight in (0, 1] for each of some listed points of a few columns (by code), and 0 for every other row."""

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
    """The total, over the rows in every cell for which `where` holds, of one whole number for each level of a column.

    Numbers may be negative; they are clamped to `low` and `high`, from which the price is computed.
    """

    column: str
    numbers: ArrayLike
    low: int
    high: int
    axes: Sequence[str | Sequence[Weight]]
    where: Weight


@dataclass(frozen=True, eq=False)
class Listed:
    """How many rows are at each of some listed points, in increasing order, of a few columns (by code)."""

    columns: Sequence[str]
    points: ArrayLike


@dataclass(frozen=True, eq=False)
class Combined:
    """Whole-number combinations of the cells of a table, by one matrix for each axis."""

    cells: Cells | Listed
    matrices: Sequence[ArrayLike]


@dataclass(frozen=True, eq=False)
class Residual:
    """What the table of some columns says beyond its subsets: Helmert contrasts along every axis."""

    columns: Sequence[str]


@dataclass(frozen=True, eq=False)
class ParitySums:
    """For every set of `level` of some two-level columns, the sum over rows of (-1)^(how many of the set hold)."""

    columns: Sequence[str]
    level: int


@dataclass(frozen=True, eq=False)
class OfHistogram:
    """A function of the whole histogram with a declared sensitivity: trusted code, see `LowSensitivityQuery`."""

    query: LowSensitivityQuery
    rows: float
    sensitivity: float


Form = Cells | Amounts | Listed | Combined | Residual | ParitySums | OfHistogram


class Asked(Protocol):
    """Whatever can be asked at the doors: something with a form."""

    @property
    def form(self) -> Form:
        """The question as data."""
