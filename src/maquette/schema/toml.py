"""Schemas as TOML files that people read, review and keep under version control."""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from maquette.errors import SchemaError
from maquette.schema.columns import Column, nearest, shown
from maquette.schema.kinds import kind_named, kind_names
from maquette.schema.schema import Schema

_GUESSED = (
    "# DRAFT: made by reading the data, so its bounds and levels are not private.\n"
    "# Replace each by what you would declare without looking, then delete the next line.\n"
    "guessed = true\n"
)


def dumps(schema: Schema) -> str:
    """One `[[column]]` block per column, defaults left out, and one `[[impossible]]` block per such combination."""
    blocks = [_block("column", column.as_dict()) for column in schema]
    blocks += [_block("impossible", entry) for entry in schema.impossible]
    skipped = "".join(f"# skipped: {column}\n" for column in schema.skipped)
    return "\n".join(part for part in (_GUESSED * schema.guessed, skipped, *(block + "\n" for block in blocks)) if part)


def _block(title: str, settings: Mapping[str, Any]) -> str:
    return "\n".join([f"[[{title}]]", *(f"{_key(key)} = {_value(value)}" for key, value in settings.items())])


def loads(text: str) -> Schema:
    """Parse TOML; an error names the column and what was expected."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"the schema is not valid TOML: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, deeply nested brackets
        raise SchemaError("the schema is not valid TOML: a number is too long or brackets nest too deeply") from None
    if not document:
        raise SchemaError(
            "the schema is empty", expected="[[column]] blocks, as `maquette schema guess table.csv` drafts"
        )
    unknown = set(document) - {"column", "guessed", "impossible"}
    if unknown or not isinstance(document.get("column"), list):
        raise SchemaError(
            f"the schema file holds {', '.join(map(repr, sorted(unknown))) if unknown else 'no columns'}",
            expected="[[column]] blocks",
        )
    columns = [_column(number, block) for number, block in enumerate(document["column"], 1)]
    impossible = document.get("impossible", [])
    if not isinstance(impossible, list):
        raise SchemaError("impossible combinations are [[impossible]] blocks, in two pairs of brackets, one for each")
    return Schema(columns, impossible=impossible, guessed=bool(document.get("guessed", False)))


def _column(number: int, block: object) -> Column:
    if not isinstance(block, dict):
        raise SchemaError(f"column {number} is {shown(block)}", expected="a [[column]] block")
    if "name" not in block:
        raise SchemaError(f"column {number} has no name", advice="add a line name = '...' to its block")
    settings = dict(block)
    kind = settings.pop("kind", None)
    column = kind_named(kind)
    if column is None:
        raise SchemaError(
            f"column {block['name']!r}: kind is {shown(kind)}", expected=f"one of {', '.join(kind_names())}"
        )
    _check_settings(f"column {block['name']!r} ({kind})", column, settings)
    try:
        return column(**settings)
    except TypeError as error:
        raise SchemaError(f"column {block['name']!r} ({kind}): {error}") from None


def _check_settings(named: str, column: type[Column], settings: dict[str, Any]) -> None:
    declared = {field.name: field for field in fields(column)}
    for unknown in (setting for setting in settings if setting not in declared):
        close = nearest(unknown, declared)
        hint = f"did you mean {close[0]}?" if close else f"settings are {', '.join(declared)}"
        raise SchemaError(f"{named}: unknown setting {unknown!r}", advice=hint)
    missing = [name for name, field in declared.items() if field.default is MISSING and name not in settings]
    if missing:
        raise SchemaError(
            f"{named}: needs {' and '.join(missing)}", advice=f"add a line {missing[0]} = ... to its block"
        )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
