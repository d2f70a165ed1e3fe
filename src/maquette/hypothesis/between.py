"""Tables between a node and its cliques, so that a node of many cells is not summed once for each of them.

Sums of sums are the same sums. A node of a million cells and three hundred pairs is summed to some ten tables of a
thousandth of its cells, and these to the pairs; potentials take the same way back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from maquette.hypothesis.elimination import Sizes, cells_of, members

LEAST = 1024  # cells of a table that is worth dividing: below, every pass takes about as long
SMALLER = 8  # times fewer cells that a table between has at least
FEWEST = 3  # cliques that it holds at least


def between(node: int, cliques: Collection[int], sizes: Sizes) -> list[int]:
    """Sets of columns (bit masks) within this node, each with several cliques in it; smaller ones in larger ones."""
    found: list[int] = []
    waiting = [(node, sorted(cliques, key=lambda clique: (-cells_of(clique, sizes), clique)))]
    while waiting:
        table, inside = waiting.pop()
        for part, own in _parts(table, inside, sizes):
            found.append(part)
            waiting.append((part, own))
    return found


def _parts(table: int, cliques: list[int], sizes: Sizes) -> Iterator[tuple[int, list[int]]]:
    """Smaller tables that hold cliques of a table, and these cliques; each clique is in one of them or in none."""
    cells = cells_of(table, sizes)
    most = cells // SMALLER
    left = [clique for clique in cliques if cells_of(clique, sizes) <= most]
    while cells >= LEAST and len(left) >= FEWEST:
        part = _grown(left[0], table, left, most, sizes)
        inside = [clique for clique in left if clique & ~part == 0]
        left = [clique for clique in left if clique & ~part]
        if len(inside) >= FEWEST:
            yield part, [clique for clique in inside if clique != part]


def _grown(part: int, table: int, cliques: list[int], most: int, sizes: Sizes) -> int:
    """A set of columns with more columns of the table, each the one that lets most cliques fit, up to `most` cells."""

    def worth(wider: int) -> tuple[int, int, int]:
        held = sum(clique & ~wider == 0 for clique in cliques)
        near = sum((clique & ~wider).bit_count() <= 1 for clique in cliques)
        return held, near, -cells_of(wider, sizes)

    while True:
        wider = [part | 1 << column for column in members(table & ~part)]
        wider = [each for each in wider if cells_of(each, sizes) <= most]
        if not wider:
            return part
        part = max(wider, key=worth)
