"""MWEM: point at the worst cell, measure it, update, and replay what was measured — over any hypothesis.

Hardt, Ligett and McSherry's loop with the changes that matter in practice: zCDP accounting, Gaussian measurements,
exact steps, and replay of every past measurement. The hypothesis may be any public model, so this is the loop for
universes that cannot be enumerated: give it `WeightedRecords` over a sample of an earlier release or any public list
of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from maquette.curator import Curator
from maquette.distinguisher import Distinguisher, distinguisher_of
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, Step, check_dense, rule_out, step_of, units_for
from maquette.hypothesis import AnyRule, Hypothesis, MultiplicativeWeights, Rule, check_query, practical_model, rule_of
from maquette.query import LinearQuery, Marginal, Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.progress import Progress

ROWS = 0.02  # share of the budget that buys a row estimate where the number of rows is private
FINEST = 1e-6  # resolution of a rule if there is almost no noise


def mwem(
    curator: Curator,
    workload: Workload,
    *,
    model: AnyRule | None = None,
    distinguisher: str | Distinguisher = "exponential",
    rounds: int = 30,
    replays: int = 5,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    progress: bool | None = None,
) -> Release:
    """Improve `model` (default: dense multiplicative weights with exact steps) for `rounds` rounds.

    Privacy: each round is one selection and one measurement at equal shares of the charge; rounds are fixed beforehand
    and replays are post-processing. A given model may depend on the rows only through earlier releases; it is updated
    in place. An update rule (by its name, its class or as a `Rule`) starts a fresh one: with its own steps for
    practical use if it has them, else with steps for errors as large as the noise of one measurement. Accuracy:
    practical, no theorem beyond that of the hypothesis. Mechanisms §5.4.
    """
    if rounds < 1 or replays < 0:
        raise QueryError(
            f"rounds is {rounds} and replays {replays}", expected="at least 1 round and no negative replays"
        )
    pointer, begin = distinguisher_of(distinguisher), _beginning(curator, model)
    tables = [Marginal(curator.schema, columns) for columns in workload.tables]
    with curator.account("mwem") as account:
        total = units_for(curator, epsilon, rho, units)
        rows = max(1.0, curator.count_rows(units=int(ROWS * total)))
        each = (total - account.units) // (2 * rounds)
        fitted = begin(rows, each)
        rule_out(fitted)
        seen: list[tuple[LinearQuery, float]] = []
        trace: list[Step] = []
        with Progress("rounds", rounds, progress) as shown:
            try:
                for done in range(rounds):
                    answers = [fitted.marginal(table.names) * rows for table in tables]
                    query = pointer.point(curator, tables, answers, units=each).query
                    check_query(fitted, query)
                    measured = curator.measure(query, units=each)
                    trace.append(step_of(done + 1, measured, fitted.answer(query) * rows, rows))
                    value = float(measured.values) / rows
                    seen.append((query, min(1.0, max(0.0, value))))
                    for query, value in [*seen[-1:], *(seen * replays)]:
                        fitted.update(query, value)
                        rule_out(fitted)
                    shown.update(done + 1, abs(value - fitted.answer(query)))
            except KeyboardInterrupt:
                pass  # what has been paid for is released
    certificate = certified(curator, "mwem", account)
    dense = isinstance(fitted, MultiplicativeWeights)
    finished = DenseModel(curator.schema, fitted.marginal(curator.schema.names)) if dense else fitted
    return Release(curator.schema, finished, NoEvidence(rows), certificate, trace=trace)


def _beginning(curator: Curator, model: AnyRule | None) -> Callable[[float, float], Hypothesis]:
    """The function that makes the first model from rows and units of a measurement; invalid models are refused here."""
    schema = curator.schema
    if model is None:
        check_dense(schema)
        return lambda rows, units: MultiplicativeWeights(schema, step="exact")
    if isinstance(model, str | type | Rule):
        rule_of(schema, model)
        return lambda rows, units: practical_model(schema, model, rows=rows, alpha=_noise(curator, rows, units))
    if model.schema != schema:
        raise QueryError("the model was built for another schema", advice="build it from curator.schema")
    return lambda rows, units: model


def _noise(curator: Curator, rows: float, units: float) -> float:
    """The standard deviation of one measurement, as a fraction of rows: the resolution of its values."""
    accountant, moves = curator.budget.accountant, curator.relation.max_contributions
    if accountant.currency == "pure":
        deviation = math.sqrt(2) * float(accountant.laplace_scale(int(units), Fraction(moves)))
    else:
        deviation = math.sqrt(accountant.gaussian_variance(int(units), Fraction(moves**2)))
    return min(1.0, max(FINEST, deviation / rows))
