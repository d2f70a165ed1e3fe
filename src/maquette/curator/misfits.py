"""Misfits: where the first value stands that no declared level can hold, and how it is written.

Privacy: none. They are exact and about single rows, so for the custodian's own terminal only; nothing of a release or a
session depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from maquette.curator.engines.encoding import present_sql
from maquette.curator.sources import looked_at, reading
from maquette.schema import INVALID, Schema, text_sql

LONGEST = 40  # characters of a shape that are shown


@dataclass(frozen=True)
class Misfit:
    """The first value of a column that fits no level: its row, from 1, and its shape."""

    column: str
    row: int
    shape: str


def first_misfits(
    source: object, schema: Schema, columns: Sequence[str], *, missing: Sequence[str] = (), delimiter: str | None = None
) -> list[Misfit]:
    """The first misfit of each of these columns, in the order of the source."""
    with looked_at(source, schema.names, schema.file.changed(delimiter=delimiter)) as read:
        names = read.identifiers(columns)
        parts = ["row_number() OVER () AS n"]
        for i, name in enumerate(columns):
            parts.append(f"{text_sql(names[name])} AS t{i}")
            parts.append(f"{schema[name].code_sql(present_sql(names[name], missing))} = {INVALID} AS w{i}")
        asked = ", ".join(f"min(n) FILTER (w{i}), arg_min(t{i}, n) FILTER (w{i})" for i in range(len(columns)))
        rows = read.relation.project(", ".join(parts))  # a stream of texts can be read once: all columns together
        (firsts,) = reading("the rows", lambda: rows.aggregate(asked).fetchall())
    pairs = zip(columns, firsts[::2], firsts[1::2], strict=True)
    found = [Misfit(name, int(row), shape_of(text)) for name, row, text in pairs if row is not None]
    return sorted(found, key=lambda misfit: misfit.row)


def shape_of(text: str | None) -> str:
    """How a value is written, not what it says: letters as x and digits as 9.

    >>> shape_of("Köln 50667, 1.5 €")
    'xxxx 99999, 9.9 €'
    """
    if not text:
        return "nothing"
    shape = re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "9", text))
    return shape if len(shape) <= LONGEST else f"{shape[:LONGEST]}..."
