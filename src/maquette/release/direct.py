"""`answer`: one question, measured directly — the simplest private answer there is."""

from __future__ import annotations

import hashlib

from maquette.curator import Curator, Law, Measurement
from maquette.privacy import Loss
from maquette.privacy.interval import check_confidence
from maquette.query import Buckets, Expression, LinearQuery, Marginal, Statement, question
from maquette.release.answer import Answer, AnswerTable
from maquette.release.assemble import assemble


def answer(
    curator: Curator,
    asked: str | Expression | LinearQuery,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    noise: Law = "auto",
    confidence: float = 0.95,
    analyst: str = "custodian",
    request: str | None = None,
) -> Answer | AnswerTable:
    """Answer SQL or a predicate for `epsilon` (at the budget's delta) or `rho`.

    A predicate is answered by the fraction of rows on which it holds; SQL by the numbers SQL would return, one row
    for every declared group. Asking the same question again at the same price returns the recorded answer and charges
    nothing; give `request` a name of your own to measure it afresh.

    Privacy: one `Curator.measure_many`; all else is post-processing.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [30, 70], "smoker": [True, False]}, schema)
    >>> curator = mq.Curator(table, mq.Budget(epsilon=1.0))
    >>> first = mq.answer(curator, "SELECT count(*) FROM people WHERE age >= 65", epsilon=0.5)
    >>> again = mq.answer(curator, "SELECT count(*) FROM people WHERE NOT age < 65", epsilon=0.5)
    >>> first.count == again.count, curator.spent.epsilon
    (True, 0.5)
    """
    check_confidence(confidence)
    parsed = question(curator.schema, asked)
    marginals = parsed.marginals if isinstance(parsed, Statement) else (_of_predicate(curator, parsed),)
    name = "\n".join([*(m.key for m in marginals), repr((epsilon, rho, noise, analyst))])
    measured = curator.measure_many(
        marginals,
        epsilon=epsilon,
        rho=rho,
        noise=noise,
        request=request or f"answer:{hashlib.sha256(name.encode()).hexdigest()}",
        analyst=analyst,
    )
    cost = curator.cost_of(measured)
    if not isinstance(parsed, Statement):
        return _fraction(curator, measured[0], confidence, cost)
    by_key = {m.key: measurement for m, measurement in zip(marginals, measured, strict=True)}
    return assemble(parsed, by_key, confidence, cost, "measured")


def _of_predicate(curator: Curator, query: LinearQuery) -> Marginal:
    """What to measure for a fraction of rows.

    Where the number of rows is private, the rows that satisfy the predicate and the rows that do not are two cells
    of one marginal: the second costs nothing and estimates the number of rows. Where it is public, the count alone.
    """
    if curator.relation.rows_are_public or not query.is_predicate:
        return Marginal(curator.schema, (), query)
    return Marginal(curator.schema, [Buckets("holds", ("true", "false"), (query, ~query))])


def _fraction(curator: Curator, measured: Measurement, confidence: float, cost: Loss) -> Answer:
    if measured.marginal.cells == 2:
        count, others = (float(v) for v in measured.values)
        width = measured.half_width((1 + confidence) / 2)  # both cells must hold
        rows = max(count + others, 1.0)
    else:
        count, width = float(measured.values), measured.half_width(confidence)
        rows = max(curator.count_rows(), 1.0)
    low, high = (min(1.0, max(0.0, bound / rows)) for bound in (count - width, count + width))
    return Answer(
        value=count / rows, low=low, high=high, confidence=confidence, count=count, source="measured", cost=cost
    )
