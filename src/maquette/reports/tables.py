"""Tables to show: which columns and pairs, in which groups of levels, with their intervals."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.reports.subject import Seen, Subject
from maquette.schema import Column, Date, Ordered

MAX_COLUMNS = 48
MAX_BARS = 40
MAX_PAIRS = 6
MAX_AXIS = 14  # groups along one side of a heat map
TRIED_PAIRS = 300
MAX_TABLE = 2**20  # cells of a pair that fit in memory
_RANGE = re.compile(r"()(-?\d[\d.]*)-(-?\d[\d.]*)")  # the label of a bin of whole numbers
_BIN = re.compile(r"([\[(])(.+), (.+)[)\]]")  # of other numbers

Values = NDArray[np.float64]
Levels = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """A level, or several shown as one."""

    label: str
    levels: Levels

    def factor(self, size: int) -> Values:
        """The indicator of its levels."""
        weights = np.zeros(size)
        weights[self.levels] = 1.0
        return weights


@dataclass(frozen=True)
class Cell:
    """One bar or one square: the groups it shows, and the released fraction with its interval."""

    labels: tuple[str, ...]
    seen: Seen
    ends: tuple[float, float] | None = None
    """Where the bins of an ordered column begin and end; None for a missing value and everything else."""


def groups_of(column: Column, shares: Values, most: int, parts: Sequence[Levels] | None = None) -> list[Group]:
    """The levels of a column in at most `most` groups: neighbouring levels if ordered, else the rare ones as one group.

    `parts` are levels that were measured together and so stay together; by default every level is separate.
    """
    parts = [np.array([level]) for level in range(column.size)] if parts is None else parts
    if len(parts) <= most:
        return [_named(column, part) for part in parts]
    if isinstance(column, Ordered):
        runs = np.array_split(np.arange(len(parts)), most)
        return [_run(column, np.concatenate([parts[i] for i in run])) for run in runs]
    weights = np.array([shares[part].sum() for part in parts])
    frequent = np.sort(np.argsort(-weights, kind="stable")[: most - 1])
    rest = np.concatenate([parts[i] for i in np.setdiff1d(np.arange(len(parts)), frequent)])
    return [*(_named(column, parts[i]) for i in frequent), Group(f"{len(rest):,} other levels", rest)]


def _named(column: Column, part: Levels) -> Group:
    run = isinstance(column, Ordered) and int(part[-1]) - int(part[0]) == len(part) - 1
    return _run(column, part) if run or len(part) == 1 else Group(f"{len(part):,} other levels", part)


def _run(column: Column, part: Levels) -> Group:
    """Neighbouring levels by their two ends: of bins the outer bounds; a date has hyphens of its own."""
    first, last = column.labels[int(part[0])], column.labels[int(part[-1])]
    if not isinstance(column, Ordered) or isinstance(column, Date):
        return Group(first if len(part) == 1 else f"{first} to {last}", part)
    low, high = _spoken(first)[0], _spoken(last)[1]
    return Group(low if low == high else f"{low} to {high}", part)


def _spoken(label: str) -> tuple[str, str]:
    """The lower and the upper end of a level, as a reader writes them; those of a single value are the same."""
    found = _BIN.fullmatch(label) or _RANGE.fullmatch(label)
    if found is None:
        return _grouped(label), _grouped(label)
    above = "over " if found[1] == "(" else ""
    return f"{above}{_grouped(found[2])}", _grouped(found[3])


def _grouped(number: str) -> str:
    """With separators from five digits on: a number of four may be a year."""
    whole, point, rest = number.partition(".")
    return f"{int(whole):,}{point}{rest}" if len(whole) > 4 and whole.lstrip("-").isdigit() else number


def columns_shown(subject: Subject) -> list[str]:
    """The columns that get their own chart."""
    return [column.name for column in subject.schema if column.size > 1][:MAX_COLUMNS]


def column_cells(subject: Subject, name: str) -> list[Cell]:
    """The bars of one column.

    A session may know ranges of an ordered column without knowing its levels: then the finest known bars are drawn.
    """
    column, most = subject.schema[name], MAX_BARS
    shares = subject.marginal((name,))
    finest = cells = _cells(subject, name, groups_of(column, shares, most))
    while isinstance(column, Ordered) and subject.kind == "session" and most > 2:
        if all(cell.seen.known for cell in cells):
            return cells
        most = min(most, len(cells)) // 2
        cells = _cells(subject, name, groups_of(column, shares, max(2, most)))
    return cells if all(cell.seen.known for cell in cells) else finest


def _cells(subject: Subject, name: str, groups: Sequence[Group]) -> list[Cell]:
    column = subject.schema[name]
    return [
        Cell((group.label,), subject.look({name: group.factor(column.size)}), _ends(column, group)) for group in groups
    ]


def _ends(column: Column, group: Group) -> tuple[float, float] | None:
    first, last = int(group.levels[0]), int(group.levels[-1])
    if not isinstance(column, Ordered) or last >= column.known:
        return None
    return float(column.boundaries[first]), float(column.boundaries[last + 1])


def pair_cells(subject: Subject, pair: tuple[str, str]) -> list[Cell]:
    """The squares of one pair of columns; levels that were measured together are shown together."""
    sides = [
        groups_of(subject.schema[name], subject.marginal((name,)), MAX_AXIS, _measured_together(subject, name))
        for name in pair
    ]
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


def _measured_together(subject: Subject, name: str) -> list[Levels] | None:
    groups = subject.groups.get(name)
    return None if groups is None else [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]


def pairs_shown(subject: Subject) -> list[tuple[str, str]]:
    """The pairs with the strongest dependence, by the model.

    At most `TRIED_PAIRS` pairs are tried, measured ones first.
    """
    names = [column.name for column in subject.schema if column.size > 1]
    measured = [(step.columns[0], step.columns[1]) for step in subject.trace if len(step.columns) == 2]
    tried = dict.fromkeys(itertools.chain(measured, itertools.combinations(names, 2)))
    strength: dict[tuple[str, str], float] = {}
    for pair in itertools.islice(tried, TRIED_PAIRS):
        if subject.schema.cells(pair) > MAX_TABLE or any(_scattered(subject.schema[name]) for name in pair):
            continue
        if subject.kind == "session" and not subject.covers(pair):  # a session's model knows only what was asked
            continue
        try:
            strength[pair] = information(subject.marginal(pair))
        except QueryError:  # a release of separate tables has no answer for pairs it did not measure
            continue
    return sorted(strength, key=lambda pair: -strength[pair])[:MAX_PAIRS]


def _scattered(column: Column) -> bool:
    """Whether a column has so many unordered levels that a heat map could show almost nothing of it."""
    return column.size > 4 * MAX_AXIS and not isinstance(column, Ordered)


def information(table: Values) -> float:
    """The mutual information of a table of probabilities, in nats."""
    joint = np.maximum(table, 0.0)
    joint = joint / max(float(joint.sum()), 1e-300)
    product = np.multiply.outer(joint.sum(axis=1), joint.sum(axis=0))
    held = joint > 0
    return float((joint[held] * np.log(joint[held] / product[held])).sum())


def coverage(subject: Subject, size: int) -> tuple[int, int, list[tuple[str, ...]]]:
    """The number of sets of `size` columns, how many were checked, and which of those no measurement covers."""
    names = [column.name for column in subject.schema if column.size > 1]
    sets = list(itertools.islice(itertools.combinations(names, size), TRIED_PAIRS))
    return math.comb(len(names), size), len(sets), [columns for columns in sets if not subject.covers(columns)]


def widest(cells: dict[tuple[str, ...], list[Cell]], most: int = 12) -> Iterator[tuple[str, Cell]]:
    """The known cells with the widest intervals, with their names, one column per line."""
    named = [
        ("\n".join(f"{_short(n)} = {_short(label)}" for n, label in zip(columns, cell.labels, strict=True)), cell)
        for columns, shown in cells.items()
        for cell in shown
        if cell.seen.known
    ]
    return iter(sorted(named, key=lambda pair: pair[1].seen.low - pair[1].seen.high)[:most])


def least_certain(
    cells: dict[tuple[str, ...], list[Cell]], most: int = 10
) -> list[tuple[tuple[str, ...], float, float]]:
    """Tables with their typical half-width and typical share, those whose intervals are widest beside it first."""
    found = []
    for names, shown in cells.items():
        known = [cell.seen for cell in shown if cell.seen.known]
        if known:
            off = float(np.mean([(seen.high - seen.low) / 2 for seen in known]))
            found.append((names, off, float(np.mean([seen.value for seen in known]))))
    return sorted(found, key=lambda table: -table[1] / max(table[2], 1e-9))[:most]


def _short(name: str, most: int = 18) -> str:
    """A name short enough to leave room for another on the same line."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2 - 1) :]}"
