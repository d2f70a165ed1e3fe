"""Perceptron: a signed vector, moved along the query that it got wrong; and its practical form, Kaczmarz."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.mirror_descent import (
    Vector,
    VectorModel,
    check_norms,
    check_query_norm,
    norm_bound,
    on_simplex,
    squared_norm,
)
from maquette.hypothesis.multiplicative_weights import check_alpha
from maquette.query import LinearQuery
from maquette.schema import Schema

PerceptronStep = Literal["theory", "book", "kaczmarz"]


class Perceptron(VectorModel):
    """Additive steps: `vector += step * query`, from zero.

    theory: alpha / ||f||_2^2 times the sign of the gap; book: alpha / N times the sign. kaczmarz (starts from uniform):
    the whole gap / ||f||_2^2, after which the answer equals the value, then the nearest distribution, which undoes a
    part of the step; with noisy values it has no bound on updates.

    Privacy: post-processing of released values. Accuracy: T(alpha) = norm^2 query_norm^2 / alpha^2, where `norm` is a
    public bound on ||x||_2 / ||x||_1 of the table's histogram x; never compute it from the rows. It is at most 1,
    m^(-1/2) for a simple graph of m edges. `query_norm` bounds ||f||_2 of every query, sqrt(N) by default and for the
    book's steps; a query beyond it is refused. Values are fractions of rows: in counts the step is alpha n / N
    (Mechanisms §4.5, erratum A9).
    """

    kind: ClassVar[str] = "perceptron"

    def __init__(
        self,
        schema: Schema,
        *,
        alpha: float,
        step: PerceptronStep = "theory",
        norm: float = 1.0,
        query_norm: float | None = None,
    ) -> None:
        super().__init__(schema)
        self.alpha = check_alpha(alpha)
        if step not in get_args(PerceptronStep):
            raise QueryError(f"there is no step {step!r}", expected=f"one of {', '.join(get_args(PerceptronStep))}")
        if query_norm is not None and step != "theory":
            raise QueryError(f"query_norm is {query_norm} with step {step!r}", advice='it is for step="theory"')
        self.norm, self.query_norm = check_norms(norm, query_norm)
        self.step = step
        if step == "kaczmarz":
            self._vector = on_simplex(self._vector)

    @classmethod
    def practical(cls, schema: Schema, rows: float) -> Self:
        """A fresh model with Kaczmarz steps."""
        return cls(schema, alpha=1.0, step="kaczmarz")

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """N / alpha^2, without knowledge of the table; `update_bound` uses `norm`."""
        return norm_bound(schema.size, check_alpha(alpha), 2.0)

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step and norm."""
        if self.step == "kaczmarz":
            return math.inf
        return norm_bound(self.schema.size, self.alpha, 2.0, self.norm, self.query_norm)

    def check(self, query: LinearQuery) -> None:
        """Refuse a query whose norm exceeds `query_norm`."""
        check_query_norm(query, self.query_norm, 2.0)

    def facts(self) -> dict[str, Any]:
        """The settings."""
        norms = {} if self.query_norm is None else {"query_norm": self.query_norm}
        return {"alpha": self.alpha, "step": self.step, "norm": self.norm, **norms}

    def arrays(self) -> Arrays:
        """The vector."""
        return {"cells": self._vector}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        vector = saving.array(arrays, "cells", schema.shape(schema.names), most=saving.LARGEST)
        norm, bound = (
            saving.number(facts, "norm"),
            saving.number(facts, "query_norm") if "query_norm" in facts else None,
        )
        model = cls(schema, alpha=saving.number(facts, "alpha"), step=facts["step"], norm=norm, query_norm=bound)
        model._vector = vector
        return model

    def _step(self, weights: Vector, gap: float) -> None:
        if self.step == "kaczmarz":
            self._vector = on_simplex(self._vector + (gap / squared_norm(weights, 2.0)) * weights)
            return
        size = self.alpha / (self.schema.size if self.step == "book" else squared_norm(weights, 2.0))
        self._vector += math.copysign(size, gap) * weights

    def __repr__(self) -> str:
        return f"Perceptron({self.schema.size:,} cells, step {self.step})"
