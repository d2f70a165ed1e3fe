"""Maquette: very many questions about a private table, under one differential-privacy budget.

Names are imported on first use, so that `import maquette` stays light.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

_HOMES = {
    "maquette.curator": ("Curator", "Guard", "Measurement", "PrivateTable", "open_table"),
    "maquette.errors": ("BudgetExceeded", "LedgerError", "MaquetteError", "QueryError", "SchemaError"),
    "maquette.holdout": ("Certified", "Holdout"),
    "maquette.privacy": ("Budget", "Loss", "UNITS_PER_ONE"),
    "maquette.query": (
        "LinearQuery",
        "Marginal",
        "average_distance",
        "bipartitions",
        "col",
        "conjunctions",
        "cut",
        "cuts",
        "disjunctions",
        "edge_schema",
        "lookup",
        "marginals",
        "prefixes",
        "queries",
        "ranges",
        "where",
    ),
    "maquette.release": ("Answer", "AnswerTable", "Release", "answer", "release"),
    "maquette.report": ("registry_entry", "report", "test_data"),
    "maquette.session": ("Session", "online"),
    "maquette.theory": ("Plan", "plan"),
    "maquette.schema": ("Boolean", "Category", "Date", "Integer", "Number", "Schema"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from maquette.curator import Curator, Guard, Measurement, PrivateTable, open_table
    from maquette.errors import BudgetExceeded, LedgerError, MaquetteError, QueryError, SchemaError
    from maquette.holdout import Certified, Holdout
    from maquette.privacy import UNITS_PER_ONE, Budget, Loss
    from maquette.query import (
        LinearQuery,
        Marginal,
        average_distance,
        bipartitions,
        col,
        conjunctions,
        cut,
        cuts,
        disjunctions,
        edge_schema,
        lookup,
        marginals,
        prefixes,
        queries,
        ranges,
        where,
    )
    from maquette.release import Answer, AnswerTable, Release, answer, release
    from maquette.report import registry_entry, report, test_data
    from maquette.schema import Boolean, Category, Date, Integer, Number, Schema
    from maquette.session import Session, online
    from maquette.theory import Plan, plan

__all__ = [
    "UNITS_PER_ONE",
    "Answer",
    "AnswerTable",
    "Boolean",
    "Budget",
    "BudgetExceeded",
    "Category",
    "Certified",
    "Curator",
    "Date",
    "Guard",
    "Holdout",
    "Integer",
    "LedgerError",
    "LinearQuery",
    "Loss",
    "MaquetteError",
    "Marginal",
    "Measurement",
    "Number",
    "Plan",
    "PrivateTable",
    "QueryError",
    "Release",
    "Schema",
    "SchemaError",
    "Session",
    "answer",
    "average_distance",
    "bipartitions",
    "col",
    "conjunctions",
    "cut",
    "cuts",
    "disjunctions",
    "edge_schema",
    "lookup",
    "marginals",
    "online",
    "open_table",
    "plan",
    "prefixes",
    "queries",
    "ranges",
    "registry_entry",
    "release",
    "report",
    "test_data",
    "where",
]


class _Package(ModuleType):
    """The package, with `release` and `report` the functions: importing a room of the same name must not hide it."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'maquette' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return __all__


sys.modules[__name__].__class__ = _Package
