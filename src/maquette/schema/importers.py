"""Schemas from the metadata files of neighbouring systems."""

from __future__ import annotations

import json
from typing import Any

from maquette.errors import SchemaError
from maquette.schema.columns import Boolean, Category, Column, shown
from maquette.schema.dates import Date
from maquette.schema.integers import Integer
from maquette.schema.numbers import Number
from maquette.schema.schema import Schema

_BINS = 32  # SmartNoise declares bounds of a number but no bins


def from_mbi(text: str) -> Schema:
    """An mbi domain: a JSON object from column name to number of codes 0..size-1."""
    try:
        domain = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"the mbi domain is not valid JSON: {error}") from None
    except (ValueError, RecursionError):
        raise SchemaError(
            "the mbi domain is not valid JSON: a number is too long or brackets nest too deeply"
        ) from None
    if not isinstance(domain, dict) or not all(
        isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in domain.values()
    ):
        raise SchemaError('an mbi domain is an object like {"age": 32, "sex": 2} with positive sizes')
    return Schema([Integer(name, 0, size - 1) for name, size in domain.items()])


def from_smartnoise(text: str) -> Schema:
    """SmartNoise SQL metadata (YAML) with one table; its private id column is left out of the universe."""
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SchemaError(f"the SmartNoise metadata is not valid YAML: {error}") from None
    except (ValueError, TypeError, OverflowError, RecursionError):  # an impossible date, a list as a key, deep brackets
        raise SchemaError("the SmartNoise metadata is not valid YAML: a value or a key in it cannot be read") from None
    columns = {
        name: facts
        for name, facts in _only_table(document).items()
        if isinstance(facts, dict) and not facts.get("private_id", False)
    }
    if not columns:
        raise SchemaError("the SmartNoise metadata declares no columns")
    return Schema([_readable(name, facts) for name, facts in columns.items()])


def _readable(name: str, facts: dict[str, Any]) -> Column:
    try:
        return _column(name, facts)
    except (ValueError, TypeError, OverflowError):
        raise SchemaError(
            f"column {shown(name)}: lower and upper must be numbers or dates, and levels a list"
        ) from None


def _only_table(document: object) -> dict[str, Any]:
    """The only table of metadata nested as collection -> schema -> table; the collection's name may be empty."""
    node = document
    for level in ("collection", "schema", "table"):
        if not isinstance(node, dict) or not node:
            raise SchemaError(f"the SmartNoise metadata has no {level} level")
        if len(node) > 1:
            raise SchemaError(
                f"the SmartNoise metadata names several {level}s", advice=f"keep one: {', '.join(map(str, node))}"
            )
        node = next(iter(node.values()))
    if not isinstance(node, dict):
        raise SchemaError("the SmartNoise metadata has no columns")
    return node


def _column(name: str, facts: dict[str, Any]) -> Column:
    kind = str(facts.get("type", "")).lower()
    nullable = bool(facts.get("nullable", True))
    low, high = facts.get("lower"), facts.get("upper")
    if kind == "boolean":
        return Boolean(name, nullable=nullable)
    if kind == "int" and low is not None and high is not None:
        return Integer(name, int(low), int(high), nullable=nullable)
    if kind == "float" and low is not None and high is not None:
        return Number(name, low=float(low), high=float(high), bins=_BINS, nullable=nullable)
    if kind == "datetime" and low is not None and high is not None:
        return Date(name, str(low)[:10], str(high)[:10], nullable=nullable)
    if kind == "string" and facts.get("levels"):
        return Category(name, facts["levels"], other="other", nullable=nullable)
    raise SchemaError(
        f"column {name!r} ({kind or 'no type'}): a public universe needs lower and upper for numbers and dates, and "
        "levels for strings",
        advice="add them to the metadata",
    )
