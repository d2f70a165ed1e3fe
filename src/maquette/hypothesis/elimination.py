"""Triangulation: the tables needed to eliminate columns exactly, one after the other.

Columns are numbers and sets of columns are bit masks, so trying out one more clique takes about a millisecond. Columns
of the same size are counted, not listed. Finding the best order is hard; three greedy rules are tried and the one with
the fewest cells is kept. A rule is given up as soon as it needs more cells than another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

Score = tuple[float, int]
Sizes = tuple[tuple[int, int], ...]  # every size, and the columns that have it as a bit mask
Rule = Callable[[int, Sequence[int], Sizes], Score]


class Triangulation(NamedTuple):
    """Maximal cliques as bit masks, their cells in total, and the rule that found them."""

    cliques: tuple[int, ...]
    cells: int
    rule: Rule


def members(mask: int) -> Iterator[int]:
    """The columns of a set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(columns: Iterable[int]) -> int:
    """A set of columns as a bit mask."""
    mask = 0
    for column in columns:
        mask |= 1 << column
    return mask


def sizes_of(counts: Sequence[int]) -> Sizes:
    """The columns of every size, from the number of levels of each."""
    return tuple((size, mask_of(i for i, own in enumerate(counts) if own == size)) for size in sorted(set(counts)))


def cells_of(mask: int, sizes: Sizes) -> int:
    """The cells of a table over these columns, exactly."""
    cells = 1
    for size, own in sizes:
        if here := mask & own:
            cells *= size ** here.bit_count()
    return cells


def triangulated(
    sizes: Sizes,
    cliques: Iterable[int],
    rules: Sequence[Rule] | None = None,
    columns: int | None = None,
    known: Triangulation | None = None,
) -> Triangulation:
    """The maximal cliques of a triangulated graph in which every given clique fits, by the best of these rules.

    `columns` restricts the graph to these columns; every given clique must lie within them. What is `known` is returned
    if all of these rules need more cells.
    """
    every = sum(own for _, own in sizes)
    left = every if columns is None else columns
    links = [0] * every.bit_length()
    for clique in cliques:
        for column in members(clique):
            links[column] |= clique & ~(1 << column)
    core, first = _trimmed(links, left)
    best, limit = known, math.inf if known is None else known.cells + 1
    for rule in (RULES if rules is None else rules) if core else RULES[:1]:
        met, cells = list[int](), 0
        for clique in itertools.chain(first, _eliminated(sizes, list(links), rule, core)):
            if any(clique & ~other == 0 for other in met):
                continue
            met.append(clique)
            cells += cells_of(clique, sizes)
            if cells >= limit:
                break
        else:
            best, limit = Triangulation(tuple(met), cells, rule), cells
    assert best is not None, "the first rule has no limit"
    return best


def _trimmed(links: list[int], left: int) -> tuple[int, list[int]]:
    """Eliminate, while there are any, columns whose neighbours are all linked: every order needs their tables.

    Changes `links`. Returns the columns that remain, and the tables met.
    """
    found: list[int] = []
    waiting = left
    while waiting:
        column = waiting.bit_length() - 1
        waiting ^= 1 << column
        near = links[column]
        if all(near & ~links[other] == 1 << other for other in members(near)):
            found.append(near | 1 << column)
            left ^= 1 << column
            waiting |= near
            for other in members(near):
                links[other] &= ~(1 << column)
    return left, found


def _eliminated(sizes: Sizes, links: list[int], rule: Rule, left: int) -> Iterator[int]:
    """Eliminate the column of least score until none is left: the tables met. Changes `links`."""
    scores = {column: (rule(column, links, sizes), column) for column in members(left)}
    while scores:
        column = min(scores.values())[1]
        del scores[column]
        near = links[column]
        yield near | 1 << column
        joined = 0  # the columns that gain a neighbour
        for other in members(near):
            joined |= (new := near & ~links[other] & ~(1 << other))
            links[other] = (links[other] | new) & ~(1 << column)
        changed = near
        for other in members(joined):
            changed |= links[other]
        for other in members(changed):
            scores[other] = rule(other, links, sizes), other


def _missing(column: int, links: Sequence[int]) -> int:
    """Twice the number of edges that eliminating a column would add."""
    near = links[column]
    return sum((near & ~links[other]).bit_count() - 1 for other in members(near))


def least_cells(column: int, links: Sequence[int], sizes: Sizes) -> Score:
    """The smallest table; but first the columns whose neighbours are all linked, which add nothing to any order."""
    return float(_missing(column, links) > 0), cells_of(links[column] | 1 << column, sizes)


def least_fill(column: int, links: Sequence[int], sizes: Sizes) -> Score:
    """The fewest new edges, then the smallest table."""
    return _missing(column, links), cells_of(links[column] | 1 << column, sizes)


def least_weighted_fill(column: int, links: Sequence[int], sizes: Sizes) -> Score:
    """The fewest cells of pairs that become linked, then the smallest table."""
    near, weight = links[column], 0
    for size, own in sizes:
        for other in members(near & own):
            if far := near & ~links[other] & ~(1 << other):
                weight += size * sum(each * (far & others).bit_count() for each, others in sizes)
    return weight, cells_of(near | 1 << column, sizes)


RULES: tuple[Rule, ...] = (least_cells, least_fill, least_weighted_fill)
