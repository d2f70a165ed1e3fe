"""The mechanisms a plan compares: for each, the error it promises and the sizes it can run at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from maquette.theory import game, net, offline, online
from maquette.theory.planning import bounds, obstacles, times
from maquette.theory.planning.question import Bound, Question

COUNT_SHARE = 0.05  # share of epsilon and of beta for the private row count under add-remove

Promised = Callable[[Question], Bound]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One line of a plan: its bound under a pure budget, under (epsilon, delta), or both, and why it cannot run.

    A bound that is not `proved` is what is expected, of noise alone or on average: no theorem for the worst query.
    """

    name: str
    title: str
    pure: Promised | None = None
    approximate: Promised | None = None
    accounting: str = "zcdp"
    obstacle: Callable[[Question, Bound], str | None]
    needs_row_count: bool = True
    proved: bool = True
    general: bool = True  # whether it promises this for any linear queries
    time: times.Time = times.loop
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


def either(name: str, title: str, bound: Callable[..., Bound], **facts: Any) -> Mechanism:
    """A mechanism whose bound is stated for pure and for approximate budgets, by `bound(question, pure=...)`."""
    return Mechanism(
        name=name, title=title, pure=partial(bound, pure=True), approximate=partial(bound, pure=False), **facts
    )


def constructed(
    name: str,
    title: str,
    rule: bounds.RuleOf,
    solver: Callable[..., Any] = offline.tight,
    **facts: Any,
) -> Mechanism:
    """A construction with an update rule: offline or online, by its solver."""
    usual = {"time": times.online} if solver in (online.tight, online.book) else {}
    return either(name, title, partial(bounds.loop, solver=solver, rule=rule), **(usual | facts))


def listed(name: str, title: str, solve: Callable[..., Any], reference: str) -> Mechanism:
    """One selection from a net of all that some rule makes."""
    bound = partial(bounds.listed, solve=solve)
    return Mechanism(name=name, title=title, pure=bound, time=times.listed, obstacle=obstacles.net, reference=reference)


def lazily(name: str, title: str, bound: Promised, reference: str) -> Mechanism:
    """An online mechanism behind a guard without threshold noise."""
    return Mechanism(
        name=name,
        title=title,
        approximate=bound,
        accounting="lazy rounds",
        time=times.online,
        obstacle=obstacles.dense,
        reference=reference,
    )


NOISE: dict[str, Any] = {"needs_row_count": False, "time": times.noise, "obstacle": obstacles.streamed}
GAUSSIAN = "Bun and Steinke 2016, proposition 1.6"
BOOK = {"accounting": "advanced"}
EXPECTED: dict[str, Any] = {"proved": False, "general": False}

MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="laplace",
        title="Laplace noise on each query",
        pure=bounds.laplace,
        reference="Dwork and Roth, theorem 3.8",
        **NOISE,
    ),
    Mechanism(
        name="gaussian",
        title="Gaussian noise on each query",
        approximate=bounds.gaussian,
        reference=GAUSSIAN,
        **NOISE,
    ),
    Mechanism(
        name="histogram",
        title="Gaussian noise on the whole histogram",
        approximate=bounds.histogram,
        reference=GAUSSIAN,
        **{**NOISE, "time": times.histogram, "obstacle": obstacles.dense},
    ),
    listed("small-db", "SmallDB", net.small_db, "Dwork and Roth, proposition 5.2"),
    listed(
        "dual-net",
        "Net of the transcripts of weights",
        net.dual_net_accuracy,
        "Dwork and Roth, section 5.3.1, corrected",
    ),
    constructed(
        "median-ic",
        "Iterative construction, median",
        bounds.median,
        time=times.halved,
        obstacle=obstacles.median,
        reference="Dwork and Roth, theorems 5.8 and 5.10, corrected",
    ),
    constructed(
        "functions",
        "Any functions of low sensitivity, median of all tables",
        bounds.every_table,
        time=times.halved,
        obstacle=obstacles.median,
        reference="Dwork and Roth, theorem 5.9, corrected",
    ),
    constructed(
        "mw-ic-book",
        "Iterative construction, weights, book constants",
        bounds.weights_book,
        offline.book,
        obstacle=obstacles.selected,
        reference="Dwork and Roth, theorem 5.7, corrected",
        **BOOK,
    ),
    constructed(
        "mw-ic",
        "Iterative construction, weights, tight",
        bounds.weights,
        obstacle=obstacles.selected,
        reference="Mechanisms §5.1",
    ),
    either(
        "mw-averaged",
        "Averaged weights, directions only",
        partial(bounds.dense, solve=offline.averaged),
        obstacle=obstacles.averaged,
        reference="Mechanisms §5.3",
    ),
    constructed(
        "perceptron-ic",
        "Iterative construction, perceptron",
        bounds.perceptron,
        obstacle=obstacles.vectors,
        reference="Dwork and Roth, theorem 5.12, corrected",
    ),
    constructed(
        "mirror-ic",
        "Iterative construction, mirror descent",
        bounds.mirror,
        obstacle=obstacles.vectors,
        reference="Jain and Thakurta 2012; Mechanisms §4.2",
    ),
    constructed(
        "online-book",
        "Online weights, book constants",
        bounds.weights_book,
        online.book,
        obstacle=obstacles.dense,
        reference="Dwork and Roth, theorems 5.14 and 5.15, corrected",
        **BOOK,
    ),
    constructed(
        "online",
        "Online weights, tight",
        bounds.weights,
        online.tight,
        obstacle=obstacles.dense,
        reference="Mechanisms §6.4",
    ),
    lazily(
        "online-lazy",
        "Online weights, no threshold noise",
        partial(bounds.loop, solver=online.lazy, rule=bounds.weights, pure=False),
        "Mechanisms §6.3",
    ),
    lazily(
        "online-lecture",
        "Private multiplicative weights, as the lecture has it",
        partial(bounds.dense, solve=online.lecture, pure=False),
        "Lecture on many queries, theorem 8, corrected",
    ),
    either(
        "dual-query",
        "DualQuery, cells of marginals",
        partial(bounds.played, solve=game.dual_query),
        general=False,
        time=times.solver,
        obstacle=obstacles.played,
        reference="Gaboardi et al. 2014; Mechanisms §7.2",
    ),
    either(
        "both-learn",
        "Both players learn, cells of marginals",
        partial(bounds.played, solve=game.both_learn),
        general=False,
        obstacle=obstacles.averaged,
        reference="Mechanisms §7.1",
    ),
    constructed(
        "sparse-ic",
        "Sparse weights, look-ups of one point",
        bounds.points,
        time=times.noise,
        obstacle=obstacles.streamed,
        general=False,
        reference="Mechanisms §4.7",
    ),
    constructed(
        "cuts",
        "Cut decomposition, cuts of a simple graph",
        bounds.cuts,
        obstacle=obstacles.cuts,
        general=False,
        reference="Gupta, Roth and Ullman 2012; Mechanisms §4.6",
    ),
    constructed(
        "distances",
        "Separable weights, distances to sites",
        bounds.distances,
        time=times.columns,
        obstacle=obstacles.sites,
        general=False,
        reference="Huang and Roth 2014; Mechanisms §4.8",
    ),
    Mechanism(
        name="coefficients",
        title="Parities of k columns, conjunctions",
        approximate=bounds.coefficients,
        time=times.parities,
        obstacle=obstacles.parities,
        needs_row_count=False,
        general=False,
        reference="Mechanisms §8.6",
    ),
    Mechanism(
        name="projection",
        title="Projection of parities, on average",
        approximate=bounds.projected,
        time=times.projection,
        obstacle=obstacles.projected,
        reference="Dwork, Nikolov and Talwar 2015; Mechanisms §8.7",
        **EXPECTED,
    ),
    either(
        "everything",
        "Everything: noise on all tables, before the fit",
        partial(bounds.tables, count=bounds.all_tables),
        time=times.histogram,
        obstacle=obstacles.dense,
        needs_row_count=False,
        reference="expected; maquette.releases.everything",
        **EXPECTED,
    ),
    either(
        "graphical",
        "Graphical model: noise of what it measures",
        partial(bounds.tables, count=bounds.tree_tables),
        time=times.noise,
        obstacle=obstacles.nothing,
        needs_row_count=False,
        reference="expected, without what the model leaves out; maquette.releases.graphical",
        **EXPECTED,
    ),
)
