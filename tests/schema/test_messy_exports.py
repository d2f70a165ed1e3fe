"""Tables as they are exported: the draft reads them, the numbers keep their shape, and bad declarations are refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import OutOfDomain, SchemaError
from maquette.reports import report
from maquette.schema import Boolean, Category, Date, FileFormat, Integer, Number, Schema, UnitDeclaration

ROWS = 600


def german(number: float) -> str:
    return f"{number:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def export() -> dict[str, list[str]]:
    r = random.Random(5)
    zeros = [r.random() < 0.9 for _ in range(ROWS)]
    return {
        "Betrag": ["0,00 €" if z else f"{german(r.lognormvariate(7, 1))} €" for z in zeros],
        "Quote": [f"{r.random() * 100:.1f} %".replace(".", ",") for _ in range(ROWS)],
        "Raucher": [r.choice(["Ja", "nein", "#N/V"]) for _ in range(ROWS)],
        "gültig": [r.choice(["WAHR", "FALSCH"]) for _ in range(ROWS)],
        "Kunde": [str(100_000 + 7 * i) for i in range(ROWS)],
        "gain": ["0" if z else str(r.choice([99_999, r.randint(1, 30_000)])) for z in zeros],
        "us": [f"{r.randint(1, 3_000_000):,}" for _ in range(ROWS)],
        "thin": [f"{r.randint(1, 3_000_000):,}".replace(",", "\u202f") for _ in range(ROWS)],
        "job": [r.choice(["nurse", "cook", "?"]) for _ in range(ROWS)],
    }


@pytest.fixture(scope="module")
def draft() -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Schema.guess(export())


@pytest.mark.thorough
def test_a_draft_names_how_numbers_are_written(draft: Schema) -> None:
    money, share = draft["Betrag"].as_dict(), draft["Quote"].as_dict()
    assert (money["decimal"], money["thousands"], money["marks"]) == (",", ".", ("€",))
    assert (money["atoms"], money["precision"]) == ((0.0,), 2)
    assert (share["marks"], share["precision"]) == (("%",), 1)
    assert draft["us"].as_dict()["thousands"] == ","
    assert draft["thin"].as_dict()["thousands"] == " "
    assert draft["gain"].as_dict()["atoms"] == (0, 99_999)


def test_a_draft_reads_words_and_marks_of_missing_values(draft: Schema) -> None:
    assert draft["Raucher"] == Boolean("Raucher", yes=["ja"], no=["nein"], nullable=True, missing=["#N/V"])
    assert draft["gültig"] == Boolean("gültig", yes=["wahr"], no=["falsch"])
    assert draft["job"].as_dict()["missing"] == ("?",)


def test_a_key_is_flagged_and_not_drafted(draft: Schema) -> None:
    assert "Kunde" not in draft
    assert any("looks like a key" in line and "--unit Kunde" in line for line in draft.skipped)


@pytest.mark.thorough
def test_a_draft_fits_its_own_table_and_is_kept_by_its_file(draft: Schema) -> None:
    with pytest.warns(mq.errors.PrivacyWarning):
        mq.open_table(export(), draft)
    assert Schema.loads(draft.dumps()) == draft


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"thousands": "."}, "1.23"),
        ({"thousands": "."}, "12.34.567"),
        ({"thousands": ","}, "1,2345"),
        ({"marks": ["€"]}, "5 $"),
        ({"decimal": ","}, "1.5"),
        ({}, "1 000"),
    ],
)
def test_a_number_that_is_written_otherwise_is_refused(settings: dict[str, Any], text: str) -> None:
    settings = {"decimal": ","} | settings if settings.get("thousands") == "." else settings
    with pytest.raises(OutOfDomain):
        mq.open_table({"x": [text]}, Schema([Number("x", 0, 10_000, bins=4, **settings)]))


@pytest.mark.parametrize(
    ("decimal", "thousands", "marks", "text", "value"),
    [
        (",", ".", [], "1.234.567,89", 1_234_567.89),
        (".", ",", ["$"], "$1,234.50", 1234.5),
        (".", " ", [], "1\u2009234\u00a0567", 1_234_567),
        (",", "", ["%"], "-12,5 %", -12.5),
        (".", "'", ["CHF"], "CHF 1'234.05", 1234.05),
    ],
)
def test_numbers_are_read_as_they_are_declared(
    decimal: Any, thousands: Any, marks: list[str], text: str, value: float
) -> None:
    column = Number("x", edges=[-100, value, 2_000_000], decimal=decimal, thousands=thousands, marks=marks)
    assert column.encode([text]).tolist() == [1]


@pytest.mark.parametrize(
    "declared",
    [
        lambda: Integer("x", 0, 9, width=5, atoms=[10]),
        lambda: Integer("x", 0, 9, width=5, atoms=[0.5]),
        lambda: Number("x", 0, 1, bins=2, atoms="0"),  # type: ignore[arg-type]
        lambda: Number("x", 0, 1, bins=2, precision=-1),
        lambda: Number("x", 0, 1, bins=2, decimal=",", thousands=","),
        lambda: Number("x", 0, 1, bins=2, marks="€"),
        lambda: Boolean("x", yes=["ja"], no=["Ja"]),
    ],
)
def test_a_wrong_declaration_is_refused(declared: Any) -> None:
    with pytest.raises(SchemaError, match="column 'x'"):
        declared()


ATOMS = [
    Integer("x", -7, 200, width=30, atoms=[0, 50, 200, -7], nullable=True),
    Number("x", edges=[-1, 0, 2.5, 9], atoms=[0, 1.25, 9], nullable=True),
    Number("x", -3, 3, bins=5, atoms=[-3], precision=2),
]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("column", ATOMS)
def test_a_spread_value_lies_in_its_bin_and_an_atom_stands_for_itself(column: Integer | Number) -> None:
    codes = np.arange(column.size).repeat(50)
    values = column.spread(codes, np.random.default_rng(1))
    assert np.array_equal(column.encode(values), codes)
    for atom in column.atoms:
        level = int(column.encode([atom])[0])
        assert set(values.take(np.flatnonzero(codes == level)).to_pylist()) == {atom}
        assert column.compare("=", atom).tolist() == [i == level for i in range(column.size)]
        above, beyond = column.compare(">=", atom), column.compare(">", atom)
        assert (above & ~beyond).tolist() == [i == level for i in range(column.size)]


def test_spread_values_have_the_declared_precision() -> None:
    column = ATOMS[2]
    drawn = column.spread(np.arange(1, column.size).repeat(200), np.random.default_rng(2)).to_pylist()
    assert all(round(value, 2) == value for value in drawn)
    assert len(set(drawn)) > 300


def test_old_schemas_keep_their_digest() -> None:
    old = Schema([Integer("age", 0, 99, width=10), Number("bmi", edges=[10, 18.5, 60]), Boolean("smoker")])
    facts = [
        {"name": "age", "kind": "integer", "low": 0, "high": 99, "width": 10},
        {"name": "bmi", "kind": "number", "edges": [10.0, 18.5, 60.0]},
        {"name": "smoker", "kind": "boolean"},
    ]
    assert old.digest == hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def test_synthetic_rows_of_a_zero_inflated_column_keep_their_zeros_and_mean() -> None:
    rng = np.random.default_rng(8)
    gains = np.where(rng.random(20_000) < 0.9, 0, rng.integers(1, 9_999, 20_000))
    schema = Schema([Integer("gain", 0, 9_999, width=1_000, atoms=[0]), Boolean("a")])
    table = mq.open_table({"gain": gains, "a": rng.random(20_000) < 0.5}, schema)
    with mq.Curator(table, mq.Budget(epsilon=2.0)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=2, sums=["gain"]))
        with pytest.raises(mq.QueryError, match="counts are enough"):
            mq.marginals(schema, k=1, sums=["a"])
    drawn = np.array(made.sample(20_000, rng=np.random.default_rng(1))["gain"].to_pylist())
    assert abs((drawn == 0).mean() - (gains == 0).mean()) < 0.01
    assert abs(drawn.mean() / gains.mean() - 1) < 0.1
    asked = made.answer("SELECT avg(gain) FROM t")
    assert asked.low <= asked.value <= asked.high
    assert abs(asked.value / gains.mean() - 1) < 0.05
    by = made.answer("SELECT a, sum(gain) FROM t GROUP BY a")
    assert abs(sum(number.value for number in by.numbers) / gains.sum() - 1) < 0.1


def test_bought_sums_are_kept_by_the_file(tmp_path: Path) -> None:
    schema = Schema([Integer("gain", 0, 99, width=10, atoms=[0]), Boolean("a")])
    table = mq.open_table({"gain": [0, 5, 70] * 100, "a": [True, False, True] * 100}, schema)
    with mq.Curator(table, mq.Budget(epsilon=5.0)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=2, sums=["gain"]))
    made.save(tmp_path / "made.maq")
    again = mq.Release.load(tmp_path / "made.maq")
    for question in ("SELECT avg(gain) FROM t", "SELECT sum(gain) FROM t WHERE a"):
        assert again.answer(question).value == made.answer(question).value


def test_an_average_asked_directly_is_that_of_the_values() -> None:
    schema = Schema([Integer("gain", 0, 9_999, width=5_000, nullable=True)])
    table = mq.open_table({"gain": [1, 2, 3, None] * 5_000}, schema)
    with mq.Curator(table, mq.Budget(epsilon=100.0)) as curator:
        assert abs(mq.answer(curator, "SELECT avg(gain) FROM t", epsilon=40.0).value - 2) < 1
        assert abs(mq.answer(curator, "SELECT sum(gain) FROM t", epsilon=40.0).value - 30_000) < 5_000


@pytest.mark.thorough
def test_a_draft_is_refused_until_it_is_reviewed_or_trusted(tmp_path: Path) -> None:
    rows, schema = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    rows.write_text("a,b\n" + "true,1\nfalse,2\n" * 50)
    Schema([Boolean("a"), Integer("b", 0, 9)], guessed=True).save(schema)
    told = ["release", str(rows), "--schema", str(schema), "--epsilon", "1", "--out", str(tmp_path / "t.maq")]
    with pytest.raises(SchemaError, match="is a draft"):
        CliRunner().invoke(app, told, catch_exceptions=False)
    assert not (tmp_path / "t.ledger").exists()
    with pytest.warns(mq.errors.PrivacyWarning):
        assert CliRunner().invoke(app, [*told, "--trust-draft"], catch_exceptions=False).exit_code == 0
    made = mq.Release.load(tmp_path / "t.maq")
    assert made.certificate.drafted
    page = report(made, tmp_path / "t.html").read_text()
    assert "drafted by reading the rows" in page
    assert "never from the rows" not in page


def test_a_draft_is_reviewed_by_walking_through_it(tmp_path: Path) -> None:
    path = tmp_path / "t.schema.toml"
    Schema([Boolean("a"), Integer("b", 0, 9), Boolean("c")], guessed=True).save(path)
    done = CliRunner().invoke(app, ["schema", "edit", str(path)], input="keep\nchange\nx\n0\n19\nkeep\ndrop\ny\n")
    assert done.exit_code == 0, done.output
    assert Schema.load(path) == Schema([Boolean("a"), Integer("b", 0, 19)])
    assert not Schema.load(path).guessed


def test_the_custodian_sees_what_a_contribution_bound_would_drop(tmp_path: Path) -> None:
    rows, schema = tmp_path / "visits.csv", tmp_path / "visits.schema.toml"
    people = [f"p{i}" for i in range(100) for _ in range(1 + (i % 20 == 0) * 9)]
    rows.write_text("patient,a\n" + "".join(f"{person},true\n" for person in people))
    Schema([Boolean("a")]).save(schema)
    told = ["schema", "check", str(rows), "--schema", str(schema), "--unit", "patient"]
    shown = CliRunner().invoke(app, told, catch_exceptions=False).output
    assert "145 rows, 100 different values of patient" in shown
    assert "--max-contributions 10" in shown


@pytest.mark.thorough
def test_a_plan_is_in_peoples_words_and_a_preview_reads_no_row(tmp_path: Path) -> None:
    path = tmp_path / "t.schema.toml"
    Schema([Boolean("a"), Integer("b", 0, 99, width=10, atoms=[0]), Boolean("c")]).save(path)
    numbers = ["--schema", str(path), "--rows", "5000", "--epsilon", "1", "--delta", "1e-9"]
    said = CliRunner().invoke(app, ["plan", *numbers], catch_exceptions=False).output
    assert "counts of single columns within ±" in said
    assert "a session" in said
    assert "Nothing was read or charged" in said
    assert "vacuous" not in said
    told = ["preview", str(path), "--rows", "2000", "--out", str(tmp_path / "preview")]
    assert CliRunner().invoke(app, told, catch_exceptions=False).exit_code == 0
    page = (tmp_path / "preview" / "preview.html").read_text()
    assert page.index("In short") < page.index("Who is protected")
    assert "Do not use it" in page


def test_a_walk_asks_again_instead_of_guessing_what_was_meant(tmp_path: Path) -> None:
    """A "no" does not keep a column, plain words and lists are read, and 100.000 is not silently a hundred."""
    path = tmp_path / "t.schema.toml"
    Schema(
        [Category("sex", ["m", "w"], other="other"), Number("cost", 0, 500, bins=5, nullable=True)], guessed=True
    ).save(path)
    typed = "no\nchange\nm, w, d\nandere\nkeep\nchange\nvielleicht\nno\n0\n100.000\n100000\n5\nk\ny\n"
    done = CliRunner().invoke(app, ["schema", "edit", str(path)], input=typed)
    assert done.exit_code == 0, done.output
    for told in ("type keep, change or drop", "write it like true", "is that 100000?", "now 5 levels"):
        assert told in done.output
    assert Schema.load(path) == Schema(
        [Category("sex", ["m", "w", "d"], other="andere"), Number("cost", 0, 100_000, bins=5)]
    )


def test_a_draft_is_written_to_a_file_but_never_over_one(tmp_path: Path) -> None:
    rows, schema = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    rows.write_text("a,b\n" + "true,1\nfalse,2\n" * 50)
    told = ["schema", "guess", str(rows), "--out", str(schema)]
    assert f"schema edit {schema}" in CliRunner().invoke(app, told, catch_exceptions=False).output
    assert Schema.load(schema).guessed
    again = CliRunner().invoke(app, told)
    assert again.exit_code == 2
    assert "exists" in again.output


def test_words_that_recur_among_other_texts_do_not_make_them_a_key() -> None:
    notes = {"note": [f"see file {i}" if i % 2 else "call back" for i in range(400)], "a": [True, False] * 200}
    with pytest.warns(mq.errors.PrivacyWarning):
        (left_out,) = Schema.guess(notes).skipped
    assert "more than 50 different values" in left_out
    assert "occurs once" not in left_out


MISDECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "thousands": ({"thousands": " "}, "line 4, written like '9.999,99 €'"),
    "marks": ({"marks": []}, "line 3, written like '9,99 €'"),
    "missing": ({"missing": []}, "line 5, written like 'x.x.'"),
}


@pytest.mark.parametrize("wrong", MISDECLARED)
def test_a_misdeclared_number_is_refused_with_file_line_and_shape(wrong: str, tmp_path: Path) -> None:
    """The error quotes no value, and nothing is charged."""
    rows, schema = tmp_path / "kosten.csv", tmp_path / "t.schema.toml"
    rows.write_bytes("Titel;\r\nKosten;a\r\n7,31 €;ja\r\n6.512,94 €;nein\r\nk.A.;ja\r\n".encode("cp1252"))
    right: dict[str, Any] = {"decimal": ",", "thousands": ".", "marks": ["€"], "nullable": True, "missing": ["k.A."]}
    changed, told = MISDECLARED[wrong]
    kosten = Number("Kosten", 0, 9_999, bins=3, **right | changed)
    form = FileFormat(delimiter=";", encoding="cp1252", skip=1)
    Schema([kosten, Boolean("a", yes=["ja"], no=["nein"])], file=form).save(schema)
    asked = ["release", str(rows), "--schema", str(schema), "--epsilon", "1", "--out", str(tmp_path / "t.maq")]
    with pytest.raises(OutOfDomain) as refused:
        CliRunner().invoke(app, asked, catch_exceptions=False)
    said = str(refused.value)
    assert str(rows) in said
    assert f"Kosten: {told}" in said
    assert "Nothing was charged" in said
    assert not any(value in said for value in ("7,31", "6.512", "k.A."))
    assert not list(tmp_path.glob("*ledger*"))


def test_a_check_tells_the_custodian_what_a_range_or_a_pivot_clamps(tmp_path: Path) -> None:
    rows, schema = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    rows.write_text("day;cost;age\n01.02.23;1,5;30\n05.06.21;99,5;-\n07.08.22;-2;101\n05.06.24;100;0\n")
    declared = [
        Date("day", "2021-01-01", "2024-12-31", unit="month", order="dmy", pivot=22),
        Number("cost", 0, 100, bins=4, decimal=","),
        Integer("age", 0, 99, nullable=True, missing=["-"]),
    ]
    Schema(declared, file=FileFormat(delimiter=";")).save(schema)
    with pytest.warns(mq.errors.PrivacyWarning, match="column 'day': pivot = 22 reads two-digit years as 1923 to 2022"):
        said = CliRunner().invoke(app, ["schema", "check", str(rows), "--schema", str(schema)]).output
    assert "day has values outside its declared range (2 below, 50.0% of rows)" in said
    assert "is pivot = 22 right?" in said
    assert "cost has values outside its declared range (1 below, 25.0% of rows)" in said
    assert "age has values outside its declared range (1 above, 25.0% of rows)" in said


@pytest.mark.parametrize(
    ("low", "high", "pivot", "told"),
    [
        ("2021-01-01", "2024-12-31", 22, "the declared range also has others: a 24 that means 2024 is read as 1924"),
        ("1930-01-01", "2024-12-31", 30, "the declared range also has 1930: a 30 that means 1930 is read as 2030"),
        ("1931-01-01", "2030-12-31", 30, ""),
        ("2021-01-01", "2024-12-31", None, ""),
    ],
)
def test_a_pivot_that_contradicts_the_range_is_told_before_anything_is_charged(
    low: str, high: str, pivot: int | None, told: str
) -> None:
    """From the declaration alone: rows, or how many of them are clamped, have no part in it."""
    schema = Schema([Date("day", low, high, unit="year", order="dmy", pivot=pivot)])
    assert schema["day"].remark.endswith(told)
    assert bool(schema["day"].remark) == bool(told)
    with pytest.warns(mq.errors.PrivacyWarning, match=told) if told else contextlib.nullcontext():
        mq.open_table({"day": ["2024-03-01"]}, schema)


def test_a_check_says_that_rows_are_protected_and_leaves_the_bound_to_the_custodian(tmp_path: Path) -> None:
    rows, schema = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    rows.write_text("patient,a\n" + "".join(f"p{i % 40},true\n" for i in range(100)))
    Schema([Boolean("a")]).save(schema)
    told = ["schema", "check", str(rows), "--schema", str(schema)]
    assert "protect people instead" in CliRunner().invoke(app, told).output
    said = CliRunner().invoke(app, [*told, "--unit", "patient"]).output
    assert "<- chosen" not in said
    assert "--max-contributions N" in said
    assert "--adopt" in said
    assert (
        "--max-contributions 2 "
        in CliRunner().invoke(app, [*told, "--unit", "patient", "--max-contributions", "2"]).output
    )


def test_plan_and_preview_know_the_unit_of_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "t.schema.toml"
    unit = UnitDeclaration(column="patient", max_contributions=3)
    Schema([Boolean("a"), Integer("b", 0, 9)], unit=unit).save(path)
    said = CliRunner().invoke(app, ["plan", "--schema", str(path), "--rows", "5000"], catch_exceptions=False).output
    assert "at most 3 per person" in said
    told = ["preview", str(path), "--rows", "2000", "--out", str(tmp_path / "preview")]
    said = CliRunner().invoke(app, told, catch_exceptions=False).output
    assert "at most 3 per person" in said
    assert "next, with your table" in said
    assert "At most 3 rows per patient are counted" in (tmp_path / "preview" / "preview.html").read_text()
