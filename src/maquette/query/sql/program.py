"""Program: a SELECT as a few measured statements and what is computed from their answers, free of charge.

The measured part is a list of `Statement`s, which every answerer knows how to answer. The rest is a tree of relations
over the answered groups: it never touches rows, so it is post-processing and costs nothing. Scalar expressions stay
sqlglot's, with every column replaced by its name in the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from maquette.query.linear import LinearQuery
from maquette.query.marginal import Marginal
from maquette.query.sql.statement import Measure, Output, Statement
from maquette.schema import Schema

Scalar = exp.Expression


class Answers:
    """A table of answered groups."""


@dataclass(frozen=True)
class Core(Answers):
    """The groups of a measured statement: `groups` names its axes, `numbers` its outputs, `fixed` adds constants."""

    statement: int
    groups: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Extend(Answers):
    """Columns computed row by row, added to the others."""

    child: Answers
    columns: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Windowed(Answers):
    """One column computed from all rows: a window function."""

    child: Answers
    name: str
    window: Any


@dataclass(frozen=True)
class Filter(Answers):
    """The rows for which a condition holds."""

    child: Answers
    condition: Scalar


@dataclass(frozen=True)
class Key:
    """One entry of ORDER BY."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Sort(Answers):
    """The rows in order."""

    child: Answers
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Limit(Answers):
    """The first `count` rows after the first `offset`."""

    child: Answers
    count: int | None
    offset: int = 0


@dataclass(frozen=True)
class Pick(Answers):
    """Some columns under new names; with `distinct`, different rows only."""

    child: Answers
    columns: tuple[tuple[str, str], ...]
    distinct: bool = False


@dataclass(frozen=True)
class Total(Answers):
    """Aggregates of answered groups, one row for each combination of `keys`; each number is (name, function, column).

    Without a column the function counts rows.
    """

    child: Answers
    keys: tuple[str, ...]
    numbers: tuple[tuple[str, str, str | None], ...]


@dataclass(frozen=True)
class Stack(Answers):
    """The rows of several relations, one after the other."""

    children: tuple[Answers, ...]
    columns: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Join(Answers):
    """Pairs of rows with equal public columns; an outer join keeps rows of the left side that have no partner."""

    left: Answers
    right: Answers
    on: tuple[tuple[str, str], ...]
    outer: bool


@dataclass(frozen=True)
class Listed(Answers):
    """Rows that are written out: those of a public table. Names of columns, their values, and a digest of it all."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...] = field(repr=False)
    digest: str


@dataclass(frozen=True)
class Attach(Answers):
    """A column with the only value of another relation: a subquery used as a number."""

    child: Answers
    name: str
    other: Answers
    column: str


@dataclass(frozen=True, repr=False)
class Program:
    """A statement whose answer is computed from the answers to `statements`.

    `outputs` lists the columns of the result: their names in `relation`, and their titles. If `together`, the result
    depends on more than the numbers of one group, so all numbers must hold together; otherwise the `each` numbers from
    which one number of the result is computed.
    """

    schema: Schema
    text: str
    table: str
    statements: tuple[Statement, ...]
    relation: Answers
    outputs: tuple[tuple[str, str], ...]
    together: bool
    each: int
    notes: Mapping[str, Any] = field(default_factory=dict)

    def on_values(self) -> Program:
        """The same program over sums and averages of the values themselves, for tables that keep them."""
        return replace(self, statements=tuple(statement.on_values() for statement in self.statements))

    def on_levels(self) -> Program:
        """The same program over sums and averages of the middles of bins, for tables that keep no values."""
        return replace(self, statements=tuple(statement.on_levels() for statement in self.statements))

    @cached_property
    def joint(self) -> int:
        """How many measured numbers must hold together for one interval of the result."""
        if not self.together:
            return max(1, self.each)
        numbers = (sum(output.measure is not None for output in one.outputs) for one in self.statements)
        return max(1, sum(int(one.shown.sum()) * n for one, n in zip(self.statements, numbers, strict=True)))

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The different marginals to ask."""
        return tuple(dict.fromkeys(marginal for statement in self.statements for marginal in statement.marginals))

    @cached_property
    def key(self) -> str:
        """The canonical question: what is measured and what is computed from it."""
        measured = [statement.key for statement in self.statements]
        return repr((measured, _plain(self.relation), self.outputs))

    def __repr__(self) -> str:
        return f"Program({', '.join(title for _, title in self.outputs)}: {len(self.marginals)} marginals)"


def share_between(schema: Schema, inner: LinearQuery, outer: LinearQuery) -> Program:
    """The share of rows of a condition that lies between two others."""
    counted = {"inner": inner, "outer": outer, "rows": LinearQuery.constant(schema)}
    outputs = (
        Output(name, "count", measure=Measure(Marginal(schema, (), query), 1.0, False))
        for name, query in counted.items()
    )
    statement = Statement(schema, "", "", (), tuple(outputs))
    shares = [
        exp.Least(
            this=exp.Div(this=exp.column(name, quoted=True), expression=exp.column("rows", quoted=True)),
            expressions=[exp.Literal.number(1)],
        )
        for name in ("inner", "outer")
    ]
    share = exp.Anonymous(this="mq_between", expressions=shares)
    core = Core(0, (), tuple((name, name) for name in counted))
    relation = Pick(Extend(core, (("share", share),)), (("fraction", "share"),))
    return Program(schema, "", "", (statement,), relation, (("fraction", "fraction"),), False, len(counted))


def _plain(node: Any) -> Any:
    """A relation as plain data, expressions as their SQL."""
    if isinstance(node, exp.Expression):
        return node.sql(dialect="duckdb")
    if isinstance(node, Listed):
        return "Listed", node.names, node.digest
    if isinstance(node, Answers | Key):
        return (type(node).__name__, *(_plain(value) for value in vars(node).values()))
    if isinstance(node, tuple):
        return tuple(_plain(value) for value in node)
    return node
