"""Schemas as TOML files that people read, review and keep under version control."""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from maquette.errors import SchemaError
from maquette.schema.columns import Column, nearest, shown
from maquette.schema.file_format import FileFormat, UnitDeclaration
from maquette.schema.kinds import kind_named, kind_names
from maquette.schema.schema import Schema

_GUESSED = (
    "# DRAFT: made by reading the data, so its bounds and levels are not private.\n"
    "# Replace each by what you would declare without looking, then delete the next line. Lines that begin with #\n"
    "# say what was seen in the rows: delete them too before you give this file to others.\n"
    "guessed = true\n"
)
_SKIPPED = "# skipped: "
T = TypeVar("T")


def dumps(schema: Schema) -> str:
    """A `[file]` block if one is needed, one `[[column]]` per column, defaults left out, one `[[impossible]]` each.

    A draft has comments: what it left out, and above each column what it saw and why it chose.
    """
    notes = schema.notes if schema.guessed else {}
    file = schema.file.as_dict()
    blocks = [_block("[file]", file)] if file else []
    blocks += [] if schema.unit is None else [_block("[unit]", schema.unit.as_dict())]
    blocks += [_comments(notes.get(column.name, ())) + _block("[[column]]", column.as_dict()) for column in schema]
    blocks += [_block("[[impossible]]", entry) for entry in schema.impossible]
    skipped = "".join(f"{_SKIPPED}{_line(column)}\n" for column in schema.skipped)
    return "\n".join(part for part in (_GUESSED * schema.guessed, skipped, *(block + "\n" for block in blocks)) if part)


def _comments(lines: Sequence[str]) -> str:
    return "".join(f"# {_line(line)}\n" for line in lines)


def _line(text: str) -> str:
    """A text as part of a comment: names of columns can hold ends of lines, after which they would be settings."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _block(title: str, settings: Mapping[str, Any]) -> str:
    return "\n".join([title, *(f"{_key(key)} = {written_value(value)}" for key, value in settings.items())])


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
    unknown = set(document) - {"column", "file", "guessed", "impossible", "unit"}
    if unknown or not isinstance(document.get("column"), list):
        raise SchemaError(
            f"the schema file holds {', '.join(map(repr, sorted(unknown))) if unknown else 'no columns'}",
            expected="[[column]] blocks",
        )
    columns = [_column(number, block) for number, block in enumerate(document["column"], 1)]
    impossible = document.get("impossible", [])
    if not isinstance(impossible, list):
        raise SchemaError("impossible combinations must be [[impossible]] blocks, in double brackets, one for each")
    guessed = bool(document.get("guessed", False))
    skipped = [line.removeprefix(_SKIPPED) for line in text.splitlines() if line.startswith(_SKIPPED)]
    return Schema(
        columns,
        impossible=impossible,
        guessed=guessed,
        skipped=skipped if guessed else (),
        notes=dict(zip((column.name for column in columns), _notes(text), strict=False)) if guessed else None,
        file=_single("file", FileFormat, document.get("file", {})),
        unit=None if "unit" not in document else _single("unit", UnitDeclaration, document["unit"]),
    )


def _single(name: str, kind: type[T], block: object) -> T:
    """What a block in single brackets declares."""
    if not isinstance(block, dict):
        raise SchemaError(f"{name} is not a block", expected=f"one [{name}] block, in single brackets")
    _check_settings(f"the [{name}] block", kind, block)
    return kind(**block)


def _notes(text: str) -> Iterator[list[str]]:
    """The comments right above each column of a draft."""
    above: list[str] = []
    for line in text.splitlines():
        if line.strip() == "[[column]]":
            yield above
        above = [*above, line[2:]] if line.startswith("# ") and not line.startswith(_SKIPPED) else []


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


def _check_settings(named: str, column: type[Any], settings: dict[str, Any]) -> None:
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
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else written_value(name)


def written_value(value: Any) -> str:
    """A setting as a schema file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
