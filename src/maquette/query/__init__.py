"""What can be asked: linear queries, the marginals made of them, and the ways to write them down."""

from maquette.query.amounts import Amounts
from maquette.query.boolean import Literals, literal_query, literals_of, two_level_columns
from maquette.query.contrasts import Contrasts, orthonormal, residual
from maquette.query.cut import Cuts, bipartitions, cut, cuts, degrees, edge_schema
from maquette.query.distance import Box, Distances, additive, average_distance
from maquette.query.embedding import Embedding
from maquette.query.expression import Expression, col, where
from maquette.query.forms import Asked, Form
from maquette.query.linear import LinearQuery
from maquette.query.lookup import Keys, Lookup, lookup
from maquette.query.low_sensitivity import LowSensitivityQuery, Statistic, check_sensitivity
from maquette.query.marginal import Axis, Buckets, Marginal, marginal_of
from maquette.query.parities import Parities
from maquette.query.sql import Measure, Output, Statement, parse, question
from maquette.query.workload import (
    Combinations,
    Workload,
    conjunctions,
    disjunctions,
    marginals,
    prefixes,
    queries,
    ranges,
)

__all__ = [
    "Amounts",
    "Asked",
    "Axis",
    "Box",
    "Buckets",
    "Combinations",
    "Contrasts",
    "Cuts",
    "Distances",
    "Embedding",
    "Expression",
    "Form",
    "Keys",
    "LinearQuery",
    "Literals",
    "Lookup",
    "LowSensitivityQuery",
    "Marginal",
    "Measure",
    "Output",
    "Parities",
    "Statement",
    "Statistic",
    "Workload",
    "additive",
    "average_distance",
    "bipartitions",
    "check_sensitivity",
    "col",
    "conjunctions",
    "cut",
    "cuts",
    "degrees",
    "disjunctions",
    "edge_schema",
    "literal_query",
    "literals_of",
    "lookup",
    "marginal_of",
    "marginals",
    "orthonormal",
    "parse",
    "prefixes",
    "queries",
    "question",
    "ranges",
    "residual",
    "two_level_columns",
    "where",
]
