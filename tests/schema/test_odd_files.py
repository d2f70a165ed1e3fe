"""Files with titles above the header, without a header, and with words or codes among numbers, as drafts read them."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import SchemaError, UnreadableSource
from maquette.schema import FileFormat, Schema
from maquette.schema.titles import title_lines

R = random.Random(3)
ROWS = [(R.randint(18, 95), R.choice("FM"), round(R.lognormvariate(6, 1), 2)) for _ in range(400)]


def drafted(source: object, file: FileFormat | None = None) -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Schema.guess(source, file)


def counted(source: Path, schema: Schema, question: str) -> float:
    """The answer without noise to speak of: nothing here is private."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mq.Curator(mq.open_table(source, schema), mq.Budget(epsilon=1_000)) as curator:
            return float(mq.answer(curator, question, epsilon=500).value)


def lines(delimiter: str = ",") -> list[str]:
    return [delimiter.join(map(str, row)) for row in ROWS]


TITLES = {
    "a title": "Patients admitted in 2024\n",
    "a title and an empty line": "Patients admitted in 2024\n\n",
    "a title filled up with delimiters": "Patients admitted in 2024;;\nexported 2024-12-31;;\n;;\n",
    "the line that Excel reads": "sep=;\n",
    "empty lines": "\n\n",
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_lines_above_the_header_are_found_and_declared(title: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "ward.csv"
    path.write_text(title + "\n".join(["âge;sexe;coût", *lines(";")]) + "\n", encoding=encoding)
    schema = drafted(path)
    assert schema.names == ("âge", "sexe", "coût")
    assert (schema.file.skip, schema.file.delimiter) == (title.count("\n"), ";")
    assert Schema.loads(schema.dumps()).file == schema.file
    assert counted(path, schema, "SELECT count(*) FROM t") == pytest.approx(len(ROWS), abs=0.5)


def test_a_bad_line_below_a_title_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "ward.csv"
    path.write_text("title\n\nage;sex;cost\n" + "\n".join([*lines(";"), "1;F"]) + "\n")
    for file in (FileFormat(delimiter=";", skip=2), FileFormat(delimiter=";", skip=2, encoding="cp1252")):
        with pytest.raises(
            UnreadableSource, match=f"line {len(ROWS) + 4}: the line has fewer fields than the header, which has 3"
        ):
            drafted(path, file)


@pytest.mark.thorough
def test_rows_above_the_header_of_a_sheet_are_found(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"] = "Patients admitted 2024"
    sheet.merge_cells("A1:C1")
    for row in ([], ["age", "sex", "cost"], *ROWS):
        sheet.append(row)
    path = tmp_path / "ward.xlsx"
    book.save(path)
    schema = drafted(path)
    assert (schema.names, schema.file.skip) == (("age", "sex", "cost"), 2)
    assert counted(path, schema, "SELECT count(*) FROM t WHERE sex = 'F'") == pytest.approx(
        sum(sex == "F" for _, sex, _ in ROWS), abs=0.5
    )


@pytest.mark.parametrize(
    "rows",
    [
        [["", "a"], ["0", "1"], ["1", "2"]],  # a frame written with its index
        [["a", "b", "c"], ["1", "", ""], ["2", "", ""]],
        [["a"], ["1"], ["2"]],
        [["id", "", "", ""], ["1", "2", "3", "4"], ["1", "2", "3", "4"]],  # columns without a name
        [["only a title"], ["1", "2", "3"], ["4", "5", "6"]],
        [],
    ],
)
def test_nothing_is_skipped_that_may_be_a_header_or_a_row(rows: list[list[str]]) -> None:
    assert title_lines(rows) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_file_without_a_header_is_read_by_declared_names(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("\n".join([*lines(), "70,é,1"]) + "\n", encoding=encoding)
    with pytest.raises(UnreadableSource, match=r"looks like data, not a header; expected a header that names its 3"):
        drafted(path)
    schema = drafted(path, FileFormat(names=["age", "sex", "cost"]))
    assert schema.names == ("age", "sex", "cost")
    assert 'names = ["age", "sex", "cost"]' in schema.dumps()
    assert counted(path, schema, "SELECT count(*) FROM t") == pytest.approx(len(ROWS) + 1, abs=0.5)


@pytest.mark.thorough
def test_names_are_typed_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("\n".join(lines()))
    told = CliRunner().invoke(app, ["schema", "guess", str(path), "--names", "age, sex,cost", "--json"])
    assert json.loads(told.stdout)["names"] == ["age", "sex", "cost"]
    refused = CliRunner().invoke(app, ["schema", "guess", str(path)])
    assert "--names age,sex,..." in str(refused.exception)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"skip": -1}, "the file's skip is -1; expected the number of lines above the header"),
        ({"skip": True}, "the file's skip is True"),
        ({"skip": "2"}, "the file's skip is '2'"),
        ({"names": []}, "not a list of texts"),
        ({"names": "age"}, "not a list of texts"),
        ({"names": ["age", ""]}, "not a list of texts"),
        ({"names": ["age", "age"]}, "list 'age' twice"),
    ],
)
def test_odd_settings_of_files_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        FileFormat(**settings)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_words_among_numbers_are_missing_values() -> None:
    ages = [str(age) if i % 20 else "NSP" for i, (age, _, _) in enumerate(ROWS)]
    money = [f"{cost:,.2f} €" if i % 15 else "offen" for i, (_, _, cost) in enumerate(ROWS)]
    days = [f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}" if i % 9 else "nie" for i in range(len(ROWS))]
    schema = drafted({"age": ages, "cost": money, "seen": days})
    assert [(c.kind, c.missing) for c in schema] == [
        ("integer", ("NSP",)),
        ("number", ("offen",)),
        ("date", ("nie",)),
    ]
    assert any("'NSP'" in line and "a missing value" in line for line in schema.notes["age"])


def test_a_word_that_occurs_once_among_numbers_is_told_by_its_row() -> None:
    schema = drafted({"cost": [*(str(cost) for _, _, cost in ROWS), "Total"], "sex": ["F"] * (len(ROWS) + 1)})
    assert "first in row 401 below the header" in schema.skipped[0]
    assert "Total" not in schema.dumps()


def test_codes_among_numbers_with_decimals_are_missing_values() -> None:
    weights = [f"{60 + i % 50 / 2}" if i % 20 else "999" for i in range(400)]
    top = ["0" if i % 10 else "99999" if i % 50 == 0 else str(1_000 + 37 * i) for i in range(400)]
    schema = drafted({"weight": weights, "gain": top, "smoker": [str((1, 2, 9)[i % 3]) for i in range(400)]})
    assert (schema["weight"].missing, schema["weight"].as_dict()["high"]) == (("999",), 85.0)
    assert schema["gain"].as_dict()["atoms"] == (0, 99_999)  # a limit of the form, not far above the others
    assert any("9 is far from the other values" in line for line in schema.notes["smoker"])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("word", ["n/d", "k.A.", "#VALUE!", "n.a."])
def test_yes_and_no_beside_a_sign_for_nothing(word: str) -> None:
    schema = drafted({"paid": ["oui", "non", word, "oui"] * 50})
    assert schema["paid"].as_dict() | {"nullable": True, "missing": (word,)} == schema["paid"].as_dict()
    assert schema["paid"].kind == "boolean"


@pytest.mark.thorough
def test_advice_about_odd_column_names_can_be_typed(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("N° dossier,,sex\n" + "".join(f"D{i:06d},a,{'FM'[i % 2]}\n" for i in range(200)))
    schema = drafted(path)
    assert "--unit 'N° dossier'" in schema.skipped[0]
    assert schema.skipped[1].startswith("column 2 (it has no name")


def test_a_header_without_rows(tmp_path: Path) -> None:
    (tmp_path / "header.csv").write_text("a,b,c\n")
    with pytest.raises(UnreadableSource, match="has a header but no rows"):
        drafted(tmp_path / "header.csv")
