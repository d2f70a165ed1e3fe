"""Work: what is known while one text is compiled, and the names that a FROM brings into sight.

A FROM is either a `View`, the rows of the private table, or a `Frame`, groups that were answered already.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from maquette.query.sql import program as p
from maquette.query.sql.context import Context
from maquette.query.sql.grammar import COMPARISONS, SCALARS, Source, instead
from maquette.query.sql.parser import Reader
from maquette.query.sql.public import PublicTable
from maquette.query.sql.statement import Statement
from maquette.schema import Schema

MOST_STATEMENTS = 128  # measured tables of one program
ROWS = (
    "rows are never shown; name columns, GROUP BY them and add count(*). For rows to look at, ask for synthetic ones: "
    "release.sample(10) in Python, maquette sample FILE.maq --rows 10 on the command line"
)

NOISY = (  # what may be computed of noisy numbers: `answers/scalars.py`
    *COMPARISONS,
    *(exp.Column, exp.Identifier, exp.Paren, exp.Add, exp.Sub, exp.Neg, exp.Mul, exp.Div, exp.IntDiv, exp.Pow, exp.Abs),
    *(exp.Cast, exp.TryCast, exp.Round, exp.Trunc, exp.Floor, exp.Ceil, exp.Sqrt, exp.Exp, exp.Ln, exp.Case, exp.If),
    *(exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In),
)
NOISY_WORDS = ("arithmetic", "round", "CASE", "coalesce", "comparisons")

Columns = list[tuple[str, str]]  # name in the relation, title
Found = tuple[p.Answers, Columns]


@dataclass
class View:
    """The private table as a FROM sees it: expressions by name, and the conditions that rows must meet."""

    aliases: set[str]
    columns: dict[str, Any] | None = None  # None: the schema's own
    keep: list[Any] = field(default_factory=list)
    public: dict[str, tuple[PublicTable, Any]] = field(default_factory=dict)


@dataclass
class Frame:
    """Answered groups as a FROM sees them: a relation, and names of its columns by alias."""

    relation: p.Answers
    names: list[tuple[str, str, str]]  # alias, title, name in the relation


Names = dict[str, View | Found]  # the queries of WITH, by name


def _texts_of(node: Any) -> str:
    texts = isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs)
    return "select the number in a column of its own" if texts else f"use {', '.join(NOISY_WORDS)}"


class Work:
    """One text on its way to measured statements and relations over them."""

    def __init__(self, schema: Schema, source: Source, context: Context) -> None:
        self.schema, self.source, self.context = schema, source, context
        self.reader = Reader(schema, source, between=context.cuts == "between", unit=context.unit)
        self.query: Callable[[Any, Names], Found]  # compiles a query inside this one
        self._count = itertools.count()
        self.forget()

    def forget(self) -> None:
        """Begin again: nothing is measured yet."""
        self.statements: list[Statement] = []
        self.uses: dict[str, frozenset[str]] = {}  # measured numbers behind every noisy column
        self.together = False
        self.table = ""

    def fresh(self) -> str:
        """A new name of a column."""
        return f"c{next(self._count)}"

    def used(self, node: Any) -> frozenset[str]:
        """The measured numbers behind an expression."""
        found = [self.uses[c.name] for c in node.find_all(exp.Column) if c.name in self.uses]
        return frozenset().union(*found)

    def mark(self, name: str, *nodes: Any) -> None:
        """Note that a column is computed from these expressions, if any of them is noisy."""
        used = frozenset[str]().union(*(self.used(node) for node in nodes))
        if used:
            self.uses[name] = used

    def noisy(self, node: Any) -> bool:
        """Whether an expression holds a noisy number."""
        return any(column.name in self.uses for column in node.find_all(exp.Column))

    def checked(self, node: Any) -> Any:
        """Refuse an expression over answered groups that is not scalar."""
        self.source.bounded(node)
        for part in node.walk():
            ours = isinstance(part, exp.Anonymous) and str(part.this).startswith("mq_")
            if not isinstance(part, (*SCALARS, exp.Anonymous)) and not ours:
                here = self.source.named(part).removesuffix(" here")
                self.source.refuse(part, f"{here} here is", instead(part))
            if not isinstance(part, (*NOISY, exp.Anonymous)) and self.noisy(part):
                what = self.source.named(part).removesuffix(" here")
                self.source.refuse(part, f"{what} of a noisy number is", _texts_of(part))
            if isinstance(part, exp.Anonymous) and not ours:
                self.source.scalar(part)
        return node

    def filtered(self, relation: p.Answers, condition: Any) -> p.Answers:
        """The rows of answered groups for which a condition holds."""
        self.checked(condition)
        if self.noisy(condition):
            self.together = True
        return p.Filter(relation, condition)

    def limited(self, node: Any, count: int) -> None:
        """Refuse a text that would measure too many tables."""
        if count + len(self.statements) > MOST_STATEMENTS:
            self.source.refuse(
                node, f"more than {MOST_STATEMENTS} tables of groups in one question are", "ask it in parts"
            )


def column(name: str) -> Any:
    """A column of a relation."""
    return exp.column(name, quoted=True)
