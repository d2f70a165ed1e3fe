"""SQLite as a source: one query in one read transaction, streamed into the encoder by Python's own module.

SQLite does not hold values to the type of their column, so every value comes as text and the schema reads it, as from a
CSV file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from maquette.errors import UnreadableSource
from maquette.schema import identifier

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 2**16  # rows that are fetched together


class Stream:
    """The rows of a query; `failure` says why they ended early."""

    product = "SQLite"

    def __init__(self, address: str, needed: Sequence[str], query: str | None) -> None:
        self.failure: str | None = None
        self._needed = list(needed)
        path, table = _parts(address)
        if (table is None) == (query is None):
            raise UnreadableSource("name one thing to read: sqlite://file.db?table=name, or query='SELECT ...'")
        self._query = f"SELECT * FROM {identifier(str(table))}" if query is None else query.strip().rstrip(";")
        # Another thread of the encoder may read the stream; it does so while nobody else does.
        self._connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, check_same_thread=False)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self.names = self._described()

    def reader(self) -> pa.RecordBatchReader:
        """The needed columns as an Arrow stream of texts."""
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in self._needed])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def hang_up(self) -> None:
        """Close the file."""
        self._connection.close()

    def _described(self) -> list[str]:
        try:
            columns = self._connection.execute(f"SELECT * FROM ({self._query}) LIMIT 0").description
        except (sqlite3.Error, sqlite3.Warning):
            self._connection.close()
        else:
            return [column[0] for column in columns]
        raise UnreadableSource(
            "cannot read from SQLite: it refuses the file or the query", expected="query='SELECT ...'"
        )

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        chosen = ", ".join(f"CAST({identifier(name)} AS TEXT)" for name in self._needed)
        try:
            rows = self._connection.execute(f"SELECT {chosen} FROM ({self._query})")
            while part := rows.fetchmany(_BATCH):
                yield pa.record_batch([pa.array(column, pa.string()) for column in zip(*part, strict=True)], schema)
        except sqlite3.Error:
            self.failure = "the file cannot be read to its end, or the query fails"
        if self.failure is not None:
            raise OSError(self.failure)


def _parts(address: str) -> tuple[str, str | None]:
    parts = urlsplit(address)
    path = unquote(parts.netloc + parts.path)
    if not Path(path).is_file():
        raise UnreadableSource(
            f"there is no database file {path!r}", expected="sqlite://file.db or sqlite:///abs/file.db"
        )
    return path, dict(parse_qsl(parts.query)).get("table")
