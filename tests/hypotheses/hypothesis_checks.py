"""What the tests of the update rules share: universes, queries, models to build and adversaries to run them against."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis import (
    CutDecomposition,
    GraphicalModel,
    Hypothesis,
    LinearWeights,
    Median,
    MirrorDescent,
    Mixture,
    MultiplicativeWeights,
    Perceptron,
    Separable,
    SparseWeights,
    WeightedRecords,
)
from maquette.query import LinearQuery, additive
from maquette.schema import Integer, Schema

Vector = NDArray[np.float64]
Adversary = Literal["min-gap", "max-gap", "random"]
ADVERSARIES: tuple[Adversary, ...] = ("min-gap", "max-gap", "random")
ALPHA = 0.1

SMALL = Schema([Integer("a", 0, 2), Integer("b", 0, 1), Integer("c", 0, 3)])


@dataclass(frozen=True)
class Variant:
    """One way to build a registered class; `distribution`: it answers as one does; `sums`: it learns sums alone."""

    name: str
    build: Callable[[], Hypothesis]
    signs_only: bool = True
    distribution: bool = True
    sums: bool = False

    def ask(self, schema: Schema, rng: np.random.Generator) -> LinearQuery:
        return random_sum(schema, rng) if self.sums else random_query(schema, rng)

    def __str__(self) -> str:
        return self.name


def all_records(schema: Schema) -> NDArray[np.int32]:
    return np.indices(schema.shape(schema.names)).reshape(len(schema), -1).T.astype(np.int32)


def random_net(schema: Schema, size: int) -> Vector:
    return np.random.default_rng(5).dirichlet(np.full(schema.size, 0.5), size)


def random_mixture(schema: Schema, blocks: list[tuple[str, ...]], components: int = 5, seed: int = 5) -> Mixture:
    rng = np.random.default_rng(seed)
    tables = [(columns, rng.dirichlet(np.full(schema.cells(columns), 0.7), components)) for columns in blocks]
    return Mixture(schema, rng.dirichlet(np.ones(components)), tables)


VARIANTS: dict[str, list[Variant]] = {
    "cut-decomposition": [
        Variant("theory", lambda: CutDecomposition(SMALL, alpha=ALPHA), distribution=False),
        Variant("centred", lambda: CutDecomposition(SMALL, alpha=ALPHA, step="centred"), distribution=False),
        Variant("exact", lambda: CutDecomposition(SMALL, alpha=ALPHA, step="exact"), False, distribution=False),
    ],
    "graphical": [
        Variant("theory", lambda: GraphicalModel(SMALL, alpha=ALPHA)),
        Variant("book", lambda: GraphicalModel(SMALL, alpha=ALPHA, step="book")),
        Variant("exact", lambda: GraphicalModel(SMALL, step="exact"), signs_only=False),
    ],
    "linear-weights": [
        Variant("theory", lambda: LinearWeights(SMALL, alpha=ALPHA)),
        Variant("exact", lambda: LinearWeights(SMALL, step="exact"), signs_only=False),
    ],
    "mixture": [
        Variant("columns", lambda: random_mixture(SMALL, [("a",), ("b",), ("c",)]), signs_only=False),
        Variant("blocks", lambda: random_mixture(SMALL, [("b",), ("a", "c")]), signs_only=False),
    ],
    "multiplicative-weights": [
        Variant("theory", lambda: MultiplicativeWeights(SMALL, alpha=ALPHA)),
        Variant("book", lambda: MultiplicativeWeights(SMALL, alpha=ALPHA, step="book")),
        Variant("exact", lambda: MultiplicativeWeights(SMALL, step="exact"), signs_only=False),
        Variant(
            "prior",
            lambda: MultiplicativeWeights(SMALL, alpha=ALPHA, prior=np.arange(1.0, 25.0).reshape(3, 2, 4)),
        ),
    ],
    "perceptron": [
        Variant("theory", lambda: Perceptron(SMALL, alpha=ALPHA), distribution=False),
        Variant("book", lambda: Perceptron(SMALL, alpha=ALPHA, step="book"), distribution=False),
        Variant("kaczmarz", lambda: Perceptron(SMALL, alpha=ALPHA, step="kaczmarz"), signs_only=False),
    ],
    "mirror-descent": [
        Variant("norm", lambda: MirrorDescent(SMALL, alpha=ALPHA), distribution=False),
        Variant("norm", lambda: MirrorDescent(SMALL, alpha=ALPHA, norm=0.5, query_norm=9.0), distribution=False),
        Variant("entropy", lambda: MirrorDescent(SMALL, alpha=ALPHA, psi="entropy")),
    ],
    "median": [
        Variant(
            "random net",
            lambda: Median(SMALL, random_net(SMALL, 200), alpha=ALPHA, tolerance=0.05),
            distribution=False,
        )
    ],
    "separable": [
        Variant("theory", lambda: Separable(SMALL, alpha=ALPHA), sums=True),
        Variant(
            "book",
            lambda: Separable(SMALL, alpha=ALPHA, step="book"),
            sums=True,
        ),
        Variant(
            "exact",
            lambda: Separable(SMALL, step="exact"),
            signs_only=False,
            sums=True,
        ),
    ],
    "sparse-weights": [
        Variant("theory", lambda: SparseWeights(SMALL, support=24, alpha=ALPHA)),
        Variant("book", lambda: SparseWeights(SMALL, support=24, alpha=ALPHA, step="book")),
    ],
    "weighted-records": [
        Variant("theory", lambda: WeightedRecords(SMALL, all_records(SMALL)[::-1], alpha=ALPHA)),
        Variant("exact", lambda: WeightedRecords(SMALL, all_records(SMALL), step="exact"), signs_only=False),
    ],
}


def documented(name: str) -> Any:
    """What CONTRIBUTING defines by this name, as a reader would copy it."""
    pages = Path(__file__).parents[2] / "CONTRIBUTING.md"
    snippets = re.findall(r"^```python\n(.*?)^```", pages.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = next(snippet for snippet in snippets if f"\nclass {name}" in snippet)
    names: dict[str, Any] = {"__name__": "contributing"}
    exec(compile(found, str(pages), "exec"), names)
    return names[name]


SIGNED_CELLS: type[Hypothesis] = documented("SignedCells")
EXAMPLES: dict[str, list[Variant]] = {
    "signed-cells": [Variant("theory", lambda: SIGNED_CELLS(SMALL, alpha=ALPHA), distribution=False)],  # type: ignore[call-arg]
}


def line(cells: int) -> Schema:
    """A universe of one column, over which any weights are a product."""
    return Schema([Integer("x", 0, cells - 1)])


def weigh(schema: Schema, weights: Vector) -> LinearQuery:
    return LinearQuery.product(schema, {"x": weights})


def random_query(schema: Schema, rng: np.random.Generator) -> LinearQuery:
    """Products of predicates and weights on a few columns, sometimes complemented or joined."""
    chosen = rng.choice(len(schema), rng.integers(1, min(5, len(schema) + 1)), replace=False)
    factors: dict[str, Vector] = {}
    for position in chosen:
        size = schema.columns[position].size
        soft = rng.random() < 0.4
        factors[schema.names[position]] = rng.random(size) if soft else (rng.random(size) < 0.5).astype(float)
    query = LinearQuery.product(schema, factors)
    if rng.random() < 0.3:
        query = ~query
    return query | random_query(schema, rng) if rng.random() < 0.2 else query


def random_sum(schema: Schema, rng: np.random.Generator) -> LinearQuery:
    """Predicates and weights on all columns, in equal shares, sometimes complemented."""
    sizes = {column.name: column.size for column in schema}
    soft = rng.random() < 0.4
    query = additive(
        schema, {name: rng.random(s) if soft else rng.integers(0, 2, s).astype(float) for name, s in sizes.items()}
    )
    return ~query if rng.random() < 0.3 else query


def instance(cells: int, kind: str, rng: np.random.Generator, count: int = 400) -> tuple[Vector, Vector]:
    """A table on a third of the cells at most, and queries: random sets or weights, and every single cell."""
    drawn = rng.integers(0, 2, (count, cells)).astype(float) if kind == "sets" else rng.random((count, cells))
    table = np.zeros(cells)
    support = rng.choice(cells, rng.integers(1, max(2, cells // 3)), replace=False)
    table[support] = rng.dirichlet(np.ones(len(support)))
    return table, np.vstack([drawn, np.eye(cells)])


def updates(  # noqa: PLR0917 -- the parts of an update sequence
    model: Hypothesis,
    table: Vector,
    queries: Vector,
    alpha: float,
    adversary: Adversary,
    rng: np.random.Generator,
    limit: float,
) -> Iterator[tuple[Vector, Vector, Vector]]:
    """Every update of a worst sequence: the weights, the model before and after. Stops when no query is off by alpha.

    Values are as wrong as a valid step allows: pushed to within 1e-9 alpha of the wrong side.
    """
    truth = queries @ table
    before = model.marginal(["x"])
    for _ in range(int(limit) + 2):
        answers = queries @ before
        off = np.flatnonzero(np.abs(truth - answers) >= alpha)
        if not len(off):
            return
        gaps = np.abs(truth - answers)[off]
        chosen = off[{"min-gap": gaps.argmin(), "max-gap": gaps.argmax(), "random": rng.integers(len(off))}[adversary]]
        value = truth[chosen] + np.sign(answers[chosen] - truth[chosen]) * alpha * (1 - 1e-9)
        model.update(weigh(model.schema, queries[chosen]), float(value))
        after = model.marginal(["x"])
        yield queries[chosen], before, after
        before = after


def divergence(table: Vector, model: Vector) -> float:
    held = table > 0
    return float((table[held] * np.log(table[held] / model[held])).sum())
