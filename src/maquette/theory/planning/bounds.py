"""The bound of every mechanism of a plan: from the question's public facts to an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

from maquette.theory import game, net, noise, projection, updates
from maquette.theory.offline import Construction
from maquette.theory.planning.question import Bound, Question
from maquette.theory.solve import power

RuleOf = Callable[[Question], updates.Updates]


def laplace(q: Question) -> Bound:
    """Laplace noise on each query."""
    return Bound(noise.laplace_accuracy(queries=q.queries, epsilon=q.epsilon, rows=q.rows, beta=q.beta))


def gaussian(q: Question) -> Bound:
    """Gaussian noise on each query."""
    return Bound(noise.gaussian_accuracy(queries=q.queries, rho=q.rho, rows=q.rows, beta=q.beta))


def histogram(q: Question) -> Bound:
    """Gaussian noise on every cell of the universe."""
    facts = {"universe": q.universe, "queries": q.queries, "rho": q.rho, "rows": q.rows, "beta": q.beta}
    return Bound(noise.histogram_accuracy(**facts, relation=q.relation))  # type: ignore[arg-type]


def listed(q: Question, *, solve: Callable[..., net.Net]) -> Bound:
    """A net of listed candidates: small databases, or transcripts of an update rule."""
    best = solve(universe=q.universe, queries=q.queries, epsilon=q.epsilon, rows=q.rows, beta=q.beta)
    return Bound(best.alpha, log_members=best.log_members)


def dense(q: Question, *, solve: Callable[..., Construction], pure: bool) -> Bound:
    """Multiplicative weights with parameters of their own: averaged, or the lecture's."""
    best = solve(
        universe=q.universe,
        queries=q.queries,
        epsilon=q.epsilon,
        delta=0.0 if pure else q.delta,
        rows=q.rows,
        beta=q.beta,
    )
    return Bound(best.alpha, best.rounds)


def loop(q: Question, *, solver: Callable[..., Construction | float], rule: RuleOf, pure: bool) -> Bound:
    """The bound of a construction with an update rule."""
    best = solver(
        updates=rule(q),
        queries=q.queries,
        epsilon=q.epsilon,
        delta=0.0 if pure else q.delta,
        rows=q.rows,
        beta=q.beta,
    )
    if isinstance(best, float):  # the book's solvers: T(alpha / 2) rounds
        return Bound(best, max(1, int(min(rule(q)(best / 2), 1e60))))
    return Bound(best.alpha, best.rounds)


def played(q: Question, *, solve: Callable[..., game.Play], pure: bool) -> Bound:
    """A game over the cells of marginals."""
    best = solve(
        log_universe=math.log(q.universe),
        queries=q.queries,
        rows=q.rows,
        amount=q.epsilon if pure else q.rho,
        pure=pure,
        beta=q.beta,
    )
    return Bound(best.alpha, best.rounds)


def coefficients(q: Question) -> Bound:
    """All parities of at most k two-level columns: a conjunction of k adds 2^k of them, each with weight 2^-k."""
    k, _ = q.order
    many = sum(math.comb(len(q.columns), size) for size in range(1, k + 1))
    moved = 2.0 if q.relation == "replace" else 1.0
    scale = moved * math.sqrt(many / (2 * q.rho)) / q.rows
    return Bound(scale * 2 ** (-k / 2) * math.sqrt(2 * math.log(2 * q.queries / q.beta)))


def projected(q: Question) -> Bound:
    """The root mean squared error of parities of at most four columns after a projection: an average, not the worst."""
    columns, k = max(4, len(q.columns)), min(4, max(2, q.order[0]))
    moved = 4.0 if q.relation == "replace" else 1.0
    return Bound(projection.error(attributes=columns, k=k, rho=q.rho / moved, rows=q.rows, beta=q.beta))


def tables(q: Question, *, count: Callable[[Question], int], pure: bool) -> Bound:
    """The expected largest noise of all cells where `count` whole tables are measured with equal shares."""
    many, ends = count(q), 2.0 if q.relation == "replace" else 1.0
    if pure:
        return Bound(ends * many / (q.epsilon * q.rows) * (math.log(q.queries) + 0.5772))
    scale = math.sqrt(ends * many / (2 * q.rho)) / q.rows
    return Bound(scale * math.sqrt(2 * math.log(2 * q.queries)))


def all_tables(q: Question) -> int:
    """Every table that has the queries as cells."""
    return q.order[1]


def tree_tables(q: Question) -> int:
    """What a graphical model measures: every column, and about two pairs for each."""
    columns = len(q.columns)
    return columns + min(2 * columns, math.comb(columns, 2))


# Bounds T on updates, as functions of the question.


@lru_cache(maxsize=2**14)
def _remembered(bound: Callable[..., float], *facts: float) -> float:
    """A bound on updates that takes a search, at the same resolutions for every number of rows and every budget."""
    return bound(*facts)


def _quadratic(at_one: float) -> updates.Updates:
    """T(alpha) = T(1) / alpha^2, as most rules have it."""
    return lambda alpha: at_one / alpha**2


def points(q: Question) -> updates.Updates:
    """Sparse weights on look-ups of one point."""
    return partial(_remembered, updates.sparse, 1)


def weights(q: Question) -> updates.Updates:
    """Multiplicative weights, tight."""
    return _quadratic(updates.multiplicative_weights(q.universe, 1.0))


def weights_book(q: Question) -> updates.Updates:
    """Multiplicative weights with the book's steps."""
    return _quadratic(updates.multiplicative_weights_book(q.universe, 1.0))


def perceptron(q: Question) -> updates.Updates:
    """The perceptron, with the norms of the question if they are Euclidean."""
    own = {"norm": q.norm, "query_norm": q.query_norm} if q.p in (None, 2.0) else {}
    return _quadratic(updates.perceptron(q.universe, 1.0, **own))  # type: ignore[arg-type]


def mirror(q: Question) -> updates.Updates:
    """Mirror descent at the question's p, or the one that behaves as weights, with its norms."""
    p = updates.default_p(q.universe) if q.p is None else q.p
    return _quadratic(updates.p_norm(q.universe, 1.0, p, q.norm, q.query_norm))


def cuts(q: Question) -> updates.Updates:
    """The cut decomposition of a simple graph whose rows are edges: a universe of pairs of vertices."""
    return _quadratic(power(q.universe, 1.0) / q.rows)  # `updates.frieze_kannan`, for a graph of any size


def distances(q: Question) -> updates.Updates:
    """One histogram for each column."""
    return _quadratic(sum(map(math.log, q.columns)) / (2 * len(q.columns)))


def every_table(q: Question) -> updates.Updates:
    """The median of all tables of this many rows: any functions of low sensitivity."""
    halvings = updates.median(net.log_multisets(q.universe, q.rows))
    return lambda alpha: halvings


def median(q: Question) -> updates.Updates:
    """Small databases or, if the row count is public, all databases of that size, whichever needs fewer updates."""
    small = partial(_remembered, updates.median_small_databases, q.universe, q.queries)
    if q.relation == "add-remove":
        return small
    whole = every_table(q)
    return lambda alpha: min(small(alpha), whole(alpha))
