"""Conditions of a known shape are read as the grammar reads them, whatever their literals."""

from __future__ import annotations

import random

import pytest

import maquette as mq
from maquette.bounded import Bounded
from maquette.errors import QueryError
from maquette.query import where
from maquette.query.sql import shapes
from maquette.query.sql.parser import predicate
from maquette.query.sql.shapes import shaped

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99),
        mq.Number("income", edges=[0, 1.5, 10, 100]),
        mq.Category("region", ["north", "east", "south", "it's"]),
        mq.Boolean("smoker"),
        mq.Boolean("Is"),
    ]
)


def condition(rng: random.Random, depth: int = 0) -> str:
    if depth < 3 and rng.random() < 0.5:
        one, two = condition(rng, depth + 1), condition(rng, depth + 1)
        return rng.choice([f"{one} AND {two}", f"({one} or {two})", f"NOT ({one})", f"({one})  AND\n{two}"])
    number = rng.randrange(0, 120)
    return rng.choice(
        [
            f"age {rng.choice(['=', '<>', '!=', '<', '<=', '>', '>='])} {number}",
            f"age BETWEEN {number} and {number + rng.randrange(5)}",
            f"age in ({number}, {number + 1},{number + 2})",
            f"income >= {rng.choice(['1.5', '10', '0', '10.0', '3'])}",
            f"region = '{rng.choice(['north', 'east', 'nowhere', 'AND', '3'])}'",
            f"region NOT IN ('{rng.choice(['north', 'east'])}', 'south')",
            rng.choice(["smoker", "SMOKER", "smoker = TRUE", "smoker IS NULL", "age IS NOT NULL", "TRUE"]),
        ]
    )


def outcome(text: str, read: object) -> str:
    try:
        return where(SCHEMA, read(SCHEMA, text)).key  # type: ignore[operator]
    except QueryError as error:
        return f"refused: {error}"


@pytest.mark.thorough
def test_every_text_is_read_as_the_grammar_reads_it() -> None:
    rng, fast = random.Random(5), 0
    for _ in range(600):
        text = condition(rng)
        expected = outcome(text, predicate)
        shaped(SCHEMA, text)
        expression = shaped(SCHEMA, text)
        if expression is not None:
            fast += 1
            found = outcome(text, lambda _, __, known=expression: known)
            assert found == expected or (found.startswith("refused") and expected.startswith("refused")), text
        asked = outcome(text, mq.query.question)
        assert asked == expected, text
    assert fast > 350


@pytest.mark.parametrize(
    "text",
    [
        "age >= 1e2", "age >= .5", "age >= 5.", "age >= -5", "5 <= age", "age >= DATE '2020-01-01'", "region = 'it''s'",
        'region = "north"', "age >= 5 -- comment", "age >= 5; DROP", "age + 1 > 5", "region LIKE 'n%'", "age >= 5x",
        "SELECT 1", "age IN ((1), 2)", "age BETWEEN 5 AND smoker", "lower(region) = 'north'", "age >= 9999999999999999",
        "CASE WHEN smoker THEN 1 ELSE 0 END = 1", "region = 'a\\'", "region = 'x\0y'", "", "(", "age > 5 COLLATE x",
        "age >= 18 18", "t.age >= 5", "region = E'north'", "region = 'north' 'east'", "age >= 0x10", "age >= 1_000",
    ],
)  # fmt: skip
def test_what_is_written_in_another_way_is_left_to_the_grammar(text: str) -> None:
    shaped(SCHEMA, text)
    found = shaped(SCHEMA, text)
    if found is not None:  # only if it means the same
        assert outcome(text, lambda *_: found) == outcome(text, predicate)
    assert outcome(text, mq.query.question) == outcome(text, predicate) or (text.startswith("SELECT"))


def test_an_error_says_its_place_in_this_text_and_not_in_the_first_of_its_shape() -> None:
    assert [shaped(SCHEMA, f"smoker AND age >= {age}") is None for age in (20, 30)] == [True, False]
    with pytest.raises(QueryError) as fast:
        mq.query.question(SCHEMA, "smoker  AND  age >= 120")
    with pytest.raises(QueryError) as full:
        where(SCHEMA, "smoker  AND  age >= 120")
    assert str(fast.value) == str(full.value)


def test_texts_of_one_shape_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes._SHAPES.clear()
    assert shaped(SCHEMA, "age >= 20 AND region = 'east'") is None  # a shape that comes once is not worth it
    assert shaped(SCHEMA, "age >= 21 AND region = 'east'") is not None
    monkeypatch.setattr("maquette.query.sql.parser.predicate", None)
    assert shaped(SCHEMA, "age >= 44 AND region = 'north'") is not None


def test_a_bounded_dictionary_forgets_the_oldest() -> None:
    kept: Bounded[int, int] = Bounded(3)
    for i in range(10):
        kept[i] = i
    assert dict(kept) == {7: 7, 8: 8, 9: 9}
