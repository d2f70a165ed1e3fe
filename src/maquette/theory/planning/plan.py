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
from maquette.theory.planning.limits import OPEN, Limit, least_rows_for, limits
from maquette.theory.planning.mechanisms import MECHANISMS, Mechanism
from maquette.theory.planning.possibilities import Point, Region, possibilities_chart
from maquette.theory.planning.question import Question, magnitude
from maquette.theory.planning.rules import rule_mechanisms
from maquette.theory.planning.tables import html_table, least_rows, text_table, whole
from maquette.theory.planning.times import in_words
from maquette.theory.solve import is_vacuous

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.hypothesis import AnyRule
    from maquette.privacy import Kind
    from maquette.schema import Schema

MAX_ROWS = 10**12
LEAST_EPSILON, MOST_EPSILON = 1e-4, 1e3


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What one mechanism promises: every answer within `error` (a fraction of rows) with probability 1 - beta.

    `error` is infinite when no parameters fit this budget and size; `obstacle` says why it cannot run here, None if
    it can. `seconds` is about how long it would run. `rows_needed` and `epsilon_needed` are the least for the target
    alpha, rounded up; None without a target or if unreachable. A promise that is not `general` is for a special class
    of queries only; one that is not `proved` is what is expected, not a theorem about the worst query.
    """

    name: str
    title: str
    error: float
    accounting: str
    obstacle: str | None
    rows_needed: int | None
    reference: str
    epsilon_needed: float | None = None
    seconds: float = math.inf
    general: bool = True
    proved: bool = True

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
    limits: tuple[Limit, ...] = ()

    @property
    def best(self) -> Promise | None:
        """The least error among promises that can run, are proven in the literature or here, and are not vacuous."""
        useful = [p for p in self.promises if p.runnable and not p.vacuous and p.proved and p.general]
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
        last = ("rows_needed", "epsilon_needed", "seconds", "proved", "general", "reference")
        columns = {name: [getattr(promise, name) for promise in self.promises] for name in (*names, *last)}
        columns["rows_needed"] = pa.array(columns["rows_needed"], type=pa.int64())
        columns["epsilon_needed"] = pa.array(columns["epsilon_needed"], type=pa.float64())
        columns["obstacle"] = pa.array(columns["obstacle"], type=pa.string())
        return pa.table(columns)

    def chart(self) -> str:
        """The errors as SVG text."""
        return bar_chart([self._bar(p) for p in self.promises], f"Promised error, {self._heading()}")

    def possibilities(self, alpha: float | None = None) -> str:
        """The map of what is possible for an error of alpha (default: the plan's, or 0.1), as SVG text.

        Running time against the rows that each mechanism needs; lower bounds are regions where there can be none.
        """
        target = alpha or self.alpha or 0.1
        known = {mechanism.name: mechanism for mechanism in MECHANISMS}
        points = []
        for promise in self.promises:
            needed = promise.rows_needed
            if target != self.alpha and promise.name in known:
                needed = _rows_needed(known[promise.name], self.question, target)
            if needed is not None:
                bound = promise.proved and promise.general
                points.append(Point(promise.title, float(needed), promise.seconds, promise.runnable, bound))
        regions = [
            Region(each.title, each.short, least_rows_for(each, self.question, target), each.fast)
            for each in self.limits
        ]
        return possibilities_chart(points, regions, f"Rows for an error of {target:g}, {self._heading()}")

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
        target = [] if self.alpha is None else [f"rows for {self.alpha:g}", f"epsilon for {self.alpha:g}"]
        lines = [["mechanism", "error", "accounting", "time", *target, "note"]]
        for promise in self.promises:
            need = promise.rows_needed
            least = promise.epsilon_needed
            rows = ["out of reach" if need is None else magnitude(need), "-" if least is None else f"{least:.3g}"]
            reached = [] if self.alpha is None else rows
            time = in_words(promise.seconds)
            lines.append([promise.title, _error(promise), promise.accounting, time, *reached, self._note(promise)])
        return lines

    def _limit_lines(self) -> list[str]:
        told = [f"{each.title}{'' if each.error is None else f': {each.error:.2g}'}" for each in self.limits]
        known = [f"{line} ({each.reference})" for line, each in zip(told, self.limits, strict=True)]
        return [*known, *(f"nobody knows: {question}" for question in OPEN)]

    def _note(self, promise: Promise) -> str:
        if promise is self.best:
            return "best"
        special = "" if promise.general else "for these queries only"
        return promise.obstacle or (special if promise.proved else "expected, not promised")

    def __str__(self) -> str:
        return "\n".join([text_table(self._heading(), self._lines()), *self._limit_lines()])

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
    p: float | None = None,
    norm: float | None = None,
    query_norm: float | None = None,
) -> Plan:
    """What each mechanism promises for `queries` linear queries, from public numbers alone; nothing is charged.

    The universe is the schema's, or a number of points. Under "add-remove" `rows` is the expected number of rows,
    errors are counts divided by it, and mechanisms that model fractions first buy a row count. With a target `alpha`,
    each promise gives the rows and the epsilon it needs, as long as delta stays below 1 / rows. `limits` say what no
    mechanism can do. With a schema, update rules of installed packages are listed too, and `rules` of your own (names,
    classes or a `Rule`). `norm` and `query_norm` are public bounds on the norms of the table and of every query, for
    mirror descent at `p` (2, the perceptron, where a norm is given). Lines for cells of marginals take the least k for
    which all tables of k columns have that many cells. Mechanisms §14 and §15.

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
    question = _with_norms(question, p, norm, query_norm)
    if alpha is not None and not (isinstance(alpha, Real) and 0 < alpha < 1):
        raise QueryError(f"alpha is {alpha!r}", expected="a fraction of rows between 0 and 1, such as 0.05, or None.")
    mechanisms = (*MECHANISMS, *rule_mechanisms(schema, rules))
    promises = tuple(_promise(mechanism, question, alpha) for mechanism in mechanisms)
    if alpha is not None and not any(p.rows_needed for p in promises if p.runnable and p.proved):
        raise _unreachable(question, alpha, promises, mechanisms)
    return Plan(question=question, alpha=alpha, promises=promises, limits=limits(question))


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
        reference=mechanism.reference,
        epsilon_needed=None if alpha is None else _epsilon_needed(mechanism, question, alpha),
        seconds=mechanism.time(question, bound),
        general=mechanism.general,
        proved=mechanism.proved,
    )


def _rows_needed(mechanism: Mechanism, question: Question, alpha: float) -> int | None:
    """The least number of rows that promises alpha, to three digits and rounded up: promised errors fall with rows."""

    def enough(rows: int) -> bool:
        return mechanism.promise(replace(question, rows=rows))[0].error <= alpha

    return least_rows(enough, _most_rows(question))


def _epsilon_needed(mechanism: Mechanism, question: Question, alpha: float) -> float | None:
    """The least epsilon that promises alpha, to about a hundredth and rounded up; None above 1000."""

    def enough(epsilon: float) -> bool:
        return mechanism.promise(replace(question, epsilon=epsilon))[0].error <= alpha

    low, high = LEAST_EPSILON, MOST_EPSILON
    if not enough(high):
        return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(f"{1.005 * high:.3g}")


def _most_rows(question: Question) -> int:
    """The largest number of rows that a plan considers: delta must stay below 1 / rows."""
    if question.delta == 0:
        return max(MAX_ROWS, question.rows)
    return min(MAX_ROWS, math.ceil(1 / Fraction(question.delta)) - 1)


def _unreachable(
    question: Question, alpha: float, promises: tuple[Promise, ...], mechanisms: tuple[Mechanism, ...]
) -> QueryError:
    most = _most_rows(question)
    able = {p.name for p in promises if p.runnable and p.proved}
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
        sizes=None if schema is None else tuple(column.size for column in schema),
    )


def _with_norms(question: Question, p: float | None, norm: float | None, query_norm: float | None) -> Question:
    if p is None and norm is None and query_norm is None:
        return question
    order, size = 2.0 if p is None else p, 1.0 if norm is None else norm
    if not (1 < order <= 2 and 0 < size <= 1 and (query_norm is None or query_norm > 0)):
        raise QueryError(
            f"got p={p}, norm={norm} and query_norm={query_norm}",
            expected="1 < p <= 2, 0 < norm <= 1 and a query_norm above 0, or None",
        )
    return replace(question, p=order, norm=size, query_norm=query_norm)


def _error(promise: Promise) -> str:
    if math.isinf(promise.error):
        return "-"
    return "no promise" if promise.vacuous else f"{promise.error:.3g}"
