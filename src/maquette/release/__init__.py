"""Loops and releases: everything here is public and speaks to rows only through the curator's doors."""

from maquette.release.adaptive import adaptive
from maquette.release.answer import Answer, AnswerTable
from maquette.release.artifact import Certificate, Release
from maquette.release.baseline import gaussian, laplace
from maquette.release.coefficients import coefficients
from maquette.release.cut_construction import cut_construction
from maquette.release.direct import answer
from maquette.release.distance_construction import distance_construction
from maquette.release.everything import everything
from maquette.release.functions import FunctionRelease, construct_functions, net_of_functions
from maquette.release.game import analyst_private, boosted, both_learn, dual_query
from maquette.release.graph import synthetic_graph
from maquette.release.graphical import graphical
from maquette.release.histograms import histograms
from maquette.release.iterative import averaged_construction, iterative_construction
from maquette.release.lookups import look_up
from maquette.release.mwem import mwem
from maquette.release.net import Net, local_search, net_mechanism, small_db
from maquette.release.offline import release
from maquette.release.projection import projection

__all__ = [
    "Answer",
    "AnswerTable",
    "Certificate",
    "FunctionRelease",
    "Net",
    "Release",
    "adaptive",
    "analyst_private",
    "answer",
    "averaged_construction",
    "boosted",
    "both_learn",
    "coefficients",
    "construct_functions",
    "cut_construction",
    "distance_construction",
    "dual_query",
    "everything",
    "gaussian",
    "graphical",
    "histograms",
    "iterative_construction",
    "laplace",
    "local_search",
    "look_up",
    "mwem",
    "net_mechanism",
    "net_of_functions",
    "projection",
    "release",
    "small_db",
    "synthetic_graph",
]
