"""PostgreSQL as a source: one query, one snapshot, streamed into the encoder.

The server writes rows (`COPY ... TO STDOUT`) and the encoder reads them as it reads other typed columns and texts:
PostgreSQL's own casts decide nothing. The transaction is read-only. Credentials come from the address, the environment
(PGPASSWORD) or a service or password file, as libpq reads them. TLS is verified (sslmode=verify-full) unless the
address says otherwise. No message holds the address, a credential or a row: the server's texts may, so they are not
passed on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from maquette.errors import UnreadableSource
from maquette.schema import identifier

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 2**22  # bytes of text that are parsed together
_SETTINGS = "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1"
_NULL = "\\N"
_STATES = {
    "57014": "the query was cancelled",
    "25006": "the query would write, and rows are read in a read-only transaction",
    "42501": "these credentials may not read what the query names",
    "42P01": "the query names a table that does not exist",
    "42703": "the query names a column that does not exist",
    "42601": "the query is not one SELECT statement",
}
_GONE = "the connection to the server was lost before all rows were read"


class Stream:
    """The rows of a query; `failure` says why they ended early."""

    product = "PostgreSQL"

    def __init__(self, address: str, needed: Sequence[str], query: str | None) -> None:
        self.failure: str | None = None
        self._needed = list(needed)
        address, self._query = _parts(address, query)
        self._connection = _connected(address)
        try:
            self.names, self._types = self._described(self._query)
        except BaseException:
            self._connection.close()
            raise

    def reader(self) -> pa.RecordBatchReader:
        """The needed columns as an Arrow stream."""
        import pyarrow as pa

        schema = pa.schema([(name, self._types[name]) for name in self._needed])
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def hang_up(self) -> None:
        """End the connection; the server cancels an unfinished query."""
        self._connection.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import psycopg

        try:
            for text in self._texts():
                yield from self._parsed(text)
        except psycopg.Error as error:
            self.failure = _STATES.get(error.sqlstate or "", _GONE)
        if self.failure is not None:
            raise OSError(self.failure)

    def _texts(self) -> Iterator[bytes]:
        """Whole rows, many at a time; the server sends each row by itself."""
        chosen = ", ".join(self._item(name) for name in self._needed)
        options = f"FORMAT csv, NULL '{_NULL}', FORCE_QUOTE *"
        written = f"COPY (SELECT {chosen} FROM ({self._query}) AS source) TO STDOUT ({options})"
        with self._connection.cursor() as cursor, cursor.copy(written) as copy:
            rows, size = [], 0
            for row in copy:
                rows.append(bytes(row))
                size += len(row)
                if size >= _BLOCK:
                    yield b"".join(rows)
                    rows, size = [], 0
            yield b"".join(rows)

    def _parsed(self, text: bytes) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv

        if not text:
            return
        table = csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=self._needed, block_size=len(text) + 1),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={name: self._types[name] for name in self._needed},
                null_values=[_NULL],
                true_values=["t"],
                false_values=["f"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        yield from table.to_batches()

    def _described(self, query: str) -> tuple[list[str], dict[str, pa.DataType]]:
        """The names of a query's columns, and the Arrow type of each."""
        import psycopg

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}) AS source LIMIT 0")
                columns = cursor.description or []
        except psycopg.Error as error:
            refusal = _STATES.get(error.sqlstate or "", "the server refuses the query")
        else:
            return [column.name for column in columns], {column.name: _arrow_type(column) for column in columns}
        raise UnreadableSource(f"cannot read from PostgreSQL: {refusal}", expected="query='SELECT ...'")

    def _item(self, name: str) -> str:
        import pyarrow as pa

        if pa.types.is_decimal(self._types[name]):  # exact numbers have no NaN here, and it means nothing, as NULL does
            return f"nullif({identifier(name)}, 'NaN')"
        if self._types[name] == _date_text():
            return f"replace({identifier(name)}::text, ' BC', ' (BC)')"
        return identifier(name)


def _parts(address: str, query: str | None) -> tuple[str, str]:
    """The address as libpq takes it, with verified TLS unless it says otherwise; and the query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = None
    if parts is None:
        raise UnreadableSource(
            "the address of the PostgreSQL source is malformed", expected="postgresql://host/database"
        )
    settings = dict(parse_qsl(parts.query))
    table = settings.pop("table", None)
    if (table is None) == (query is None):
        raise UnreadableSource("name one thing to read: postgresql://host/database?table=name, or query='SELECT ...'")
    settings.setdefault("sslmode", "verify-full")
    if "sslrootcert" not in settings and not os.environ.get("PGSSLROOTCERT"):
        own = Path.home() / ".postgresql" / "root.crt"
        if settings["sslmode"] == "verify-full" and not own.is_file():
            settings["sslrootcert"] = "system"
    if query is None:
        query = "SELECT * FROM " + ".".join(map(identifier, str(table).split(".")))
    return urlunsplit(parts._replace(query=urlencode(settings))), query.strip().rstrip(";")


def _connected(address: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise UnreadableSource(
            "PostgreSQL is read through psycopg, which is not installed", advice="pip install 'maquette[postgres]'"
        ) from None
    try:
        connection = psycopg.connect(address, options=_SETTINGS)
    except (psycopg.Error, ValueError, UnicodeError) as error:
        told = str(error).lower()
        why = "the server cannot be reached, or the address is wrong"
        if "certificate" in told or "ssl" in told:
            why = "the server does not offer TLS that can be verified"
        elif "password" in told or "authentication" in told or "role" in told:
            why = "the server refuses these credentials"
    else:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection
    raise UnreadableSource(
        f"cannot open the PostgreSQL source: {why}",
        advice="Check host, credentials and sslmode; a server without TLS needs ?sslmode=disable",
    )


def _date_text() -> pa.DataType:
    """The marker of a date: texts in a type of their own."""
    import pyarrow as pa

    return pa.large_string()


def _arrow_type(column: Any) -> pa.DataType:
    """The Arrow type of a column of the server; what has no exact counterpart is text."""
    import pyarrow as pa

    whole, real = {21: pa.int16(), 23: pa.int32(), 20: pa.int64()}, {700: pa.float32(), 701: pa.float64()}
    if column.type_code == 1700:  # numeric; infinities exist only where no scale is declared
        precision, scale = column.precision or 0, column.scale or 0
        return pa.decimal128(precision, scale) if 0 < precision <= 38 and 0 <= scale <= precision else pa.float64()
    if column.type_code == 1082:
        return _date_text()
    return {16: pa.bool_(), **whole, **real}.get(column.type_code, pa.string())
