"""Goal: what a question needs from the table: marginals, each seen through its view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from maquette.query import Axis, Buckets, Expression, LinearQuery, Marginal, Output, Statement, Term, question
from maquette.schema import Schema
from maquette.session.precision.view import MAX_COLUMNS, TooWide, View, cell_view_of, view_of


@dataclass(frozen=True)
class Goal:
    """A marginal to be known within the tolerance; if signed, its last axis is (negative, positive)."""

    marginal: Marginal
    signed: bool = False

    @cached_property
    def key(self) -> str:
        """Identifies the goal."""
        return self.marginal.key + ("±" if self.signed else "")

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each group."""
        return self.marginal.shape[:-1] if self.signed else self.marginal.shape

    @property
    def tells_parts(self) -> bool:
        """Whether it is a whole table with few enough columns, which informs about all its parts at once.

        Converted to parts, the Gaussian noise of a table stays jointly sub-Gaussian; Laplace noise would not stay
        independent.
        """
        marginal = self.marginal
        columns = len(marginal.axes) <= MAX_COLUMNS and all(isinstance(axis, str) for axis in marginal.axes)
        return columns and marginal.weight == LinearQuery.constant(marginal.schema)

    def view(self, *, cells: bool) -> View | None:
        """How it depends on the parts, or on the cells of the universe; None where that would be too large."""
        return self._by_cells if cells else self._by_parts

    @cached_property
    def _by_parts(self) -> View | None:
        try:
            return view_of(self.marginal, signed=self.signed)
        except TooWide:
            return None

    @cached_property
    def _by_cells(self) -> View | None:
        try:
            return cell_view_of(self.marginal, signed=self.signed)
        except TooWide:
            return None


@lru_cache(64)
def everyone(schema: Schema) -> Goal:
    """The number of rows, which every fraction needs."""
    return Goal(Marginal(schema))


@dataclass(frozen=True)
class Question:
    """A parsed question of a user: a condition (answered by a fraction of rows) or a statement."""

    parsed: LinearQuery | Statement

    @classmethod
    def of(cls, schema: Schema, asked: str | Expression | LinearQuery) -> Question:
        """Parse the question; an invalid one is refused here, before anything is charged."""
        return cls(question(schema, asked))

    @cached_property
    def key(self) -> str:
        """The canonical question: equal for questions that must get the same answer."""
        if isinstance(self.parsed, LinearQuery):
            return f"fraction {self.parsed.key}"
        outputs = [
            (o.title, o.kind, o.axis, o.measure and o.measure.marginal.key, o.per and o.per.key)
            for o in self.parsed.outputs
        ]
        return repr((outputs, [Marginal(self.parsed.schema, self.parsed.axes).labels]))

    @cached_property
    def goals(self) -> tuple[Goal, ...]:
        """Every distinct marginal it needs."""
        if isinstance(self.parsed, LinearQuery):
            schema = self.parsed.schema
            return Goal(Marginal(schema, (), self.parsed)), everyone(schema)
        found = [goal for output in self.parsed.outputs for goal in goals_of(output)]
        return tuple({goal.key: goal for goal in found}.values())


def goals_of(output: Output) -> tuple[Goal, ...]:
    """What one output of a statement needs: its measure, then the denominator of an average."""
    if output.measure is None:
        return ()
    measured = Goal(output.measure.marginal, output.measure.signed)
    return (measured,) if output.per is None else (measured, Goal(output.per))


def as_json(marginal: Marginal) -> dict[str, Any]:
    """A marginal as exact, public JSON: the ledger keeps it so that a restart can ask for it again."""
    return {"axes": [_axis(axis) for axis in marginal.axes], "weight": _terms(marginal.weight)}


def from_json(schema: Schema, stored: Mapping[str, Any]) -> Marginal:
    """The marginal that `as_json` described."""
    axes: list[Axis] = [
        axis
        if isinstance(axis, str)
        else Buckets(axis["name"], tuple(axis["labels"]), tuple(_query(schema, part) for part in axis["parts"]))
        for axis in stored["axes"]
    ]
    return Marginal(schema, axes, _query(schema, stored["weight"]))


def _axis(axis: Axis) -> str | dict[str, Any]:
    if isinstance(axis, str):
        return axis
    return {"name": axis.name, "labels": list(axis.labels), "parts": [_terms(part) for part in axis.parts]}


def _terms(query: LinearQuery) -> list[Any]:
    return [[term.coefficient, {str(p): factor.tolist() for p, factor in term.factors.items()}] for term in query.terms]


def _query(schema: Schema, stored: list[Any]) -> LinearQuery:
    return LinearQuery(
        schema,
        [
            Term(coefficient, {int(position): np.array(factor) for position, factor in factors.items()})
            for coefficient, factors in stored
        ],
    )
