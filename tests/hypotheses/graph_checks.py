"""What the tests of graphical models share: random models and the same distribution written out in full."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from maquette.hypothesis.graphical import GraphicalModel
from maquette.schema import Integer, Schema

Vector = NDArray[np.float64]


def universe(*sizes: int) -> Schema:
    return Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])


def chosen(schema: Schema, rng: np.random.Generator, most: int) -> tuple[str, ...]:
    """A few columns in any order."""
    count = rng.integers(1, min(most, len(schema)) + 1)
    return tuple(str(name) for name in rng.permutation(schema.names)[:count])


def random_model(seed: int, *, scale: float | None = None, zeros: bool = True) -> GraphicalModel:
    """Up to six columns of up to four levels, up to seven cliques; some with impossible cells."""
    rng = np.random.default_rng(seed)
    schema = universe(*rng.integers(1, 5, rng.integers(1, 7)).tolist())
    cliques = [chosen(schema, rng, 3) for _ in range(rng.integers(0, 8))]
    impossible = []
    for _ in range(rng.integers(0, 3) if zeros else 0):
        columns = chosen(schema, rng, 2)
        mask = rng.random(schema.shape(columns)) < 0.3
        mask.reshape(-1)[0] = False  # the record of all first levels stays possible
        impossible.append((columns, mask))
    model = GraphicalModel(schema, cliques, zeros=impossible)
    scale = float(rng.choice([0.5, 3.0, 40.0])) if scale is None else scale
    return model.with_potentials({clique: rng.normal(0.0, scale, schema.shape(clique)) for clique in model.cliques})


MODELS = st.integers(0, 2**32 - 1).map(random_model)


def spread(schema: Schema, columns: tuple[str, ...], table: NDArray[Any]) -> NDArray[Any]:
    """A table over some columns, with axes of length one for all others of the schema."""
    positions = [schema.position(name) for name in columns]
    ordered = np.transpose(table, np.argsort(positions))
    return ordered.reshape([schema.columns[i].size if i in positions else 1 for i in range(len(schema))])


def written_out(model: GraphicalModel) -> tuple[Vector, float]:
    """The probability of every point of the universe and the log partition function, from the definition."""
    logs = np.zeros(model.schema.shape(model.schema.names))
    for clique, table in model.potentials.items():
        logs = logs + spread(model.schema, clique, table)
    for columns, mask in model.zeros:
        logs = np.where(spread(model.schema, columns, mask), -np.inf, logs)
    top = logs.max()
    total = float(top + np.log(np.exp(logs - top).sum()))
    return np.exp(logs - total), total


def summed(schema: Schema, full: Vector, columns: tuple[str, ...]) -> Vector:
    positions = [schema.position(name) for name in columns]
    table = full.sum(axis=tuple(i for i in range(len(schema)) if i not in positions))
    return np.asarray(np.transpose(table, np.argsort(np.argsort(positions))))


def counted(schema: Schema, records: NDArray[np.int32], columns: tuple[str, ...]) -> Vector:
    counts = np.zeros(schema.shape(columns))
    np.add.at(counts, tuple(records[:, schema.position(name)] for name in columns), 1)
    return counts
