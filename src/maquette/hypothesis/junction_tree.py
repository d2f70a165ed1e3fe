"""Junction tree: the tables on which a model with given cliques of columns can be stored exactly.

Every clique of a model fits in a node of the tree, and the nodes that hold a column are connected, so that sums over
the whole universe become sums over nodes and messages over the separators between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from maquette.errors import QueryError
from maquette.hypothesis.elimination import Sizes, Triangulation, cells_of, mask_of, members, sizes_of, triangulated

WIDE = 64  # nodes from which one more clique rearranges only the nodes between its columns


class JunctionTree:
    """Nodes (maximal cliques of a triangulated graph) in an order where parents come first; node 0 is the largest.

    `nodes[i]` are the columns of a node, `parents[i]` its parent (-1 at the root) and `separators[i]` the columns it
    shares with the parent; unconnected parts are joined by empty separators. Columns keep the order of `sizes`.

    >>> tree = JunctionTree({"a": 2, "b": 3, "c": 4, "d": 5}, [("a", "b"), ("b", "c")])
    >>> tree.nodes, tree.cells, tree.cells_with(("a", "c"))
    ((('b', 'c'), ('a', 'b'), ('d',)), 23, 29)
    """

    def __init__(self, sizes: Mapping[str, int], cliques: Iterable[Sequence[str]] = ()) -> None:
        self.sizes = dict(sizes)
        self.names = tuple(self.sizes)
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self._counts = sizes_of(tuple(self.sizes.values()))
        asked = _largest(self._mask(clique) for clique in cliques)
        self._hang(asked, triangulated(self._counts, asked))

    def _hang(self, cliques: tuple[int, ...], found: Triangulation) -> None:
        self._cliques, self._rule, self.cells = cliques, found.rule, found.cells
        self.masks, self.parents = _spanning(found.cliques, self._counts)
        self.separator_masks = tuple(
            mask & self.masks[parent] if parent >= 0 else 0
            for mask, parent in zip(self.masks, self.parents, strict=True)
        )
        self.nodes = tuple(self._named(mask) for mask in self.masks)
        self.separators = tuple(self._named(mask) for mask in self.separator_masks)
        self._asked: dict[int, Triangulation] = {}

    def cells_with(self, extra: Sequence[str]) -> int:
        """An upper bound on the cells of `with_cliques([extra])`: only the nodes between its columns are rearranged."""
        mask = self._mask(extra)
        return self.cells if self._fits(mask) else self._amended(mask).cells

    def with_cliques(self, extra: Iterable[Sequence[str]]) -> JunctionTree:
        """The tree that also holds these cliques: the same nodes if they fit, else the better of two rearrangements.

        A tree of many nodes takes one more clique by the local rearrangement, which costs no more where there are more.
        """
        masks = [self._mask(clique) for clique in extra]
        cliques = _joined(self._cliques, masks) if len(masks) == 1 else _largest([*self._cliques, *masks])
        new = [mask for mask in masks if not self._fits(mask)]
        if not new:
            found = Triangulation(self.masks, self.cells, self._rule)
        elif len(new) == len(masks) == 1:
            found = self._amended(new[0])
            if len(self.masks) < WIDE:
                found = triangulated(self._counts, cliques, known=found)
        else:
            found = triangulated(self._counts, cliques)
        tree = object.__new__(JunctionTree)
        tree.__dict__.update(self.__dict__)
        tree._hang(cliques, found)
        return tree

    def holds(self, columns: Iterable[str]) -> bool:
        """Whether one node has all these columns."""
        return self._fits(self._mask(columns))

    def _fits(self, mask: int) -> bool:
        return any(mask & ~node == 0 for node in self.masks)

    def _amended(self, mask: int) -> Triangulation:
        """The nodes with one more clique, where only those between its columns change.

        Nodes attached to them stay as they are, because their separators stay within one node.
        """
        if mask not in self._asked:
            between = self._between(mask)
            inside = [self.masks[i] for i in between]
            kept = [clique for clique in self._cliques if any(clique & ~node == 0 for node in inside)]
            for i, parent in enumerate(self.parents):
                if parent >= 0 and (i in between) != (parent in between):
                    kept.append(self.separator_masks[i])
            columns = mask_of(column for node in inside for column in members(node))
            local = triangulated(self._counts, [*kept, mask], [self._rule], columns)
            outside = [node for i, node in enumerate(self.masks) if i not in between]
            found = _joined(outside, local.cliques)
            cells = sum(cells_of(clique, self._counts) for clique in found)
            self._asked[mask] = Triangulation(found, cells, self._rule)
        return self._asked[mask]

    def _between(self, mask: int) -> set[int]:
        """The smallest connected part of the tree with all these columns in it."""
        between = set(range(len(self.masks)))
        below = [0] * len(self.masks)
        for i in range(len(self.masks) - 1, 0, -1):
            below[i] |= self.masks[i] & ~self.separator_masks[i]
            below[self.parents[i]] |= below[i]
            if not below[i] & mask:
                between.discard(i)
        # From the root down: leave a node if one subtree and its separator hold all columns asked about.
        top = 0
        while True:
            lower = [i for i in between if self.parents[i] == top and mask & ~(below[i] | self.separator_masks[i]) == 0]
            if not lower:
                return between
            between.discard(top)
            top = lower[0]

    def node_of(self, columns: Iterable[str]) -> int | None:
        """The smallest node that holds all these columns, if there is one."""
        mask = self._mask(columns)
        fitting = [i for i, node in enumerate(self.masks) if mask & ~node == 0]
        return min(fitting, key=lambda i: cells_of(self.masks[i], self._counts), default=None)

    def _mask(self, columns: Iterable[str]) -> int:
        columns = tuple(columns)
        unknown = [name for name in columns if name not in self._numbers]
        if unknown:
            raise QueryError(f"there is no column {unknown[0]!r}", advice=f"columns are {', '.join(self.names)}")
        return mask_of(self._numbers[name] for name in columns)

    def _named(self, mask: int) -> tuple[str, ...]:
        return tuple(self.names[i] for i in members(mask))

    def __repr__(self) -> str:
        largest = cells_of(self.masks[0], self._counts)
        return f"JunctionTree({len(self.nodes)} nodes, {self.cells:,} cells, the largest node {largest:,})"


def _largest(masks: Iterable[int]) -> tuple[int, ...]:
    """The sets that no other one contains."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=lambda m: (-m.bit_count(), m)):
        if mask and not any(mask & ~larger == 0 for larger in kept):
            kept.append(mask)
    return tuple(kept)


def _joined(known: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """The same of two lists where that already holds within each."""
    kept = [mask for mask in known if not any(mask & ~other == 0 for other in new)]
    added = [mask for mask in new if not any(mask & ~other == 0 for other in kept)]
    return tuple(sorted({*kept, *added}, key=lambda m: (-m.bit_count(), m)))


def _spanning(masks: Sequence[int], sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Nodes from the largest on, each linked where it shares most columns (a maximum spanning tree is a junction tree).

    Among equals the shallowest parent is taken: paths between columns are shorter.
    """
    left = sorted(masks, key=lambda m: (-cells_of(m, sizes), m))
    inside = np.zeros((len(left), max(map(int.bit_length, masks))), dtype=np.float32)
    for i, mask in enumerate(left):
        inside[i, list(members(mask))] = 1.0
    deep = len(left) + 1  # more than any depth: a link of more columns always comes first
    best, link = np.full(len(left), -np.inf), np.full(len(left), -1)
    place = {0: 0}  # of the nodes in the order found
    depths, parents, order, last = [0], [-1], [0], 0
    best[0] = np.nan  # taken
    while len(order) < len(left):
        found = (inside @ inside[last]) * deep - depths[-1]
        better = found > best  # never where a node is taken
        best[better], link[better] = found[better], last
        last = int(np.nanargmax(best))
        parent = place[int(link[last])]
        best[last] = np.nan
        place[last] = len(order)
        order.append(last)
        parents.append(parent)
        depths.append(depths[parent] + 1)
    return tuple(left[i] for i in order), tuple(parents)
