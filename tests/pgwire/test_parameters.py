"""Parameters of prepared statements mean what they would mean in the text of the statement, or are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from maquette.service.pgwire.binding import literal
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import NUMERIC, TIMESTAMPTZ

EAST = dt.timezone(dt.timedelta(hours=2))


def test_midnight_is_a_day() -> None:
    assert literal(dt.datetime(1970, 5, 1)) == "DATE '1970-05-01'"
    assert literal(dt.datetime(1970, 5, 1, 2, tzinfo=EAST)) == "DATE '1970-05-01'"
    assert literal("1970-05-01 02:00:00+02:00", TIMESTAMPTZ) == "DATE '1970-05-01'"


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(1970, 5, 1, 15),
        dt.datetime(1970, 5, 1, 0, 0, 0, 1),
        dt.datetime(1970, 5, 1, tzinfo=EAST),
        dt.datetime.min.replace(tzinfo=EAST),
    ],
)
def test_other_moments_are_refused_as_they_are_in_a_text(moment: dt.datetime) -> None:
    """`born < 15:00 of a day` holds on that day; without the time it does not."""
    with pytest.raises(Problem):
        literal(moment)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Decimal("9007199254740993"), "9007199254740993"),
        (Decimal("100.00"), "100"),
        (Decimal("0.1000000000000000055"), "0.1000000000000000055"),
        (Decimal("-2.5"), "-2.5"),
        (Decimal("1E+3"), "1000"),
        (1e16, "1e+16"),
        (2.0, "2"),
    ],
)
def test_every_digit_of_a_number_is_kept(number: Decimal | float, text: str) -> None:
    assert literal(number) == text


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "1e999999", "1e-999999", "x"])
def test_numbers_that_no_column_holds_are_refused(text: str) -> None:
    with pytest.raises(Problem):
        literal(text, NUMERIC)
