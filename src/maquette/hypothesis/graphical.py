"""Graphical model: the distribution p(x) ~ exp(sum of potentials over cliques of columns), held on a junction tree.

The universe may be of any size: memory and time grow with the cells of the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.factors import Factor, Values
from maquette.hypothesis.inference import Inference
from maquette.hypothesis.junction_tree import JunctionTree
from maquette.hypothesis.kernels import check_schema, positions_of
from maquette.hypothesis.multiplicative_weights import Step, StepRule, check_masses
from maquette.hypothesis.propagation import Calibration, Plan
from maquette.hypothesis.refining import refined
from maquette.hypothesis.tree_sampling import sample_tree
from maquette.query import MAX_OUTPUT, LinearQuery
from maquette.schema import Schema

MAX_CELLS = 2**24

Clique = tuple[str, ...]
Zeros = tuple[Clique, NDArray[np.bool_]]


class GraphicalModel:
    """Log-potentials over cliques of columns; answers, marginals and samples follow from them exactly.

    A clique is a tuple of columns, and its potential a table with its axes in that order. `zeros` are pairs of columns
    and a table that is true where a combination is impossible: no record, answer or marginal gives it any mass.

    Privacy: post-processing of released values; it never sees a row. Accuracy: an update multiplies the distribution
    over the whole universe by exp(eta * query), which is multiplicative weights exactly, so T(alpha) =
    ln N / (2 alpha^2) with N the possible points of the universe (Mechanisms §4.2). A query whose columns share no
    node makes the tree grow, up to `max_cells` cells. Memory: some thirty bytes a cell of the tree. Time: a few passes
    over the tree for each change. Between updates several threads may ask.

    >>> from maquette import Boolean, Integer, Schema, where
    >>> schema = Schema([Integer("age", 0, 99, width=10), Boolean("smoker"), Boolean("insured")])
    >>> model = GraphicalModel(schema, [("age", "smoker")], step="exact")
    >>> model.update(where(schema, "age >= 50 AND smoker"), 0.1)
    >>> round(model.answer(where(schema, "smoker AND insured"), given=where(schema, "age >= 50")), 6)
    0.125
    """

    kind: ClassVar[str] = "graphical"

    def __init__(
        self,
        schema: Schema,
        cliques: Iterable[Sequence[str]] = (),
        *,
        zeros: Iterable[tuple[Sequence[str], NDArray[Any]]] = (),
        alpha: float | None = None,
        step: Step = "theory",
        floor: float = 1e-6,
        max_cells: int = MAX_CELLS,
    ) -> None:
        self.schema = schema
        self.zeros = tuple(_checked_zeros(schema, columns, mask) for columns, mask in zeros)
        self.max_cells = max_cells
        self._rule = StepRule(step=step, alpha=alpha, floor=floor)
        self._settings: dict[str, Any] = {"alpha": alpha, "step": step, "floor": floor, "max_cells": max_cells}
        given = _distinct(schema, cliques)
        sizes = {column.name: column.size for column in schema}
        tree = JunctionTree(sizes, [*given, *(columns for columns, _ in self.zeros)])
        self._refuse_large(tree)
        self._arrange(tree, given, {clique: np.zeros(schema.shape(clique)) for clique in given})

    def _arrange(self, tree: JunctionTree, cliques: Sequence[Clique], potentials: Mapping[Clique, Values]) -> None:
        """Use this tree and these potentials; probabilities are computed when first needed."""
        self._refuse_large(tree)
        self.cliques = tuple(cliques)
        self._by_set = {frozenset(clique): clique for clique in cliques}
        self.tree = tree
        self._plan = Plan(tree, [tuple(positions_of(self.schema, clique)) for clique in cliques])
        self._start = self._forbidden()
        self._set(potentials)

    def _refuse_large(self, tree: JunctionTree) -> None:
        if tree.cells > self.max_cells:
            raise QueryError(
                f"a model with these cliques has {tree.cells:,} cells, more than the {self.max_cells:,} allowed",
                advice="take smaller or fewer cliques, columns with fewer levels, or a larger max_cells",
            )

    def _forbidden(self) -> dict[int, Values]:
        """The initial tables of the nodes: -inf at impossible combinations."""
        start: dict[int, Values] = {}
        for columns, mask in self.zeros:
            i = self.tree.node_of(columns)
            assert i is not None, "the tree holds the columns of every zero"
            node = self._plan.nodes[i]
            logs = np.where(mask, -np.inf, 0.0)
            spread = Factor(logs, tuple(positions_of(self.schema, columns))).spread(node.columns)
            start[i] = np.broadcast_to(spread, node.shape) + start.get(i, 0.0)
        return start

    def _set(self, potentials: Mapping[Clique, Values]) -> None:
        self._potentials = {clique: potentials[clique] for clique in self.cliques}
        for name in ("_calibration", "_inference"):
            self.__dict__.pop(name, None)

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(self._plan, self._plan.tables(list(self._potentials.values()), self._start))

    @cached_property
    def _inference(self) -> Inference:
        return Inference(self._calibration)

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """ln N / (2 alpha^2)."""
        return StepRule(alpha=alpha).max_updates(math.log(schema.size))

    @property
    def alpha(self) -> float | None:
        """The error that a step corrects; None where steps are exact."""
        return self._rule.alpha

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha and step, if it started without potentials."""
        return self._rule.max_updates(math.log(self.schema.size))

    @property
    def cells(self) -> int:
        """The cells of all nodes of the tree."""
        return self.tree.cells

    @property
    def potentials(self) -> dict[Clique, Values]:
        """The log-potential of each clique (copies)."""
        return {clique: table.copy() for clique, table in self._potentials.items()}

    @property
    def log_partition(self) -> float:
        """The logarithm of the sum of exp(potentials) over the possible points of the universe."""
        return self._calibration.log_partition

    def calibrate(self) -> Self:
        """Compute the distribution now rather than at the first question."""
        self._calibration.joints  # noqa: B018 -- kept once computed
        return self

    def with_potentials(self, potentials: Mapping[Clique, NDArray[Any]]) -> Self:
        """The model on the same tree with other log-potentials; cliques not named keep theirs."""
        other = self._copy()
        other._set({**self._potentials, **self._checked(potentials)})
        return other

    def grown(self, cliques: Iterable[Sequence[str]], *, tree: JunctionTree | None = None) -> Self:
        """The same distribution with more cliques, whose potentials are zero; `tree` is one that holds all cliques."""
        extra = [clique for clique in _distinct(self.schema, cliques) if frozenset(clique) not in self._by_set]
        other = self._copy()
        potentials = {**self._potentials, **{clique: np.zeros(self.schema.shape(clique)) for clique in extra}}
        new = self.tree if tree is None else tree
        other._arrange(new.with_cliques(extra), [*self.cliques, *extra], potentials)
        return other

    def clique_marginals(self) -> dict[Clique, Values]:
        """The marginal of every clique: the gradient of `log_partition` by its potential."""
        return dict(zip(self.cliques, self._plan.marginals(self._calibration.joints), strict=True))

    def marginal(self, columns: Sequence[str]) -> Values:
        """The model's answers to all cells of these columns, axes in the order asked."""
        return self._marginal(columns)

    def marginals(self, sets: Iterable[Sequence[str]]) -> list[Values]:
        """The marginals of many sets of columns; work that they share is done once."""
        return [self._marginal(columns) for columns in sets]

    def _marginal(self, columns: Sequence[str]) -> Values:
        positions = positions_of(self.schema, columns)
        if self.schema.cells(columns) > MAX_OUTPUT:
            raise QueryError(
                f"{self.schema.cells(columns):,} cells over {len(columns)} columns are more than {MAX_OUTPUT:,}",
                advice="ask for fewer columns",
            )
        return self._inference.marginal(positions)

    def answer(self, query: LinearQuery, given: LinearQuery | None = None) -> float:
        """The model's answer, as a fraction of all rows, or of the rows that `given` counts."""
        if given is not None:
            mass = self.answer(given)
            if mass <= 0.0:
                raise QueryError("the model has no rows that fit the condition", advice="ask without it")
            return min(max(self.answer(query & given) / mass, 0.0), 1.0)
        check_schema(query, self.schema)
        touched = {self.schema.names[position] for term in query.terms for position in term.factors}
        if self.tree.node_of(touched) is not None:
            return float((self.marginal(query.columns) * query.weights()).sum())
        coefficients = np.array([term.coefficient for term in query.terms])
        value = float(coefficients @ np.array(self._inference.weighted(query.terms)))
        return min(max(value, 0.0), 1.0)

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value; theory and book steps use only the sign of value - answer."""
        check_schema(query, self.schema)
        weights = query.weights() if self.schema.cells(query.columns) <= self.max_cells else None
        if weights is None or self.tree.cells_with(query.columns) > self.max_cells:
            raise QueryError(
                f"a model that can correct a question about {', '.join(query.columns)} would have more cells than the "
                f"{self.max_cells:,} allowed",
                advice="measure questions of fewer columns, or take a larger max_cells",
            )
        masses = self.marginal(query.columns)
        answer = self.answer(query)
        eta = self._rule.eta(value, answer, lambda: (weights.reshape(-1), masses.reshape(-1)))
        if eta != 0.0:
            self._add(query.columns, self._rule.exponents(eta, weights))

    def scale_marginal(self, columns: Sequence[str], factors: NDArray[np.float64]) -> None:
        """Multiply each point by the factor of its cell of `columns`; measured / model marginal makes an exact step."""
        relative = check_masses(factors, self.schema.shape(columns))
        with np.errstate(divide="ignore"):
            self._add(tuple(columns), np.maximum(np.log(relative / relative.max()), -_REACH))

    def _add(self, columns: Clique, logs: Values) -> None:
        """Add log-factors to the smallest clique that holds these columns; if there is none, they become a clique."""
        if all(not set(columns) <= set(clique) for clique in self.cliques):
            grown = self.grown([columns])
            self._arrange(grown.tree, grown.cliques, grown._potentials)
        holding = [clique for clique in self.cliques if set(columns) <= set(clique)]
        clique = min(holding, key=self.schema.cells)
        spread = Factor(logs, tuple(positions_of(self.schema, columns))).spread(positions_of(self.schema, clique))
        self._set({**self._potentials, clique: self._potentials[clique] + spread})

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, drawn and then refined: tables of two and three columns are close to the model's."""
        return refined(self, self.draw(rows, rng))

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records, drawn node by node: given earlier columns, each combination has its share, rounded."""
        return sample_tree(self._calibration, rows, rng, start)

    def facts(self) -> dict[str, Any]:
        """The cliques, including every node of the tree, and the update settings if there are any.

        With all nodes among the cliques the restored tree is the same; without them it may be larger.
        """
        cliques = [list(clique) for clique in self.grown(self.tree.nodes).cliques]
        return {"cliques": cliques} | ({} if self._rule == StepRule() else {"rule": self._rule.facts()})

    def arrays(self) -> Arrays:
        """The potential of each of these cliques."""
        potentials = self.grown(self.tree.nodes).potentials.values()
        return {str(i): potential for i, potential in enumerate(potentials)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe; its zeros come from the schema."""
        cliques = [saving.names({"clique": clique}, "clique") for clique in facts["cliques"]]
        potentials = {clique: saving.array(arrays, str(i), schema.shape(clique)) for i, clique in enumerate(cliques)}
        rule = StepRule.restore(facts["rule"]) if "rule" in facts else StepRule()
        model = cls(schema, cliques, zeros=schema.zeros, alpha=rule.alpha, step=rule.step, floor=rule.floor)
        return model.with_potentials(potentials)

    def state(self) -> dict[str, NDArray[Any]]:
        """The whole model as plain arrays, for `from_state`."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, (clique, table) in enumerate(self._potentials.items()):
            arrays[f"clique-{i}"] = np.array(positions_of(self.schema, clique), dtype=np.int64)
            arrays[f"potential-{i}"] = table.copy()
        for i, (columns, mask) in enumerate(self.zeros):
            arrays[f"zero-columns-{i}"] = np.array(positions_of(self.schema, columns), dtype=np.int64)
            arrays[f"zero-{i}"] = mask.copy()
        return arrays

    @classmethod
    def from_state(cls, schema: Schema, state: Mapping[str, NDArray[Any]], **settings: Any) -> Self:
        """The model that `state` describes; the update settings must be given again."""

        def named(key: str) -> list[Clique]:
            lists = [state[f"{key}-{i}"] for i in range(len(state)) if f"{key}-{i}" in state]
            return [tuple(schema.names[int(position)] for position in each) for each in lists]

        cliques, zero_columns = named("clique"), named("zero-columns")
        zeros = [(columns, state[f"zero-{i}"]) for i, columns in enumerate(zero_columns)]
        model = cls(schema, cliques, zeros=zeros, **settings)
        return model.with_potentials({clique: state[f"potential-{i}"] for i, clique in enumerate(cliques)})

    def _copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__ = {k: v for k, v in self.__dict__.items() if k not in {"_calibration", "_inference"}}
        return other

    def _checked(self, potentials: Mapping[Clique, NDArray[Any]]) -> dict[Clique, Values]:
        checked: dict[Clique, Values] = {}
        for clique, table in potentials.items():
            known = clique if clique in self._potentials else self._by_set.get(frozenset(clique))
            if known is None:
                raise QueryError(
                    f"{', '.join(clique)} is not a clique of the model", advice=f"add it with grown([{clique!r}])"
                )
            values = np.asarray(table, dtype=np.float64)
            if known != clique and values.ndim == len(clique):
                values = values.transpose([clique.index(name) for name in known])
            if values.shape != self._potentials[known].shape:
                raise QueryError(
                    f"the potential of {', '.join(clique)} has shape {np.shape(table)}",
                    expected=f"shape {self.schema.shape(clique)}",
                )
            with np.errstate(invalid="ignore"):
                total = float(values.sum())  # finite only if all are, and cheaper than looking at each
            if not math.isfinite(total):
                raise QueryError(
                    f"the potential of {', '.join(clique)} must be finite", advice="declare impossible cells as zeros"
                )
            checked[known] = values
        return checked

    def __repr__(self) -> str:
        return f"GraphicalModel({len(self.cliques)} cliques, {self.tree!r})"


_REACH = 400.0 * math.log(2.0)


def _distinct(schema: Schema, cliques: Iterable[Sequence[str]]) -> list[Clique]:
    """The cliques as tuples, each set of columns once."""
    found: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        positions_of(schema, clique)
        found.setdefault(frozenset(clique), tuple(clique))
    return list(found.values())


def _checked_zeros(schema: Schema, columns: Sequence[str], mask: NDArray[Any]) -> Zeros:
    positions_of(schema, columns)
    table = np.asarray(mask)
    if table.dtype != np.bool_ or table.shape != schema.shape(columns):
        raise QueryError(
            f"zeros over {', '.join(columns)}: got {table.dtype} of shape {table.shape}",
            expected=f"a table of true and false of shape {schema.shape(columns)}",
        )
    return tuple(columns), table
