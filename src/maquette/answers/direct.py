"""`answer`: one question, measured directly — the simplest private answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from maquette.answers.api import Answered
from maquette.answers.assembly import assemble
from maquette.answers.result import Answer
from maquette.curator import Curator, Deadline, Law, Measurement
from maquette.privacy import Loss, check_confidence
from maquette.query import Buckets, Expression, LinearQuery, Marginal, Statement, question


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
    deadline: Deadline | None = None,
) -> Answered:
    """Answer SQL or a predicate for `epsilon` (at the budget's delta) or `rho`.

    A predicate is answered by the fraction of rows on which it holds; SQL by the numbers SQL would return, one row
    for every declared group. Asking the same question again at the same price returns the recorded answer and charges
    nothing; give a new name as `request` to measure it again.
    With a `deadline` (seconds, or "auto"; default: the curator's) a new answer takes exactly that long. One that is not
    ready by then is refused for good and stays charged: see `Curator`.

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
    with curator.within(deadline):
        parsed = question(curator.schema, asked)
        marginals = parsed.marginals if isinstance(parsed, Statement) else _of_fraction(curator, parsed)
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
            return _fraction(curator, measured, confidence, cost)
        by_key = {m.key: measurement for m, measurement in zip(marginals, measured, strict=True)}
        return assemble(parsed, by_key, confidence, cost, "measured")


def _of_fraction(curator: Curator, query: LinearQuery) -> tuple[Marginal, ...]:
    """What to measure for a fraction of rows.

    If the number of rows is public, the query's total alone. If it is private, the complement helps to estimate it: the
    rows that satisfy a predicate and those that do not are two cells of one marginal, so the second costs nothing; with
    weights between 0 and 1 the complement is a question of its own.
    """
    if curator.relation.rows_are_public:
        return (Marginal(curator.schema, (), query),)
    if not query.is_predicate:
        return Marginal(curator.schema, (), query), Marginal(curator.schema, (), ~query)
    return (Marginal(curator.schema, [Buckets("holds", ("true", "false"), (query, ~query))]),)


def _fraction(curator: Curator, measured: Sequence[Measurement], confidence: float, cost: Loss) -> Answer:
    count, *others = (float(value) for measurement in measured for value in measurement.values.reshape(-1))
    if others:
        width = max(m.half_width((1 + confidence) / 2) for m in measured)  # both numbers must hold
        rows = max(count + others[0], 1.0)
    else:
        width = measured[0].half_width(confidence)
        rows = max(curator.count_rows(), 1.0)
    low, high = (min(1.0, max(0.0, bound / rows)) for bound in (count - width, count + width))
    value = min(max(count / rows, low), high)
    return Answer(
        value=value,
        low=low,
        high=high,
        unbiased=count / rows,
        confidence=confidence,
        count=max(0.0, count),
        source="measured",
        cost=cost,
    )
