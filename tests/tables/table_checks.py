"""A small dirty table, and a reference in plain Python for how it must be encoded and counted."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.schema import Boolean, Category, Date, Integer, Number, Schema

WIDE = [f"place {i}" for i in range(300)]  # more than 256 levels: two bytes per record

DIRTY = Schema(
    [
        Integer("age", 0, 9, width=5, nullable=True),
        Category("sex", ["f", "m"], other="other", nullable=True),
        Number("score, scaled", edges=[-1.0, 0.0, 0.5, 2.0], nullable=True),
        Boolean("smoker?", nullable=True),
        Date('seen "at"', "2024-01-01", "2024-12-31", unit="quarter", nullable=True),
        Category("place", WIDE, other="elsewhere", nullable=True),
    ]
)

# Raw text and its code; None stands for the null level.
POOLS: dict[str, list[tuple[str | None, int | None]]] = {
    "age": [
        ("0", 0),
        ("4.9", 0),
        ("5", 1),
        (" 7", 1),
        ("9", 1),
        ("1e99", 1),
        ("inf", 1),
        ("-inf", 0),
        ("-0.0", 0),
        ("nan", None),
        ("", None),
        (None, None),
        ("4611686018427387904", 1),
    ],
    "sex": [
        ("f", 0),
        ("m ", 1),
        ("F", 2),
        ("other", 2),
        ("x" * 5000, 2),
        ("nan", 2),
        ("🦊", 2),
        (" ", None),
        (None, None),
    ],
    "score, scaled": [
        ("-7", 0),
        ("-0.0", 1),
        ("0.49999999999999994", 1),
        ("0.5", 2),
        ("2", 2),
        ("inf", 2),
        ("NaN", None),
        (None, None),
    ],
    "smoker?": [("true", 1), ("f", 0), ("1", 1), ("0.0", 0), ("", None), (None, None)],
    'seen "at"': [
        ("2024-01-01", 0),
        ("2024-04-01 10:00:00", 1),
        ("1999-12-31", 0),
        ("2031-01-01", 3),
        ("infinity", 3),
        ("", None),
        (None, None),
    ],
    "place": [
        ("place 0", 0),
        ("place 255", 255),
        ("place 256", 256),
        ("place 299", 299),
        ("place 300", 300),
        (None, None),
    ],
}

Rows = Sequence[Sequence[tuple[str | None, int | None]]]


def raw(rows: Rows, schema: Schema = DIRTY) -> dict[str, list[str | None]]:
    """The text a source holds, by column."""
    return {name: [row[i][0] for row in rows] for i, name in enumerate(schema.names)}


def codes(rows: Rows, schema: Schema = DIRTY) -> list[tuple[int, ...]]:
    """What the records must be."""
    nulls = [column.known for column in schema]
    return [tuple(nulls[i] if cell[1] is None else cell[1] for i, cell in enumerate(row)) for row in rows]


def counted(records: Sequence[tuple[int, ...]], schema: Schema, columns: Sequence[str]) -> NDArray[np.int64]:
    """The table over `columns`, counted one record at a time."""
    positions = [schema.position(name) for name in columns]
    cells = Counter(tuple(record[p] for p in positions) for record in records)
    table = np.zeros(schema.shape(columns), dtype=np.int64)
    for cell, count in cells.items():
        table[cell] = count
    return table


def subsets(names: Sequence[str], largest: int) -> list[tuple[str, ...]]:
    """All sets of up to `largest` columns."""
    return [s for k in range(largest + 1) for s in itertools.combinations(names, k)]


def typed(rows: Rows) -> dict[str, list[object]]:
    """The same rows as Python values, where the text stands for one: numbers, truth values, dates."""
    table: dict[str, list[object]] = {name: list(values) for name, values in raw(rows).items()}
    table["age"] = [None if v is None or not v.strip() else float(v) for v in raw(rows)["age"]]
    table["score, scaled"] = [None if v is None else float(v) for v in raw(rows)["score, scaled"]]
    table["smoker?"] = [{"true": True, "1": True, "f": False, "0.0": False}.get(v or "") for v in raw(rows)["smoker?"]]
    table['seen "at"'] = [
        None if not v else dt.date(9999, 1, 1) if v == "infinity" else dt.date.fromisoformat(v[:10])
        for v in raw(rows)['seen "at"']
    ]
    return table


def missing(value: object) -> bool:
    """Whether a frame would call a value missing."""
    return value is None or (isinstance(value, float) and math.isnan(value))
