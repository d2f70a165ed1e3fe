"""White space around a text means nothing, and what is white space is the same in Python and in SQL."""

from __future__ import annotations

import functools
import sys
import unicodedata

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import maquette as mq
from maquette.curator.contributions import unit_sql
from maquette.curator.engines.encoding import present_sql
from maquette.errors import PrivacyWarning
from maquette.schema.columns import INVALID
from maquette.schema.raw_values import text_sql

SPACES = list(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
NO_SPACES = ["\u200b", "\u200c", "\u2060", "\ufeff", "\u180e", "\x00", "\x1b", "\x7f", "_", "é", "名"]
ODD = st.lists(st.sampled_from([*SPACES, *NO_SPACES, "a", "north", " "]), max_size=6).map("".join)


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _run(expression: str, values: list[str | None]) -> list[object]:
    relation = _engine().from_arrow(pa.table({"v": pa.array(values, pa.string())}))
    return [row[0] for row in relation.project(expression).fetchall()]


@pytest.mark.thorough
def test_every_character_is_judged_alike() -> None:
    """All of Unicode but NUL and surrogates, at either end and in the middle."""
    everything = [chr(i) for i in range(1, sys.maxunicode + 1) if unicodedata.category(chr(i)) != "Cs"]
    texts = [f"{c}x{c}y{c}" for c in everything]
    found = _run(text_sql("v"), list(texts))
    wrong = [hex(ord(c)) for c, text, made in zip(everything, texts, found, strict=True) if made != text.strip()]
    assert wrong == []


@pytest.mark.thorough
@given(st.lists(ODD, min_size=1, max_size=40))
@settings(max_examples=60)
def test_levels_missing_texts_and_units_agree_with_python(values: list[str]) -> None:
    values = [value.replace("\x00", "") for value in values]
    assert _run(text_sql("v"), list(values)) == [value.strip() for value in values]
    column = mq.Category("c", ["north", "a", "aa"], other="other", nullable=True, missing=["_", "\u00a0é\t"])
    codes = {"north": 0, "a": 1, "aa": 2, "": 4, "_": 4, "é": 4}
    expected = [codes.get(value.strip(), 3) for value in values]
    assert column.encode(pa.array(values, pa.string())).tolist() == expected
    strict = mq.Category("c", ["north", "a", "aa"])
    known = [code if code < 3 else INVALID for code in expected]
    assert strict.encode(pa.array(values, pa.string())).tolist() == known
    units = _run(unit_sql("v"), list(values))
    assert units == [value.strip() or None for value in values]
    present = _run(present_sql("v", ["_", "\u2009é"]), list(values))
    assert present == [None if value.strip() in ("_", "é") else value for value in values]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\t", "\n", "\r\n", "\x1f", "\u3000"])
def test_a_level_with_odd_space_around_it_is_the_level(space: str) -> None:
    """Once such a value was refused, or went to `other`, while the same name in the schema was stripped."""
    column = mq.Category("region", [f"{space}north", "south"])
    assert column.levels == ("north", "south")
    for values in ([f"{space}north", f"south{space}", f" {space} north {space}"], ["north", "south", "north"]):
        assert column.encode(values).tolist() == [0, 1, 0]
    schema = mq.Schema([column, mq.Boolean("b", nullable=True)])
    rows = {"region": [f"north{space}", "south"] * 20, "b": [f"{space}true", space] * 20}
    assert np.array_equal(schema.encode(rows), [[0, 1], [1, 2]] * 20)
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=1000.0)) as curator:
        assert np.round(curator.measure(["region"], epsilon=900.0).values).tolist() == [20, 20]
    with pytest.warns(PrivacyWarning):
        guessed = mq.Schema.guess(pa.table({"region": rows["region"] * 10}))["region"]
    assert set(guessed.labels) >= {"north", "south"}


def test_what_is_no_space_stays() -> None:
    column = mq.Category("region", ["north", "\u200bnorth"])
    assert column.encode(["north", "\u200bnorth", "north\u200b"]).tolist() == [0, 1, INVALID]
    with pytest.raises(mq.SchemaError, match="repeated levels"):
        mq.Category("region", ["north", "\u00a0north"])
