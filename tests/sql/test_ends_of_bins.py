"""Sums and averages of expressions over bins: their intervals hold wherever the values lie in their bins."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.query import Buckets, Context, PublicTable, parse
from plain_statements import parse as statement

ROWS = 1_500
SURE = 1 - 1e-9  # at an end of the bins an interval holds by its noise alone
SCHEMA = mq.Schema(
    [
        mq.Number("amount", edges=[0, 10, 20, 50, 100, 500]),
        mq.Integer("debt", -400, 99, width=100, nullable=True),
        mq.Integer("quantity", 1, 9),
        mq.Category("country", ["DE", "FR"]),
        mq.Category("status", ["paid", "open", "lost"]),
        mq.Date("begun", "2024-01-01", "2024-12-31"),
        mq.Date("ended", "2024-01-01", "2025-02-28", unit="month"),
    ]
)
TAXES = PublicTable({"iso": ["DE", "FR"], "vat": [19, 20]}, key="iso", bounds={"vat": (0, 30)})


def data(place: float) -> dict[str, Any]:
    """Values at one place of their bins, from the lower ends (0) to the upper ones (1)."""
    rng = np.random.default_rng(11)
    edges = np.array([0, 10, 20, 50, 100, 500])
    level = rng.integers(0, 5, ROWS)
    amount = edges[level] + 0.999 * place * (edges[level + 1] - edges[level])
    debt = -400 + 100 * rng.integers(0, 5, ROWS) + int(99 * place)
    begun = [dt.date(2024, 1, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 366, ROWS)]
    months = rng.integers(0, 14, ROWS)
    return {
        "amount": amount.tolist(),
        "debt": [None if r < 0.2 else int(d) for r, d in zip(rng.random(ROWS), debt, strict=True)],
        "quantity": rng.integers(1, 10, ROWS).tolist(),
        "country": rng.choice(["DE", "FR"], ROWS).tolist(),
        "status": rng.choice(["paid", "open", "lost"], ROWS).tolist(),
        "begun": begun,
        "ended": [dt.date(2024 + int(m) // 12, 1 + int(m) % 12, 1 + int(27 * place)) for m in months],
    }


ASKED = [
    "sum(amount * quantity)",
    "avg(amount * quantity)",
    "sum(debt * quantity) FILTER (WHERE country = 'DE')",
    "sum(amount * debt)",
    "avg(amount - debt)",
    "sum(round(amount * (1 + CASE country WHEN 'DE' THEN 19 ELSE 20 END / 100.0), 2))",
    "avg(coalesce(debt, 0))",
    "avg(ln(amount + 1))",
    "sum(abs(debt))",
    "avg(debt % 7)",
    "sum(CASE WHEN status = 'paid' THEN amount WHEN status = 'open' THEN amount / 2 ELSE 0 END)",
    "sum(CASE status WHEN 'paid' THEN amount WHEN 'lost' THEN -amount END)",
    "avg(date_diff('day', begun, ended))",
    "avg(ended - begun)",
    "sum(greatest(amount, quantity))",
    "sum(ceil(amount))",
    "avg(round(amount))",
    "sum(ceil(amount)) - sum(amount)",
    "avg(amount / (quantity + 1))",
    "var_pop(amount * quantity)",
    "stddev(round(amount))",
    "covar_pop(amount + debt, quantity)",
    "corr(amount * quantity, quantity)",
]


@pytest.mark.thorough(fast=6)
@pytest.mark.parametrize("expression", ASKED)
def test_an_interval_holds_wherever_values_lie_in_their_bins(expression: str) -> None:
    for place in (0.0, 0.3, 1.0):
        rows = pa.table(data(place))
        with duckdb.connect() as engine:
            engine.register("t", rows)
            (exact,) = engine.execute(f"SELECT {expression} FROM t").fetchone() or ()
        with mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=9e3)) as curator:
            (told,) = mq.answer(curator, f"SELECT {expression} AS v FROM t", epsilon=4e3, confidence=SURE).numbers
        assert told.low <= float(exact) <= told.high, (place, told)


def test_a_simple_case_adds_up_values() -> None:
    text = "SELECT sum(CASE status WHEN 'paid' THEN amount ELSE 0 END) AS v FROM t"
    same = text.replace("CASE status WHEN 'paid'", "CASE WHEN status = 'paid'")
    context = Context(table="t")
    assert parse(SCHEMA, text, context=context).key == parse(SCHEMA, same, context=context).key


def test_what_depends_on_levels_alone_is_measured_once() -> None:
    for text in ("SELECT sum(quantity * quantity) AS v FROM t", "SELECT sum(amount) AS v FROM t"):
        assert len(parse(SCHEMA, text, context=Context(table="t")).marginals) == 1
    joined = "SELECT sum(amount * (1 + c.vat / 100.0)) AS v FROM t JOIN taxes c ON t.country = c.iso"
    found = parse(SCHEMA, joined, context=Context(table="t", public={"taxes": TAXES}))
    assert len(found.marginals) == 2  # at the lower and at the upper ends


@pytest.mark.parametrize("expression", ["sum(amount * amount)", "avg(quantity / amount)", "sum(abs(amount - 30))"])
def test_what_the_ends_do_not_decide_is_refused(expression: str) -> None:
    with pytest.raises(mq.QueryError, match="does not follow from its ends"):
        parse(SCHEMA, f"SELECT {expression} AS v FROM t", context=Context(table="t"))


def test_a_band_of_a_long_range_is_a_group() -> None:
    schema = mq.Schema([mq.Integer("income", 0, 399_999, width=10_000)])
    text = "SELECT floor(income / 20000) * 20000 AS band, count(*) AS n FROM t GROUP BY band"
    axis = statement(schema, text, table="t").axes[0]
    assert isinstance(axis, Buckets)
    assert len(axis.labels) == 20
    with pytest.raises(mq.QueryError, match="cuts through the bin 10000-19999"):
        parse(schema, text.replace("20000", "15000"), context=Context(table="t"))


def test_atoms_have_levels_of_their_own() -> None:
    schema = mq.Schema([mq.Integer("gain", 0, 99, width=50, atoms=[0])])
    found = mq.where(schema, "abs(gain) < 50")
    assert found.weights(("gain",)).tolist() == [1, 1, 0]
