"""Statements whose plain reading was nearly right: moments, keys that are one number, whole division, huge ranges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.query import PublicTable

PUBLIC = {
    "weights": PublicTable({"key": ["a", "b"], "v": [1.0, math.inf]}, key="key"),
    "numbers": PublicTable({"key": ["1", "01"], "v": [1.0, 2.0]}, key="key"),
    "days": PublicTable({"key": ["2024-01-01", "2024-1-1"], "v": [1.0, 2.0]}, key="key"),
}


@pytest.fixture(scope="module")
def curator() -> Iterator[mq.Curator]:
    schema = mq.Schema(
        [
            mq.Number("x", edges=[-1e300, 0, 1e300]),
            mq.Integer("k", 0, 3),
            mq.Category("m", ["2024-03-05 10:00:00", "2024-03-05 00:00:00"]),
            mq.Category("c", ["a", "b", "1", "01"]),
            mq.Date("d", "2024-01-01", "2024-01-31"),
        ]
    )
    rows = {"x": [1.0] * 100, "k": [0, 3] * 50, "m": ["2024-03-05 10:00:00"] * 100, "c": ["a", "01"] * 50}
    table = mq.open_table({**rows, "d": ["2024-01-01"] * 100}, schema)
    with mq.Curator(table, mq.Budget(epsilon=1e3)) as opened:
        yield opened


def asked(curator: mq.Curator, text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return mq.answer(curator, text, epsilon=40.0, table="t", public=PUBLIC)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT count(*) FROM t WHERE CAST(m AS TIMESTAMP) > '2024-03-05 05:00:00'", "as a moment is not supported"),
        ("SELECT CAST(m AS TIMESTAMP) AS moment, count(*) FROM t GROUP BY 1", "as a moment is not supported"),
        ("SELECT sum(v) FROM t JOIN numbers ON k = numbers.key", "keys of the public table are the same"),
        ("SELECT sum(v) FROM t JOIN numbers ON k // 1 = numbers.key", "keys of the public table are the same"),
        ("SELECT sum(v) FROM t JOIN days ON d = days.key", "keys of the public table are the same"),
        ("SELECT sum(v) FROM t JOIN weights ON c = weights.key", "holds an infinite number"),
        ("SELECT var_pop(x) FROM t", "beyond those of floating point"),
        ("SELECT stddev(x) FROM t", "beyond those of floating point"),
    ],
)
def test_what_has_no_exact_reading_is_refused(curator: mq.Curator, text: str, told: str) -> None:
    with pytest.raises(mq.QueryError, match=told):
        asked(curator, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT avg(k) // 2 FROM t", 0.75),
        ("SELECT count(*) // 3 FROM t", 33),
        ("SELECT sum(k) // 7 FROM t", 21),
        ("SELECT sum(k) // 4.0 FROM t", 37.5),
        ("SELECT sum(v) FROM t JOIN numbers ON c = numbers.key", 100),
        ("SELECT count(*) FROM t WHERE CAST(d AS TIMESTAMP) >= '2024-01-01'", 100),
    ],
)
def test_readings(curator: mq.Curator, text: str, value: float) -> None:
    assert asked(curator, text).value == pytest.approx(value, abs=1.0 if value == 100 else 0.3)  # noise: below 1e-6


def test_ranges_near_the_largest_float_warn_of_nothing(curator: mq.Curator) -> None:
    for text in ("SELECT sum(x) FROM t", "SELECT avg(x) FROM t", "SELECT count(*) FROM t WHERE x >= 0"):
        assert math.isfinite(asked(curator, text).value)
