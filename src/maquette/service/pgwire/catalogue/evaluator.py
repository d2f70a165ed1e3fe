"""Catalogue: answers statements about tables, and row-level statements over synthetic rows, in one small database.

Nothing in it is private: relations, declared levels and synthetic rows. A statement is translated, described and run
under a time limit; what DuckDB refuses becomes an error with a SQLSTATE.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from maquette.schema import identifier, quoted
from maquette.service.pgwire.catalogue.database import build, close_doors
from maquette.service.pgwire.catalogue.relations import Relation, oids_of
from maquette.service.pgwire.catalogue.translate import Facts, translate
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import (
    BOOL,
    BOOLS,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    FLOAT8S,
    INT2,
    INT2S,
    INT4,
    INT4S,
    INT8,
    INT8S,
    JSON,
    NUMERIC,
    OID,
    OIDS,
    TEXT,
    TEXTS,
    TIME,
    TIMESTAMP,
    Column,
)

SECONDS = 5.0  # of one statement
MAX_ROWS = 200_000
_KINDS = {
    "VARCHAR": TEXT,
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "UTINYINT": INT2,
    "USMALLINT": INT4,
    "INTEGER": INT4,
    "UINTEGER": OID,
    "BIGINT": INT8,
    "UBIGINT": INT8,
    "HUGEINT": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMP,
    "JSON": JSON,
    "BLOB": BYTEA,
    "VARCHAR[]": TEXTS,
    "SMALLINT[]": INT2S,
    "INTEGER[]": INT4S,
    "BIGINT[]": INT8S,
    "UINTEGER[]": OIDS,
    "BOOLEAN[]": BOOLS,
    "DOUBLE[]": FLOAT8S,
}


@dataclass(frozen=True)
class Translated:
    """A statement as the database reads it, and the columns of its result."""

    sql: str
    columns: tuple[Column, ...]
    user: str


class Catalogue:
    """The tables and views that one set of analysts may see."""

    def __init__(self, relations: Sequence[Relation], settings: Mapping[str, tuple[str, str]]) -> None:
        self.relations = tuple(relations)
        self.oids = oids_of(relations)
        self._connection = build(relations, settings)
        close_doors(self._connection)
        self._lock = threading.Lock()
        self._held: dict[str, object] = {}

    def hold(self, name: str, version: object, rows: pa.Table) -> None:
        """Keep synthetic rows or levels under a name, in place of those of an older version."""
        with self._lock:
            if self._held.get(name) == version:
                return
            self._connection.register("given", rows)
            try:
                self._connection.execute(f"CREATE OR REPLACE TABLE rows.{identifier(name)} AS SELECT * FROM given")
            finally:
                self._connection.unregister("given")
            self._held[name] = version

    def holds(self, name: str, version: object) -> bool:
        """Whether this version is kept."""
        return self._held.get(name) == version

    def prepare(self, tree: exp.Expression, facts: Facts) -> Translated:
        """Translate a statement and find its columns; nothing is run."""
        sql = translate(tree.copy(), facts)
        described = self._run(f"DESCRIBE {sql}", facts.user)
        columns = tuple(Column(str(name), _oid_of(str(kind))) for name, kind, *_ in described)
        return Translated(sql, columns, facts.user)

    def run(self, prepared: Translated, limit: int = MAX_ROWS) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return self._run(prepared.sql, prepared.user, limit)

    def _run(self, sql: str, user: str, limit: int = MAX_ROWS) -> list[tuple[Any, ...]]:
        with self._lock:
            cursor = self._connection.cursor()
        alarm = threading.Timer(SECONDS, cursor.interrupt)
        alarm.daemon = True
        alarm.start()
        try:
            cursor.execute(f"SET VARIABLE me = {quoted(user)}")
            rows = cursor.execute(sql).fetchmany(limit + 1)
        except duckdb.InterruptException:
            raise Problem("57014", f"the statement took longer than {SECONDS:g} s") from None
        except duckdb.Error as error:
            raise refusal(error) from None
        finally:
            alarm.cancel()
            cursor.close()
        if len(rows) > limit:
            raise Problem("54000", f"the result has more than {limit:,} rows", hint="add LIMIT")
        return rows

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()


def refusal(error: duckdb.Error) -> Problem:
    """What DuckDB refused, with the code that PostgreSQL would give."""
    message = str(error).split("\n", 1)[0][:500]
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        if "column" in message and "not found" in message:
            return Problem("42703", _said(message))
        return Problem("42883" if "unction" in message else "42P01" if "Table" in message else "42804", _said(message))
    if isinstance(error, duckdb.ConversionException):
        return Problem("22P02", _said(message))
    if isinstance(error, duckdb.OutOfMemoryException):
        return Problem("53200", "the statement needs more memory than it may have")
    return Problem("42601" if isinstance(error, duckdb.ParserException) else "22000", _said(message))


def _said(message: str) -> str:
    _, _, rest = message.partition(": ")
    return (rest or message).strip()


def _oid_of(kind: str) -> int:
    known = _KINDS.get(kind)
    if known is not None:
        return known
    return NUMERIC if kind.startswith("DECIMAL") else TEXT
