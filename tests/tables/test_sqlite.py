"""SQLite as a source: streamed as texts, opened read-only, with no row in a message."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from engine_checks import SCHEMA, UNIT, rows, same

import maquette as mq
from maquette.errors import UnreadableSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = rows(count=300)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE people (a, b INTEGER, c, d TEXT, e REAL, who)")
        values = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", values)
    connection.close()
    return tmp_path / "t.db"


def test_a_table_and_a_query_have_the_numbers_of_memory(path: Path) -> None:
    table = rows(count=300)
    same(mq.open_table(f"sqlite://{path}?table=people", SCHEMA), mq.open_table(table, SCHEMA))
    twice = f"sqlite://{path}?table=pets&table=people"  # the last counts, as where a service compares addresses
    same(mq.open_table(twice, SCHEMA), mq.open_table(table, SCHEMA))
    query = "SELECT * FROM people;"
    same(mq.open_table(f"sqlite://{path}", SCHEMA, query=query, **UNIT), mq.open_table(table, SCHEMA, **UNIT))


def test_what_cannot_be_read_is_refused_without_a_row(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("SECRET " * 500)
    for address, query, why in (
        (f"sqlite://{tmp_path}/absent.db?table=t", None, "no database file"),
        (f"sqlite://{path}", None, "name one thing"),
        (f"sqlite://{path}", "SELECT SECRET FROM people", "refuses the file or the query"),
        (f"sqlite://{path}", "DELETE FROM people RETURNING a", "refuses the file or the query"),
        (f"sqlite://{path}", "SELECT a FROM people", "lacks 'b'"),
        (f"sqlite://{other}?table=people", None, "refuses the file or the query"),
        (f"sqlite://{path}", "SELECT * FROM people WHERE abs(-9223372036854775807 - (b > 200)) > 0", "to its end"),
    ):
        with pytest.raises(UnreadableSource, match=why) as caught:
            mq.open_table(address, SCHEMA, query=query)
        assert "SECRET" not in str(caught.value)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (300,)
