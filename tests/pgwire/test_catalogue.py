# ruff: noqa: E501
"""The catalogue: the statements with which tools begin, and a real PostgreSQL as its oracle."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pg_client import SYNC, RawClient, bind, describe, execute, parse, problem, rows
from pg_door import Door

from maquette.service.pgwire.catalogue import system_relations

# How each tool begins, in our words after what it is known to send; the tools themselves do not run here.
TOOLS = {
    "DBeaver": [
        "SET extra_float_digits = 3",
        "SET application_name = 'DBeaver 24 - Main'",
        "SHOW search_path",
        "SELECT current_schema(), session_user",
        "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname = "
        "'maquette' ORDER BY db.datname",
        "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON "
        "d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname",
        "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, "
        "d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem LEFT OUTER "
        "JOIN pg_catalog.pg_class c ON c.oid = t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = "
        "d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR "
        "et.typcategory <> 'C')",
        "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, "
        "pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass WHERE "
        "c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')",
        "SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, "
        "dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON a.attrelid = c.oid LEFT OUTER JOIN "
        "pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum LEFT OUTER JOIN "
        "pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = dsc.objsubid LEFT OUTER JOIN "
        "pg_catalog.pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND "
        "dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.oid = 16384 ORDER BY a.attnum",
        "SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description, CASE WHEN c.contype "
        "= 'c' THEN substring(pg_get_constraintdef(c.oid), 7) ELSE null END consrc_copy FROM pg_catalog.pg_constraint c "
        "INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = "
        "c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid WHERE c.conrelid = 16384",
        "SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, tc.relname AS tabrelname, "
        "pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr FROM pg_catalog.pg_index i INNER JOIN "
        "pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid WHERE "
        "i.indrelid = 16384 ORDER BY tabrelname, c.relname",
        "SELECT oid, * FROM pg_catalog.pg_roles ORDER BY rolname",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM pg_catalog.pg_enum WHERE enumtypid = 1",
        "SELECT x.* FROM public.people x LIMIT 200",
        "SELECT typcategory FROM pg_catalog.pg_type WHERE 1 <> 1 LIMIT 1",
        "SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'm' LIMIT 1",
    ],
    "Metabase": [
        "SET SESSION TIMEZONE TO 'UTC'",
        "SHOW TIMEZONE",
        'SELECT NULL AS "role", t.schemaname AS "schema", t.objectname AS "table", '
        "pg_catalog.has_table_privilege(current_user, '\"' || t.schemaname || '\".\"' || t.objectname || '\"', 'SELECT') "
        'AS "select" FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION SELECT '
        "schemaname, viewname AS objectname FROM pg_catalog.pg_views UNION SELECT schemaname, matviewname AS objectname "
        "FROM pg_catalog.pg_matviews) t WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema' AND "
        "pg_catalog.has_schema_privilege(current_user, t.schemaname, 'USAGE')",
        "SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name) "
        'ELSE format(\'"%s"."%s"\', c.udt_schema, c.udt_name) END AS "database-type", c.ordinal_position - 1 AS '
        '"database-position", c.table_schema, c.table_name, pk.column_name IS NOT NULL AS "pk?", '
        "col_description(CAST(CAST(format('%I.%I', c.table_schema, c.table_name) AS regclass) AS oid), "
        'c.ordinal_position) AS "field-comment" FROM information_schema.columns c LEFT JOIN (SELECT tc.table_schema, '
        "tc.table_name, kc.column_name FROM information_schema.table_constraints tc INNER JOIN "
        "information_schema.key_column_usage kc ON tc.constraint_name = kc.constraint_name AND tc.table_schema = "
        "kc.table_schema WHERE tc.constraint_type = 'PRIMARY KEY') pk ON c.table_schema = pk.table_schema AND "
        "c.table_name = pk.table_name AND c.column_name = pk.column_name WHERE c.table_schema !~ "
        "'^information_schema|catalog_history|pg_' ORDER BY table_schema, table_name, \"database-position\"",
        'SELECT TRUE AS "_" FROM "public"."people" WHERE 1 <> 1 LIMIT 0',
        'SELECT "public"."people"."age" AS "age", SUBSTRING("public"."people"."region", 1, 1234) AS "substring42" FROM '
        '"public"."people" LIMIT 10000',
        'SELECT "public"."people"."region" AS "region" FROM "public"."people" GROUP BY "public"."people"."region" ORDER '
        'BY "public"."people"."region" ASC LIMIT 1000',
        "SELECT pg_type.typname, pg_enum.enumlabel FROM pg_enum JOIN pg_type ON pg_enum.enumtypid = pg_type.oid",
    ],
    "Superset": [
        "SELECT pg_catalog.version()",
        "SHOW standard_conforming_strings",
        "SELECT CAST('test plain returns' AS VARCHAR(60)) AS anon_1",
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND "
        "c.relkind IN ('r', 'p')",
        "SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore'",
        "SELECT age AS age, region AS region FROM public.people LIMIT 100",
        "SELECT DISTINCT region AS region FROM public.people LIMIT 1000",
        "SELECT * FROM public.people LIMIT 101",
    ],
    "psycopg2, ODBC and others": [
        "SELECT to_regtype('hstore')",
        "SELECT pg_catalog.set_config('search_path', '', false)",
        "SELECT current_setting('server_version_num')::int",
        "SELECT oid, typbasetype FROM pg_type WHERE typname = 'lo'",
        "SELECT ta.attname, ia.attnum FROM pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class "
        "tc, pg_catalog.pg_index i WHERE tc.oid = i.indrelid AND ta.attrelid = i.indrelid AND ia.attrelid = i.indexrelid",
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = "
        "'public.people'::regclass AND a.attnum > 0",
        "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY (current_schemas(false))",
        "SELECT pg_is_in_recovery(), pg_backend_pid() > 0, inet_server_addr()",
        "SELECT count(*) FROM pg_catalog.pg_stat_activity",
        "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
        "VALUES (1, 'a'), (2, 'b')",
        "WITH x AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT max(a), string_agg(a::text, ',') FROM x",
    ],
}


@pytest.mark.parametrize("tool", list(TOOLS))
def test_tools_begin(door: Door, tool: str) -> None:
    """Every statement is answered, in the simple and in the extended protocol, and none is charged."""
    before = door.units()
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        for sql in TOOLS[tool]:
            said = client.query(sql)
            assert not problem(said), (sql, problem(said))
            client.send(parse(sql), describe("S"), bind(), describe("P"), execute(), SYNC)
            again = client.until()
            assert not problem(again), (sql, problem(again))
            assert len(list(rows(again))) == len(list(rows(said)))
    assert door.units() == before


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
