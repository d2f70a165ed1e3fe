"""plan: what every mechanism can promise at this size, which one is best, and how many rows a target error needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Literal

from maquette.errors import QueryError
from maquette.privacy import Budget, Relation
from maquette.theory.planning.chart import Bar, bar_chart
from maquette.theory.planning.mechanisms import MECHANISMS, Mechanism, Question, magnitude
from maquette.theory.planning.rules import rule_mechanisms
from maquette.theory.planning.tables import html_table, least_rows, text_table, whole
from maquette.theory.solve import is_vacuous

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.hypothesis import AnyRule
    from maquette.privacy import Kind
    from maquette.schema import Schema

MAX_ROWS = 10**12


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What one mechanism promises: every answer within `error` (a fraction of rows) with probability 1 - beta.

    `error` is infinite when no parameters fit this budget and size; `obstacle` says why it cannot run here, None if
    it can. `rows_needed` is for the target alpha, rounded up to three digits; None without a target or if unreachable.
    """

    name: str
    title: str
    error: float
    accounting: str
    obstacle: str | None
    rows_needed: int | None
    experimental: bool
    reference: str

    @property
    def runnable(self) -> bool:
        """Whether it can run at this size with this budget."""
        return self.obstacle is None

    @property
    def vacuous(self) -> bool:
        """Whether the promise is empty: an error of 1 or more needs no data."""
        return is_vacuous(self.error)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """Promises of all mechanisms for one question, in the order of the theory."""

    question: Question
    alpha: float | None
    promises: tuple[Promise, ...]

    @property
    def best(self) -> Promise | None:
        """The least error among promises that can run, are proven in the literature or here, and are not vacuous."""
        useful = [p for p in self.promises if p.runnable and not p.vacuous and not p.experimental]
        return min(useful, key=lambda promise: promise.error, default=None)

    def __iter__(self) -> Iterator[Promise]:
        return iter(self.promises)

    def __len__(self) -> int:
        return len(self.promises)

    def __getitem__(self, name: str) -> Promise:
        for promise in self.promises:
            if promise.name == name:
                return promise
        raise KeyError(f"no mechanism {name!r}; there are {', '.join(p.name for p in self.promises)}")

    def to_arrow(self) -> pa.Table:
        """One row for each mechanism."""
        import pyarrow as pa

        names = ("name", "title", "error", "vacuous", "accounting", "runnable", "obstacle")
        last = ("rows_needed", "experimental", "reference")
        columns = {name: [getattr(promise, name) for promise in self.promises] for name in (*names, *last)}
        columns["rows_needed"] = pa.array(columns["rows_needed"], type=pa.int64())
        columns["obstacle"] = pa.array(columns["obstacle"], type=pa.string())
        return pa.table(columns)

    def chart(self) -> str:
        """The errors as SVG text."""
        return bar_chart([self._bar(p) for p in self.promises], f"Promised error, {self._heading()}")

    def _bar(self, promise: Promise) -> Bar:
        extra = "" if promise.runnable else ", cannot run"
        useful: Literal["plain", "pale"] = "plain" if promise.runnable and not promise.vacuous else "pale"
        tone = "best" if promise is self.best else useful
        return Bar(promise.title, promise.error, _error(promise) + extra, tone)

    def _heading(self) -> str:
        q = self.question
        delta = f", delta {q.delta:g}" if q.delta else ""
        return (
            f"{magnitude(q.queries)} queries on {magnitude(q.rows)} rows over {magnitude(q.universe)} points, "
            f"epsilon {q.epsilon:g}{delta} ({q.relation}), failing with probability {q.beta:g}"
        )

    def _lines(self) -> list[list[str]]:
        target = [] if self.alpha is None else [f"rows for {self.alpha:g}"]
        lines = [["mechanism", "error", "accounting", *target, "note"]]
        for promise in self.promises:
            need = promise.rows_needed
            rows = [] if self.alpha is None else ["out of reach" if need is None else magnitude(need)]
            lines.append([promise.title, _error(promise), promise.accounting, *rows, self._note(promise)])
        return lines

    def _note(self, promise: Promise) -> str:
        if promise is self.best:
            return "best"
        return promise.obstacle or ("experimental" if promise.experimental else "")

    def __str__(self) -> str:
        return text_table(self._heading(), self._lines())

    def __repr__(self) -> str:
        best = self.best
        choice = "nothing useful can run" if best is None else f"best {best.name}, error {best.error:.3g}"
        return f"Plan({choice}; {len(self)} mechanisms, {self._heading()})"

    def _repr_html_(self) -> str:
        return html_table(self._heading(), self._lines()) + self.chart()


def plan(
    *,
    rows: int,
    schema: Schema | None = None,
    universe: int | None = None,
    queries: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    alpha: float | None = None,
    relation: Kind = "add-remove",
    rules: Iterable[AnyRule] = (),
) -> Plan:
    """What each mechanism promises for `queries` linear queries, from public numbers alone; nothing is charged.

    The universe is the schema's, or a number of points. Under "add-remove" `rows` is the expected number of rows,
    errors are counts divided by it, and mechanisms that model fractions first buy a row count. With a target `alpha`,
    each promise gives the rows it needs, as long as delta stays below 1 / rows. With a schema, update rules of
    installed
    packages are listed too, and `rules` of your own (names, classes or a `Rule`). Mechanisms §14 and §15.

    >>> plan(rows=100_000, universe=2**20, queries=10**6, epsilon=1.0, delta=1e-9).best.name
    'mw-averaged'
    """
    question = _question(
        rows=rows,
        schema=schema,
        universe=universe,
        queries=queries,
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        relation=relation,
    )
    if alpha is not None and not (isinstance(alpha, Real) and 0 < alpha < 1):
        raise QueryError(f"alpha is {alpha!r}", expected="a fraction of rows between 0 and 1, such as 0.05, or None.")
    mechanisms = (*MECHANISMS, *rule_mechanisms(schema, rules))
    promises = tuple(_promise(mechanism, question, alpha) for mechanism in mechanisms)
    if alpha is not None and not any(p.rows_needed for p in promises if p.runnable and not p.experimental):
        raise _unreachable(question, alpha, promises, mechanisms)
    return Plan(question=question, alpha=alpha, promises=promises)


def _promise(mechanism: Mechanism, question: Question, alpha: float | None) -> Promise:
    bound, accounting = mechanism.promise(question)
    obstacle = mechanism.obstacle(question, bound)
    if mechanism.pure is None and question.delta == 0:
        obstacle = "needs delta > 0"
    return Promise(
        name=mechanism.name,
        title=mechanism.title,
        error=bound.error,
        accounting=accounting,
        obstacle=obstacle,
        rows_needed=None if alpha is None else _rows_needed(mechanism, question, alpha),
        experimental=mechanism.experimental,
        reference=mechanism.reference,
    )


def _rows_needed(mechanism: Mechanism, question: Question, alpha: float) -> int | None:
    """The least number of rows that promises alpha, to three digits and rounded up: promised errors fall with rows."""

    def enough(rows: int) -> bool:
        return mechanism.promise(replace(question, rows=rows))[0].error <= alpha

    return least_rows(enough, _most_rows(question))


def _most_rows(question: Question) -> int:
    """The largest number of rows that a plan considers: delta must stay below 1 / rows."""
    if question.delta == 0:
        return max(MAX_ROWS, question.rows)
    return min(MAX_ROWS, math.ceil(1 / Fraction(question.delta)) - 1)


def _unreachable(
    question: Question, alpha: float, promises: tuple[Promise, ...], mechanisms: tuple[Mechanism, ...]
) -> QueryError:
    most = _most_rows(question)
    able = {p.name for p in promises if p.runnable and not p.experimental}
    errors = [m.promise(replace(question, rows=most))[0].error for m in mechanisms if m.name in able]
    smallest = min(errors, default=math.inf)
    if math.isinf(smallest):
        return QueryError(
            f"No mechanism can run for {magnitude(question.queries)} queries over {magnitude(question.universe)} "
            "points with this budget, so no alpha can be reached: ask fewer queries, use fewer levels, or set delta."
        )
    limit = "this delta allows" if question.delta else "a plan looks at"
    return QueryError(
        f"alpha {alpha:g} is out of reach: even {magnitude(most)} rows, the most {limit}, promise {smallest:.3g} at "
        "best",
        advice=f"Choose alpha of at least {1.005 * smallest:.3g}, or a larger epsilon",
    )


def _question(
    *,
    rows: int,
    schema: Schema | None,
    universe: int | None,
    queries: int,
    epsilon: float,
    delta: float,
    beta: float,
    relation: Kind,
) -> Question:
    if (schema is None) == (universe is None):
        raise QueryError("Expected a schema or the size of a universe, exactly one of them: keep one.")
    if not (isinstance(beta, Real) and 0 < beta < 1):
        raise QueryError(f"beta is {beta!r}", expected="a probability of failure between 0 and 1, such as 0.05.")
    count = whole("rows", rows)
    Budget(epsilon=epsilon, delta=delta).check_rows(count)
    return Question(
        rows=count,
        universe=whole("universe", universe) if schema is None else schema.size,
        queries=whole("queries", queries),
        epsilon=float(epsilon),
        delta=float(delta),
        beta=float(beta),
        relation=Relation(relation).kind,
    )


def _error(promise: Promise) -> str:
    if math.isinf(promise.error):
        return "-"
    return f"vacuous ({promise.error:.3g})" if promise.vacuous else f"{promise.error:.3g}"
