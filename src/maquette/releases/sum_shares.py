"""How the price of sums is split: for the least total of squared relative errors, and not on tables that noise hides.

Privacy: everything here follows from the schema, the prices and the released model, so it is public.

The noise of a sum is proportional to the declared range; its error beside the sum itself is proportional to the
column's *need*, the range over the mean size of a value. A share s of the price leaves a relative variance of
need^2 / s with Gaussian noise and need^2 / s^2 with Laplace noise. Their total is least for shares proportional to
need, and to need^(2/3). Equal relative errors, the other plain choice, give nearly everything to the neediest column:
on the census of 1994 a column with a need of 8 gets 0.5% of the price beside one with a need of 93, where 5% make it
three times more precise and the other only a tenth less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette.curator import Curator
from maquette.query import ValueSums, Workload
from maquette.schema import Schema

WHOLE = 0.6  # of the price of a column's sums, for the sum over all rows
HIDDEN = 0.5  # of an average cell: a table whose noise deviates by more is not bought


def split_of(
    curator: Curator, workload: Workload, model: Any, rows: float, units: int
) -> tuple[list[ValueSums], list[float]]:
    """The sums to buy and the share of each: over all rows, and by the columns where noise does not hide the cells."""
    sizes = {name: _size(workload.schema, model, name) for name in workload.sums}
    power = 2 / 3 if curator.budget.accountant.currency == "pure" else 1.0
    asked, shares = [], []
    for name, size in sizes.items():
        questions, price = _questions(workload, name), _need(workload.schema, name, size) ** power
        asked += questions
        shares += [price * part for part in _parts(len(questions))]
    bought: dict[ValueSums, float] = {}
    expected = curator.expected(asked, units=units, shares=shares)
    for question, share, noise in zip(asked, shares, expected, strict=True):
        cell = sizes[question.column] * rows / question.cells
        if not question.names:
            bought[whole := question] = share
        elif noise.deviation * float(question.step) <= HIDDEN * cell:
            bought[question] = share
        else:
            bought[whole] += share
    return list(bought), list(bought.values())


def _questions(workload: Workload, name: str) -> list[ValueSums]:
    """The sum over all rows, and by each column that shares a table with it."""
    pairs = {other for table in workload.marginals if name in table.columns for other in table.columns} - {name}
    beside = [other for other in workload.schema.names if other in pairs]
    return [ValueSums(workload.schema, name, axes=axes) for axes in ([], *([other] for other in beside))]


def _parts(questions: int) -> list[float]:
    """What the sum over all rows costs of a column's price, and what each of its tables does."""
    others = questions - 1
    return [WHOLE, *[(1 - WHOLE) / others] * others] if others else [1.0]


def _size(schema: Schema, model: Any, name: str) -> float:
    """The mean size of a column's values, as the model sees it: an absolute value, so that signs do not cancel."""
    middles = schema[name].midpoints
    assert middles is not None
    return float(model.marginal([name])[: len(middles)] @ np.abs(middles))


def _need(schema: Schema, name: str, size: float) -> float:
    """The range of a column over the mean size of its values: where it is large, noise is large beside the sum."""
    grid = schema[name].value_grid
    assert grid is not None
    reach = float(max(abs(grid.low), abs(grid.high)) * grid.step)
    return min(max(reach / max(size, reach / 1000), 1.0), 1000.0)
