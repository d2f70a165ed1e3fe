"""Cut construction: select the cut on which a model errs most, measure it, update; over a listed family of cuts.

The iterative construction with the cuts themselves as queries instead of the pairs of vertices in them: a cut of many
pairs then has the noise of one count, not of all its pairs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS
from maquette.errors import QueryError
from maquette.estimates import NoEvidence, check_dense, rule_out, units_for
from maquette.hypothesis import (
    AnyRule,
    CutDecomposition,
    Hypothesis,
    Perceptron,
    Rule,
    hypothesis_named,
    practical_model,
    rule_of,
)
from maquette.query import Cuts, LinearQuery, Marginal
from maquette.releases.artifact import Release, certified
from maquette.releases.methods.iterative import Parameters, Setting, parameters, setting_of
from maquette.releases.opening import check_promise_of, opening
from maquette.releases.progress import Progress
from maquette.schema import Schema

RULES = ("multiplicative-weights", "cut-decomposition", "perceptron")
PRACTICAL = 0.02  # resolution of a rule that has no steps for practical use
MAX_CUTS = 2**16  # maximum number of cuts: each is scored in every round
MOST_ROUNDS = 60.0  # maximum rounds: more take minutes, and by then noise on every pair is better


def cut_rule_of(schema: Schema, given: AnyRule, *, norm: float, area: float) -> Rule:
    """The update rule for cuts of at most `area` pairs, on tables of norm at most `norm`; public numbers only.

    The cut decomposition and the Perceptron need fewer updates with these two bounds. Other rules do not use them.
    """
    kind = hypothesis_named(given, RULES) if isinstance(given, str) else given
    if kind is CutDecomposition:
        cut = partial(CutDecomposition, schema, step="centred", norm=norm, area=area)
        return Rule(lambda a: cut(alpha=min(a, 1.0)).update_bound, lambda a: cut(alpha=a), name=CutDecomposition.kind)
    if kind is Perceptron:
        vector = partial(Perceptron, schema, norm=norm)
        bound = norm**2 * area  # no step is along more pairs than the largest cut has
        return Rule(lambda a: bound / min(a, 1.0) ** 2, lambda a: vector(alpha=a), name=Perceptron.kind)
    return rule_of(schema, kind)


def cut_construction(
    curator: Curator,
    cuts: Cuts,
    *,
    hypothesis: AnyRule = "multiplicative-weights",
    calibration: Literal["practical", "theory"] = "practical",
    norm: float = 1.0,
    rounds: int | None = None,
    replays: int = 2,
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
    progress: bool | None = None,
) -> Release:
    """Release a model of the graph that answers the listed cuts.

    Privacy: of edges, not of vertices. Each round is one `select_worst` among the cuts and one `measure` of the worst,
    at most `rounds` of them (T in theory), charged as they happen; where the number of edges is private, an estimate
    of it costs a hundredth of the budget. One edge moves one cut by at most one, under both relations.

    Accuracy: calibration="practical" makes `rounds` rounds (default: 3 to 60, more with more edges and budget) with
    exact steps and replays, without a theorem. "theory" states one: with probability 1 - `beta` every listed cut is
    within alpha of the table, alpha = a' + 2 Nb + F (certificate.accuracy). `norm` is a public bound on
    ||x||_2 / ||x||_1, m^(-1/2) for a simple graph of m edges; the cut decomposition and the Perceptron need one to
    promise anything. `rows` is the number of edges, if that is public. `hypothesis` is an update rule, by its name, its
    class or as a `Rule`, or a fresh model. Time: about a quarter of a millisecond for each
    cut and round. Mechanisms §5.1, §11.
    """
    _check(cuts, curator, calibration, rounds=rounds, replays=replays, beta=beta, rows=rows)
    rule = cut_rule_of(curator.schema, hypothesis, norm=norm, area=float(cuts.areas.max()))
    rule.start(1.0)  # refuses an invalid norm
    with curator.account("cut-construction") as account:
        setting = _prepare(curator, cuts, rows, beta, units_for(curator, epsilon, rho))
        loop = _Loop(curator, cuts, setting)
        if calibration == "theory":
            found = parameters(curator, rule, setting, distinguisher=DISTINGUISHERS["exponential"], constants="tight")
            model = loop.until_close(rule.start(found.resolution), found)
            promise = f"every listed cut within {found.alpha:.4g} of the edges with probability {1 - beta:.3g}"
        else:
            count = _rounds(curator, setting) if rounds is None else rounds
            fresh = practical_model(curator.schema, hypothesis, rows=setting.rows, alpha=PRACTICAL, known=RULES)
            model, promise = loop.replayed(fresh, count, replays, progress), None
    method = f"cut-construction ({rule.name}, {calibration})"
    certificate = certified(curator, method, account, accuracy=promise)
    return Release(curator.schema, model, NoEvidence(setting.rows), certificate)


class _Loop:
    """Rounds of selection and measurement over the cuts."""

    def __init__(self, curator: Curator, cuts: Cuts, setting: Setting) -> None:
        self._curator = curator
        self._cuts = cuts
        self._setting = setting

    def until_close(self, model: Hypothesis, found: Parameters) -> Hypothesis:
        """At most T rounds; stops when the worst cut is close."""
        rule_out(model)
        for _ in range(found.rounds):
            query, value = self._round(model, found.select_units, found.measure_units)
            if abs(value - model.answer(query)) < found.threshold:
                break
            model.update(query, value)
            rule_out(model)
        return model

    def replayed(self, model: Hypothesis, rounds: int, replays: int, progress: bool | None) -> Hypothesis:
        """`rounds` rounds; after each, the model is updated again with all earlier measurements."""
        rule_out(model)
        each = int(self._setting.units / (2 * rounds))
        seen: list[tuple[LinearQuery, float]] = []
        with Progress("rounds", rounds, progress) as shown:
            try:
                for done in range(rounds):
                    query, value = self._round(model, each, each)
                    shown.update(done + 1, abs(value - model.answer(query)))
                    seen.append((query, min(1.0, max(0.0, value))))
                    for query, value in [*seen[-1:], *(seen * replays)]:
                        model.update(query, value)
                        rule_out(model)
            except KeyboardInterrupt:
                pass  # what has been paid for is released
        return model

    def _round(self, model: Hypothesis, select: int, measure: int) -> tuple[LinearQuery, float]:
        answers: list[np.ndarray] = list(self._cuts.answers(model) * self._setting.rows)
        tables = self._setting.tables
        query = DISTINGUISHERS["exponential"].point(self._curator, tables, answers, units=select).query
        measured = self._curator.measure(query, units=measure)
        return query, float(measured.values) / self._setting.rows


def _check(
    cuts: object,
    curator: Curator,
    calibration: str,
    *,
    rounds: int | None,
    replays: int,
    beta: float,
    rows: int | None,
) -> None:
    """Refuse invalid arguments before anything is charged."""
    if not isinstance(cuts, Cuts):
        raise QueryError(f"got {type(cuts).__name__}", expected="cuts made by cuts, bipartitions or degrees")
    if cuts.schema != curator.schema:
        raise QueryError("the cuts were built for another schema", advice="build them from curator.schema")
    if calibration not in ("practical", "theory"):
        raise QueryError(f"calibration is {calibration!r}", expected="one of practical, theory")
    if (rounds is not None and rounds < 1) or replays < 0:
        raise QueryError(
            f"rounds is {rounds} and replays {replays}", expected="at least 1 round and no negative replays"
        )
    check_promise_of(beta, rows, "edge")
    if cuts.size > MAX_CUTS:
        raise QueryError(f"{cuts.size:,} cuts are more than the {MAX_CUTS:,} that can be compared", advice="list fewer")
    check_dense(curator.schema)


def _prepare(curator: Curator, cuts: Cuts, rows: int | None, beta: float, units: int) -> Setting:
    """The cuts in the form that the doors take, and the number of edges, bought where it is private."""
    tables = [Marginal(curator.schema, (), query) for query in cuts]
    moves = max(-(-curator.relation.one_cell(table) // table.grid) for table in tables)
    begun = opening(curator, units, rows=rows, beta=beta)
    rounded = begun.rows / max(table.grid for table in tables) if cuts.weighted else 0.0  # weights, at the wall
    return setting_of(tables, moves, replace(begun, slack=begun.slack + rounded))


def _rounds(curator: Curator, setting: Setting) -> int:
    """The number of rounds that balances the error of too few rounds with the noise of each; constants found by trial.

    From public and paid-for numbers. Noise grows with the root of the rounds under zCDP, with the rounds under pure DP.
    """
    accountant, moves = curator.budget.accountant, setting.moves
    if accountant.currency == "pure":
        precision = setting.rows / (math.sqrt(2) * float(accountant.laplace_scale(int(setting.units), Fraction(moves))))
        found = precision ** (2 / 3) / 16
    else:
        variance = accountant.gaussian_variance(int(setting.units), Fraction(moves**2))
        found = setting.rows / math.sqrt(variance) * math.sqrt(math.log(curator.schema.size)) / 42
    return int(min(MOST_ROUNDS, max(3.0, found)))
