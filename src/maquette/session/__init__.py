"""Sessions: a stream of adaptive questions, answered from public models that the rows correct at a price.

`online` opens the practical session. The others are the theory's own (`OnlineIC`, `LazyConstruction`) and the plain
ways to which they are compared (`ExactCache`, `WholeMarginals`, `OneHistogram`).
"""

from maquette.session.cut_rule import cut_rule
from maquette.session.distance_rule import distance_rule
from maquette.session.exact_cache import ExactCache
from maquette.session.functions import OnlineFunctions
from maquette.session.lazy import LazyConstruction
from maquette.session.opening import online
from maquette.session.session import Explanation, Session
from maquette.session.textbook import OnlineIC
from maquette.session.whole_marginals import OneHistogram, WholeMarginals

__all__ = [
    "ExactCache",
    "Explanation",
    "LazyConstruction",
    "OneHistogram",
    "OnlineFunctions",
    "OnlineIC",
    "Session",
    "WholeMarginals",
    "cut_rule",
    "distance_rule",
    "online",
]
