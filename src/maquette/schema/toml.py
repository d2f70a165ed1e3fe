"""Schemas as TOML files that people read, review and keep under version control."""

from __future__ import annotations

import datetime as dt
import json
import tomllib
from typing import Any

from maquette.errors import SchemaError
from maquette.schema.columns import Column
from maquette.schema.schema import KINDS, Schema

_GUESSED = (
    "# DRAFT: made by reading the data, so its bounds and levels are not private.\n"
    "# Replace each by what you would declare without looking, then delete the next line.\n"
    "guessed = true\n"
)


def dumps(schema: Schema) -> str:
    """One `[[column]]` block per column, defaults left out."""
    blocks = ["\n".join(["[[column]]", *(f"{k} = {_value(v)}" for k, v in c.as_dict().items())]) for c in schema]
    return "\n".join([*([_GUESSED] if schema.guessed else []), *(block + "\n" for block in blocks)])


def loads(text: str) -> Schema:
    """Parse TOML; every mistake is named with its column and what was expected."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"the schema is not valid TOML: {error}") from None
    unknown = set(document) - {"column", "guessed"}
    if unknown or not isinstance(document.get("column"), list):
        raise SchemaError(
            f"a schema file holds [[column]] blocks{f', not {sorted(unknown)}' if unknown else '; found none'}"
        )
    return Schema([_column(block) for block in document["column"]], guessed=bool(document.get("guessed", False)))


def _column(block: object) -> Column:
    if not isinstance(block, dict):
        raise SchemaError(f"expected a [[column]] block, got {block!r}")
    settings = dict(block)
    kind = settings.pop("kind", None)
    if kind not in KINDS:
        raise SchemaError(f"column {settings.get('name')!r}: kind must be one of {', '.join(KINDS)}; got {kind!r}")
    try:
        return KINDS[kind](**settings)
    except TypeError as error:
        complaint = str(error).replace("__init__() ", "")
        raise SchemaError(f"column {settings.get('name')!r} ({kind}): {complaint}") from None


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
