"""Impossible combinations: levels of several columns that never occur together. Declared, never learned from rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.errors import SchemaError
from maquette.schema.columns import Column, nearest, shown

if TYPE_CHECKING:
    from maquette.schema.schema import Schema

MAX_CELLS = 2**24  # cells of the table over the columns of one entry: models hold the whole table
MAX_TOGETHER = 2**26  # cells of the tables of all entries
MAX_LEVELS = 2**20  # levels of all columns that entries name: their labels are listed
_TRIED = 60_000  # rules tried before giving up: the problem is as hard as satisfiability
MAX_LABELS = 2**17  # levels of one column of an entry: each label is looked up among them

Label = str | int  # true and false are integers to Python
Entry = Mapping[str, Label | Iterable[Label]]
Declared = dict[str, tuple[str, ...]]
Zeros = tuple[tuple[str, ...], NDArray[np.bool_]]

_Rule = frozenset[tuple[str, frozenset[int]]]  # columns of an entry not yet decided, each with its levels in the entry


def checked(columns: Sequence[Column], entries: Entry | Iterable[Entry]) -> tuple[Declared, ...]:
    """The entries in one canonical form: columns, labels and entries in the order of the schema, each once."""
    listed = [entries] if isinstance(entries, Mapping) else entries
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise SchemaError(f"impossible is {shown(entries)}", expected="a list of mappings from columns to labels")
    known = {column.name: column for column in columns}
    listed = list(listed)
    _refuse_undrawn(known, listed)
    _refuse_large(known, listed)
    read = {_key(known, entry): entry for entry in (_entry(known, entry) for entry in listed)}
    found = tuple(entry for _, entry in sorted(read.items()))
    if not _leave_something(known, found):
        raise SchemaError("these impossible combinations rule out every row", advice="remove at least one of them")
    return found


def zeros_of(schema: Schema) -> list[Zeros]:
    """For each set of columns that entries name, a table that is true where a combination is impossible."""
    tables: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    for entry in schema.impossible:
        names = tuple(entry)
        table = tables.setdefault(names, np.zeros(schema.shape(names), dtype=np.bool_))
        table[np.ix_(*(_codes(schema[name], labels) for name, labels in entry.items()))] = True
    for table in tables.values():
        table.flags.writeable = False
    return list(tables.items())


def impossible_cells(schema: Schema) -> NDArray[np.bool_] | None:
    """An array over the whole universe, true where a point is impossible; None if all points are possible."""
    if not schema.impossible:
        return None
    cells = np.zeros(schema.shape(schema.names), dtype=np.bool_)
    for names, table in schema.zeros:  # the names are in the order of the schema
        cells |= table.reshape([column.size if column.name in names else 1 for column in schema])
    return cells


def _refuse_undrawn(known: Mapping[str, Column], entries: Sequence[object]) -> None:
    """Refuse entries about a column whose bins are still to be drawn: nobody knows their labels."""
    named = [name for entry in entries if isinstance(entry, Mapping) for name in entry]
    for name in named:
        if getattr(known.get(name), "undrawn", False):
            raise SchemaError(
                f"an impossible combination names {name!r}, whose bins have not been drawn yet",
                advice="declare its edges, or leave the column out of the combination",
            )


def _refuse_large(known: Mapping[str, Column], entries: Sequence[object]) -> None:
    """Refuse entries that would need too much memory together, before any is read."""
    named = {frozenset(name for name in entry if name in known) for entry in entries if isinstance(entry, Mapping)}
    sizes = {names: math.prod(known[name].size for name in names) for names in named}
    fitting = {names: size for names, size in sizes.items() if size <= MAX_CELLS}  # others are refused one by one
    levels = sum(known[name].size for name in frozenset[str]().union(*fitting))
    cells = sum(fitting.values())
    if levels > MAX_LEVELS or cells > MAX_TOGETHER:
        raise SchemaError(
            f"impossible combinations name columns with {levels:,} levels in total and need tables of {cells:,} cells",
            expected=f"at most {MAX_LEVELS:,} levels and {MAX_TOGETHER:,} cells",
            advice="Name fewer columns, or columns with fewer levels",
        )


def _entry(known: Mapping[str, Column], entry: object) -> Declared:
    """One entry, checked; an error says what is wrong with it."""
    if not isinstance(entry, Mapping):
        raise SchemaError(
            f"an impossible combination is {shown(entry)}",
            expected=f"a mapping from columns to labels, as in {_example(known)}",
        )
    for name in entry:
        if name not in known:
            close = nearest(str(name), known)
            hint = f"did you mean {' or '.join(close)}?" if close else f"columns are {', '.join(known)}"
            raise SchemaError(
                f"an impossible combination names {name!r}, which is not a column of the schema", advice=hint
            )
    if len(entry) < 2:
        named = ", ".join(map(repr, entry)) or "no column"
        raise SchemaError(
            f"an impossible combination names {named}",
            expected="two or more columns",
            advice="to rule out a single level, leave it out of its column",
        )
    size = math.prod(known[name].size for name in entry)
    if size > MAX_CELLS:
        raise SchemaError(
            f"an impossible combination over {', '.join(entry)} needs a table of {size:,} cells, more than "
            f"{MAX_CELLS:,}",
            advice="name fewer columns, or columns with fewer levels",
        )
    if large := [name for name in entry if known[name].size > MAX_LABELS]:
        raise SchemaError(
            f"an impossible combination names columns with more than {MAX_LABELS:,} levels: {', '.join(large)}",
            advice="declare wider bins or a larger unit",
        )
    return {name: _labels(column, entry[name]) for name, column in known.items() if name in entry}


def _labels(column: Column, given: object) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str | int) else given
    if isinstance(listed, Mapping) or not isinstance(listed, Iterable):
        raise SchemaError(f"column {column.name!r}: got {shown(given)}", expected="a label or a list of labels")
    wanted = [_text(label) for label in listed]
    if not wanted:
        raise SchemaError(f"column {column.name!r}: an impossible combination needs at least one of its labels")
    known = frozenset(column.labels)
    for label in wanted:
        if label not in known:
            close, more = nearest(label, column.labels), ", ..." if column.size > 5 else ""
            expected = f"labels are {', '.join(column.labels[:5])}{more}"
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else expected
            raise SchemaError(f"column {column.name!r}: {label!r} is not the label of a level", advice=hint)
    chosen = frozenset(wanted)
    return tuple(label for label in dict.fromkeys(column.labels) if label in chosen)


def _text(label: object) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _example(known: Mapping[str, Column]) -> str:
    return str({name: [next(iter(column._labels()))] for name, column in list(known.items())[:2]})


def _codes(column: Column, labels: Iterable[str]) -> list[int]:
    wanted = set(labels)
    return [code for code, label in enumerate(column.labels) if label in wanted]


def _key(known: Mapping[str, Column], entry: Declared) -> tuple[tuple[int, ...], ...]:
    """A sort key: by columns, then by levels; equal entries have equal keys."""
    positions = {name: place for place, name in enumerate(known)}
    return tuple((positions[name], *_codes(known[name], labels)) for name, labels in entry.items())


def _leave_something(known: Mapping[str, Column], entries: Sequence[Declared]) -> bool:
    """Whether some point of the universe is possible."""
    rules = frozenset(
        frozenset((name, frozenset(_codes(known[name], labels))) for name, labels in entry.items()) for entry in entries
    )
    shares = [math.prod(Fraction(len(levels), known[name].size) for name, levels in rule) for rule in rules]
    # Usually the entries are too small to fill the universe, even if no two overlap. Search for a point only otherwise.
    try:
        return sum(shares) < 1 or _satisfiable(rules, {name: column.size for name, column in known.items()}, {})
    except RecursionError:
        raise _entangled() from None


def _entangled() -> SchemaError:
    return SchemaError(
        "the impossible combinations are too many, or share too many columns, to check whether they leave any row",
        advice="declare fewer of them, or name fewer columns",
    )


def _satisfiable(rules: frozenset[_Rule], sizes: Mapping[str, int], seen: dict[frozenset[_Rule], bool]) -> bool:
    """Whether some point breaks every rule: fix the level of one column, recurse on the remaining rules, memoise."""
    if frozenset() in rules:
        return False
    if rules and rules not in seen:
        if len(seen) * len(rules) > _TRIED:
            raise _entangled()
        named = [name for rule in rules for name, _ in rule]
        name = max(sorted(set(named)), key=named.count)
        levels = set().union(*(levels for rule in rules for other, levels in rule if other == name))
        outside = next((level for level in range(sizes[name]) if level not in levels), None)
        tried = levels if outside is None else {*levels, outside}
        left = {_left(rules, name, level) for level in tried}
        seen[rules] = any(_satisfiable(each, sizes, seen) for each in sorted(left, key=len))
    return not rules or seen[rules]


def _left(rules: frozenset[_Rule], name: str, level: int) -> frozenset[_Rule]:
    """The rules that can still hold when the column has this level, without that column."""
    alive = (rule for rule in rules if all(other != name or level in levels for other, levels in rule))
    return frozenset(frozenset(part for part in rule if part[0] != name) for rule in alive)
