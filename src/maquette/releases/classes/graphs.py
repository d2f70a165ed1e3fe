"""Synthetic graph: the edges that a released model would have, for networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query import FROM, TO, WEIGHT, edge_weights, vertices_of
from maquette.releases.artifact import Release
from maquette.schema import Schema

if TYPE_CHECKING:
    import networkx as nx


class Sampled(Protocol):
    """A model of an edge table: any hypothesis, or the model of a release."""

    @property
    def schema(self) -> Schema:
        """The universe."""

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records."""


def synthetic_graph(
    source: Release | Sampled,
    *,
    edges: int | None = None,
    undirected: bool = False,
    rng: np.random.Generator | None = None,
) -> nx.DiGraph:
    """A weighted networkx graph of `edges` edges (default: the number that the release estimates) from a model.

    It has all declared vertices. The attribute `weight` is the number of edges from one vertex to the other, or the sum
    of their weights if the schema has weights; every pair has its share, rounded down or up. `undirected` makes an
    nx.Graph, in which both directions are one edge.

    Privacy: post-processing of a release, free of charge; it protects edges, not vertices, as the release does.
    Accuracy: that of the model, up to one edge for each pair.
    """
    try:
        import networkx as nx
    except ImportError:
        raise QueryError(
            "a synthetic graph needs networkx, which is not installed", advice="pip install 'maquette[graphs]'"
        ) from None
    model = source.model if isinstance(source, Release) else source
    schema = source.schema
    labels = vertices_of(schema)
    if edges is None and not isinstance(source, Release):
        raise QueryError("a model does not know how many edges there are", advice="say so with edges=")
    count = round(source.rows) if edges is None and isinstance(source, Release) else edges
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise QueryError(f"edges is {edges!r}", expected="a whole number, 0 or more")
    records = model.sample(count, rng or np.random.default_rng())
    graph = nx.Graph() if undirected else nx.DiGraph()
    graph.add_nodes_from(labels)
    for (start, end), weight in _pairs(schema, records).items():
        before = graph.get_edge_data(labels[start], labels[end], {"weight": 0.0})["weight"]
        graph.add_edge(labels[start], labels[end], weight=before + weight)
    return graph


def _pairs(schema: Schema, records: NDArray[np.int32]) -> dict[tuple[int, int], float]:
    """The number or the total weight of the records between every two vertices that have any."""
    start, end = (records[:, schema.position(name)].astype(np.int64) for name in (FROM, TO))
    levels = edge_weights(schema)
    weights = np.ones(len(records)) if levels is None else levels[records[:, schema.position(WEIGHT)]]
    pairs, inverse = np.unique(start * schema[TO].size + end, return_inverse=True)
    totals = np.bincount(inverse.reshape(-1), weights=weights, minlength=len(pairs))
    return {divmod(int(pair), schema[TO].size): float(total) for pair, total in zip(pairs, totals, strict=True)}
