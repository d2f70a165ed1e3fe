"""Different questions have different names, whatever the columns are called, and names of version 0.1 are kept."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import maquette as mq
from maquette.query import Keys, LinearQuery, lookup
from maquette.query.diagram import RESOLUTION
from maquette.query.linear import Term
from maquette.query.sums import Sum


def _sum(schema: mq.Schema, constant: int, column: str) -> LinearQuery:
    part = np.zeros(schema[column].size)
    part[0] = 0.5
    return LinearQuery(schema, [Term(constant / RESOLUTION, {}), Term(1.0, {schema.position(column): part})])


def test_a_column_that_begins_with_a_digit_is_no_digit_of_the_constant() -> None:
    schema = mq.Schema([mq.Integer("2x", 0, 4_999), mq.Integer("x", 0, 4_999)])
    one, twelve = _sum(schema, 1, "2x"), _sum(schema, 12, "x")
    assert isinstance(one.sum, Sum)
    assert one.key != twelve.key
    assert one != twelve


def test_sums_keep_the_name_that_version_0_1_gave_them() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 4_999), mq.Integer("-1x", 0, 9)])
    for column in schema.names:
        part = np.zeros(schema[column].size, dtype=np.int64)
        part[0] = RESOLUTION // 2
        old = hashlib.sha256(b"sum 7" + column.encode() + b"\0" + part.tobytes()).hexdigest()
        query = _sum(schema, 7, column)
        assert query.sum is not None
        assert query.sum.digest == old


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["x", "2x", "12x", "-1x", "1", "2", ""])), min_size=2))
def test_sums_are_the_same_question_exactly_when_they_have_one_name(asked: list[tuple[int, str]]) -> None:
    columns = ["x", "2x", "12x", "-1x", "1", "2"]
    schema = mq.Schema([mq.Integer(name, 0, 3) for name in columns])
    names: dict[Any, Any] = {}
    for constant, column in asked:
        part = {} if not column else {schema.position(column): np.array([0.0, 0.25, 0.5, 0.5])}
        digest = Sum(schema, constant / RESOLUTION, part).digest
        assert names.setdefault(digest, (constant, column)) == (constant, column)


def test_the_codes_of_keys_are_no_names_of_columns() -> None:
    """The code 6,513,249 is b"abc\\0" in four bytes."""
    schema = mq.Schema([mq.Integer("a", 0, 9_999_999), mq.Integer("abc", 0, 9_999_999)])
    codes = (7_000_000, 8_000_000)
    three = [{"a": code} for code in (int.from_bytes(b"abc\0", "little"), *codes)]
    both = [dict(zip(("a", "abc"), codes, strict=True))]
    assert Keys(schema, three).key != Keys(schema, both).key
    assert lookup(schema, three).key != lookup(schema, both).key
    other = [{"a": code} for code in codes]
    points = np.array(codes, dtype=np.int32).tobytes()
    assert Keys(schema, other).key == hashlib.sha256(b"keys\0a\0" + points).hexdigest()
    assert lookup(schema, other).key == hashlib.sha256(b"lookup\0a\0" + points + np.ones(2).tobytes()).hexdigest()
