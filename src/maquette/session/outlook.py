"""Outlook: the tables of as many columns as a question may be about: all of them, or one that is still new."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from maquette.errors import QueryError
from maquette.estimates import Columns
from maquette.query import MAX_OUTPUT, Marginal
from maquette.schema import Schema
from maquette.session.question import Goal

MAX_PREPARED = 20_000  # sets of columns
USUAL = 3  # columns of a question


def tables_of(schema: Schema, size: int) -> list[Goal]:
    """All tables of `size` columns."""
    wide = _wide(schema)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= len(wide):
        raise QueryError(f"size is {size!r}", expected=f"a number of columns from 1 to {len(wide)}")
    if (count := math.comb(len(wide), size)) > MAX_PREPARED:
        raise QueryError(
            f"there are {count:,} sets of {size} columns, more than {MAX_PREPARED:,}", advice="prepare fewer"
        )
    return [Goal(Marginal(schema, columns)) for columns in itertools.combinations(wide, size)]


def new_table(schema: Schema, size: int | None, asked: Callable[[int], set[Columns]]) -> tuple[int, list[Goal]]:
    """How many columns were meant, and a table of that many that was not asked about, if there is one."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise QueryError(f"size is {size!r}", expected="how many columns a question is about, 1 or more")
    wide = _wide(schema)
    size = min(USUAL if size is None else size, len(wide))
    narrow = sorted(schema.shape(wide))
    while math.prod(narrow[:size]) > MAX_OUTPUT:  # no table of `size` columns can be asked about
        size -= 1
    known = asked(size)
    new = (columns for columns in itertools.combinations(wide, size) if columns not in known)
    fresh = next((columns for columns in new if schema.cells(columns) <= MAX_OUTPUT), None)
    return size, [] if fresh is None else [Goal(Marginal(schema, fresh))]


def _wide(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.size > 1]
