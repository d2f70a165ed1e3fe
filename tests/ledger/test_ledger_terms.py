"""Terms and descriptions are typed, and stored in the very words of version 0.1."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from ledger_checks import TERMS, opened

import maquette as mq
from maquette.errors import DataError
from maquette.privacy import Composed, DiscreteLaplace, Event, LazyRounds, Pure, Selection
from maquette.privacy.ledger import Description, Terms, inspect
from maquette.privacy.ledger.api import protection_text, read_protection

FILES = Path(__file__).with_name("files")
TEXTS = {
    "add-remove, unit=row, max_contributions=1": ("add-remove", None, 1),
    "replace, unit=row, max_contributions=3": ("replace", None, 3),
    "replace, unit=person id, max_contributions=12": ("replace", "person id", 12),
    "add-remove, unit=a, unit=b, max_contributions=7, max_contributions=2": (
        "add-remove",
        "a, unit=b, max_contributions=7",
        2,
    ),
}


@pytest.mark.parametrize(("text", "meant"), TEXTS.items(), ids=str)
def test_relation_unit_and_rows_are_one_text_and_back(text: str, meant: tuple[str, str | None, int]) -> None:
    assert protection_text(*meant) == text
    assert read_protection(text) == meant


@given(st.sampled_from(["add-remove", "replace"]), st.text(min_size=1), st.integers(1, 10**6))
def test_any_name_of_a_unit_is_read_back(relation: str, unit: str, rows: int) -> None:
    read = read_protection(protection_text(relation, unit, rows))
    assert read == (relation, None if unit == "row" else unit, rows)


def test_the_facts_of_terms_are_those_of_version_01_in_their_order() -> None:
    assert json.dumps(replace(TERMS, unit="person", max_contributions=4).facts) == (
        '{"table": "' + "5ca1ab1e" * 8 + '", "schema": "' + "ab" * 32 + '", "relation": "add-remove, unit=person, '
        'max_contributions=4", "currency": "zcdp", "limit": 1000}'
    )


def test_an_inspected_ledger_says_what_it_protects(tmp_path: Path) -> None:
    terms = replace(TERMS, relation="replace", unit="person, home", max_contributions=3)
    path = tmp_path / "ledger"
    with opened(path, terms) as ledger:
        assert (ledger.terms.relation, ledger.terms.unit, ledger.terms.max_contributions) == (
            "replace",
            "person, home",
            3,
        )
    account = inspect(path)
    assert (account.relation, account.unit, account.max_contributions) == ("replace", "person, home", 3)
    assert account.protects == terms.protects == "replace, unit=person, home, max_contributions=3"


def test_charges_of_version_01_are_described(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes((FILES / "version-0.1-curator.bin").read_bytes())
    path.with_name("ledger.key").write_bytes((FILES / "version-0.1-curator-key.bin").read_bytes())
    account = inspect(path)
    assert account.charges
    for charge in account.charges:
        assert charge.described.text == charge.description
        assert charge.described.door in charge.description
        assert json.loads(charge.description).get("events", []) == [
            {**event.as_dict(), "times": times} for event, times in charge.described.events
        ]


def test_a_description_says_the_door_the_events_and_what_was_asked() -> None:
    events: list[Event] = [DiscreteLaplace(Fraction(10, 3), Fraction(1)), Pure(0.5), Pure(0.5), Selection(1.0)]
    public = {"questions": ["k1", "k2"], "columns": [["age", "sex"], []], "note": {"b": 1, "a": [2]}}
    made = Description.made("measure", events, public)
    read = Description.of(made.text)
    assert read == made
    assert read.text == made.text
    assert read.door == "measure"
    assert read.events == ((events[0], 1), (Pure(0.5), 2), (Selection(1.0), 1))
    assert (read.questions, read.columns, read.note) == (("k1", "k2"), (("age", "sex"), ()), {"b": 1, "a": [2]})
    assert set(json.loads(read.discreet.text)) == {"door", "events"}
    assert read.discreet.events == read.events


def test_a_description_of_composed_events_and_of_little_is_read() -> None:
    lazy = LazyRounds(3, Fraction(7), Fraction(2), 1e-9)
    composed = Composed((Pure(0.25), lazy))
    assert Description.of(Description.made("guard", [composed], {}).text).events == ((composed, 1),)
    little = Description.of("{}")
    assert (little.door, little.events, little.questions, little.columns, little.note) == ("?", (), (), (), None)
    assert Description.of('{"questions": "one key of all"}').questions == ()


@pytest.mark.parametrize("text", ["", "[]", "3", "{"])
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="JSON object"):
        Description.of(text)


def test_a_curator_binds_its_ledger_to_the_column_of_the_units() -> None:
    schema = mq.Schema([mq.Boolean("smoker")])
    rows = {"smoker": [True, False], "person": [1, 2]}
    table = mq.open_table(rows, schema, privacy_unit="person", max_contributions=2)
    with mq.Curator(table, mq.Budget(epsilon=1.0), relation="replace") as curator:
        terms: Terms = curator.ledger.terms
        assert (terms.relation, terms.unit, terms.max_contributions) == ("replace", "person", 2)
        made = mq.release(curator, mq.marginals(schema, k=1), method="laplace")
        assert made.certificate.unit == "person"
