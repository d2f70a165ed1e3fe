"""Loops and releases: everything here is public and speaks to rows only through the curator's doors."""

from maquette.release.adaptive import adaptive
from maquette.release.answer import Answer, AnswerTable
from maquette.release.artifact import Certificate, Release
from maquette.release.baseline import gaussian, laplace
from maquette.release.direct import answer
from maquette.release.everything import everything
from maquette.release.graphical import graphical
from maquette.release.iterative import averaged_construction, iterative_construction
from maquette.release.mwem import mwem
from maquette.release.net import Net, local_search, net_mechanism, small_db
from maquette.release.offline import release
from maquette.release.projection import projection

__all__ = [
    "Answer",
    "AnswerTable",
    "Certificate",
    "Net",
    "Release",
    "adaptive",
    "answer",
    "averaged_construction",
    "everything",
    "gaussian",
    "graphical",
    "iterative_construction",
    "laplace",
    "local_search",
    "mwem",
    "net_mechanism",
    "projection",
    "release",
    "small_db",
]
