"""Cuts of a graph with m private edges over |V| public vertices: updates, and errors in edges. Mechanisms §11.

The universe is V x V, a cut the product of two sets of vertices. Alphas are fractions of the edges. Everything here
protects edges. Vertices are not protected, since one vertex may have |V| edges.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maquette.privacy import zcdp_rho
from maquette.theory import updates
from maquette.theory.arguments import PROBABILITY, checked


@checked()
def multiplicative_weights(vertices: int, alpha: float) -> float:
    """T of multiplicative weights on V x V: ln(|V|^2) / (2 alpha^2), for any edges."""
    return updates.multiplicative_weights(vertices**2, alpha)


@checked()
def frieze_kannan(vertices: int, edges: int, alpha: float, *, largest: float = 1.0) -> float:
    """T of the cut decomposition on a simple graph: |V|^2 / (m alpha^2), or less for small cuts.

    `largest` bounds |S| |T| / |V|^2 of every cut: 1/4 for bipartitions.
    """
    return largest * updates.frieze_kannan(vertices, edges, alpha)


@checked()
def frieze_kannan_centred(vertices: int, edges: int, alpha: float, *, largest: float = 1.0) -> float:
    """T of the cut decomposition started from uniform, with centred cuts: (|V|^2 / m - 1) a (1 - a) / alpha^2.

    a = min(`largest`, 1/2). Every table has total 1, so steps may keep the total: the initial squared distance is
    smaller by 1 / |V|^2, and a step has squared norm |S| |T| (1 - |S| |T| / |V|^2) instead of |S| |T|. At most a
    quarter of `frieze_kannan` at `largest` 1.
    """
    area = min(largest, 0.5)
    return max(0.0, vertices**2 / edges - 1.0) * area * (1 - area) / alpha**2


@checked()
def graph_norm(edges: int, *, multiplicity: int = 1) -> float:
    """A bound on |x|_2 / |x|_1 for m edges, at most `multiplicity` of them identical: (multiplicity / m)^(1/2).

    `multiplicity` is 1 for a simple graph. Both numbers must be public, and `edges` at most the true number.
    """
    return math.sqrt(multiplicity / edges)


@checked()
def dense_from(vertices: int, *, centred: bool = False) -> float:
    """The edges above which the cut decomposition needs fewer updates than multiplicative weights.

    2 |V|^2 / ln(|V|^2), and |V|^2 / (1 + 2 ln(|V|^2)) if centred. On such graphs noise on every pair has a smaller
    error than either: see `rates`.

    >>> round(dense_from(100)), round(dense_from(100, centred=True))
    (2171, 515)
    """
    log_pairs = math.log(vertices**2)
    return vertices**2 / (1 + 2 * log_pairs) if centred else 2 * vertices**2 / log_pairs


@checked()
def log_cuts(vertices: int, *, bipartitions: bool = False) -> float:
    """ln |Q| for all 4^|V| pairs of sets, or for all 2^|V| bipartitions."""
    return vertices * math.log(2 if bipartitions else 4)


class Rates(NamedTuple):
    """Growth of the errors, in edges, up to constants and logarithms of other quantities, at epsilon = 1."""

    multiplicative_weights: float
    frieze_kannan: float
    every_pair: float


@checked()
def rates(vertices: int, edges: int) -> Rates:
    """The largest error over all cuts, by method: sqrt(m |V|) (ln |V|)^(1/4), m^(1/4) |V| and |V|^1.5 edges.

    The decomposition beats multiplicative weights on dense graphs, m above |V|^2 / ln |V|. But there independent noise
    on every pair beats both, m above about |V|^2: on dense graphs measure every pair.
    """
    return Rates(
        multiplicative_weights=math.sqrt(edges * vertices) * math.log(vertices) ** 0.25,
        frieze_kannan=edges**0.25 * vertices,
        every_pair=vertices**1.5,
    )


@checked(delta=PROBABILITY)
def every_pair(
    *, vertices: int, epsilon: float, delta: float, beta: float, largest: float = 1.0, log_queries: float | None = None
) -> float:
    """Error of Gaussian noise on every pair, in edges: s sqrt(a |V|^2) sqrt(2 (ln |Q| + ln(2 / beta))), a = `largest`.

    s = 1 / sqrt(2 rho), since one edge moves one pair by one (add-remove). `log_queries` is ln |Q| (default: all 4^|V|
    cuts). Holds for all of them together with probability 1 - beta. Needs delta > 0.
    """
    log_queries = log_cuts(vertices) if log_queries is None else log_queries
    deviation = math.sqrt(largest * vertices**2 / (2 * zcdp_rho(epsilon, delta)))
    return deviation * math.sqrt(2 * (log_queries + math.log(2 / beta)))
