"""MWEM: point at the worst cell, measure it, update, and replay what was measured — over any hypothesis.

Hardt, Ligett and McSherry's loop with the changes that matter in practice: zCDP accounting, Gaussian measurements,
exact steps, and replay of every past measurement. The hypothesis may be any public model, so this is the loop for
universes that cannot be enumerated: give it `WeightedRecords` over a sample of an earlier release or any public list
of records.
"""

from __future__ import annotations

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, Step, check_dense, rule_out, step_of, tables_of, units_for
from maquette.hypothesis import Hypothesis, MultiplicativeWeights
from maquette.query import LinearQuery, Marginal, Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.progress import Progress

ROWS = 0.02  # of the budget buys a row estimate where the number of rows is private


def mwem(
    curator: Curator,
    workload: Workload,
    *,
    model: Hypothesis | None = None,
    rounds: int = 30,
    replays: int = 5,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    progress: bool | None = None,
) -> Release:
    """Improve `model` (default: dense multiplicative weights with exact steps) for a number of rounds.

    Privacy: each round is one selection and one measurement at equal shares of the charge; rounds are fixed
    beforehand and replays are post-processing. A model given must owe nothing to the rows beyond earlier releases. It
    is updated in place. Accuracy: practical, no theorem beyond that of the hypothesis. Mechanisms §5.4.
    """
    if rounds < 1 or replays < 0:
        raise QueryError(
            f"rounds is {rounds} and replays {replays}", expected="at least 1 round and no negative replays"
        )
    if model is None:
        check_dense(curator.schema)
        model = MultiplicativeWeights(curator.schema, step="exact")
    if model.schema != curator.schema:
        raise QueryError("the model was built for another schema", advice="build it from curator.schema")
    rule_out(model)
    tables = [Marginal(curator.schema, columns) for columns in tables_of(curator.schema, list(workload.marginals))]
    with curator.account("mwem") as account:
        total = units_for(curator, epsilon, rho, units)
        rows = max(1.0, curator.count_rows(units=int(ROWS * total)))
        each = (total - account.units) // (2 * rounds)
        seen: list[tuple[LinearQuery, float]] = []
        trace: list[Step] = []
        with Progress("rounds", rounds, progress) as shown:
            try:
                for done in range(rounds):
                    answers = [model.marginal(table.names) * rows for table in tables]
                    query = DISTINGUISHERS["exponential"].point(curator, tables, answers, units=each).query
                    measured = curator.measure(query, units=each)
                    trace.append(step_of(done + 1, measured, model.answer(query) * rows, rows))
                    value = float(measured.values) / rows
                    seen.append((query, min(1.0, max(0.0, value))))
                    for query, value in [*seen[-1:], *(seen * replays)]:
                        model.update(query, value)
                        rule_out(model)
                    shown.update(done + 1, abs(value - model.answer(query)))
            except KeyboardInterrupt:
                pass  # what has been paid for is released
    certificate = certified(curator, "mwem", account)
    dense = isinstance(model, MultiplicativeWeights)
    finished = DenseModel(curator.schema, model.marginal(curator.schema.names)) if dense else model
    return Release(curator.schema, finished, NoEvidence(rows), certificate, trace=trace)
