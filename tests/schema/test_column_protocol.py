"""What every column kind keeps, from raw values to files, answers and synthetic rows; add yours to `COLUMNS`.

Each entry is a column that is not nullable, with some raw values and the code of each: INVALID where no level fits.
"""

from __future__ import annotations

import csv
import datetime as dt
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import maquette as mq
from maquette.errors import QueryError, SchemaError
from maquette.schema import INVALID, Column, Ordered, column_kind, kind_named, kind_names, kinds
from page_examples import example

Raw = Sequence[tuple[object, int]]
COLUMNS: list[tuple[Column, Raw]] = [
    (mq.Boolean("x"), [("yes", 1), (0, 0), ("maybe", INVALID)]),
    (mq.Category("x", ["a", "b'c"], other="rest"), [("b'c", 1), (" a ", 0), ("zzz", 2)]),
    (mq.Category("x", ["1", "2"]), [(1, 0), ("2.0", 1), ("3", INVALID)]),
    (mq.Integer("x", 0, 99, width=10), [(5, 0), ("42", 4), (1000, 9), ("many", INVALID)]),
    (mq.Number("x", edges=[0.0, 1.5, 4.0]), [(1.5, 1), (-3, 0), ("9", 1), ("?", INVALID)]),
    (mq.Date("x", "2024-01-01", "2024-12-31", unit="month"), [(dt.date(2024, 3, 9), 2), ("2030-01-01", 11)]),
    (example("Prefix")("x", ["C", "C34", "J"]), [("C50", 0), ("C34.1", 1), ("J45", 2), ("Z", INVALID)]),
]  # fmt: skip


@pytest.fixture(params=COLUMNS, ids=lambda each: f"{each[0].kind}, {each[0].size} levels")
def declared(request: pytest.FixtureRequest) -> tuple[Column, Raw]:
    return request.param


@pytest.fixture(params=[False, True], ids=["", "nullable"])
def column(request: pytest.FixtureRequest, declared: tuple[Column, Raw]) -> Column:
    return replace(declared[0], nullable=request.param)


@pytest.mark.thorough(fast=1)
def test_raw_values_get_their_codes(column: Column, declared: tuple[Column, Raw]) -> None:
    for value, code in declared[1]:
        assert column.encode([value]).tolist() == [code], value
        assert column.encode([str(value)]).tolist() == [code], "as a text, which is how CSV files hold it"


@pytest.mark.thorough(fast=3)
def test_missing_values_have_the_last_level_or_none(column: Column) -> None:
    codes = column.encode(pa.array([None, "", "  "], pa.string()))
    unknown = column.encode(["\x01 no level \x01"])[0]
    if column.nullable:
        assert codes.tolist() == [column.known] * 3
        assert column.labels[-1] == "NULL"
    else:
        assert set(codes.tolist()) <= {INVALID, unknown}
    assert np.array_equal(column.is_null(), np.arange(column.size) >= column.known)


@pytest.mark.thorough(fast=6)
def test_encoding_is_total(column: Column) -> None:
    odd = ["", "é", "'", '"', "-", "1e999", "NaN", "2024-02-30", "\t", "x" * 1000, "-0", "∞", None]
    codes = column.encode(pa.array(odd, pa.string()))
    assert codes.dtype == np.int32
    assert ((codes >= INVALID) & (codes < column.size)).all()


@pytest.mark.thorough(fast=5)
def test_levels_labels_and_values_agree(column: Column) -> None:
    assert column.size == column.known + column.nullable == len(column.labels)
    assert len(set(column.labels)) == column.size
    assert len(column.values) == column.known
    assert column.encode(list(column.values)).tolist() == list(range(column.known))
    if column.midpoints is not None:
        assert column.midpoints.shape == (column.known,)
        assert np.isfinite(column.midpoints).all()


@pytest.mark.thorough(fast=5)
def test_decoded_values_encode_to_the_same_codes(column: Column) -> None:
    codes = np.arange(column.size)
    decoded = column.decode(codes)
    assert column.encode(decoded).tolist() == codes.tolist()
    assert decoded.null_count == column.nullable
    for wrong in (-1, column.size):
        with pytest.raises(SchemaError, match="codes must lie"):
            column.decode(np.array([wrong]))


def test_equality_selects_one_level_and_never_the_null_level(column: Column) -> None:
    with pytest.raises(QueryError):
        column.compare("=", object())
    if isinstance(column, Ordered):  # a bin is selected by its ends
        return
    for level, value in enumerate(column.values):
        equal, others = column.compare("=", value), column.compare("<>", value)
        assert equal.dtype == np.bool_
        assert np.flatnonzero(equal).tolist() == [level]
        assert np.array_equal(others, ~equal & ~column.is_null())


def test_a_description_makes_the_same_column_again(column: Column) -> None:
    facts = column.as_dict()
    assert (facts["name"], facts["kind"]) == ("x", column.kind)
    assert kind_named(column.kind) is type(column)
    schema = mq.Schema([column, mq.Boolean("other")])
    again = mq.Schema.loads(schema.dumps())
    assert again == schema
    assert again.digest == schema.digest
    assert again["x"] == column
    assert hash(again["x"]) == hash(column)
    assert "guessed" not in schema.dumps()


def test_wrong_settings_in_a_file_are_named(column: Column) -> None:
    text = mq.Schema([column]).dumps()
    with pytest.raises(SchemaError, match="unknown setting 'colour'"):
        mq.Schema.loads(text + 'colour = "red"\n')


def rows_of(column: Column) -> dict[str, Any]:
    """Every level several times, beside a column to ask about."""
    codes = np.tile(np.arange(column.size), 30)
    return {"x": column.decode(codes), "other": pa.array(np.arange(len(codes)) % 2 == 0)}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("memory_limit", [2**30, 0], ids=["memory", "duckdb"])
def test_a_table_of_it_is_opened_asked_and_released(column: Column, memory_limit: int, tmp_path: Path) -> None:
    schema = mq.Schema([column, mq.Boolean("other")])
    table = mq.open_table(pa.table(rows_of(column)), schema, memory_limit=memory_limit)
    with mq.Curator(table, mq.Budget(epsilon=2e3)) as curator:
        shown = mq.answer(curator, "SELECT x, count(*) FROM t GROUP BY x", epsilon=500.0)
        assert all(label in str(shown) for label in column.labels[:3])
        release = mq.release(curator, mq.marginals(schema, k=2))
        marginal = release.marginal("x")
        assert np.allclose(marginal, 1 / column.size, atol=0.02)
        release.save(tmp_path / "release.maq")
    saved = mq.Release.load(tmp_path / "release.maq")
    assert saved.schema == schema
    assert np.allclose(saved.marginal("x"), marginal)
    sampled = saved.sample(40)
    pyarrow.csv.write_csv(sampled, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert next(csv.reader(file)) == ["x", "other"]
    assert (column.encode(sampled["x"]) >= 0).all()
    mq.open_table(str(tmp_path / "rows.csv"), schema)


def test_every_kind_has_an_entry() -> None:
    assert {column.kind for column, _ in COLUMNS} >= {kind.kind for kind in kinds.BUILT_IN}


def test_a_kind_is_registered_once() -> None:
    @dataclass(frozen=True)
    class Impostor(mq.Category):
        kind: ClassVar[str] = "boolean"

    with pytest.raises(SchemaError, match=r"'boolean' of Impostor is already that of .*Boolean"):
        column_kind(Impostor)
    for wrong in (int, type("Plain", (Column,), {}), dataclass(frozen=True)(type("Nameless", (Column,), {}))):
        with pytest.raises(SchemaError, match=r"dataclass that extends Column|has no kind"):
            column_kind(wrong)


@dataclass(frozen=True)
class Offered(mq.Category):
    """A kind that an installed package would offer."""

    kind: ClassVar[str] = "offered"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points of packages, of which one is mistaken, one cannot be loaded and two have the same name."""
    here = dict.fromkeys(("offered", "mistaken"), f"{__name__}:Offered") | {"broken": "no_such_package:Kind"}
    points = [EntryPoint(name, place, kinds.GROUP) for name, place in here.items()]
    points += [EntryPoint("twice", f"{__name__}:{name}", kinds.GROUP) for name in ("Offered", "Other")]

    monkeypatch.setattr("maquette.extensions.installed", lambda group: [p for p in points if p.group == group])
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))


@pytest.mark.usefixtures("offered")
def test_a_schema_that_names_an_installed_kind_imports_it() -> None:
    assert "offered" in kind_names()
    schema = mq.Schema.loads('[[column]]\nname = "x"\nkind = "offered"\nlevels = ["a", "b"]\n')
    assert type(schema["x"]).__name__ == "Offered"
    assert mq.Schema.loads(schema.dumps()) == schema


@pytest.mark.usefixtures("offered")
def test_a_kind_that_nobody_offers_is_named_with_those_that_are() -> None:
    with pytest.raises(SchemaError, match=r"kind is 'unheard'; expected one of boolean, category, .*offered"):
        mq.Schema.loads('[[column]]\nname = "x"\nkind = "unheard"\n')
    with pytest.raises(SchemaError, match=r"'mistaken' of maquette\.columns is not a column of that kind"):
        mq.Schema.loads('[[column]]\nname = "x"\nkind = "mistaken"\n')
    with pytest.raises(SchemaError, match=r"'broken' of the package .* cannot be loaded"):
        mq.Schema.loads('[[column]]\nname = "x"\nkind = "broken"\n')
    with pytest.raises(SchemaError, match=r"'twice' is offered .* by the packages"):
        mq.Schema.loads('[[column]]\nname = "x"\nkind = "twice"\n')


def test_columns_are_values() -> None:
    for column, _ in COLUMNS[:-1]:
        assert pickle.loads(pickle.dumps(column)) == column
