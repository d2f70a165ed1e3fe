"""Statements that are groups and aggregates alone, for tests that look inside them."""

from __future__ import annotations

from maquette.query import Statement, parse as parse_any
from maquette.schema import Schema


def parse(schema: Schema, text: str, table: str | None = None) -> Statement:
    """Read a SELECT; it must need no post-processing."""
    found = parse_any(schema, text, table=table)
    assert isinstance(found, Statement)
    return found
