"""Tables to show: which columns and pairs, in which groups of levels, with their intervals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.report.subject import Seen, Subject
from maquette.schema.columns import Column
from maquette.schema.ordered import Ordered

MAX_COLUMNS = 24
MAX_BARS = 40
MAX_PAIRS = 6
MAX_AXIS = 14  # groups along one side of a heat map
TRIED_PAIRS = 300
MAX_TABLE = 2**20  # cells of a pair, to be looked at in memory
_RANGE = re.compile(r"(\d[\d.]*)-(\d[\d.]*)")  # the label of a bin

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """A level, or several shown as one."""

    label: str
    levels: NDArray[np.int64]

    def factor(self, size: int) -> Values:
        """The indicator of its levels."""
        weights = np.zeros(size)
        weights[self.levels] = 1.0
        return weights


@dataclass(frozen=True)
class Cell:
    """One bar or one square: the groups it stands for, and the released fraction with its interval."""

    labels: tuple[str, ...]
    seen: Seen


def groups_of(column: Column, shares: Values, most: int) -> list[Group]:
    """The levels of a column in at most so many groups: neighbours if they are ordered, else the rare ones as one."""
    labels, size = column.labels, column.size
    if size <= most:
        return [Group(label, np.array([i])) for i, label in enumerate(labels)]
    if isinstance(column, Ordered):
        return [_run(labels, part) for part in np.array_split(np.arange(size), most)]
    frequent = np.sort(np.argsort(-shares, kind="stable")[: most - 1])
    rest = np.setdiff1d(np.arange(size), frequent)
    return [*(Group(labels[i], np.array([i])) for i in frequent), Group(f"{len(rest):,} other levels", rest)]


def _run(labels: Sequence[str], part: NDArray[np.int64]) -> Group:
    first, last = labels[int(part[0])], labels[int(part[-1])]
    if len(part) > 1:
        ends = [_RANGE.fullmatch(label) for label in (first, last)]
        first, last = ends[0][1] if ends[0] else first, ends[1][2] if ends[1] else last
        return Group(f"{first} to {last}", part)
    return Group(first, part)


def columns_shown(subject: Subject) -> list[str]:
    """The columns that get a chart of their own."""
    return [column.name for column in subject.schema if column.size > 1][:MAX_COLUMNS]


def column_cells(subject: Subject, name: str) -> list[Cell]:
    """The bars of one column."""
    column = subject.schema[name]
    groups = groups_of(column, subject.marginal((name,)), MAX_BARS)
    return [Cell((group.label,), subject.look({name: group.factor(column.size)})) for group in groups]


def pair_cells(subject: Subject, pair: tuple[str, str]) -> list[Cell]:
    """The squares of one pair of columns."""
    sides = [groups_of(subject.schema[name], subject.marginal((name,)), MAX_AXIS) for name in pair]
    return [
        Cell(
            (one.label, other.label),
            subject.look(
                {
                    pair[0]: one.factor(subject.schema[pair[0]].size),
                    pair[1]: other.factor(subject.schema[pair[1]].size),
                }
            ),
        )
        for one, other in itertools.product(*sides)
    ]


def pairs_shown(subject: Subject) -> list[tuple[str, str]]:
    """The pairs that depend on each other most, by the model: those are worth a picture."""
    strength: dict[tuple[str, str], float] = {}
    for pair in itertools.islice(itertools.combinations(columns_shown(subject), 2), TRIED_PAIRS):
        if subject.schema.cells(pair) > MAX_TABLE or any(_scattered(subject.schema[name]) for name in pair):
            continue
        try:
            strength[pair] = information(subject.marginal(pair))
        except QueryError:  # a release of separate tables says nothing of pairs it did not measure
            continue
    return sorted(strength, key=lambda pair: -strength[pair])[:MAX_PAIRS]


def _scattered(column: Column) -> bool:
    """Whether a column has so many levels in no order that a square could show next to nothing of it."""
    return column.size > 4 * MAX_AXIS and not isinstance(column, Ordered)


def information(table: Values) -> float:
    """The mutual information of a table of probabilities, in nats."""
    joint = np.maximum(table, 0.0)
    joint = joint / max(float(joint.sum()), 1e-300)
    product = np.multiply.outer(joint.sum(axis=1), joint.sum(axis=0))
    held = joint > 0
    return float((joint[held] * np.log(joint[held] / product[held])).sum())


def coverage(subject: Subject, size: int) -> tuple[int, list[tuple[str, ...]]]:
    """How many sets of so many columns there are (the first few hundred), and which of them nothing was measured of."""
    names = [column.name for column in subject.schema if column.size > 1]
    sets = list(itertools.islice(itertools.combinations(names, size), TRIED_PAIRS))
    return len(sets), [columns for columns in sets if not subject.covers(columns)]


def widest(cells: dict[tuple[str, ...], list[Cell]], most: int = 12) -> Iterator[tuple[str, Cell]]:
    """The known cells with the widest intervals, with their names."""
    named = [
        (" and ".join(f"{n} = {label}" for n, label in zip(columns, cell.labels, strict=True)), cell)
        for columns, shown in cells.items()
        for cell in shown
        if cell.seen.known
    ]
    return iter(sorted(named, key=lambda pair: pair[1].seen.low - pair[1].seen.high)[:most])
