"""open_table: every kind of source gives the same table; every fault is named without quoting a row."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from table_checks import DIRTY, POOLS, codes, counted, raw, subsets, typed

from maquette.curator.engines.api import MAX_ROWS
from maquette.curator.engines.encoding import Fingerprint, planes_of
from maquette.curator.open import open_table
from maquette.curator.table import PrivateTable, engine_of
from maquette.errors import DataError, EmptyTable, OutOfDomain, PrivacyWarning, SchemaError, UnreadableSource
from maquette.schema import Boolean, Category, Integer, Schema

ROWS = [
    tuple(POOLS[name][(i * step) % len(POOLS[name])] for step, name in enumerate(DIRTY.names, 1)) for i in range(60)
]
TEXT = pa.table({name: pa.array(values, pa.string()) for name, values in raw(ROWS).items()} | {"ignored": range(60)})
TYPED = pa.table(typed(ROWS))
SIMPLE = Schema([Category("sex", ["f", "m"]), Integer("age", 0, 99)])


def csv(path: Path, table: pa.Table = TEXT) -> str:
    pyarrow.csv.write_csv(table, path)
    return str(path)


def parquet(path: Path, table: pa.Table = TYPED) -> str:
    pq.write_table(table, path, row_group_size=7)
    return str(path)


def two_csv_files(folder: Path) -> str:
    csv(folder / "part-1.csv", TEXT.slice(0, 25))
    shuffled = TEXT.slice(25).select([*reversed(DIRTY.names), "ignored"])  # other column order in the second file
    csv(folder / "part-2.csv", shuffled)
    return str(folder / "part-*.csv")


def two_parquet_files(folder: Path) -> str:
    parquet(folder / "part-1.parquet", TYPED.slice(0, 25))
    parquet(folder / "part-2.parquet", TYPED.slice(25))
    return str(folder / "*.parquet")


def zipped(folder: Path) -> str:
    with gzip.open(folder / "t.csv.gz", "wb") as file:
        pyarrow.csv.write_csv(TEXT, file)
    return str(folder / "t.csv.gz")


def tabs(folder: Path) -> str:
    pyarrow.csv.write_csv(TEXT, folder / "t.tsv", pyarrow.csv.WriteOptions(delimiter="\t"))
    return str(folder / "t.tsv")


def database(folder: Path) -> str:
    with duckdb.connect(str(folder / "t.db")) as engine:
        engine.from_arrow(TYPED).create("people")
    return f"duckdb://{folder}/t.db?table=people"


def relation(_: Path) -> duckdb.DuckDBPyRelation:
    return duckdb.connect().from_arrow(TEXT)


def pandas_frame(columns: Any, **settings: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(columns, **settings)


def polars_frame(_: Path) -> Any:
    import polars as pl

    return pl.from_arrow(TYPED)


SOURCES: dict[str, Callable[[Path], object]] = {
    "csv": lambda folder: csv(folder / "t.csv"),
    "csv path": lambda folder: Path(csv(folder / "t.csv")),
    "csv gz": zipped,
    "tsv": tabs,
    "csv glob": two_csv_files,
    "parquet": lambda folder: parquet(folder / "t.parquet"),
    "parquet of text": lambda folder: parquet(folder / "t.pq", TEXT),
    "parquet glob": two_parquet_files,
    "arrow": lambda _: TYPED,
    "record batch": lambda _: TEXT.combine_chunks().to_batches()[0],
    "dataset": lambda folder: ds.dataset(parquet(folder / "t.parquet")),
    "pandas": lambda _: pandas_frame(typed(ROWS), index=range(100, 160)),
    "pandas text": lambda _: pandas_frame(raw(ROWS)),
    "polars": polars_frame,
    "mapping": lambda _: raw(ROWS),
    "duckdb": database,
    "relation": relation,
    "rows in another order": lambda _: TEXT.take(np.random.default_rng(5).permutation(60)),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_table(kind: str, tmp_path: Path) -> None:
    table = open_table(SOURCES[kind](tmp_path), DIRTY)
    reference = open_table(TEXT, DIRTY)
    assert engine_of(table).fingerprint == engine_of(reference).fingerprint
    for columns in subsets(DIRTY.names, 1):
        assert np.array_equal(engine_of(table).counts(columns), counted(codes(ROWS), DIRTY, columns))


def test_queries_choose_rows_from_a_database(tmp_path: Path) -> None:
    path = database(tmp_path).removesuffix("?table=people")
    women = open_table(path, DIRTY, query="SELECT * FROM people WHERE sex = 'f'")
    assert engine_of(women).rows == sum(row[1][0] == "f" for row in ROWS)
    engine = duckdb.connect()
    engine.from_arrow(TEXT).create("people")
    again = open_table(engine, DIRTY, query="SELECT * FROM people WHERE sex = 'f'")
    assert engine_of(again).fingerprint == engine_of(women).fingerprint
    assert engine.execute("SELECT count(*) FROM people").fetchall() == [(60,)]  # the caller's connection stays open


def test_a_database_file_is_free_again_after_loading(tmp_path: Path) -> None:
    source = database(tmp_path)
    table = open_table(source, DIRTY)
    with duckdb.connect(str(tmp_path / "t.db")) as engine:
        engine.execute("DELETE FROM people")
    assert engine_of(table).rows == 60


def test_names_that_differ_in_case_only_are_told_apart(tmp_path: Path) -> None:
    schema = Schema([Integer("a", 0, 9), Integer("A", 0, 9)])
    table = pa.table([[1, 1, 2], [5, 6, 7]], names=["A", "a"])
    for source in (table, csv(tmp_path / "t.csv", table), parquet(tmp_path / "t.parquet", table)):
        assert engine_of(open_table(source, schema)).counts(["A"])[[1, 2]].tolist() == [2, 1]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("cell", [("sex", "m"), ("age", "4.9"), ('seen "at"', "2024-08-01"), ("place", "place 7")])
@pytest.mark.parametrize("row", [0, 31, 59])
def test_one_changed_cell_changes_the_fingerprint(cell: tuple[str, str], row: int) -> None:
    name, value = cell
    changed = {k: list(v) for k, v in raw(ROWS).items()}
    while DIRTY[name].encode([changed[name][row]]) == DIRTY[name].encode([value]):
        value = {"m": "f", "4.9": "9", "2024-08-01": "2024-01-01", "place 7": "place 8"}[value]
    changed[name][row] = value
    before = engine_of(open_table(raw(ROWS), DIRTY)).fingerprint
    assert engine_of(open_table(changed, DIRTY)).fingerprint != before
    assert engine_of(open_table(changed, DIRTY, memory_limit=0)).fingerprint != before


def test_the_fingerprint_covers_rows_schema_and_bound() -> None:
    people: dict[str, list[Any]] = {"sex": ["f", "m", "m"], "age": [1, 2, 2], "id": [1, 2, 3]}
    swapped = {"sex": ["m", "f", "m"], "age": [1, 2, 2], "id": [1, 2, 3]}
    tables = [
        open_table(people, SIMPLE),
        open_table(swapped, SIMPLE),
        open_table({k: v[:2] for k, v in people.items()}, SIMPLE),
        open_table({k: [*v, v[0]] for k, v in people.items()}, SIMPLE),
        open_table(people, Schema(SIMPLE.columns[::-1])),
        open_table(people, Schema([SIMPLE["sex"], Integer("age", 0, 98)])),
        open_table(people, SIMPLE, privacy_unit="id"),
        open_table(people, SIMPLE, privacy_unit="id", max_contributions=2),
        open_table(people, SIMPLE, privacy_unit="age", max_contributions=2),
    ]
    assert len({engine_of(table).fingerprint for table in tables}) == len(tables)


@pytest.mark.parametrize("changed", range(20))
def test_every_column_of_a_wide_table_is_in_the_fingerprint(changed: int) -> None:
    schema = Schema([Boolean(f"c{i}") for i in range(20)])
    rows = {name: [i % 2, 1] for i, name in enumerate(schema.names)}
    edited = rows | {f"c{changed}": [1 - changed % 2, 1]}
    fingerprints = []
    for table in (rows, edited):
        fingerprint = Fingerprint()
        fingerprint.update(planes_of(schema, [np.array(table[name]) for name in schema.names]))
        fingerprints.append(fingerprint.digest())
    assert fingerprints[0] != fingerprints[1]


def test_an_edited_file_is_another_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sex,age\nf,30\nm,40\n")
    before = engine_of(open_table(path, SIMPLE)).fingerprint
    assert engine_of(open_table(path, SIMPLE)).fingerprint == before
    path.write_text("sex,age\nf,30\nm,41\n")
    assert engine_of(open_table(path, SIMPLE)).fingerprint != before


def test_undeclared_values_are_counted_per_column_in_one_pass() -> None:
    rows = {"sex": ["f", "x", "y", None], "age": ["1", "old", "3", ""]}
    for limit in (2**20, 0):
        with pytest.raises(OutOfDomain, match="sex: 3, age: 2") as caught:
            open_table(rows, SIMPLE, memory_limit=limit)
        assert caught.value.counts == {"sex": 3, "age": 2}
    with pytest.raises(OutOfDomain, match="sex: 3, age: 2"):
        open_table({**rows, "id": [1, 1, 1, 1]}, SIMPLE, privacy_unit="id")


def test_an_undeclared_level_changes_no_shape_and_no_status() -> None:
    schema = Schema([Category("sex", ["f", "m"], other="other")])
    for rows in (["f", "m"], ["f", "m", "x"], ["f", "m", "🦊" * 10_000]):
        table = open_table({"sex": rows}, schema)
        assert engine_of(table).counts(["sex"]).tolist() == [1, 1, len(rows) - 2]
        assert repr(table) == "PrivateTable(1 columns, privacy unit: row)"


def test_missing_columns_are_named_with_the_nearest(tmp_path: Path) -> None:
    rows = pa.table({"sex": ["f"], "agee": [1], "town": ["x"]})
    for source in (rows, csv(tmp_path / "t.csv", rows), parquet(tmp_path / "t.parquet", rows), rows.to_pandas()):
        with pytest.raises(UnreadableSource, match=r"lacks 'age'; it has .*'town' \('age' is similar to 'agee'\)"):
            open_table(source, SIMPLE)
    with pytest.raises(UnreadableSource, match="several columns named age"):
        open_table(pa.table([["f"], [1], [2]], names=["sex", "age", "age"]), SIMPLE)


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("t.csv", "39,SECRET\n40,f\n", "check that it has a header and that names agree"),
        ("t.csv", "SECRET;age;sex\n1;39;f\n", r"is the delimiter ';'\? pass delimiter=';'"),
        ("t.csv", "SECRET|age|sex\n1|39|f\n", r"is the delimiter '\|'\? pass delimiter='\|'"),
        ("t.csv", "SECRET\tage\tsex\n1\t39\tf\n", r"is the delimiter '\\t'\? pass delimiter='\\t'"),
        ("t.tsv", "SECRET,age,sex\n1,39,f\n", r"is the delimiter ','\? pass delimiter=','"),
    ],
)
def test_a_first_line_without_any_column_is_not_quoted(name: str, text: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UnreadableSource, match=rf"none of the schema's columns is in the header of .*; {hint}") as e:
        open_table(tmp_path / name, SIMPLE)
    assert not re.search(r"SECRET|39", str(e.value).replace(str(tmp_path), ""))


@pytest.mark.thorough
def test_declared_texts_are_missing_values_in_every_column(tmp_path: Path) -> None:
    schema = Schema([Category("sex", ["f", "m"], nullable=True), Integer("age", 0, 9, nullable=True)])
    marked = pa.table({"sex": ["f", "?", " ?\t", "m"], "age": ["1", "n/a", "3", "?"], "id": ["a", "b", "c", "d"]})
    plain = {"sex": ["f", None, None, "m"], "age": [1, None, 3, None], "id": ["a", "b", "c", "d"]}
    for source in (marked, csv(tmp_path / "t.csv", marked), marked.to_pandas()):
        for limit in (2**20, 0):
            table = open_table(source, schema, missing=["?", "n/a "], privacy_unit="id", memory_limit=limit)
            assert engine_of(table).counts(["sex"]).tolist() == [1, 1, 2]
            expected = engine_of(reference := open_table(plain, schema, privacy_unit="id")).fingerprint
            assert engine_of(table).fingerprint == expected, reference
    with pytest.raises(OutOfDomain, match="sex: 2, age: 2"):
        open_table(marked, schema)
    with pytest.raises(OutOfDomain, match="1 rows have no value in the privacy unit 'id'"):
        open_table(marked, schema, missing=["?", "n/a", "d"], privacy_unit="id")
    numbers = open_table({"sex": ["f", "f"], "age": [9, 3]}, schema, missing=["9"])
    assert engine_of(numbers).counts(["age"])[[3, 9, 10]].tolist() == [1, 0, 1]


@pytest.mark.parametrize("missing", ["NA", [None], 7, None])
def test_missing_is_a_list_of_texts(missing: object) -> None:
    with pytest.raises(SchemaError, match=r"missing is .*; expected a list of texts, such as missing=\['\?'\]"):
        open_table({"sex": ["f"], "age": [1]}, SIMPLE, missing=missing)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [2**20, 0], ids=["memory", "duckdb"])
def test_too_many_rows_are_refused(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ROWS == 12_884_901_888
    monkeypatch.setattr("maquette.curator.engines.reading.MAX_ROWS", 1_000)
    rows = {"sex": ["f"] * 1_001, "age": [1] * 1_001, "id": [*range(1_000), 0]}
    with pytest.raises(DataError, match="at most 1,000 rows"):
        open_table(rows, SIMPLE, memory_limit=limit)
    assert engine_of(kept := open_table(rows, SIMPLE, privacy_unit="id", memory_limit=limit)).rows == 1_000, kept


def test_columns_may_be_called_as_they_are_in_our_own_queries() -> None:
    schema = Schema([Integer(name, 0, 9) for name in ("v1", "v0", "k1", "k0", "u", "c1", "c0")])
    engine = duckdb.connect()
    rows = engine.sql("SELECT 0 AS u, 1 AS v1, 2 AS v0, 3 AS k1, 4 AS k0, 5 AS c1, 6 AS c0")
    for missing in ([], ["9"]):
        table = open_table(rows, schema, missing=missing, privacy_unit="v0")
        assert [int(engine_of(table).counts([name]).argmax()) for name in schema.names] == [1, 2, 3, 4, 0, 5, 6]


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and all that it was raised from or while handling."""
    return [] if error is None else [error, *chain(error.__cause__), *chain(error.__context__)]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\xff\xfe\xff", "not UTF-8"),
        ("t.csv", b"sex,age\nf,1\n\xff\xfe,2\n", "line 3: it is not UTF-8"),
        ("t.csv", b"sex,age\nf,1\nf,SECRET,3\n", "line 3: the line has more fields than the header, which has 2"),
        ("t.csv", b"sex,age\n" + b"f,1\n" * 300_000 + b"f,SECRET,3\n", "line 300002"),
        ("t.csv.gz", b"SECRET not gzip", "cannot read the header"),
        ("t.parquet", b"SECRET not parquet", "as Parquet"),
        ("t.xlsx", b"SECRET", "as a spreadsheet"),
        ("t.db", b"SECRET", "neither CSV, Excel .* nor Parquet"),
    ],
)
def test_broken_files_are_refused_without_quoting_them(
    name: str, content: bytes, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableSource, match=complaint) as caught:
        open_table(tmp_path / name, SIMPLE)
    assert "SECRET" not in str(caught.value)
    assert chain(caught.value) == [caught.value]


@pytest.mark.parametrize("more", [b"f,SECRET,3\n", b'"\n', b"\xff,1\n", b"f,SECRET\n", b"f,2\n", None])
def test_rows_that_cannot_be_read_again_are_not_quoted_either(more: bytes | None, tmp_path: Path) -> None:
    path, texts = tmp_path / "t.csv", set()
    for rows in (1, 50):  # a line number would tell how many rows there are
        path.write_text("sex,age\n" + "f,1\n" * rows)
        table = open_table(path, SIMPLE, memory_limit=0)
        if more is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes() + more)
        for read in (lambda: engine_of(table).counts(["sex"]), lambda: list(engine_of(table).blocks())):  # noqa: B023
            with pytest.raises(UnreadableSource, match="no longer holds the rows") as caught:
                read()
            assert chain(caught.value) == [caught.value]
            texts.add(str(caught.value))
    assert len(texts) == 1


def lazy_frame() -> Any:
    import polars as pl

    return pl.LazyFrame({"sex": ["f"], "age": [1]})


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        ("nowhere.csv", {}, "there is no file 'nowhere.csv'"),
        ("nowhere/*.parquet", {}, "no file matches"),
        (42, {}, "cannot read rows from int"),
        (lazy_frame, {}, "LazyFrame"),
        ("duckdb://nowhere.db?table=t", {}, "no database file 'nowhere.db'"),
        ({"sex": ["f"], "age": [1]}, {"query": "SELECT 1"}, "query= is for databases"),
    ],
)
def test_wrong_sources_say_what_was_expected(source: object, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(UnreadableSource, match=complaint) as caught:
        open_table(source() if source is lazy_frame else source, SIMPLE, **options)  # type: ignore[arg-type]
    assert chain(caught.value) == [caught.value]


def test_a_connection_needs_a_query_it_understands() -> None:
    with duckdb.connect() as engine:
        with pytest.raises(UnreadableSource, match="needs query="):
            open_table(engine, SIMPLE)
        with pytest.raises(UnreadableSource, match="DuckDB refuses the query") as caught:
            open_table(engine, SIMPLE, query="SELECT * FROM nothing")
        assert chain(caught.value) == [caught.value]


def test_a_database_says_which_tables_it_has(tmp_path: Path) -> None:
    source = database(tmp_path)
    (tmp_path / "SECRET.db").write_bytes(b"SECRET")
    with pytest.raises(UnreadableSource, match="as a DuckDB database") as caught:
        open_table(f"duckdb://{tmp_path}/SECRET.db?table=people", DIRTY)
    assert chain(caught.value) == [caught.value]
    with pytest.raises(UnreadableSource, match="no table 'persons'; it has people"):
        open_table(source.replace("=people", "=persons"), DIRTY)
    with pytest.raises(UnreadableSource, match="name one thing to read"):
        open_table(source, DIRTY, query="SELECT 1")


def test_empty_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sex,age\n")
    for source in (tmp_path / "t.csv", pa.table({"sex": pa.array([], pa.string()), "age": pa.array([], pa.int64())})):
        with pytest.raises(EmptyTable, match="no rows"):
            open_table(source, SIMPLE)


@pytest.mark.parametrize("options", [{"max_contributions": 2}, {"max_contributions": 0, "privacy_unit": "id"}])
def test_a_bound_needs_a_unit_and_at_least_one_row(options: dict[str, int | str]) -> None:
    with pytest.raises(SchemaError, match="max_contributions"):
        open_table({"sex": ["f"], "age": [1], "id": [1]}, SIMPLE, **options)  # type: ignore[arg-type]


def test_a_guessed_schema_is_warned_about() -> None:
    with pytest.warns(PrivacyWarning, match="drafted by reading data"):
        open_table({"a": [True]}, Schema([Boolean("a")], guessed=True))


@pytest.mark.thorough
def test_frames_and_numba_are_not_imported_for_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("sex,age\nf,30\n")
    script = (
        "import sys, duckdb\n"
        "duckdb.connect().execute('SELECT $one', {'one': 1})\n"  # DuckDB 1.5.0 imports pandas to bind a parameter
        "before = set(sys.modules)\n"
        "from maquette.curator.open import open_table\n"
        "from maquette.curator.table import engine_of\n"
        "from maquette.schema import Category, Integer, Schema\n"
        "table = open_table(sys.argv[1], Schema([Category('sex', ['f', 'm']), Integer('age', 0, 99)]))\n"
        "assert engine_of(table).counts(['sex']).tolist() == [1, 0]\n"
        "assert not {'pandas', 'polars', 'numba'} & (set(sys.modules) - before)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "t.csv")], check=True)


def test_the_handle_is_what_open_table_returns() -> None:
    assert isinstance(open_table({"a": [True]}, Schema([Boolean("a")])), PrivateTable)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nan_in_a_parquet_file_is_missing_although_its_statistics_leave_it_out(
    kind: pa.DataType, tmp_path: Path
) -> None:
    rows = pa.table({"a": pa.array([0.0, 1.0, float("nan")], kind)})
    schema = Schema([Integer("a", 0, 9, nullable=True)])
    table = open_table(parquet(tmp_path / "t.parquet", rows), schema)
    assert engine_of(table).counts(["a"])[[0, 1, 9, 10]].tolist() == [1, 1, 0, 1]
    with pytest.raises(OutOfDomain, match="a: 1"):
        open_table(tmp_path / "t.parquet", Schema([Integer("a", 0, 9)]))
