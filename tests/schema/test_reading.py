"""How texts are read where a schema says how they are written: the order of dates, decimal commas, missing values."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.errors import OutOfDomain, PrivacyWarning, SchemaError, UnreadableSource
from maquette.schema import INVALID, Boolean, Category, Column, Date, Integer, Number, Schema

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(0, 366, 7)]
YEAR = ("2024-01-01", "2024-12-31")


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("order", "written"), [("dmy", "%d/%m/%Y"), ("dmy", "%d.%m.%Y"), ("mdy", "%m-%d-%Y")])
@pytest.mark.parametrize("time", ["", " 08:15", "T23:59:59"])
def test_a_declared_order_reads_dates_with_the_year_last(order: str, written: str, time: str) -> None:
    column = Date("d", *YEAR, order=order)  # type: ignore[arg-type]
    expected = [(day - DAYS[0]).days for day in DAYS]
    assert list(column.encode([day.strftime(written) + time for day in DAYS])) == expected
    assert list(column.encode([day.isoformat() + time for day in DAYS])) == expected
    assert list(column.encode(DAYS)) == expected
    assert list(column.encode(column.decode(np.arange(366)))) == list(range(366))


@pytest.mark.thorough
def test_what_is_no_date_in_the_declared_order_is_refused() -> None:
    texts = [
        "31/01/2024",
        "01/31/2024",
        "31/02/2024",
        "3/4/24",
        "31/12/24",
        "24-01-31",
        "2024-01-31x",
        "31/01/2024 noon",
    ]
    refused = {
        order: [text for text in texts if Date("d", *YEAR, order=order).encode([text])[0] == INVALID]
        for order in ("ymd", "dmy", "mdy")
    }
    assert refused["ymd"] == texts
    assert refused["dmy"] == texts[1:]
    assert refused["mdy"] == [texts[0], *texts[2:]]


def test_old_dates_are_clamped_as_ever() -> None:
    column = Date("d", *YEAR)
    assert list(column.encode(["0001-01-01", "0999-12-31", "9999-12-31"])) == [0, 0, 365]
    assert list(column.encode([dt.date(1, 1, 1), dt.date(9999, 12, 31)])) == [0, 365]


@pytest.mark.thorough
def test_a_decimal_comma_is_read_where_it_is_declared() -> None:
    column = Number("w", 0, 100, bins=100, decimal=",")
    assert list(column.encode(["61,5", " 7,25 ", "12", "-3,5", "1e1", "1,5e1"])) == [61, 7, 12, 0, 10, 15]
    assert list(column.encode(["61.5", "1.234,5", "1,2,3", "x"])) == [INVALID] * 4
    assert list(column.encode([61.5, 7.25, 12.0])) == [61, 7, 12]  # numbers have no comma
    assert list(column.encode(column.decode(np.arange(100)))) == list(range(100))
    assert list(Number("w", 0, 100, bins=100).encode(["61,5", "61.5"])) == [INVALID, 61]


MARKED: list[tuple[Column, list[object], list[int]]] = [
    (
        Integer("c", 0, 9, nullable=True, missing=["NA", "-1"]),
        ["3", "NA", " -1 ", "", None, "-2"],
        [3, 10, 10, 10, 10, 0],
    ),
    (Integer("c", 0, 9, nullable=True, missing=["-1"]), [3, -1, None], [3, 10, 10]),
    (Number("c", 0, 9, bins=9, nullable=True, missing=["?"]), ["3.5", "?", "n/a"], [3, 9, INVALID]),
    (Boolean("c", nullable=True, missing=["n/a", "it's"]), ["yes", "n/a", "it's", "no"], [1, 2, 2, 0]),
    (Category("c", ["x"], other="o", nullable=True, missing=["NA"]), ["x", "NA", "y"], [0, 2, 1]),
    (Date("c", *YEAR, nullable=True, missing=["1900-01-01"]), ["2024-01-02", "1900-01-01", "1901-01-01"], [1, 366, 0]),
]


@pytest.mark.parametrize(("column", "values", "codes"), MARKED, ids=lambda part: getattr(part, "kind", ""))
def test_declared_texts_mean_that_a_value_is_missing(column: Column, values: list[object], codes: list[int]) -> None:
    assert list(column.encode(values)) == codes
    (read,) = Schema.loads(Schema([column]).dumps())
    assert read == column
    assert Schema([read]).digest == Schema([column]).digest


def test_settings_that_make_no_sense_are_refused() -> None:
    refused = {
        "needs nullable = true as well": lambda: Integer("c", 0, 9, missing=["NA"]),
        "missing is 'NA'; expected a list of texts": lambda: Integer("c", 0, 9, nullable=True, missing="NA"),
        "listed both in levels and in missing: NA": lambda: Category("c", ["NA"], nullable=True, missing=["NA"]),
        "order is .ydm.; expected one of ymd, dmy, mdy": lambda: Date("c", *YEAR, order="ydm"),  # type: ignore[arg-type]
        'decimal is .;.; expected "." or ","': lambda: Number("c", 0, 9, bins=3, decimal=";"),  # type: ignore[arg-type]
    }
    for why, make in refused.items():
        with pytest.raises(SchemaError, match=why):
            make()


def test_a_schema_that_declares_none_of_it_keeps_its_digest() -> None:
    columns = [
        Integer("age", 0, 99),
        Number("bmi", 10, 60, bins=5),
        Date("seen", *YEAR),
        Boolean("smoker", nullable=True),
    ]
    assert all(not {"missing", "order", "decimal"} & set(column.as_dict()) for column in columns)


def clerk(rows: int = 400) -> dict[str, list[str]]:
    """A table as it comes from a ward: every kind of value that people type."""
    day = [DAYS[row % len(DAYS)] for row in range(rows)]
    return {
        "patient": [f"P{row // 2:05d}" for row in range(rows)],
        "recordId": [str(row) for row in range(rows)],
        "age": [("NA", "n/a", "")[row % 3] if row % 40 == 0 else str(row % 95) for row in range(rows)],
        "smoker": ["" if row % 50 == 0 else ("yes", "no")[row % 2] for row in range(rows)],
        "weight": [f"{45 + row % 70}.{row % 10}" for row in range(rows)],
        "admitted": [d.strftime("%d/%m/%Y") for d in day],
        "left": [d.strftime("%m/%d/%Y") + " 08:15" for d in day],
        "seen": [d.isoformat() if row % 2 else d.strftime("%d.%m.%Y") for row, d in enumerate(day)],
        "at": [f"{d.isoformat()} 12:30:00" for d in day],
        "unclear": ["03/04/2024", "05/06/2024"] * (rows // 2),
        "both": ["31/01/2024", "01/31/2024"] * (rows // 2),
        "city": [("Orléans", "Łódź", "Zürich", "Paris")[row % 4] for row in range(rows)],
        "code": [f"C{row % 300}" for row in range(rows)],
        "empty": [""] * rows,
        "account": [str(10**17 + row) for row in range(rows)],
        "result": ["pending" if row % 20 == 0 else str(row) for row in range(rows)],
        "grade": [("1", "2", "x", "3.5")[row % 4] for row in range(rows)],
    }


def written(path: Path, table: dict[str, list[str]], separator: str = ",", head: bytes = b"") -> Path:
    lines = [separator.join(table), *(separator.join(row) for row in zip(*table.values(), strict=True))]
    path.write_bytes(head + "\n".join(lines).encode())
    return path


def drafted(source: object) -> Schema:
    with pytest.warns(PrivacyWarning, match="read the data"):
        return Schema.guess(source)


@pytest.mark.thorough
def test_a_draft_of_what_a_clerk_types_fits_the_table_it_was_made_from(tmp_path: Path) -> None:
    path = written(tmp_path / "ward.csv", clerk())
    draft = drafted(path)
    assert {column.name: column.kind for column in draft} == {
        "age": "integer",
        "smoker": "boolean",
        "weight": "number",
        "admitted": "date",
        "left": "date",
        "seen": "date",
        "at": "date",
        "city": "category",
        "grade": "category",
    }
    age = draft["age"]
    assert (age.nullable, age.missing) == (True, ("NA", "n/a"))
    orders = {column.name: column.order for column in draft if isinstance(column, Date)}
    assert orders == {"admitted": "dmy", "left": "mdy", "seen": "dmy", "at": "ymd"}
    reasons = {line.partition(" ")[0]: line for line in draft.skipped}
    assert "make it the privacy unit (--unit patient)" in reasons["patient"]
    assert "it looks like a key" in reasons["recordId"]
    assert 'declare the column by hand, with order = "dmy" or "mdy"' in reasons["unclear"]
    assert "some with the day first and some with the month first" in reasons["both"]
    assert "it looks like a key" in reasons["result"]  # beside a word that recurs, every number occurs once
    assert reasons["empty"] == "empty (no values)"
    assert "it looks like a key" in reasons["account"]
    reviewed = Schema.loads(draft.dumps().replace("guessed = true", ""))
    mq.open_table(path, reviewed, privacy_unit="patient", max_contributions=2)


@pytest.mark.thorough
def test_a_spreadsheet_of_the_continent_can_be_drafted(tmp_path: Path) -> None:
    table = clerk()
    table["weight"] = [weight.replace(".", ",") for weight in table["weight"]]
    path = written(tmp_path / "ward.csv", table, ";", b"\xef\xbb\xbf")
    draft = drafted(path)
    weight = draft["weight"]
    assert isinstance(weight, Number)
    assert weight.decimal == ","
    assert "patient" in draft.skipped[0]  # without the byte order mark
    mq.open_table(path, Schema(draft.columns), delimiter=";")
    with pytest.raises(UnreadableSource, match="pass delimiter=';'"):
        mq.open_table(path, Schema(draft.columns))


@pytest.mark.thorough
def test_frames_of_texts_are_drafted_as_files_are(tmp_path: Path) -> None:
    table = clerk()
    from_file = drafted(written(tmp_path / "ward.csv", table))
    assert drafted(table) == from_file


def test_names_that_cannot_be_columns_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("age,,age,city\n" + "3,x,4,Rome\n" * 10)
    draft = drafted(path)
    assert draft.names == ("city",)
    assert any("several columns have this name" in line for line in draft.skipped)
    assert any("column 2 (it has no name" in line for line in draft.skipped)


def test_files_with_different_headers_are_not_drafted_together(tmp_path: Path) -> None:
    for name, header in (("a", "age,city"), ("b", "town,age")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n1,2\n")
    with pytest.warns(PrivacyWarning), pytest.raises(UnreadableSource, match="have different headers"):
        Schema.guess(str(tmp_path / "*.csv"))


def test_two_digit_years_are_never_clamped_in_silence() -> None:
    with pytest.raises(OutOfDomain, match="values must be dates"):
        mq.open_table({"seen": ["3/4/24", "5/6/24"]}, Schema([Date("seen", *YEAR)]))
