"""The catalogue as a DuckDB database in memory: system tables, views and functions, closed to everything outside.

DuckDB's own `pg_catalog` is not used. The tables here have PostgreSQL's columns, lie in schemas of their own (`pgc` and
`ifs`), and are all that a translated statement can name. No file, network, extension or setting can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from maquette.schema import identifier
from maquette.service.pgwire.catalogue.functions import MACROS, VIEWS
from maquette.service.pgwire.catalogue.relations import (
    Relation,
    Rows,
    SystemRelation,
    oids_of,
    rows_of,
    system_relations,
    types,
)

SCHEMAS = {"pg_catalog": "pgc", "information_schema": "ifs"}
MEMORY = "256MB"
_TYPES = {
    "oid": "UINTEGER",
    "xid": "UINTEGER",
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
    "cardinal_number": "INTEGER",
    "int2vector": "SMALLINT[]",
    "_int2": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
    "_oid": "UINTEGER[]",
    "_float4": "FLOAT[]",
    "_float8": "DOUBLE[]",
    "_bool": "BOOLEAN[]",
    "timestamptz": "TIMESTAMP",
    "time_stamp": "TIMESTAMP",
    "interval": "INTERVAL",
    "bytea": "BLOB",
}


def build(relations: Sequence[Relation], settings: Mapping[str, tuple[str, str]]) -> duckdb.DuckDBPyConnection:
    """A database that describes these relations; `settings` are name, value and description."""
    connection = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": MEMORY})
    connection.execute("BEGIN; CREATE SCHEMA pgc; CREATE SCHEMA ifs; CREATE SCHEMA rows")
    connection.execute("CREATE TABLE pgc.keywords AS SELECT * FROM duckdb_keywords()")
    oids = oids_of(relations)
    _fill(connection, "type_titles", [{"oid": t.oid, "typname": t.name, "title": t.title} for t in types().values()])
    _fill(
        connection,
        "view_texts",
        [{"oid": oids[r.name], "definition": r.definition} for r in relations if r.kind == "v"],
        "oid UINTEGER, definition VARCHAR",
    )
    described = [{"name": n, "setting": value, "description": text} for n, (value, text) in settings.items()]
    _fill(connection, "settings", described, "name VARCHAR, setting VARCHAR, description VARCHAR")
    views = [relation for relation in system_relations() if f"{relation.schema}.{relation.name}" in VIEWS]
    for relation in system_relations():
        if relation not in views:
            connection.execute(f"CREATE TABLE {_place(relation)} ({_declared(relation)})")
    stored = rows_of(relations)
    (roles,) = (relation for relation in views if relation.name == "pg_authid")
    connection.execute(f"CREATE TABLE pgc.roles ({_declared(roles)})")
    for name, rows in stored.items():
        _insert(connection, f"pgc.{name}", rows)
    connection.execute(_view(roles, connection))
    for macro in MACROS:
        connection.execute(macro)
    for relation in views:
        if relation is not roles:
            connection.execute(_view(relation, connection))
    connection.execute("COMMIT")
    return connection


def close_doors(connection: duckdb.DuckDBPyConnection) -> None:
    """From now on no file, network, extension or setting can be reached, and no Python variable is a table."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _place(relation: SystemRelation) -> str:
    return f"{SCHEMAS[relation.schema]}.{identifier(relation.name)}"


def kind_of(name: str) -> str:
    """The DuckDB type of a PostgreSQL type."""
    return _TYPES.get(name, "VARCHAR[]" if name.startswith("_") else "VARCHAR")


def _declared(relation: SystemRelation) -> str:
    return ", ".join(f"{identifier(name)} {kind_of(kind)}" for name, kind in relation.columns)


def _view(relation: SystemRelation, connection: duckdb.DuckDBPyConnection) -> str:
    """The view with PostgreSQL's columns in PostgreSQL's order; those that its text leaves out are NULL."""
    text = VIEWS[f"{relation.schema}.{relation.name}"]
    given = {row[0] for row in connection.execute(f"DESCRIBE {text}").fetchall()}
    columns = ", ".join(
        f"CAST({identifier(name) if name in given else 'NULL'} AS {kind_of(kind)}) AS {identifier(name)}"
        for name, kind in relation.columns
    )
    return f"CREATE VIEW {_place(relation)} AS SELECT {columns} FROM ({text})"


def _fill(connection: duckdb.DuckDBPyConnection, name: str, rows: Rows, declared: str | None = None) -> None:
    shape = declared or "oid UINTEGER, typname VARCHAR, title VARCHAR"
    connection.execute(f"CREATE TABLE pgc.{name} ({shape})")
    _insert(connection, f"pgc.{name}", rows)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Rows) -> None:
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    data = pa.table({name: [row.get(name) for row in rows] for name in names})
    connection.register("given", data)
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")
    connection.unregister("given")
