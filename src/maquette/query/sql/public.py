"""PublicTable: a lookup (code to name, region to country, weights) that a JOIN adds to the private table.

A join on a declared key only renames levels: the country of a row is a function of its region. So a column of a public
table is an expression on the levels of the key, and no new way to read rows. The table is copied, its key must be
unique, its numbers are clamped to declared bounds, and its digest is part of the question's, as the weights that follow
from it are.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.errors import QueryError
from maquette.query.sql.levels import plain_value

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 100_000  # rows


class PublicTable:
    """A public lookup: columns of plain values, one row for each key.

    >>> regions = PublicTable({"code": ["N", "S"], "name": ["North", "South"], "weight": [0.5, 9.0]}, key="code",
    ...     bounds={"weight": (0.0, 1.0)})
    >>> regions.column("weight")
    (0.5, 1.0)
    """

    def __init__(self, source: Any, *, key: str, bounds: Mapping[str, tuple[float, float]] | None = None) -> None:
        """From a mapping of columns, a data frame, an Arrow table, or the path of a CSV or Parquet file."""
        self._columns = {name: tuple(map(_plain, values)) for name, values in _columns(source).items()}
        self.key = self._named(key)
        keys = self._columns[self.key]
        if len(keys) > LARGEST:
            raise QueryError(f"a public table of {len(keys):,} rows", expected=f"at most {LARGEST:,}")
        if None in keys or len(set(keys)) < len(keys):
            repeated = next((value for value in keys if value is None or keys.count(value) > 1), None)
            raise QueryError(
                f"the key {key!r} of a public table must be unique; {repeated!r} is not",
                advice="keep one row for each value of the key",
            )
        for name, (low, high) in (bounds or {}).items():
            if not low <= high:
                raise QueryError(f"bounds of {name!r} are {low} and {high}", expected="low <= high")
            column = self._named(name)
            self._columns[column] = tuple(None if v is None else min(max(v, low), high) for v in self._columns[column])
        self.bounds = dict(bounds or {})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self._columns)

    def column(self, name: str) -> tuple[Any, ...]:
        """The values of one column."""
        return self._columns[self._named(name)]

    @property
    def digest(self) -> str:
        """A hash of everything in it."""
        text = json.dumps([self.key, self._columns, self.bounds], default=str, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _named(self, name: str) -> str:
        if name in self._columns:
            return name
        alike = [known for known in self._columns if known.casefold() == name.casefold()]
        if len(alike) != 1:
            raise QueryError(
                f"the public table has no column {name!r}", advice=f"columns are {', '.join(self._columns)}"
            )
        return alike[0]

    def __repr__(self) -> str:
        return f"PublicTable({len(self._columns[self.key])} rows by {self.key}: {', '.join(self._columns)})"


def named_table(written: str) -> tuple[str, PublicTable]:
    """A public table as a command line or a settings file names it: NAME=FILE:KEY, then COLUMN:LOW..HIGH for bounds.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "regions.csv"
    >>> _ = file.write_text("code,weight\\nN,9\\n")
    >>> named_table(f"regions={file}:code,weight:0..1")[1].column("weight")
    (1.0,)
    """
    first, *more = written.split(",")
    name, equals, rest = first.partition("=")
    path, colon, key = rest.rpartition(":")
    bounds: dict[str, tuple[float, float]] = {}
    try:
        for part in more:
            column, _, ends = part.rpartition(":")
            low, _, high = ends.partition("..")
            bounds[column.strip()] = float(low), float(high)
    except ValueError:
        colon = ""
    if not (equals and colon and name.strip().isidentifier() and path and key):
        raise QueryError(
            f"the public table {written[:80]!r} cannot be read",
            expected="NAME=FILE:KEY, as in regions=regions.csv:code or, with bounds, regions.csv:code,weight:0..1",
        )
    return name.strip(), PublicTable(path, key=key.strip(), bounds=bounds)


def _columns(source: Any) -> dict[str, Sequence[Any]]:
    import pyarrow as pa

    if isinstance(source, str) or hasattr(source, "__fspath__"):
        source = _read(str(source))
    if hasattr(source, "to_arrow"):
        source = source.to_arrow()
    elif hasattr(source, "to_dict") and hasattr(source, "iloc"):
        source = pa.Table.from_pandas(source, preserve_index=False)
    if isinstance(source, pa.Table):
        return {name: source.column(name).to_pylist() for name in source.column_names}
    if not isinstance(source, Mapping) or not all(isinstance(values, Iterable) for values in source.values()):
        raise QueryError(
            f"a public table is of type {type(source).__name__}",
            expected="columns by name, a data frame, an Arrow table or the path of a CSV or Parquet file",
        )
    columns: dict[str, Sequence[Any]] = {str(name): list(values) for name, values in source.items()}
    if len({len(values) for values in columns.values()}) != 1:
        raise QueryError("the columns of a public table differ in length")
    return columns


def _plain(value: Any) -> Any:
    """A value of numpy, or an exact number, as Python's own; NaN is a missing value."""
    value = value.item() if isinstance(value, np.generic) else value
    value = plain_value(value) if isinstance(value, decimal.Decimal) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _read(path: str) -> pa.Table:
    import duckdb

    with duckdb.connect() as engine:
        reader = "read_parquet" if path.endswith(".parquet") else "read_csv"
        try:
            return engine.sql(f"SELECT * FROM {reader}(?)", params=[path]).to_arrow_table()
        except duckdb.Error:
            raise QueryError("a public table cannot be read", expected="a CSV or Parquet file") from None
