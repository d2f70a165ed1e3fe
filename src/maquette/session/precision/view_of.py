"""`view_of`: the view of a marginal: a product where it factors, else written out; or over the cells of a histogram."""

from __future__ import annotations

import numpy as np

from maquette.errors import QueryError
from maquette.estimates import Columns
from maquette.query import Buckets, Marginal
from maquette.schema import Schema
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.table_view import TableView
from maquette.session.precision.view import Values, View

MAX_CELLS = 2**20  # of the columns of a question, and of everything written out for one that does not factor
MAX_COLUMNS = 12  # a question has 2^columns parts
MAX_WRITTEN = 2**26  # numbers of a question written out over the whole universe
MAX_LEVELS = 2**12  # of a column: its contrasts are a square matrix


def cell_view_of(marginal: Marginal, *, signed: bool = False) -> View:
    """The view of a marginal where the whole universe is one histogram."""
    if marginal.schema.size <= MAX_WRITTEN < marginal.schema.size * marginal.cells:  # no larger universe is listed
        raise TooWide(f"the question has {marginal.cells:,} numbers over {marginal.schema.size:,} combinations")
    plain = view_of(marginal, signed=signed)
    weights = _written_out(marginal, marginal.schema.names, signed)
    return CellView(marginal.schema, weights, plain.shape, plain.description)


def _written_out(marginal: Marginal, columns: Columns, signed: bool) -> Values:
    """The weight of every combination of the columns in every cell."""
    weights = np.stack([query.weights(columns) for _, query in marginal.queries()])
    cells = weights.reshape((*marginal.shape, *marginal.schema.shape(columns)))
    if signed:
        last = len(marginal.shape) - 1
        cells = np.take(cells, 1, axis=last) - np.take(cells, 0, axis=last)
    return np.asarray(cells)


def view_of(marginal: Marginal, *, signed: bool = False) -> View:
    """The view of a marginal; if signed, its last axis is read as (negative, positive).

    A marginal whose axes and weight factor over the columns is a product; any other is written out.
    """
    schema, columns = marginal.schema, marginal.columns
    levels = max(schema.shape(columns), default=1)
    if levels > MAX_LEVELS:
        raise TooWide(f"the question depends on a column with {levels:,} levels")
    product = _product(marginal, signed) if schema.cells(columns) <= MAX_CELLS else None
    if product is not None:
        return product
    if len(columns) > MAX_COLUMNS or schema.cells(columns) * marginal.cells > MAX_CELLS:
        raise TooWide(f"the question depends on {len(columns)} columns with {schema.cells(columns):,} combinations")
    shape = marginal.shape[:-1] if signed else marginal.shape
    return TableView(schema, columns, _written_out(marginal, columns, signed), shape)


class TooWide(QueryError):
    """A question that cannot be split into parts of reasonable size; it can still be measured as asked."""

    code = "query.too-wide"


def _product(marginal: Marginal, signed: bool) -> ProductView | None:
    """One matrix for each column, if the question is a product; None otherwise."""
    schema, terms = marginal.schema, marginal.weight.terms
    if len(terms) != 1 or len(marginal.columns) > MAX_COLUMNS:
        return None
    rows = {schema.columns[position].name: factor[None, :] for position, factor in terms[0].factors.items()}
    axes: dict[str, int] = {}
    for number, axis in enumerate(marginal.axes):
        levels = _levels(schema, axis)
        if levels is None:
            return None
        name, matrix = levels
        if name in axes:
            return None
        if signed and number == len(marginal.axes) - 1:
            matrix = matrix[1:] - matrix[:1]
        else:
            axes[name] = number
        rows[name] = matrix * rows[name] if name in rows else matrix
    return ProductView(schema, rows, axes, terms[0].coefficient)


def _levels(schema: Schema, axis: str | Buckets) -> tuple[str, Values] | None:
    """The column of an axis and the indicator of each of its levels; None if the axis does not concern one column."""
    if isinstance(axis, str):
        return axis, np.eye(schema[axis].size)
    names = {name for part in axis.parts for name in part.columns}
    if len(names) != 1:
        return None
    (name,) = names
    return name, np.stack([part.weights((name,)) for part in axis.parts])
