"""Encoding: total, clamped, and consistent with decoding, for every kind of column."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from maquette.errors import SchemaError
from maquette.schema import INVALID, Boolean, Category, Column, Date, Integer, Number

names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
levels = st.lists(
    names.map(str.strip).filter(lambda name: name not in ("", "NULL")), min_size=1, max_size=6, unique=True
)
dates = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
finite = st.floats(-1e300, 1e300)


@st.composite
def categories(draw: st.DrawFn) -> Category:
    found = draw(levels)
    other = found.pop() if len(found) > 1 and draw(st.booleans()) else None
    return Category(draw(names), found, other=other, nullable=draw(st.booleans()))


@st.composite
def integers(draw: st.DrawFn) -> Integer:
    low, width = draw(st.integers(-(2**53), 2**53 - 10**6)), draw(st.integers(1, 10**4))
    return Integer(draw(names), low, low + draw(st.integers(0, 90)) * width, width=width, nullable=draw(st.booleans()))


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    nullable = draw(st.booleans())
    if draw(st.booleans()):
        edges = sorted(draw(st.sets(finite, min_size=2, max_size=9)))
        return Number(draw(names), edges=edges, nullable=nullable)
    low = draw(st.floats(-1e6, 1e6))
    return Number(
        draw(names), low=low, high=low + draw(st.floats(1, 1e6)), bins=draw(st.integers(1, 40)), nullable=nullable
    )


@st.composite
def calendars(draw: st.DrawFn) -> Date:
    low = draw(dates)
    unit: Any = draw(st.sampled_from(["day", "week", "month", "quarter", "year"]))
    return Date(
        draw(names), low, low + dt.timedelta(draw(st.integers(0, 800))), unit=unit, nullable=draw(st.booleans())
    )


columns = st.one_of(categories(), integers(), numbers(), calendars(), st.builds(Boolean, names, nullable=st.booleans()))
dirt = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.sampled_from(["", "  ", "nan", "NaN", "inf", "-Infinity", "1e999", "-0", "-0.0", "NULL", "true", "2024-02-30"]),
    st.sampled_from(["9999-12-31", "0001-01-01", "infinity", "2024-01-01 25:00", "1e5", "0x10", "x" * 100_000]),
    st.floats().map(repr),
    st.integers().map(str),
    dates.map(str),
)


@given(columns)
@settings(max_examples=40)
def test_encoding_what_was_decoded_gives_the_codes_back(column: Column) -> None:
    codes = np.arange(column.size, dtype=np.int32)
    assert np.array_equal(column.encode(column.decode(codes)), codes)


@given(columns)
@settings(max_examples=25)
def test_text_of_decoded_values_gives_the_codes_back(column: Column) -> None:
    codes = np.arange(column.size, dtype=np.int32)
    text = [
        None if v is None else repr(v) if isinstance(v, float) else str(v) for v in column.decode(codes).to_pylist()
    ]
    assert np.array_equal(column.encode(pa.array(text, pa.string())), codes)


@given(columns, st.lists(dirt, min_size=1, max_size=30))
@settings(max_examples=40)
def test_encoding_is_total_on_dirty_text(column: Column, values: list[str | None]) -> None:
    codes = column.encode(pa.array(values, pa.string()))
    assert codes.shape == (len(values),)
    assert codes.dtype == np.int32
    assert ((codes >= INVALID) & (codes < column.size)).all()


@pytest.mark.thorough(fast=7)
@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, math.nan, math.inf, -math.inf, -0.0, None]),
        pa.array([2**62, -(2**62), 0, None]),
        pa.array([True, False, None]),
        pa.array([dt.date(2024, 1, 1), None]),
        pa.array([dt.datetime(2024, 1, 1, 23, 59), None]),
        pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
        pa.array([b"\xff\xfe", None]),
        pa.array([[1, 2], None]),
        pa.array([{"a": 1}, None]),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([dt.time(1, 2), None]),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize(
    "column",
    [
        Boolean("c", nullable=True),
        Category("c", ["a", "b"], nullable=True),
        Category("c", [f"level {i}" for i in range(300)], other="o", nullable=True),
        Integer("c", -5, 5, nullable=True),
        Number("c", low=0, high=1, bins=3, nullable=True),
        Date("c", "2020-01-01", "2025-01-01", unit="month", nullable=True),
    ],
    ids=lambda column: f"{column.kind}{column.size}",
)
def test_encoding_is_total_on_every_type(column: Column, values: pa.Array) -> None:
    codes = column.encode(values)
    assert ((codes >= INVALID) & (codes < column.size)).all()
    assert codes[-1] == (column.known if values.null_count else codes[-1])


def test_numbers_are_clamped_and_floored() -> None:
    column = Integer("age", -3, 8, width=4)
    raw = ["-inf", "-1e300", "-3", "-0.5", "0.99", "1", "8", "8.5", "9", "9223372036854775807", "1e999"]
    assert column.encode(raw).tolist() == [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]


@given(st.lists(finite, min_size=1, max_size=20), numbers())
@settings(max_examples=25)
def test_numbers_fall_in_the_bin_that_holds_them(values: list[float], column: Number) -> None:
    edges = column._boundaries
    expected = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, column.known - 1)
    assert np.array_equal(column.encode(values), expected)
    assert np.array_equal(column.encode([repr(v) for v in values]), expected)


@given(st.lists(dates, min_size=1, max_size=20), calendars())
@settings(max_examples=25)
def test_dates_fall_in_the_unit_that_holds_them(values: list[dt.date], column: Date) -> None:
    starts = np.array(column.values, dtype="datetime64[D]")
    days = np.clip(np.array(values, dtype="datetime64[D]"), np.datetime64(column.low), np.datetime64(column.high))
    expected = np.searchsorted(starts, days, side="right") - 1
    assert np.array_equal(column.encode(values), expected)
    assert np.array_equal(column.encode([f"{v} 12:30:00" for v in values]), expected)


@pytest.mark.parametrize("nullable", [False, True])
def test_missing_is_the_null_level_or_invalid(nullable: bool) -> None:
    for column in (
        Boolean("c", nullable=nullable),
        Category("c", ["a"], other="o", nullable=nullable),
        Integer("c", 0, 1, nullable=nullable),
        Number("c", edges=[0, 1], nullable=nullable),
        Date("c", "2024-01-01", "2024-01-02", nullable=nullable),
    ):
        expected = column.known if nullable else INVALID
        assert column.encode([None, "", "   "]).tolist() == [expected] * 3


def test_nan_counts_as_missing_because_frames_use_it_for_that() -> None:
    for values in (np.array([math.nan, 1.0]), pa.array([math.nan, 1.0]), ["nan", "1"]):
        assert Integer("c", 0, 1, nullable=True).encode(values).tolist() == [2, 1]
        assert Number("c", edges=[0, 0.5, 2], nullable=True).encode(values).tolist() == [2, 1]
        assert Integer("c", 0, 1).encode(values).tolist() == [INVALID, 1]


def test_undeclared_category_goes_to_other_or_is_invalid() -> None:
    raw = ["a", " a ", "A", "o", "zzz"]
    assert Category("c", ["a"], other="o").encode(raw).tolist() == [0, 0, 1, 1, 1]
    assert Category("c", ["a"]).encode(raw).tolist() == [0, 0, INVALID, INVALID, INVALID]


def test_many_levels_encode_as_few_do() -> None:
    many = [f"it's {i}" for i in range(1000)]
    raw = [*many[::-1], "none of them", None]
    assert Category("c", many, other="o", nullable=True).encode(raw).tolist() == [*range(999, -1, -1), 1000, 1001]


def test_truth_values_in_their_usual_spellings() -> None:
    raw = ["true", " False", "T", "f", "1", "0", "1.0", "0.0", "YES", "no", "2", "maybe"]
    assert Boolean("c").encode(raw).tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, INVALID, INVALID]


def test_whole_number_levels_match_floats_from_frames() -> None:
    assert Category("c", [1, 2, -3]).encode([1.0, 2.0, -3.0]).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Integer("c", 0, 2**40),
        lambda: Integer("c", 0.5, 2),  # type: ignore[arg-type]
        lambda: Integer("c", 2, 1),
        lambda: Number("c", edges=[1, 1]),
        lambda: Number("c", edges=[0, math.inf]),
        lambda: Number("c", edges=["a", "b"]),  # type: ignore[list-item]
        lambda: Number("c", low=0, high=1, bins=True),
        lambda: Number("c", low=0, high=1),
        lambda: Category("c", []),
        lambda: Category("c", ["a", " a"]),
        lambda: Category("c", ["a"], other=" a "),
        lambda: Category("c", ["a\x00b"]),
        lambda: Category("c", ["\ud800"]),
        lambda: Category("c", "abc"),
        lambda: Date("c", "2024-02-30", "2025-01-01"),
        lambda: Date("c", "2024-02-01", "2024-01-01"),
        lambda: Boolean(""),
        lambda: Boolean("c", nullable=1),  # type: ignore[arg-type]
    ],
)
def test_impossible_columns_are_refused(make: object) -> None:
    with pytest.raises(SchemaError):
        make()  # type: ignore[operator]
