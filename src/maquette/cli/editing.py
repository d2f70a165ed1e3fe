"""Walking through a draft: every column is shown, and kept, changed or dropped, setting by setting."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from maquette.errors import MaquetteError

if TYPE_CHECKING:
    from maquette.schema import Column, Schema

_CHOICES = ("keep", "change", "drop")
_SAID = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_GROUPED = re.compile(r"-?\d{1,3}([.,]\d{3})+")
_WORDS = {
    "low": "smallest value that can occur (low)",
    "high": "largest value that can occur (high)",
    "width": "how many whole numbers one bin holds (width)",
    "bins": 'number of bins, or "auto" to have them drawn privately (bins)',
    "edges": "where bins begin, and where the last bin ends (edges)",
    "atoms": "single values with a level of their own, such as 0 (atoms)",
    "precision": "digits after the decimal mark (precision)",
    "levels": "the values that can occur (levels)",
    "other": "the level for all other values (other)",
    "nullable": "may a value be missing? (nullable)",
    "missing": 'texts that mean "no value" (missing)',
    "decimal": "the decimal mark (decimal)",
    "thousands": "the mark between thousands (thousands)",
    "marks": "currency or percent marks to ignore (marks)",
    "unit": "day, week, month, quarter or year (unit)",
    "order": "order of day, month and year (order)",
    "pivot": "the last two-digit year that means 20xx (pivot)",
    "yes": "other words for yes (yes)",
    "no": "other words for no (no)",
}


def walked(schema: Schema) -> list[Column]:
    """The columns that somebody keeps, as they were or changed."""
    from maquette.schema import preview

    kept = []
    for number, drafted in enumerate(schema, 1):
        column = drafted
        typer.echo(f"\n{number} of {len(schema)}: {column.name}, a column of kind {column.kind}")
        for note in schema.notes.get(column.name, ()):
            typer.echo(f"   {note}")
        typer.echo(f"   {column.size:,} levels: {preview(column.labels)}")
        while (choice := _choice()) == "change":
            column = _changed(column)
            typer.echo(f"   now {column.size:,} levels: {preview(column.labels)}")
        if choice == "keep":
            kept.append(column)
    return kept


def _choice() -> str:
    """One of the three; anything else is asked again, so that a "no" is not read as "keep"."""
    while True:
        typed = typer.prompt("   keep, change or drop?", default="keep").strip().lower()
        for choice in _CHOICES:
            if typed and choice.startswith(typed):
                return choice
        typer.echo("   type keep, change or drop (or k, c, d); nothing is written before the end")


def _changed(column: Column) -> Column:
    """The column with other values of its settings, asked one by one; a refused value is asked again."""
    from maquette.schema import written_value

    for name, value in column.as_dict().items():
        if name in ("name", "kind"):
            continue
        while True:
            text = typer.prompt(f"   {_WORDS.get(name, name)}", default=written_value(value)).strip()
            if text == written_value(value):
                break
            try:
                column = replace(column, **{name: _read(text, value)})
                break
            except (MaquetteError, ValueError, TypeError) as error:
                typer.echo(f"   {error}")
    return column


def _read(text: str, like: object) -> Any:
    """What was typed, as the schema file writes it or plainly: yes and no, a word, or a list with commas."""
    from maquette.schema import written_value

    if isinstance(like, bool) and text.lower() in _SAID:
        return _SAID[text.lower()]
    if isinstance(like, int | float) and _GROUPED.fullmatch(text):  # 100.000 is a hundred to some, 100,000 to others
        raise ValueError(f"is that {re.sub('[.,]', '', text)}? Write numbers without marks between thousands")
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        if isinstance(like, str):
            return text
        if isinstance(like, Sequence) and not text.startswith("["):
            plain = str if all(isinstance(one, str) for one in like) else float
            return [plain(part.strip()) for part in text.split(",")]
        raise ValueError(f"this cannot be read; write it like {written_value(like)}") from None
