"""The page of supported SQL is up to date, and everything on it is answered or refused as it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import maquette as mq
from maquette.query import Context, PublicTable, parse, sql_reference
from maquette.query.sql.reference import REFUSED, SECTIONS
from maquette.query.sql.settings import split

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import sql_reference as written  # noqa: E402

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Category("region", ["north", "south", "east", "west"]),
        mq.Boolean("smoker"),
        mq.Category("sex", ["f", "m"], nullable=True),
        mq.Integer("visits", 0, 9),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="month"),
    ]
)
LOOKUP = PublicTable({"code": ["north"], "name": ["up"], "weight": [1.0]}, key="code", bounds={"weight": (0.0, 1.0)})
CONTEXT = Context("people", "person", 2, {"regions": LOOKUP})


def test_the_page_is_up_to_date() -> None:
    assert written.PAGE.read_text(encoding="utf-8") == written.page(), "run `python docs/sql_reference.py`"


@pytest.mark.parametrize("text", [text for section in SECTIONS for text in section.examples])
def test_an_example_is_answered_and_in_the_help(text: str) -> None:
    settings, rest = split(text)
    cuts = settings.cuts or "refuse"
    assert parse(SCHEMA, rest, context=Context("people", "person", 2, {"regions": LOOKUP}, cuts)).marginals is not None
    assert text in sql_reference()


@pytest.mark.parametrize("text", [text for text, _ in REFUSED])
def test_a_refusal_says_what_to_type(text: str) -> None:
    with pytest.raises(mq.QueryError) as caught:
        parse(SCHEMA, text, context=CONTEXT)
    assert caught.value.advice or caught.value.expected
