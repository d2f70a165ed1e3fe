"""Files as they are exported: encodings, Excel, gzip, globs, two-digit years, from the draft to the opened table."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator.table import engine_of
from maquette.errors import SchemaError, UnreadableSource
from maquette.schema import Date, FileFormat, Schema

TOWNS = ["Köln", "Zürich", "Łódź", "Århus"]
ROWS = 240


def guessed(source: object, **file: Any) -> Schema:
    with pytest.warns(mq.errors.PrivacyWarning):
        return Schema.guess(source, FileFormat(**file))


def counted(source: object, schema: Schema, **settings: Any) -> dict[str, list[int]]:
    table = mq.open_table(source, Schema(schema.columns, file=schema.file), **settings)
    return {name: engine_of(table).counts([name]).tolist() for name in schema.names}


def text(towns: list[str], delimiter: str = ";") -> str:
    lines = [f"{towns[i % len(towns)]}{delimiter}{i % 7}" for i in range(ROWS)]
    return "\r\n".join([f"Größe des Orts{delimiter}Zahl".replace("Größe des Orts", "Ort"), *lines]) + "\r\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("encoding", "towns", "detected"),
    [
        ("utf-8", TOWNS, None),
        ("utf-8-sig", TOWNS, None),
        ("cp1252", ["Köln", "Zürich", "Saint-Étienne", "Malmö"], "cp1252"),
        ("cp1250", ["Łódź", "Kraków", "Gdańsk", "Wałbrzych"], "cp1250"),
        ("mac_roman", ["Köln", "Zürich", "Besançon", "Málaga"], "mac_roman"),
        ("utf-16", TOWNS, "utf-16"),
    ],
)
def test_an_encoding_is_detected_by_the_draft_and_declared_by_it(
    encoding: str, towns: list[str], detected: str | None, tmp_path: Path
) -> None:
    packed = encoding == "cp1250"
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = text(towns).encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    draft = guessed(path)
    assert draft.file == FileFormat(delimiter=";", encoding=detected)
    assert set(towns) <= set(draft["Ort"].labels)
    assert Schema.loads(draft.dumps()).file == draft.file
    assert sum(counted(path, draft)["Ort"]) == ROWS
    assert (
        counted(path, draft)["Ort"]
        == counted({"Ort": [towns[i % 4] for i in range(ROWS)], "Zahl": [i % 7 for i in range(ROWS)]}, draft)["Ort"]
    )


def test_opening_a_table_detects_nothing_and_says_what_to_declare(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text(["Köln", "Zürich"], ",").encode("cp1252"))
    schema = Schema([mq.Category("Ort", ["Köln", "Zürich"]), mq.Integer("Zahl", 0, 9)])
    with pytest.raises(UnreadableSource, match=r"line 2: it is not UTF-8.*under \[file\].*encoding = "):
        mq.open_table(path, schema)
    assert sum(counted(path, schema, encoding="latin-1")["Zahl"]) == ROWS


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a,b\n" + b"1,2\n" * 5_000 + b"\x81SECRET,3\n", "bytes that are not valid cp1252"),
        (b"a,b\n1,2\n1,SECRET,3\n", "line 3: the line has more fields than the header, which has 2"),
        (b"a,b\n1,2\nSECRET\n", "line 3: the line has fewer fields"),
        (b'a,b\n1,2\n1,"SECRET\n', "a quotation mark is never closed"),
    ],
)
def test_a_bad_line_in_another_encoding_is_named_and_not_quoted(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    schema = Schema([mq.Integer("a", 0, 9), mq.Integer("b", 0, 9)])
    with pytest.raises(UnreadableSource, match=complaint) as caught:
        mq.open_table(path, schema, encoding="cp1252")
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None or "SECRET" not in str(caught.value.__context__)


@pytest.mark.parametrize("given", [{"encoding": "klingon"}, {"encoding": "hex"}, {"delimiter": ";;"}, {"sheet": ""}])
def test_a_wrong_format_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="the file's"):
        FileFormat(**given)


def test_a_schema_file_says_how_the_table_is_written() -> None:
    schema = Schema.loads('[file]\ndelimiter = ";"\n[[column]]\nname = "a"\nkind = "boolean"\n')
    assert schema.file == FileFormat(delimiter=";")
    assert schema.digest == Schema([mq.Boolean("a")]).digest
    with pytest.raises(SchemaError, match="unknown setting 'delimeter'; did you mean delimiter"):
        Schema.loads('[file]\ndelimeter = ";"\n[[column]]\nname = "a"\nkind = "boolean"\n')


def test_files_of_a_glob_are_drafted_and_opened_together(tmp_path: Path) -> None:
    (tmp_path / "v-1.csv").write_text("a,b\n" + "1,x\n2,y\n" * 30)
    (tmp_path / "v-2.csv.gz").write_bytes(gzip.compress(b"b,a\n" + b"x,5\n" * 40))
    source = str(tmp_path / "v-*")
    draft = guessed(source)
    assert draft["a"].labels[-1] == "5"
    assert sum(counted(source, draft)["b"]) == 100
    (tmp_path / "v-3.csv").write_text("a,c\n1,2\n")
    with pytest.raises(UnreadableSource, match="different headers"):
        guessed(source)


def workbook(path: Path, *sheets: tuple[str, list[list[Any]]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_of_what_is_no_spreadsheet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    schema = Schema([mq.Integer("a", 0, 9)], file=FileFormat(sheet="Daten"))
    with pytest.raises(UnreadableSource, match="no spreadsheet, so it has no sheet 'Daten'"):
        mq.open_table(path, schema)


@pytest.mark.thorough
def test_a_sheet_is_read_as_a_file_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows: list[list[Any]] = [["Betrag", "Datum", "Raucher", "Stadt", "Anzahl"]]
    for i in range(200):
        day = dt.date(2023, 1, 1) + dt.timedelta(days=int(rng.integers(0, 700)))
        rows.append(
            [round(float(rng.uniform(0, 900)), 2), day, bool(i % 3), TOWNS[i % 4], None if i % 50 == 0 else i % 9]
        )
    path = workbook(tmp_path / "t.xlsx", ("Deckblatt", [["nichts"], ["x"]]), ("Daten", rows))
    draft = guessed(path, sheet="Daten")
    assert draft.file == FileFormat(sheet="Daten")
    assert [column.kind for column in draft] == ["number", "date", "boolean", "category", "integer"]
    columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
    assert counted(path, draft) == counted(columns, draft)
    with pytest.raises(UnreadableSource, match="has no sheet 'Other'; expected one of 'Deckblatt', 'Daten'"):
        mq.open_table(path, Schema(draft.columns), sheet="Other")
    empty = workbook(tmp_path / "e.xlsx", ("leer", []))
    with pytest.raises(UnreadableSource, match=r"sheet 'leer' of .* is empty"):
        guessed(empty)


def test_two_digits_of_a_year_need_a_pivot() -> None:
    column = Date("d", "1900-01-01", "2099-12-31", unit="year", order="dmy", pivot=30)
    assert column.encode(["1.2.31", "28.02.30", "1.2.1999", "2024-03-04"]).tolist() == [31, 130, 99, 124]
    for pivot in (-1, 100, 1.5, True):
        with pytest.raises(SchemaError, match="pivot is"):
            Date("d", "1900-01-01", "2099-12-31", pivot=pivot)  # type: ignore[arg-type]
    with pytest.raises(mq.errors.OutOfDomain):
        mq.open_table({"d": ["1.2.31"]}, Schema([Date("d", "1900-01-01", "2099-12-31", order="dmy")]))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("style", "order", "short"),
    [("%d.%m.%Y", "dmy", False), ("%m/%d/%y", "mdy", True), ("%d.%m.%y", "dmy", True), ("%Y-%m-%d", "ymd", False)],
)
def test_dates_in_several_styles_are_drafted_and_read(style: str, order: str, short: bool) -> None:
    days = [dt.date(1995, 1, 1) + dt.timedelta(days=37 * i) for i in range(250)]
    draft = guessed({"d": [day.strftime(style) for day in days]})
    column = draft["d"]
    assert isinstance(column, Date)
    assert (column.order, column.pivot is not None) == (order, short)
    assert column.encode([day.strftime(style) for day in days]).tolist() == column.encode(days).tolist()


@pytest.mark.thorough
def test_the_draft_says_what_it_saw_and_keeps_saying_it() -> None:
    answers = [str(i % 5 + 1) for i in range(300)]
    answers[::20] = ["98"] * 15
    answers[1::30] = ["99"] * 10
    draft = guessed(
        {"q1": answers, "money": [f"{i % 900},{i % 100:02d} €" for i in range(300)], "id": list(range(300))}
    )
    assert draft["q1"].missing == ("98", "99")
    assert draft["q1"].labels[-2:] == ("5", "NULL")
    assert any("look like codes" in line for line in draft.notes["q1"])
    assert any("decimal comma" in line and "€" in line for line in draft.notes["money"])
    assert any(line.startswith("id (") and "--unit id" in line for line in draft.skipped)
    again = Schema.loads(draft.dumps())
    assert (again, again.notes, again.skipped) == (draft, draft.notes, draft.skipped)
    reviewed = Schema(draft.columns, notes=draft.notes)
    assert "saw:" not in reviewed.dumps()


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("mark", "sign"), [(",", ""), (".", ""), (",", "$")])
def test_thousands_are_told_from_fractions_by_smaller_numbers(mark: str, sign: str) -> None:
    numbers = [*range(100, 1_000, 90), *range(1_234, 90_000, 1_777)] * 3
    texts = [f"{sign}{number:,}".replace(",", mark) for number in numbers]
    column = guessed({"x": texts})["x"]
    assert column.as_dict()["thousands"] == mark
    assert column.encode(texts).tolist() == column.encode(numbers).tolist()
    alone = {"x": [text for text in texts if mark in text]}
    if mark == ",":  # without smaller numbers it may be a fraction
        with pytest.warns(mq.errors.PrivacyWarning), pytest.raises(SchemaError, match="thousands or fractions"):
            Schema.guess(alone)


@pytest.mark.thorough
def test_a_bound_read_from_the_rows_is_recorded_and_every_answer_says_what_is_counted(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from maquette.cli import app

    rows, schema, made = tmp_path / "v.csv", tmp_path / "v.schema.toml", tmp_path / "v.maq"
    rows.write_text("patient,a\n" + "".join(f"p{i // 2},{'true' if i % 3 else 'false'}\n" for i in range(400)))
    Schema([mq.Boolean("a")]).save(schema)
    told = CliRunner().invoke(
        app, ["schema", "check", str(rows), "--schema", str(schema), "--unit", "patient", "--adopt"]
    )
    assert told.exit_code == 0, told.output
    assert Schema.load(schema).unit is not None
    words = ["release", str(rows), "--schema", str(schema), "--epsilon", "5", "--out", str(made)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "at most 2 rows per patient are counted" in done.output
    published = mq.Release.load(made)
    assert published.certificate.bound_from_rows
    assert published.certificate.counted == "at most 2 rows per patient are counted"
    assert "at most 2 rows per patient are counted" in repr(published.answer("a"))
    with mq.Curator(mq.open_table(rows, Schema.load(schema)), mq.Budget(epsilon=30.0)) as curator:
        assert "at most 2 rows per patient" in repr(mq.answer(curator, "a", epsilon=1.0))
        assert "at most 2 rows per patient" in repr(mq.online(curator, alpha=0.2).ask("a"))
