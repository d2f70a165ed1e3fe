"""How a file of rows is written: delimiter, encoding, sheet, header. Declared beside the columns; part of no digest."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from maquette.errors import SchemaError

UTF8 = "utf-8"
MOST_SKIPPED = 1_000


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """What a schema file says in its block `[file]`; what is None is usual.

    `delimiter` stands between the fields of a CSV file (usual: a comma, or a tab in .tsv). `encoding` says which bytes
    mean which letters (usual: utf-8); Windows and Excel in Western Europe write cp1252. `sheet` names a sheet of a
    spreadsheet (usual: the first). `skip` is the number of lines above the header, such as a title. `names` are the
    columns, in order, of a file without a header. Privacy: all are declared, never inferred when a table is opened.
    Otherwise one row with an unusual letter could change how every other row is read.

    >>> FileFormat(encoding="Windows-1252").encoding
    'cp1252'
    """

    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    skip: int | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("delimiter", "encoding", "sheet"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise SchemaError(f"the file's {name} is {value!r}", expected="text")
        if self.skip is not None and (type(self.skip) is not int or not 0 <= self.skip <= MOST_SKIPPED):
            raise SchemaError(
                f"the file's skip is {self.skip!r}",
                expected=f"the number of lines above the header, from 0 to {MOST_SKIPPED:,}",
            )
        if self.names is not None:
            object.__setattr__(self, "names", _names(self.names))
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise SchemaError(
                f"the file's delimiter is {self.delimiter!r}", expected='one character, such as ";" or "\\t" for a tab'
            )
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))

    def changed(self, **given: Any) -> FileFormat:
        """The format with other settings where some are given."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """The settings that are given."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


@dataclass(frozen=True, kw_only=True)
class UnitDeclaration:
    """Whose a row is, and how many rows of one are counted: the block `[unit]` of a schema file; part of no digest.

    `from_rows` says that the number was chosen by looking at the rows. As for a drafted schema, that choice is not
    protected, so certificate and report say so.
    """

    column: str
    max_contributions: int = 1
    from_rows: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError(f"the unit's column is {self.column!r}", expected="the name of a column of the source")
        if type(self.max_contributions) is not int or self.max_contributions < 1:
            raise SchemaError(
                f"the unit's max_contributions is {self.max_contributions!r}", expected="a whole number of at least 1"
            )
        if not isinstance(self.from_rows, bool):
            raise SchemaError(f"the unit's from_rows is {self.from_rows!r}", expected="true or false")

    def as_dict(self) -> dict[str, Any]:
        """The settings that differ from what is usual."""
        facts: dict[str, Any] = {"column": self.column, "max_contributions": self.max_contributions}
        return {**facts, "from_rows": True} if self.from_rows else facts


def _names(names: object) -> tuple[str, ...]:
    """The columns of a file without a header."""
    listed = tuple(names) if isinstance(names, list | tuple) else ()
    if not listed or not all(isinstance(name, str) and name.strip() == name != "" for name in listed):
        raise SchemaError(
            "the file's names are not a list of texts", expected='the name of every column in order: names = ["a", "b"]'
        )
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise SchemaError(f"the file's names list {twice!r} twice", expected="a different name for every column")
    return listed


def _encoding(name: str) -> str:
    """The name by which Python knows an encoding of text."""
    try:
        found = codecs.lookup(name)
        " ".encode(found.name)  # refuses what is no encoding of text, such as hex
    except (LookupError, TypeError, ValueError):
        raise SchemaError(
            f"the file's encoding is {name!r}",
            expected="a name such as utf-8, cp1252 (Windows, Western Europe), cp1250, mac_roman or utf-16",
        ) from None
    return found.name
