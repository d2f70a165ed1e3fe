"""The public universe: column kinds and the schema they make."""

from maquette.schema.columns import INVALID, Boolean, Category, Column, Comparison
from maquette.schema.dates import Date
from maquette.schema.impossible import impossible_cells
from maquette.schema.ordered import Integer, Number
from maquette.schema.schema import Schema, as_arrow, column_names, refuse_invalid

__all__ = [
    "INVALID",
    "Boolean",
    "Category",
    "Column",
    "Comparison",
    "Date",
    "Integer",
    "Number",
    "Schema",
    "as_arrow",
    "column_names",
    "impossible_cells",
    "refuse_invalid",
]
