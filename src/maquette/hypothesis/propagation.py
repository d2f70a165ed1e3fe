"""Belief propagation on a junction tree: from log-potentials to a product of conditional distributions.

    p(x) = product over nodes of  p(the node's own columns | its separator)

One pass from the leaves to the root turns the table of each node into that conditional, and passes the logarithm of its
sums on to the parent. The largest entry for each separator cell is subtracted before exponentials are taken, so
conditionals are exact even where potentials differ widely. A pass back gives the joint tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maquette.errors import QueryError
from maquette.hypothesis.elimination import mask_of, members
from maquette.hypothesis.exponential import exponentials
from maquette.hypothesis.factors import Columns, Factor, Values
from maquette.hypothesis.junction_tree import JunctionTree

_MANY = 2**17  # cells of a tree from which compiled exponentials are worth loading


@dataclass(frozen=True)
class Node:
    """The place of a node in the tree and the layout of its table, as a matrix of separator cells and the rest.

    The longer of the two sides comes last: sums over either side then run along memory.
    """

    columns: Columns
    shape: tuple[int, ...]
    separator: Columns
    own: Columns
    parent: int
    children: tuple[int, ...]
    matrix: tuple[int, int]
    rest_axis: int


@dataclass(frozen=True)
class Link:
    """How a table over fewer columns is added to a larger one, and how the larger one is summed to it."""

    order: tuple[int, ...]  # transposes the small table to the order of the large one
    back: tuple[int, ...]
    shape: tuple[int, ...]  # with axes of length one for what the small table lacks
    gone: tuple[int, ...]  # axes of the large table that the small one lacks

    @classmethod
    def between(cls, small: Columns, large: Columns, sizes: Sequence[int]) -> Link:
        """The link from a table over `small` to one over `large`, which holds all its columns."""
        shared = [column for column in large if column in small]
        return cls(
            tuple(small.index(column) for column in shared),
            tuple(shared.index(column) for column in small),
            tuple(sizes[column] if column in small else 1 for column in large),
            tuple(axis for axis, column in enumerate(large) if column not in small),
        )

    def spread(self, small: Values) -> Values:
        """The small table, to be broadcast over the large one."""
        return small.transpose(self.order).reshape(self.shape)

    def summed(self, large: Values) -> Values:
        """The sums of the large table over what the small one lacks."""
        return np.asarray(np.add.reduce(large, axis=self.gone)).transpose(self.back)


@dataclass(frozen=True)
class Entry:
    """A clique of the model: the node that holds it, and the larger clique (-1: the node) it is added to.

    `stored` are its columns in the order of the node, where axes run from short to long.
    """

    columns: Columns
    stored: Columns
    node: int
    source: int
    store: tuple[int, ...]  # transposes from `columns` to `stored`, and back
    restore: tuple[int, ...]
    link: Link


class Plan:
    """Everything that can be computed before any potential is known: node layouts, and where each clique belongs."""

    def __init__(self, tree: JunctionTree, cliques: Sequence[Columns]) -> None:
        self.tree = tree
        self.sizes = tuple(tree.sizes.values())
        self.nodes = tuple(self._node(i) for i in range(len(tree.nodes)))
        self.links = tuple(self._link(node) for node in self.nodes)
        self.entries = self._entries(cliques)
        # From the smallest on, so that what is summed into a clique is complete when its turn comes.
        self.upwards = sorted(range(len(cliques)), key=lambda i: (self.cells(cliques[i]), len(cliques[i])))
        # The columns that first appear in a node or under it.
        self.below = [set(node.own) for node in self.nodes]
        for i in range(len(self.nodes) - 1, 0, -1):
            self.below[self.nodes[i].parent] |= self.below[i]

    def cells(self, columns: Columns) -> int:
        """The cells of a table over these columns."""
        return math.prod(self.sizes[column] for column in columns)

    def _node(self, i: int) -> Node:
        def sort(mask: int) -> Columns:
            return tuple(sorted(members(mask), key=lambda column: (self.sizes[column], column)))

        separator, own = sort(self.tree.separator_masks[i]), sort(self.tree.masks[i] & ~self.tree.separator_masks[i])
        outer, inner = self.cells(separator), self.cells(own)
        columns, matrix, axis = (*separator, *own), (outer, inner), 1
        if outer > inner:
            columns, matrix, axis = (*own, *separator), (inner, outer), 0
        children = tuple(j for j, parent in enumerate(self.tree.parents) if parent == i)
        shape = tuple(self.sizes[column] for column in columns)
        return Node(columns, shape, separator, own, self.tree.parents[i], children, matrix, axis)

    def _link(self, node: Node) -> Link:
        """From the separator of a node to its parent."""
        return Link.between(node.separator, self.nodes[node.parent].columns if node.parent >= 0 else (), self.sizes)

    def _entries(self, cliques: Sequence[Columns]) -> list[Entry]:
        """Each clique with the smallest clique of the same node that contains it: small tables are added to those."""
        homes: dict[int, list[int]] = {}
        for i, clique in enumerate(cliques):
            node = self.tree.node_of(self.tree.names[column] for column in clique)
            assert node is not None, "the tree holds every clique"
            homes.setdefault(node, []).append(i)
        entries: dict[int, Entry] = {}
        for node, inside in homes.items():
            columns = self.nodes[node].columns
            stored = {i: tuple(column for column in columns if column in cliques[i]) for i in inside}
            masks = {i: mask_of(cliques[i]) for i in sorted(inside, key=lambda i: self.cells(cliques[i]))}
            for i, mask in masks.items():
                source = next((j for j, other in masks.items() if mask & ~other == 0 and mask != other), -1)
                link = Link.between(stored[i], columns if source < 0 else stored[source], self.sizes)
                store = tuple(cliques[i].index(column) for column in stored[i])
                restore = tuple(stored[i].index(column) for column in cliques[i])
                entries[i] = Entry(cliques[i], stored[i], node, source, store, restore, link)
        return [entries[i] for i in range(len(cliques))]

    def tables(self, potentials: Sequence[Values], start: Mapping[int, Values]) -> list[Values]:
        """The log-potential of every node; `start` holds the initial tables of some nodes."""
        sums: dict[int, Values] = {}
        tables = {i: table.copy() for i, table in start.items()}
        for i in self.upwards:
            entry = self.entries[i]
            value = entry.link.spread(sums.pop(i) if i in sums else potentials[i].transpose(entry.store))
            if entry.source >= 0:
                if entry.source not in sums:
                    sums[entry.source] = potentials[entry.source].transpose(self.entries[entry.source].store).copy()
                sums[entry.source] += value
            elif entry.node in tables:
                tables[entry.node] += value
            else:
                tables[entry.node] = np.empty(self.nodes[entry.node].shape)
                tables[entry.node][...] = value
        return [tables[i] if i in tables else np.zeros(node.shape) for i, node in enumerate(self.nodes)]

    def marginals(self, joints: Sequence[Factor]) -> list[Values]:
        """The marginal of every clique, from the joint tables of the nodes."""
        found: dict[int, Values] = {}
        for i in reversed(self.upwards):
            entry = self.entries[i]
            found[i] = entry.link.summed(joints[entry.node].table if entry.source < 0 else found[entry.source])
        return [found[i].transpose(entry.restore).copy() for i, entry in enumerate(self.entries)]


class Calibration:
    """A distribution on a junction tree: the conditional of every node, and the log of the normalising constant."""

    def __init__(self, plan: Plan, tables: list[Values]) -> None:
        """`tables` are overwritten."""
        self.plan = plan
        self.conditionals = [Factor(t, node.columns) for t, node in zip(tables, plan.nodes, strict=True)]
        compiled = plan.tree.cells >= _MANY
        self.log_partition = -math.inf
        for i in range(len(plan.nodes) - 1, -1, -1):
            node = plan.nodes[i]
            logs = _normalise(tables[i].reshape(node.matrix), node.rest_axis, compiled=compiled)
            if node.parent < 0:
                self.log_partition = float(logs[0, 0])
            else:
                message = logs.reshape([plan.sizes[column] for column in node.separator])
                tables[node.parent] += plan.links[i].spread(message)
        if not math.isfinite(self.log_partition):
            raise QueryError("the zeros leave no possible record", advice="allow at least one")

    @cached_property
    def joints(self) -> list[Factor]:
        """The joint distribution of the columns of every node."""
        joints: list[Factor] = []
        for i, (node, conditional) in enumerate(zip(self.plan.nodes, self.conditionals, strict=True)):
            if node.parent < 0:
                joints.append(conditional)
                continue
            outer = self.plan.links[i].summed(joints[node.parent].table)
            table = conditional.table.reshape(node.matrix) * outer.reshape((-1, 1) if node.rest_axis else (1, -1))
            joints.append(Factor(table.reshape(node.shape), node.columns))
        return joints


def _normalise(matrix: Values, axis: int, *, compiled: bool) -> Values:
    """Turn logs into conditionals along an axis, in place; returns the logs of the sums. All -inf becomes all zero."""
    top = matrix.max(axis=axis, keepdims=True)
    top[top == -np.inf] = 0.0
    np.subtract(matrix, top, out=matrix)
    exponentials(matrix, compiled=compiled)
    sums = matrix.sum(axis=axis, keepdims=True)
    empty = sums == 0.0
    with np.errstate(divide="ignore"):
        logs = top + np.log(sums)
    sums[empty] = 1.0
    np.multiply(matrix, 1.0 / sums, out=matrix)
    return np.asarray(logs)
