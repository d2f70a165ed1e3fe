"""Checking: buy the certified check of a finished model, and decide beforehand whether it would say anything.

Privacy: one `Curator.measure_error` of the model's tables, and one of the public family of questions behind the typical
error. One row moves a table by one, so its L1 distance to fixed whole numbers by at most `Relation.l1`: 1 under
add-remove, 2 under replace, times the rows of a unit. The tables, their number and the price follow from the schema,
the workload, the budget and a released number of rows; the model is a function of released numbers and is not changed
afterwards. Accuracy: `maquette.estimates.check`. docs/theory/certified-check.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Errors
from maquette.errors import BudgetError, DeadlineMissed, QueryError
from maquette.estimates import Check, Columns, Typical, rounded, spread_of
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, half_width
from maquette.query import Contrasts, Marginal, Workload
from maquette.releases.artifact import Model
from maquette.schema import Column, Ordered, Schema

CHECK = 0.035  # share of a release's units for the distances of all tables
TYPICAL = 0.005  # share for the mean error of a family of questions
SILENT = 0.25  # a check whose noise alone makes bounds of this part of the rows says nothing
DOUBT = 0.05  # failure probability of the prediction
MANY = 20_000  # maximum number of tables
LARGEST = 2**22  # maximum cells of one table: the curator counts those at once
LISTED = 200_000  # maximum number of tables of a workload that are listed
CELLS = 2**25  # maximum cells of all tables together
FAMILY = 64  # maximum tables of the family of questions
QUESTIONS = 16  # questions of a table, about

Values = NDArray[np.float64]


def reserved(curator: Curator, workload: Workload, units: int, rows: float | None = None) -> int:
    """The units to keep for the check of a release of `units`; 0 if it would say nothing.

    `rows` is a released number of rows. Without one, and if it is not public, the units are kept, and
    `check_of` decides when the release has estimated it: what is not bought is not charged. Nothing is charged here.
    """
    if rows is None and curator.relation.rows_are_public:
        rows = curator.count_rows()
    tables = tables_to_check(curator, workload, int(CHECK * units), math.inf if rows is None else rows)
    return int((CHECK + TYPICAL) * units) if tables else 0


def tables_to_check(curator: Curator, workload: Workload, units: int, rows: float) -> tuple[Columns, ...]:
    """The tables of a check for `units`: those of the workload and their smaller ones, as far as noise allows.

    The largest tables are left out until noise alone would make bounds (at 95%, all together) below SILENT of the rows:
    it grows like the root of the number of tables under Gaussian noise, and faster than their number under Laplace.
    """
    if units < 1:
        return ()
    whole = _whole(workload)
    for size in range(max(map(len, whole), default=0), 0, -1):
        tables = _candidates(curator.schema, whole, size)
        if tables and len(tables) <= MANY and _noise(curator, tables, units) < SILENT * rows:
            return tables
    return ()


def checked(
    curator: Curator, models: Sequence[Model], workload: Workload, units: int, *, rows: float
) -> tuple[Check, ...]:
    """The check of each frozen model, for one charge of `units`; none if it would say nothing.

    `rows` is the number of rows by which the models' probabilities become counts. All bounds of all checks hold
    together, so the caller may keep the model with the smallest mean distance.

    Privacy: one `measure_error`, at `Relation.l1` for each table and model, and of the number of rows.
    """
    tables = tables_to_check(curator, workload, units // max(1, len(models)), rows)
    if not tables or not models:
        return ()
    schema, public = curator.schema, curator.relation.rows_are_public
    questions = [Marginal(schema, table) for table in tables] * len(models)
    answers = [cells for model in models for cells in counts_of(model, tables, rows)]
    total = [] if public else [Marginal(schema)]
    errors = curator.measure_error([*questions, *total], [*answers, *([np.zeros(())] if total else [])], units=units)
    counted = curator.count_rows() if public else float(errors.values[-1])
    split = np.split(errors.values[: len(questions)], len(models))
    return tuple(Check(tables, found, rows, counted, public, errors.event, len(questions)) for found in split)


def typical_error(curator: Curator, model: Model, workload: Workload, units: int, *, rows: float) -> Typical | None:
    """The mean error of the model over `family` of the workload, in rows; None if nothing can be bought.

    Privacy: one `measure_error` of contrasts. A row is in at most g of a table's questions, the largest L1 norm of a
    column of its matrices, and the door prices the sum of their errors by that. With the same number of questions in
    every table the mean of all errors has at most the noise of one mean of sensitivity 1.
    """
    asked = family(curator.schema, workload)
    if units < 1 or not asked:
        return None
    answers = [question.combine(np.asarray(model.marginal(question.marginal.names)) * rows) for question in asked]
    errors = curator.measure_error(asked, [np.rint(answer) for answer in answers], units=units)
    return _mean_of(errors, sum(question.cells for question in asked), len(asked))


def family(schema: Schema, workload: Workload) -> list[Contrasts]:
    """A public family of questions: for up to 64 tables of the workload, products of sets of levels of its columns.

    Sets are ranges of ordered columns and random sets of levels of others, drawn from a seed that the schema
    determines, so that anyone can list the questions.
    """
    rng = np.random.default_rng(int(schema.digest[:16], 16))
    tables = [table for table in _whole(workload) if schema.cells(table) <= LARGEST]
    largest = max(map(len, tables), default=0)
    tables = [table for table in tables if len(table) == largest]
    if len(tables) > FAMILY:
        tables = [tables[i] for i in sorted(rng.choice(len(tables), FAMILY, replace=False))]
    each = max(2, round(QUESTIONS ** (1 / max(1, largest))))
    return [Contrasts(Marginal(schema, table), [_sets(schema[name], each, rng) for name in table]) for table in tables]


def counts_of(model: Model, tables: Sequence[Columns], rows: float) -> list[Values]:
    """The model's counts of every table, as whole numbers."""
    many: Any = getattr(model, "marginals", None)
    cells = many(tables) if callable(many) else (model.marginal(table) for table in tables)
    return [rounded(each, rows) for each in cells]


def check_part(units: int) -> int:
    """Of the units kept for a check and a typical error, those of the check."""
    return units - int(units * TYPICAL / (CHECK + TYPICAL))


def check_of(curator: Curator, model: Model, workload: Workload, units: int, *, rows: float) -> Check | None:
    """The check and the typical error of a finished model, for `units` together; None if they cannot be bought.

    A model that cannot list a table, a budget that others have spent and a deadline that is missed leave a release
    without a check; so does an interrupt. What was charged for it stays charged, and is certified.
    """
    part = units - check_part(units)
    found: Check | None = None
    try:
        for found in checked(curator, [model], workload, units - part, rows=rows):
            typical = typical_error(curator, model, workload, part, rows=rows)
            return replace(found, typical=typical)
    except (QueryError, BudgetError, DeadlineMissed, KeyboardInterrupt):
        return found
    return None


def _whole(workload: Workload) -> list[Columns]:
    """The tables of the workload; none if there are too many to list."""
    many = next(itertools.islice(workload.sets, LISTED, None), None) is not None
    return [] if many else [table for table in workload.tables if table]


def _candidates(schema: Schema, whole: Sequence[Columns], most: int) -> tuple[Columns, ...]:
    """Those of at most `most` columns, with their pairs and single columns; without tables of too many cells."""
    found = {table for table in whole if len(table) <= most}
    for size in (1, 2)[: max(1, most)]:
        found |= {part for table in whole for part in itertools.combinations(table, size)}
    sizes, place = {c.name: c.size for c in schema}, {name: i for i, name in enumerate(schema.names)}
    listed = sorted((math.prod(sizes[name] for name in table), table) for table in found)
    kept, total = [], 0
    for cells, table in listed:
        total += cells
        if total <= CELLS and 1 < cells <= LARGEST:
            kept.append(table)
    return tuple(sorted(kept, key=lambda t: (len(t), [place[name] for name in t])))


def _noise(curator: Curator, tables: Sequence[Columns], units: int) -> float:
    """What noise alone adds to a bound: half the quantile of a distance, predicted from public numbers."""
    accountant, count = curator.budget.accountant, len(tables) + 1
    moves = curator.relation.l1(Marginal(curator.schema, tables[0]))
    event: DiscreteGaussian | DiscreteLaplace
    if accountant.currency == "pure":
        event = DiscreteLaplace(accountant.laplace_scale(units, Fraction(moves * count)), Fraction(moves * count))
    else:
        squared = Fraction(moves**2 * count)
        event = DiscreteGaussian(accountant.gaussian_variance(units, squared), squared)
    return half_width(event, 1.0 - 2.0 * DOUBT / (count + 1)) / 2


def _sets(column: Column, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sets of levels: ranges if the column is ordered."""
    made = np.zeros((count, column.size), dtype=np.int64)
    for chosen in made:
        if isinstance(column, Ordered):
            first, last = sorted(rng.integers(0, column.size, 2))
            chosen[first : last + 1] = 1
        else:
            chosen[rng.permutation(column.size)[: rng.integers(1, max(2, column.size // 2 + 1))]] = 1
    return made


def _mean_of(errors: Errors, questions: int, tables: int) -> Typical:
    each = spread_of(errors.event) / errors.grid
    return Typical(
        questions=questions,
        mean=float(errors.values.sum()) / questions,
        spread=each * math.sqrt(tables) / questions,
        largest=each / questions,
        gaussian=isinstance(errors.event, DiscreteGaussian),
        slack=0.5,
    )
