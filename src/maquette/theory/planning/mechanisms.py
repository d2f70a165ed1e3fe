"""The mechanisms a plan compares: for each, the error it promises and the sizes it can run at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from maquette.privacy import zcdp_rho
from maquette.theory import net, noise, offline, online, updates
from maquette.theory.offline import Construction

# Sizes that fit two cores and 16 GB; Mechanisms §15.
MAX_STREAMED = 10**8
MAX_SELECTED = 10**6
MAX_CELLS = 2**24
MAX_AVERAGED_CELLS, MAX_AVERAGED_ROUNDS = 2**20, 10**5
MAX_PERCEPTRON_CELLS = 10**7
MAX_NET, MAX_MEDIAN_NET = 10**7, 10**6

COUNT_SHARE = 0.05  # share of epsilon and of beta for the private row count under add-remove


@dataclass(frozen=True, kw_only=True)
class Question:
    """The public facts a promise depends on."""

    rows: int
    universe: int
    queries: int
    epsilon: float
    delta: float
    beta: float
    relation: Literal["replace", "add-remove"]

    @property
    def rho(self) -> float:
        """The zCDP budget that (epsilon, delta) buys."""
        return zcdp_rho(self.epsilon, self.delta)


class Bound(NamedTuple):
    """A promised error, with the rounds of a loop and ln of the size of a net where they apply."""

    error: float
    rounds: int = 1
    log_members: float = 0.0


Promised = Callable[[Question], Bound]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One line of a plan: its bound under a pure budget, under (epsilon, delta), or both, and why it cannot run."""

    name: str
    title: str
    pure: Promised | None = None
    approximate: Promised | None = None
    accounting: str = "zcdp"
    obstacle: Callable[[Question, Bound], str | None]
    needs_row_count: bool = True
    experimental: bool = False
    reference: str

    def promise(self, question: Question) -> tuple[Bound, str]:
        """The better bound that this budget allows, and its accounting; an infinite error if there is none.

        Under add-remove a model of fractions is scaled by a row count m bought first, with Laplace noise at a share of
        epsilon. Its error adds once: |n f(x) - m f(D)| <= n |f(x) - f(D)| + |n - m|, in the answers and, since
        thresholds are raised by as much, in the proof that every update is justified. Mechanisms §0.1.
        """
        extra = 0.0
        if question.relation == "add-remove" and self.needs_row_count:
            share = COUNT_SHARE
            extra = math.log(1 / (share * question.beta)) / (share * question.epsilon * question.rows)
            question = replace(question, epsilon=(1 - share) * question.epsilon, beta=(1 - share) * question.beta)
        found = []
        if self.pure is not None:
            found.append((self.pure(question), "pure"))
        if self.approximate is not None and question.delta > 0:
            found.append((self.approximate(question), self.accounting))
        bound, accounting = min(found, key=lambda each: each[0].error, default=(Bound(math.inf), self.accounting))
        return bound._replace(error=bound.error + extra), accounting


def _laplace(q: Question) -> Bound:
    return Bound(noise.laplace_accuracy(queries=q.queries, epsilon=q.epsilon, rows=q.rows, beta=q.beta))


def _gaussian(q: Question) -> Bound:
    return Bound(noise.gaussian_accuracy(queries=q.queries, rho=q.rho, rows=q.rows, beta=q.beta))


def _histogram(q: Question) -> Bound:
    error = noise.histogram_accuracy(
        universe=q.universe, queries=q.queries, rho=q.rho, rows=q.rows, beta=q.beta, relation=q.relation
    )
    return Bound(error)


def _small_db(q: Question) -> Bound:
    best = net.small_db(universe=q.universe, queries=q.queries, epsilon=q.epsilon, rows=q.rows, beta=q.beta)
    return Bound(best.alpha, log_members=best.log_members)


def _averaged(q: Question, *, pure: bool) -> Bound:
    best = offline.averaged(
        universe=q.universe,
        queries=q.queries,
        epsilon=q.epsilon,
        delta=0.0 if pure else q.delta,
        rows=q.rows,
        beta=q.beta,
    )
    return Bound(best.alpha, best.rounds)


def loop(
    q: Question,
    *,
    solver: Callable[..., Construction | float],
    rule: Callable[[Question], updates.Updates],
    pure: bool,
) -> Bound:
    """The bound of a construction with an update rule."""
    best = solver(
        updates=rule(q),
        queries=q.queries,
        epsilon=q.epsilon,
        delta=0.0 if pure else q.delta,
        rows=q.rows,
        beta=q.beta,
    )
    return Bound(best) if isinstance(best, float) else Bound(best.alpha, best.rounds)


def _weights(q: Question) -> updates.Updates:
    return partial(updates.multiplicative_weights, q.universe)


def _weights_book(q: Question) -> updates.Updates:
    return partial(updates.multiplicative_weights_book, q.universe)


def _perceptron(q: Question) -> updates.Updates:
    return partial(updates.perceptron, q.universe)


def _median(q: Question) -> updates.Updates:
    """Small databases or, if the row count is public, all databases of that size, whichever needs fewer updates."""
    small = partial(updates.median_small_databases, q.universe, q.queries)
    if q.relation == "add-remove":
        return small
    whole = updates.median(net.log_multisets(q.universe, q.rows))
    return lambda alpha: min(small(alpha), whole)


def _too_many(what: str, size: int, most: int) -> str | None:
    return f"{what}: {magnitude(size)}, at most {magnitude(most)}" if size > most else None


def _streamed(q: Question, bound: Bound) -> str | None:
    return _too_many("queries", q.queries, MAX_STREAMED)


def _dense(q: Question, bound: Bound) -> str | None:
    return _too_many("cells", q.universe, MAX_CELLS)


def selected(q: Question, bound: Bound) -> str | None:
    """Why the queries cannot all be scored in every round; None if they can."""
    return _dense(q, bound) or _too_many("queries", q.queries, MAX_SELECTED)


def _average_obstacle(q: Question, bound: Bound) -> str | None:
    return (
        _too_many("cells", q.universe, MAX_AVERAGED_CELLS)
        or _too_many("queries", q.queries, MAX_SELECTED)
        or _too_many("rounds", bound.rounds, MAX_AVERAGED_ROUNDS)
    )


def _perceptron_obstacle(q: Question, bound: Bound) -> str | None:
    cells = _too_many("cells", q.universe, MAX_PERCEPTRON_CELLS)
    return cells or _too_many("queries", q.queries, MAX_SELECTED)


def _net_obstacle(q: Question, bound: Bound) -> str | None:
    if bound.log_members > math.log(MAX_NET):
        return f"databases in the net: 10^{bound.log_members / math.log(10):.0f}, at most {magnitude(MAX_NET)}"
    return None


def _median_obstacle(q: Question, bound: Bound) -> str | None:
    if bound.rounds >= math.log2(MAX_MEDIAN_NET):
        return f"databases in the net: 2^{magnitude(bound.rounds)}, at most {magnitude(MAX_MEDIAN_NET)}"
    return None


def magnitude(number: int) -> str:
    """A whole number as people read it: 1,048,576 or about 10^60."""
    return f"{number:,}" if number < 10**12 else f"10^{math.log10(number):.3g}"


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="laplace",
        title="Laplace noise on each query",
        pure=_laplace,
        obstacle=_streamed,
        needs_row_count=False,
        reference="Dwork and Roth, theorem 3.8",
    ),
    Mechanism(
        name="gaussian",
        title="Gaussian noise on each query",
        approximate=_gaussian,
        obstacle=_streamed,
        needs_row_count=False,
        reference="Bun and Steinke 2016, proposition 1.6",
    ),
    Mechanism(
        name="histogram",
        title="Gaussian noise on the whole histogram",
        approximate=_histogram,
        obstacle=_dense,
        needs_row_count=False,
        reference="Bun and Steinke 2016, proposition 1.6",
    ),
    Mechanism(
        name="small-db",
        title="SmallDB",
        pure=_small_db,
        obstacle=_net_obstacle,
        reference="Dwork and Roth, proposition 5.2",
    ),
    Mechanism(
        name="median-ic",
        title="Iterative construction, median",
        pure=partial(loop, solver=offline.tight, rule=_median, pure=True),
        approximate=partial(loop, solver=offline.tight, rule=_median, pure=False),
        obstacle=_median_obstacle,
        reference="Dwork and Roth, theorems 5.8 and 5.10, corrected",
    ),
    Mechanism(
        name="mw-ic-book",
        title="Iterative construction, weights, book constants",
        pure=partial(loop, solver=offline.book, rule=_weights_book, pure=True),
        approximate=partial(loop, solver=offline.book, rule=_weights_book, pure=False),
        accounting="advanced",
        obstacle=selected,
        reference="Dwork and Roth, theorem 5.7, corrected",
    ),
    Mechanism(
        name="mw-ic",
        title="Iterative construction, weights, tight",
        pure=partial(loop, solver=offline.tight, rule=_weights, pure=True),
        approximate=partial(loop, solver=offline.tight, rule=_weights, pure=False),
        obstacle=selected,
        reference="Mechanisms §5.1",
    ),
    Mechanism(
        name="mw-averaged",
        title="Averaged weights, directions only",
        pure=partial(_averaged, pure=True),
        approximate=partial(_averaged, pure=False),
        obstacle=_average_obstacle,
        reference="Mechanisms §5.3",
    ),
    Mechanism(
        name="perceptron-ic",
        title="Iterative construction, perceptron",
        pure=partial(loop, solver=offline.tight, rule=_perceptron, pure=True),
        approximate=partial(loop, solver=offline.tight, rule=_perceptron, pure=False),
        obstacle=_perceptron_obstacle,
        reference="Dwork and Roth, theorem 5.12, corrected",
    ),
    Mechanism(
        name="online-book",
        title="Online weights, book constants",
        pure=partial(loop, solver=online.book, rule=_weights_book, pure=True),
        approximate=partial(loop, solver=online.book, rule=_weights_book, pure=False),
        accounting="advanced",
        obstacle=_dense,
        reference="Dwork and Roth, theorems 5.14 and 5.15, corrected",
    ),
    Mechanism(
        name="online",
        title="Online weights, tight",
        approximate=partial(loop, solver=online.tight, rule=_weights, pure=False),
        obstacle=_dense,
        reference="Mechanisms §6.4",
    ),
    Mechanism(
        name="online-lazy",
        title="Online weights, no threshold noise",
        approximate=partial(loop, solver=online.lazy, rule=_weights, pure=False),
        accounting="lazy rounds",
        obstacle=_dense,
        experimental=True,
        reference="Mechanisms §6.3",
    ),
)
