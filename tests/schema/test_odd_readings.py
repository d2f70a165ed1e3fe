"""Odd texts and types have one decided reading, the same for every column kind: the reference of all engines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from maquette.schema import INVALID, Boolean, Category, Column, Date, Integer, Number

X = INVALID
INTEGER = Integer("c", 0, 9, nullable=True)
NUMBER = Number("c", 0, 10, bins=10, nullable=True)
COMMA = Number("c", 0, 10, bins=10, nullable=True, decimal=",")
BOOLEAN = Boolean("c", nullable=True)
CATEGORY = Category("c", ["1", "2"], other="other", nullable=True)
MONTH = Date("c", "2024-01-01", "2024-12-31", unit="month", nullable=True)
DAY_FIRST = Date("c", "2024-01-01", "2024-12-31", unit="month", nullable=True, order="dmy")
KINDS = (INTEGER, NUMBER, COMMA, BOOLEAN, CATEGORY, MONTH, DAY_FIRST)

# The code of a text in each of KINDS.
TEXTS: dict[str, tuple[int, ...]] = {
    # Groups of digits: what separates them is not declared.
    "1_000": (X, X, X, X, 2, X, X),
    "1_0": (X, X, X, X, 2, X, X),
    "1 000": (X, X, X, X, 2, X, X),
    "1,000.0": (X, X, X, X, 2, X, X),
    # Ways to write one.
    "1": (1, 1, 1, 1, 0, X, X),
    "+1": (1, 1, 1, 1, 2, X, X),
    "1e0": (1, 1, 1, 1, 2, X, X),
    "1.00": (1, 1, X, 1, 0, X, X),
    "1,0": (X, X, 1, X, 2, X, X),
    "0x1": (X, X, X, X, 2, X, X),
    "１": (X, X, X, X, 2, X, X),
    # White space around a value means nothing, whatever Unicode calls it.
    "\u00a01\u2009": (1, 1, 1, 1, 0, X, X),
    "\u3000 2024-03-05\u00a0": (X, X, X, X, 2, 2, 2),
    # Blank is missing; so is NaN, where numbers are expected.
    "": (10, 10, 10, 2, 3, 12, 12),
    " \u00a0\u3000\t": (10, 10, 10, 2, 3, 12, 12),
    "NaN": (10, 10, 10, X, 2, X, X),
    "\u00a0nan": (10, 10, 10, X, 2, X, X),
    # What has no end is clamped, as a number and as a date.
    "inf": (9, 9, 9, X, 2, 11, 11),
    "Infinity": (9, 9, 9, X, 2, 11, 11),
    "-inf": (0, 0, 0, X, 2, 0, 0),
    "-infinity": (0, 0, 0, X, 2, 0, 0),
    "1e400": (9, 9, 9, X, 2, X, X),
    # Dates: the day that is written, whatever time and offset follow.
    "2024-03-05": (X, X, X, X, 2, 2, 2),
    "2024-03-31T23:30:00-05": (X, X, X, X, 2, 2, 2),
    "05/03/2024": (X, X, X, X, 2, X, 2),
    "20240305": (9, 9, 9, X, 2, X, X),
    "0044-03-15 (BC)": (X, X, X, X, 2, 0, 0),
    "epoch": (X, X, X, X, 2, X, X),
    "Yes": (X, X, X, 1, 2, X, X),
    "on": (X, X, X, X, 2, X, X),
}

# Typed values and their code in each of KINDS.
TYPED: dict[str, tuple[pa.Array, tuple[int, ...]]] = {
    "boolean": (pa.array([True]), (1, 1, 1, 1, 2, X, X)),
    "whole": (pa.array([1], pa.int8()), (1, 1, 1, 1, 0, X, X)),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), (9, 9, 9, X, 2, X, X)),
    "float": (pa.array([1.0], pa.float32()), (1, 1, 1, 1, 0, X, X)),
    "NaN": (pa.array([float("nan")]), (10, 10, 10, X, 2, X, X)),
    "infinite": (pa.array([float("inf")]), (9, 9, 9, X, 2, X, X)),
    "decimal": (pa.array([Decimal("1.00")], pa.decimal128(38, 2)), (1, 1, 1, 1, 0, X, X)),
    "date": (pa.array([dt.date(2024, 3, 5)]), (X, X, X, X, 2, 2, 2)),
    "instant": (
        pa.array([dt.datetime(2024, 4, 1, 4, tzinfo=dt.UTC)], pa.timestamp("us", "America/New_York")),
        (X, X, X, X, 2, 3, 3),
    ),
    "bytes": (pa.array([b"1"]), (1, 1, 1, 1, 0, X, X)),
    "levels": (pa.array(["1"]).dictionary_encode(), (1, 1, 1, 1, 0, X, X)),
    "time of day": (pa.array([dt.time(1)]), (X, X, X, X, 2, X, X)),
    "list": (pa.array([[1]]), (X, X, X, X, 2, X, X)),
    "nothing": (pa.nulls(1), (10, 10, 10, 2, 3, 12, 12)),
}


@pytest.mark.parametrize(
    "position", range(len(KINDS)), ids=["integer", "number", "comma", "boolean", "category", "date", "day first"]
)
def test_every_odd_text_is_read_as_decided(position: int) -> None:
    column: Column = KINDS[position]
    codes = dict(zip(TEXTS, column.encode(pa.array(list(TEXTS))).tolist(), strict=True))
    assert codes == {text: expected[position] for text, expected in TEXTS.items()}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", TYPED)
def test_every_type_is_read_as_decided(name: str) -> None:
    values, expected = TYPED[name]
    assert tuple(int(column.encode(values)[0]) for column in KINDS) == expected
