# ruff: noqa: E501
"""The catalogue: the statements with which tools begin, and a real PostgreSQL as its oracle."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pg_client import SYNC, RawClient, bind, describe, execute, fields, parse, problem, rows
from pg_door import Door
from pg_tools import REFUSED, TOOLS

from maquette.service.pgwire.catalogue import system_relations


@pytest.mark.thorough
@pytest.mark.parametrize("tool", list(TOOLS))
def test_tools_begin(door: Door, tool: str) -> None:
    """Every statement is answered, in the simple and in the extended protocol, and none is charged."""
    before = door.units()
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        counts = []
        for sql in TOOLS[tool]:
            said = client.query(sql)
            assert not problem(said), (sql, problem(said))
            counts.append(len(list(rows(said))))
        for sql, count in zip(TOOLS[tool], counts, strict=True):
            client.send(parse(sql), describe("S"), bind(), describe("P"), execute(), SYNC)
            again = client.until()
            assert not problem(again), (sql, problem(again))
            assert len(list(rows(again))) == count, sql
    assert door.units() == before


def test_what_is_refused_is_refused_in_their_words(door: Door) -> None:
    before = door.units()
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        for sql, code in REFUSED.items():
            assert problem(client.query(sql)).get("C") == code, sql
    assert door.units() == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT current_date",
        "SELECT localtimestamp",
        "SELECT clock_timestamp()",
    ],
)
def test_the_time_is_told(door: Door, sql: str) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        ((moment,),) = rows(client.query(sql))
    told = dt.datetime.fromisoformat(moment)
    assert abs(told - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(days=1, minutes=5)


@pytest.mark.parametrize("name", ["duckdb_tables", "sqlite_master", "people.csv"])
def test_a_common_table_names_nothing_out_of_its_scope(door: Door, name: str) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        outside = f'SELECT * FROM (WITH "{name}" AS (SELECT 1 AS a) SELECT a FROM "{name}") AS q, "{name}"'
        itself = f'WITH "{name}" AS (SELECT * FROM "{name}") SELECT * FROM "{name}"'
        assert [problem(client.query(sql)).get("C") for sql in (outside, itself)] == ["42P01", "42804"]
        inside = f'WITH "{name}" AS (SELECT 1 AS a), Next(b) AS (SELECT a + 1 FROM "{name}") SELECT next.b FROM Next'
        assert list(rows(client.query(inside))) == [["2"]]


def test_bounds_are_those_of_the_schema(door: Door) -> None:
    """The range filters of tools ask for min and max: rows are not asked, and the type is that of the column."""
    before = door.units()
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        sql = "SELECT min(age), max(age) AS top, min(height), max(born), min(region), max(smoker) FROM people"
        said = client.query(sql)
        assert list(rows(said)) == [["0", "99", "100", "1999-12-31", "east", "t"]], problem(said)
        assert "declared bounds" in next(fields(body)["M"] for kind, body in said if kind == "N")
        assert [row[0] for row in rows(client.query(f"EXPLAIN {sql}"))] == ["answered by the schema, free"]
    assert door.units() == before


def test_statistics_tell_nothing_about_rows(door: Door) -> None:
    """Tools read the estimates of the planner; here they are unknown or nothing."""
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        for sql in (
            "SELECT reltuples, relpages FROM pg_class WHERE relname = 'people'",
            "SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'people'",
            "SELECT pg_total_relation_size(oid), pg_relation_size(oid) FROM pg_class WHERE relname = 'people'",
            "SELECT most_common_vals, histogram_bounds FROM pg_stats WHERE tablename = 'people'",
        ):
            said = client.query(sql)
            assert not problem(said), (sql, problem(said))
            assert all(cell in (None, "0", "-1") for row in rows(said) for cell in row), sql


def test_what_the_catalogue_says(door: Door) -> None:
    with RawClient(door.port).login("bob", door.tokens["bob"]) as client:
        sql = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        assert list(rows(client.query(sql + " ORDER BY ordinal_position"))) == [
            ["people", "age", "bigint"],
            ["people", "region", "text"],
            ["people", "smoker", "boolean"],
            ["people", "height", "double precision"],
            ["people", "born", "date"],
        ]
        assert list(rows(client.query("SELECT rolname FROM pg_roles ORDER BY 1"))) == [["bob"], ["maquette"]]
        assert list(rows(client.query("SELECT 'people' AS relname"))) == [["people"]]


def test_words_in_a_text_decide_nothing(door: Door) -> None:
    """A statement is routed by the relations of its tree: pg_class in a text is only a text."""
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        before = door.units()
        for sql in (
            "SELECT count(*) FROM people WHERE region = 'pg_class'",
            "SELECT count(*) FROM pg_class WHERE relname = 'SELECT * FROM people'",
            "SELECT 'information_schema.tables' FROM people LIMIT 1",
            "SELECT 1 -- FROM people",
        ):
            said = client.query(sql)
            assert not problem(said) or "pg_class" in problem(said)["M"], problem(said)
        assert door.units() == before


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    """A real PostgreSQL of the same version with the same tables."""
    bins = sorted(Path("/usr/lib/postgresql").glob("15/bin"))
    if not bins or not shutil.which("su"):
        pytest.skip("PostgreSQL 15 is not installed: apt-get install postgresql")
    psycopg = pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="oracle"))
    shutil.chown(folder, "postgres")

    def call(command: str) -> None:
        done = subprocess.run(["su", "postgres", "-c", f"{bins[0]}/{command}"], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    call(f"initdb -D {folder}/data -U maquette -A trust --locale=C.UTF-8 -E UTF8")
    call(f"pg_ctl -D {folder}/data -o '-k {folder} -c listen_addresses=' -l {folder}/log -w start")
    try:
        with psycopg.connect(f"host={folder} user=maquette dbname=postgres", autocommit=True) as connection:
            yield connection
    finally:
        call(f"pg_ctl -D {folder}/data -m immediate stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.thorough
def test_the_relations_are_postgresqls(oracle: Any) -> None:
    sql = (
        "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attnum > 0 AND "
        "a.attrelid = %s::regclass ORDER BY a.attnum"
    )
    for relation in system_relations():
        found = oracle.execute(sql, [f"{relation.schema}.{relation.name}"]).fetchall()
        assert tuple((name, kind) for name, kind in found) == relation.columns, relation.name


@pytest.mark.thorough
def test_columns_have_the_names_that_postgresql_gives(oracle: Any, door: Door) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        for sql in (
            "SELECT 1, 'x', 1 + 1, version(), current_user, now() IS NULL, CASE WHEN true THEN 1 END",
            "SELECT count(*), max(oid), lower('A'), coalesce(1, 2), 'a'::text, '1'::int, array[1], (SELECT 5) FROM pg_class",
            "SELECT oid, relname, relname::text, oid::regclass, (oid), -1, true, NOT true, 1 = 1 FROM pg_class LIMIT 1",
            'SELECT upper(relname) AS Big, "relname", RELNAME FROM pg_class LIMIT 1',
            "SELECT exists(SELECT 1), row_number() OVER (), string_agg('a', ','), bool_and(true)",
        ):
            expected = [column.name for column in oracle.execute(sql).description]
            body = next(body for kind, body in client.query(sql) if kind == "T")
            names, at = [], 2
            while at < len(body):
                end = body.index(b"\0", at)
                names.append(body[at:end].decode())
                at = end + 19
            assert names == expected, sql
