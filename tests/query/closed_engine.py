"""What DuckDB was asked to compute, read by DuckDB's own parser: the oracle of the closed list of functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb


class Recorder:
    """An engine that keeps every text it is given."""

    def __init__(self, engine: Any, texts: list[str]) -> None:
        self._engine, self._texts = engine, texts

    def cursor(self) -> Recorder:
        """A cursor that records, too."""
        return Recorder(self._engine.cursor(), self._texts)

    def execute(self, sql: str) -> Any:
        """Record a text and run it."""
        self._texts.append(sql)
        return self._engine.execute(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in DuckDB's tree of a statement."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from parts(one)


class Oracle:
    """DuckDB's view of a text: its kinds of nodes, functions and tables."""

    def __init__(self) -> None:
        self.engine = duckdb.connect()
        known = "SELECT function_name, stability FROM duckdb_functions() WHERE function_type = 'scalar'"
        found = self.engine.execute(known).fetchall()
        self.unstable = {name for name, stability in found if stability != "CONSISTENT"}

    def read(self, sql: str) -> tuple[set[str], set[str], set[str]]:
        """The classes of expressions, the functions, and the tables of one SELECT."""
        text = self.engine.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
        assert text is not None
        tree = json.loads(text[0])
        assert not tree["error"], (sql, tree)
        assert len(tree["statements"]) == 1, sql
        every = list(parts(tree["statements"]))
        classes = {part["class"] for part in every if "class" in part}
        functions = {part["function_name"].lower() for part in every if "function_name" in part}
        tables = {part.get("table_name", "") or part["type"] for part in every if str(part.get("type")) in SOURCES}
        assert not any(part.get("sample") or part.get("cte_map", {}).get("map") for part in every), sql
        return classes, functions, tables


SOURCES = {"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "PIVOT", "SHOW_REF", "DELIM_GET"}
