"""What can be asked: linear queries, the marginals made of them, and the ways to write them down."""

from maquette.query.contrasts import Contrasts, orthonormal, residual
from maquette.query.expression import Expression, col, where
from maquette.query.linear import LinearQuery
from maquette.query.low_sensitivity import LowSensitivityQuery
from maquette.query.marginal import Axis, Buckets, Marginal, marginal_of
from maquette.query.sql import Measure, Output, Statement, parse, question
from maquette.query.workload import (
    Workload,
    conjunctions,
    disjunctions,
    marginals,
    prefixes,
    queries,
    ranges,
)

__all__ = [
    "Axis",
    "Buckets",
    "Contrasts",
    "Expression",
    "LinearQuery",
    "LowSensitivityQuery",
    "Marginal",
    "Measure",
    "Output",
    "Statement",
    "Workload",
    "col",
    "conjunctions",
    "disjunctions",
    "marginal_of",
    "marginals",
    "orthonormal",
    "parse",
    "prefixes",
    "queries",
    "question",
    "ranges",
    "residual",
    "where",
]
