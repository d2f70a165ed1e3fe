"""Own: what was measured, or accepted, for one goal alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates import Columns
from maquette.query import Marginal, OfValues
from maquette.session.precision.view import Component


@dataclass(frozen=True)
class Guarded:
    """The public model's numbers for a goal, in counts, that a guard accepted as within `tolerance`."""

    moment: int
    values: NDArray[np.float64]
    tolerance: float
    beta: float
    simultaneous: bool


@dataclass(frozen=True)
class Direct:
    """A goal measured exactly as asked, by the charge `moment`; such measurements are numbered from 1."""

    moment: int
    measurement: Measurement
    signed: bool
    number: int
    facts: Any = field(default=None, compare=False, repr=False)  # the goal as the ledger has it
    centre: Component | None = None  # the number of rows, if twice the goal less that was measured

    @property
    def halved(self) -> bool:
        """Whether the two halves of a signed sum were measured."""
        question = self.measurement.question
        return self.signed and isinstance(question, Marginal) and not isinstance(question, OfValues)


@dataclass(frozen=True)
class Slice:
    """A goal whose numbers are the cells `places` of a table that was measured as asked; at -1 nothing is counted.

    All cells of a table hold together within its width, by its own share of the doubt, so a slice of it is known within
    that width without any more of it.
    """

    table: Direct
    places: NDArray[np.int64]

    @property
    def moment(self) -> int:
        """Since when it is known."""
        return self.table.moment


@dataclass(frozen=True)
class Rented:
    """What some parts contribute to one goal, measured for it alone by the charge `moment`."""

    moment: int
    components: Mapping[Columns, Component]


Own = Guarded | Direct | Rented
