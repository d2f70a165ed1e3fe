"""Cuts of a graph with private edges: the number or total weight of edges from one set of vertices to another.

A graph is a table with a row for each edge (columns "from" and "to", and "weight" if edges have one) over the public
vertices. A cut weighs an edge by 1_S(from) * 1_T(to): a product of one factor for each column, so it is a linear query
like any other.

Privacy protects rows, hence edges: the presence of one edge, or all edges of one person if the privacy unit is a
person. It does not protect vertices: one vertex may have an edge to every other, and all of them together are visible.
Mechanisms §11.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError, SchemaError
from maquette.query.linear import LinearQuery, Term
from maquette.query.marginal import MAX_OUTPUT, Marginal
from maquette.query.workload import Workload
from maquette.schema import Category, Column, Number, Schema, nearest

FROM, TO, WEIGHT = "from", "to", "weight"
MAX_BIPARTITIONS = 16  # maximum vertices of `bipartitions`: 65,534 cuts

Vertices = Iterable[str | int] | NDArray[Any]
Mask = NDArray[np.bool_]
Values = NDArray[np.float64]


class Flows(Protocol):
    """Has probabilities over the cells of an edge table: a hypothesis, or the model of a release."""

    @property
    def schema(self) -> Schema:
        """The universe."""

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of these columns."""


def edge_schema(vertices: int | Sequence[str | int], *, weighted: int = 0, columns: Iterable[Column] = ()) -> Schema:
    """The universe of an edge table: "from" and "to" over the same vertices, and "weight" if edges have one.

    `vertices` is a list of names, or the number of vertices (then named 0, 1, ...). A table with other vertices is
    refused when it is opened. `weighted=k` clamps weights to [0, 1] and rounds them to multiples of 1/k; this
    multiplies the universe by k + 1. `columns` adds more columns, such as the hour.

    >>> edge_schema(["north", "south", "sea"])
    Schema(2 columns, universe 9: from, to)
    """
    if isinstance(weighted, bool) or not isinstance(weighted, int) or weighted < 0:
        raise SchemaError(f"weighted is {weighted!r}", expected="how many steps weights have from 0 to 1, such as 10")
    if isinstance(vertices, bool | str) or not isinstance(vertices, int | Sequence):
        raise SchemaError(f"vertices is {vertices!r}", expected="a list of names, or how many there are")
    names = tuple(range(vertices)) if isinstance(vertices, int) else tuple(vertices)
    if len(names) < 2:
        raise SchemaError(f"the graph has {len(names)} vertices", expected="at least 2")
    # Not Integer columns, which clamp values to their range: an edge with an undeclared vertex must be refused.
    ends: list[Column] = [Category(name, names) for name in (FROM, TO)]
    if weighted:  # bins centred at the multiples of 1/k, to which weights are rounded
        ends.append(Number(WEIGHT, edges=[(i - 0.5) / weighted for i in range(weighted + 2)]))
    return Schema([*ends, *columns])


def cut(
    schema: Schema,
    sources: Vertices,
    targets: Vertices | None = None,
    *,
    undirected: bool = False,
    weighted: bool | None = None,
) -> LinearQuery:
    """The edges from S to T (default: all other vertices), or their total weight if the schema has weights.

    The answer on a table is a fraction of its edges. `undirected` counts each edge once, in either direction.
    `weighted=False` ignores weights and counts edges. A set is a list of vertices, or one truth value per vertex.

    >>> schema = edge_schema(["north", "south", "sea"])
    >>> cut(schema, ["north"]) == cut(schema, ["north"], ["sea", "south"])
    True
    >>> cut(schema, ["north"], ["sea"], undirected=True) == cut(schema, ["sea"], ["north"], undirected=True)
    True
    """
    one = _mask(schema, sources, "S")
    two = _others(one) if targets is None else _mask(schema, targets, "T")
    return _product(schema, one, two, undirected=undirected, weights=edge_weights(schema, weighted))


class Cuts(Workload):
    """A list of cuts, stored as two truth values per vertex and cut; made by `cuts`, `bipartitions`, `degrees`."""

    def __init__(
        self,
        schema: Schema,
        sources: Mask,
        targets: Mask,
        *,
        undirected: bool = False,
        weighted: bool | None = None,
        title: str = "cuts",
    ) -> None:
        self.schema = schema
        self.sources = sources
        self.targets = targets
        self.undirected = undirected
        self._levels = edge_weights(schema, weighted)
        self._named = title

    @property
    def size(self) -> int:
        """The number of cuts."""
        return len(self.sources)

    @property
    def weighted(self) -> bool:
        """Whether edges count by their weight."""
        return self._levels is not None

    @property
    def areas(self) -> Values:
        """The squared norm of each cut's weights; without edge weights, the number of vertex pairs in the cut."""
        one, two, both = (part.sum(axis=1) for part in (self.sources, self.targets, self.sources & self.targets))
        pairs = 2.0 * one * two - 1.0 * both**2 if self.undirected else 1.0 * one * two
        return np.asarray(pairs if self._levels is None else pairs * float((self._levels**2).sum()))

    @property
    def marginals(self) -> Iterator[Marginal]:
        """The tables whose cells answer every cut, or the cuts themselves if the tables would be too large."""
        every = (self.sources.all(axis=1), self.targets.all(axis=1))
        needed = np.stack([~side for side in every], axis=1)
        if self.undirected:
            needed |= needed.any(axis=1, keepdims=True)
        weight = [WEIGHT] if self.weighted else []
        for ends in sorted({tuple(row) for row in needed.tolist()}):
            names = [*itertools.compress((FROM, TO), ends), *weight]
            if self.schema.cells(names) <= MAX_OUTPUT:
                yield Marginal(self.schema, names)
            else:
                chosen = np.flatnonzero((needed == ends).all(axis=1))
                yield from (Marginal(self.schema, (), self._query(int(index))) for index in chosen)

    def answers(self, model: Flows) -> Values:
        """The answer of a model to every cut, all at once."""
        flows = flow_matrix(model, weighted=self.weighted)
        one, two = self.sources.astype(np.float64), self.targets.astype(np.float64)
        values = ((one @ flows) * two).sum(axis=1)
        if self.undirected:
            both = one * two
            values += ((two @ flows) * one).sum(axis=1) - ((both @ flows) * both).sum(axis=1)
        return np.asarray(values)

    def _query(self, index: int) -> LinearQuery:
        one, two = self.sources[index], self.targets[index]
        return _product(self.schema, one, two, undirected=self.undirected, weights=self._levels)

    def _title(self) -> str:
        return f"{self._named} of {self.sources.shape[1]:,} vertices"


def cuts(
    schema: Schema,
    pairs: Iterable[tuple[Vertices, Vertices | None]],
    *,
    undirected: bool = False,
    weighted: bool | None = None,
) -> Cuts:
    """The listed cuts (S, T), in order; T may be None for all other vertices.

    >>> cuts(edge_schema(4), [([0], None), ([0, 1], [2, 3])])
    cuts of 4 vertices: 2 queries
    """
    one, two = [], []
    for sources, targets in pairs:
        one.append(_mask(schema, sources, "S"))
        two.append(_others(one[-1]) if targets is None else _mask(schema, targets, "T"))
    if not one:
        raise QueryError("the list of cuts is empty", expected="at least one pair (S, T)")
    return Cuts(schema, np.array(one), np.array(two), undirected=undirected, weighted=weighted)


def bipartitions(schema: Schema, *, undirected: bool = False, weighted: bool | None = None) -> Cuts:
    """Every cut between a set of vertices and all others: 2^|V| - 2 of them, half as many if `undirected`.

    >>> bipartitions(edge_schema(5)), bipartitions(edge_schema(5), undirected=True)
    (bipartitions of 5 vertices: 30 queries, bipartitions of 5 vertices: 15 queries)
    """
    count = len(vertices_of(schema))
    if count > MAX_BIPARTITIONS:
        raise QueryError(
            f"{count:,} vertices have 2^{count} bipartitions; all are listed only for at most "
            f"{MAX_BIPARTITIONS} vertices",
            advice="list the ones you need with `cuts`, or ask them one at a time in a session",
        )
    numbers = np.arange(1, 2 ** (count - 1) if undirected else 2**count - 1)
    sources = (numbers[:, None] >> np.arange(count)) % 2 == 1
    return Cuts(schema, sources, ~sources, undirected=undirected, weighted=weighted, title="bipartitions")


def degrees(schema: Schema, *, undirected: bool = False, weighted: bool | None = None) -> Cuts:
    """The edges out of every vertex, then those into every vertex; if `undirected`, the edges at every vertex."""
    one = np.eye(len(vertices_of(schema)), dtype=np.bool_)
    every = np.ones_like(one)
    sources, targets = (one, every) if undirected else (np.vstack([one, every]), np.vstack([every, one]))
    return Cuts(schema, sources, targets, undirected=undirected, weighted=weighted, title="degrees")


def vertices_of(schema: Schema) -> tuple[str, ...]:
    """The vertices of an edge table; any other schema is refused."""
    if FROM not in schema or TO not in schema or schema[FROM].labels != schema[TO].labels:
        raise QueryError(
            f"cuts need the columns {FROM!r} and {TO!r} over the same vertices, which {schema!r} does not have",
            advice="make the schema with edge_schema",
        )
    return schema[FROM].labels


def flow_matrix(model: Flows, *, weighted: bool | None = None) -> Values:
    """A model's fraction of edges (or weight, as in `cut`) from each vertex (row) to each vertex (column)."""
    levels = edge_weights(model.schema, weighted)
    if levels is None:
        return model.marginal((FROM, TO))
    return np.asarray(model.marginal((FROM, TO, WEIGHT)) @ levels)


def edge_weights(schema: Schema, weighted: bool | None = None) -> Values | None:
    """The weight of each level of the weight column, or None if every edge counts 1."""
    vertices_of(schema)
    if weighted is None:
        weighted = WEIGHT in schema
    if not weighted:
        return None
    column = schema[WEIGHT]
    levels = None if column.midpoints is None else column.midpoints.round(12)
    if levels is None or column.nullable or levels.min() < 0.0 or levels.max() > 1.0:
        raise QueryError(
            f"the column {WEIGHT!r} ({column.kind}) does not hold weights from 0 to 1",
            advice="make it with edge_schema(..., weighted=...), or count edges with weighted=False",
        )
    return levels + 0.0  # no negative zero


def _mask(schema: Schema, chosen: Vertices, what: str) -> Mask:
    """Truth values for every vertex, from vertices or from truth values."""
    labels = vertices_of(schema)
    if isinstance(chosen, str | int):
        raise QueryError(f"{what} is {chosen!r}", expected="a set of vertices", advice=f"write [{chosen!r}]")
    if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_:
        if chosen.shape != (len(labels),):
            raise QueryError(
                f"{what} has truth values of shape {chosen.shape}", expected=f"one for each of {len(labels)}"
            )
        mask = chosen.copy()
    else:
        places = {label: i for i, label in enumerate(labels)}
        names = [str(vertex) for vertex in chosen]
        _refuse_unknown([name for name in names if name not in places], labels, what)
        mask = np.zeros(len(labels), dtype=np.bool_)
        mask[[places[name] for name in names]] = True
    if not mask.any():
        raise QueryError(f"{what} is empty", expected=f"at least one of the {len(labels):,} vertices")
    return mask


def _refuse_unknown(unknown: Sequence[str], labels: Sequence[str], what: str) -> None:
    if not unknown:
        return
    close, more = nearest(unknown[0], labels), ", ..." if len(labels) > 5 else ""
    hint = f"did you mean {' or '.join(close)}?" if close else f"vertices are {', '.join(labels[:5])}{more}"
    raise QueryError(f"{what} holds {unknown[0]!r}, which is not a declared vertex", advice=hint)


def _others(sources: Mask) -> Mask:
    if sources.all():
        raise QueryError("S holds every vertex, so that no other is left for T", advice="give fewer, or say what T is")
    return ~sources


def _product(schema: Schema, one: Mask, two: Mask, *, undirected: bool, weights: Values | None) -> LinearQuery:
    """The product of the two sets; for undirected edges also in the other direction."""
    start, end = schema.position(FROM), schema.position(TO)
    scale = {} if weights is None else {schema.position(WEIGHT): weights}

    def term(coefficient: float, first: Mask, second: Mask) -> Term:
        return Term(coefficient, {start: first.astype(np.float64), end: second.astype(np.float64), **scale})

    terms = [term(1.0, one, two)]
    if undirected:  # an edge inside both sets would be counted twice
        terms += [term(1.0, two, one), term(-1.0, one & two, one & two)]
    return LinearQuery(schema, terms)
