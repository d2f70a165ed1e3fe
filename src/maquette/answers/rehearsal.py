"""Rehearsal: a program is run on made-up numbers before anything is charged: what cannot be computed costs nothing.

The numbers are the same for every table: no row is read. Their intervals are wide, so that every group that may be in
an answer is in this one, and what would be too large is too large here.
"""

from __future__ import annotations

import numpy as np

from maquette.answers.assembly import OutputColumn
from maquette.answers.reporting import report
from maquette.answers.scalars import REHEARSED
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.query import Marginal, Program, Statement

_FREE = Loss(epsilon=0.0, delta=0.0, rho=None, units=0, currency="pure")
_WIDE = 1e6


def rehearse(program: Program) -> None:
    """Refuse a program that cannot be computed, whatever its statements answer."""
    begun = REHEARSED.set(True)
    try:
        report(program, _made_up, 0.95, _FREE, "measured")
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise QueryError(
            "cannot be computed from the numbers of its groups", advice="ask for the aggregates alone, without formulas"
        ) from None
    finally:
        REHEARSED.reset(begun)


def _made_up(statement: Statement) -> dict[str, OutputColumn]:
    shape = Marginal(statement.schema, statement.axes).shape
    return {
        output.title: OutputColumn(
            np.ones(shape), np.full(shape, 0.0 if output.kind == "count" else -_WIDE), np.full(shape, _WIDE)
        )
        for output in statement.outputs
        if output.measure is not None
    }
