"""`answer`: one question, measured directly — the simplest private answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.answers.api import Answered
from maquette.answers.assembly import Estimated, assemble, columns_of
from maquette.answers.rehearsal import rehearse
from maquette.answers.reporting import report
from maquette.answers.result import Answer
from maquette.curator import Curator, Deadline, Law, Measurement
from maquette.errors import QueryError
from maquette.privacy import DiscreteGaussian, Loss, check_confidence, rows_counted, sum_half_width
from maquette.query import (
    Buckets,
    Context,
    CutRule,
    Expression,
    LinearQuery,
    Marginal,
    OfValues,
    Program,
    PublicTable,
    Settings,
    Statement,
    question,
    settings_of,
)

Values = NDArray[np.float64]


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
    table: str | None = None,
    public: Mapping[str, PublicTable] | None = None,
    cuts: CutRule | None = None,
) -> Answered:
    """Answer SQL or a predicate for `epsilon` (at the budget's delta) or `rho`.

    A predicate is answered by the fraction of rows on which it holds; SQL by the numbers SQL would return, one row
    for every declared group. Asking the same question again at the same price returns the recorded answer and charges
    nothing; give a new name as `request` to measure it again.
    `table` is the table's name in statements (default: that of its file; any name if it has none); `public` are lookup
    tables that it may JOIN. `cuts="between"` answers a comparison that cuts through a bin between the two cuts
    around it; "refuse" is the default. A text may set `confidence` and `cuts` itself, as in
    `/* confidence = 0.99 */ SELECT ...`.
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
    told = rows_counted(curator.ledger.terms.unit, curator.relation.max_contributions)

    def finished(found: Answered) -> Answered:
        return found.noted(counted=told)

    own = _settings(asked).over(Settings(cuts=cuts))
    confidence = confidence if own.confidence is None else own.confidence
    check_confidence(confidence)
    with curator.within(deadline):
        parsed = question(curator.schema, asked, context_of(curator, table, public, own.cuts))
        if not isinstance(parsed, LinearQuery) and curator.keeps_values:
            parsed = parsed.on_values()
        if isinstance(parsed, Program):
            rehearse(parsed)
        exact, most = _exact(curator), curator.most_rows
        if isinstance(parsed, LinearQuery):
            marginals = _of_fraction(curator, parsed)
        else:
            marginals = tuple(marginal for marginal in needed(parsed) if marginal.key not in exact)
        name = "\n".join([*(m.key for m in marginals), repr((epsilon, rho, noise, analyst))])
        measured: Sequence[Measurement] = []
        if marginals:  # a list of declared levels needs no measurement
            measured = curator.measure_many(
                marginals,
                epsilon=epsilon,
                rho=rho,
                noise=noise,
                request=request or f"answer:{hashlib.sha256(name.encode()).hexdigest()}",
                analyst=analyst,
            )
        cost = curator.cost_of(measured)
        if isinstance(parsed, LinearQuery):
            return finished(_fraction(curator, measured, confidence, cost, parsed.rounding))
        by_key = {m.key: measurement for m, measurement in zip(marginals, measured, strict=True)}
        if isinstance(parsed, Statement):
            return finished(assemble(parsed, {**by_key, **exact}, confidence, cost, "measured", most=most))
        known = derived(parsed, by_key, exact)
        each = 1.0 - (1.0 - confidence) / parsed.joint
        solve = lambda statement: columns_of(statement, known, each, most=most)  # noqa: E731
        return finished(report(parsed, solve, confidence, cost, "measured"))


def context_of(
    curator: Curator, table: str | None, public: Mapping[str, PublicTable] | None, cuts: CutRule | None = None
) -> Context:
    """What a statement about a curator's table may refer to; the table's own name is that of its file."""
    unit, name = curator.ledger.terms.unit, curator.table_name if table is None else table
    return Context(
        name,
        unit,
        curator.relation.max_contributions,
        dict(public or {}),
        cuts or "refuse",
        values=curator.keeps_values,
    )


def _settings(asked: object) -> Settings:
    own = settings_of(asked)
    if own.alpha is not None or own.max_cost is not None:
        raise QueryError(
            "alpha and max_cost are settings of a session", advice="here the price is given, as epsilon or rho"
        )
    return own


def needed(parsed: Statement | Program) -> tuple[Marginal, ...]:
    """The tables to measure: those of which no finer one, measured anyway, gives the same by adding up."""
    if isinstance(parsed, Statement):
        return parsed.marginals
    return tuple(m for m in parsed.marginals if not any(_finer(other, m) for other in parsed.marginals))


def _finer(one: Marginal, other: Marginal) -> bool:
    """Whether adding up some columns of one table gives the other."""
    if not all(
        isinstance(table, OfValues) or type(table) is Marginal for table in (one, other)
    ):  # units of groups do not add up
        return False
    if one.weight.key != other.weight.key or len(one.axes) <= len(other.axes) or _summand(one) != _summand(other):
        return False
    return all(axis in one.axes for axis in other.axes) and all(
        isinstance(axis, str) for axis in one.axes if axis not in other.axes
    )


def _summand(marginal: Marginal) -> object:
    """What a table adds up: rows, or numbers that follow from their values."""
    return marginal.summand if isinstance(marginal, OfValues) else type(marginal)


@dataclass(frozen=True)
class _Exact:
    """A number that is public."""

    values: Values

    def half_width(self, confidence: float) -> float:
        """Nothing: no noise was added."""
        return 0.0


def _exact(curator: Curator) -> dict[str, Estimated]:
    """The table that needs no measurement: the number of rows, where neighbours have as many."""
    if not curator.relation.rows_are_public:
        return {}
    return {Marginal(curator.schema).key: _Exact(np.array(curator.count_rows()))}


@dataclass(frozen=True)
class _Summed:
    """Cells of a measured table, added up: independent noise of each, at most as wide as their sum allows."""

    measurement: Measurement
    values: Values
    cells: int

    def half_width(self, confidence: float) -> float:
        """How far each sum can be off."""
        event = self.measurement.event
        gaussian = isinstance(event, DiscreteGaussian)
        continuous = event.variance if isinstance(event, DiscreteGaussian) else 2 * event.scale**2
        each = math.sqrt(continuous) / self.measurement.question.grid
        if self.cells == 1:
            return self.measurement.half_width(confidence)
        return sum_half_width(each * math.sqrt(self.cells), each, confidence, gaussian=gaussian) + (
            0.5 if gaussian else 0.0
        )


def derived(
    program: Program, measured: Mapping[str, Measurement], exact: Mapping[str, Estimated] | None = None
) -> dict[str, Estimated]:
    """An estimate of every table of a program: measured, public, or added up from a finer one."""
    known: dict[str, Estimated] = {**measured, **(exact or {})}
    by_key = {marginal.key: marginal for marginal in program.marginals}
    outputs = [output for statement in program.statements for output in statement.outputs]
    for marginal in program.marginals:
        if marginal.key not in known:
            fine = next(by_key[key] for key in measured if _finer(by_key[key], marginal))
            table = measured[fine.key]
            dropped = tuple(i for i, axis in enumerate(fine.axes) if axis not in marginal.axes)
            kept = [axis for axis in fine.axes if axis in marginal.axes]
            values = np.transpose(table.values.sum(axis=dropped), [kept.index(axis) for axis in marginal.axes])
            known[marginal.key] = _Summed(table, values, math.prod(fine.shape[i] for i in dropped))
    for output in outputs:
        if output.via is not None and output.measure is not None:
            finer, (start, stop) = output.via.marginal, (output.via.start, output.via.stop)
            source = known[finer.key]
            values = source.values[..., start:stop].sum(axis=-1)
            table, cells = (
                (source.measurement, source.cells) if isinstance(source, _Summed) else (measured[finer.key], 1)
            )
            known[output.measure.marginal.key] = _Summed(table, values, cells * (stop - start))
    return known


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


def _fraction(
    curator: Curator, measured: Sequence[Measurement], confidence: float, cost: Loss, rounding: float
) -> Answer:
    count, *others = (float(value) for measurement in measured for value in measurement.values.reshape(-1))
    if others:
        width = max(m.half_width((1 + confidence) / 2) for m in measured)  # both numbers must hold
        rows = max(count + others[0], 1.0)
    else:
        width = measured[0].half_width(confidence)
        rows = max(curator.count_rows(), 1.0)
    width += rounding * (rows + 2 * width)  # what the grid moves the weight of each row
    low, high = (min(1.0, max(0.0, bound / rows)) for bound in (count - width, count + width))
    value = min(max(count / rows, low), high)
    return Answer(
        value=value,
        low=low,
        high=high,
        unbiased=count / rows,
        confidence=confidence,
        count=min(max(0.0, count), curator.most_rows or math.inf),
        source="measured",
        cost=cost,
    )
