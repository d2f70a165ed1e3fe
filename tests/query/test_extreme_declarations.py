"""Sums and averages of columns at the ends of what can be declared: they open, and the truth is in the interval."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.schema import Column

COLUMNS: list[tuple[Column, list[Any]]] = [
    (mq.Number("x", edges=[0.0, 5e-324]), [0.0, 5e-324, 5e-324]),
    (mq.Number("x", edges=[-1e-300, 0.0, 1e-300]), [1e-300, -1e-301, 1e-300]),
    (mq.Number("x", edges=[0.0, 1e300]), [1e300, 0.0, 1e299]),
    (mq.Integer("x", -(2**40), 2**40, width=2**38), [-(2**40), 2**40, 5]),
    (mq.Integer("x", 1 - 2**53, 2**53 - 1, width=2**51), [-(2**40), 2**40, 2**53 - 1]),
    (mq.Integer("x", -(2**53), 2**53, width=2**51), [-(2**53), 2**53, 5]),  # one bin was missing in sums
]


@pytest.mark.parametrize(("column", "values"), COLUMNS, ids=lambda part: str(part)[:60])
def test_sums_and_averages_hold(column: Column, values: list[Any]) -> None:
    table = mq.open_table({"x": values}, mq.Schema([column]))
    with mq.Curator(table, mq.Budget(epsilon=100.0), noise=ScriptedNoise([0] * 99)) as curator:
        for text, truth in (("sum(x)", sum(values)), ("avg(x)", sum(value / 3 for value in values))):
            answer = mq.answer(curator, f"SELECT {text} AS v FROM t", epsilon=0.7)
            assert answer.low <= truth <= answer.high
