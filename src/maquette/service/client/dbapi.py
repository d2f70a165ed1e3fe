"""DB-API 2.0 (PEP 249) on a remote session: answers as rows; every statement may be charged, none writes.

`with connect(url, token=...) as connection: cursor.execute("SELECT count(*) FROM people GROUP BY sex")`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from maquette.errors import MaquetteError
from maquette.service.client.remote import RemoteSession, connect as connect_session

apilevel = "2.0"
threadsafety = 1
paramstyle = "pyformat"


class Warning(Exception):  # noqa: A001, D101
    pass


class Error(Exception):  # noqa: D101
    pass


class InterfaceError(Error):  # noqa: D101
    pass


class DatabaseError(Error):  # noqa: D101
    pass


class DataError(DatabaseError):  # noqa: D101
    pass


class OperationalError(DatabaseError):  # noqa: D101
    pass


class IntegrityError(DatabaseError):  # noqa: D101
    pass


class InternalError(DatabaseError):  # noqa: D101
    pass


class ProgrammingError(DatabaseError):  # noqa: D101
    pass


class NotSupportedError(DatabaseError):  # noqa: D101
    pass


def connect(url: str, token: str, *, table: str | None = None, **given: Any) -> Connection:
    """A DB-API connection."""
    return Connection(connect_session(url, token, table=table, **given))


class Connection:
    """A connection: there are no transactions, an answer is final."""

    def __init__(self, session: RemoteSession) -> None:
        self._session: RemoteSession | None = session

    def cursor(self) -> Cursor:
        """A new cursor."""
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return Cursor(self._session)

    def commit(self) -> None:
        """Nothing to do."""

    def rollback(self) -> NoReturn:
        """An answer cannot be taken back."""
        raise NotSupportedError("an answer cannot be taken back")

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """One statement at a time; `answer` has the intervals, the cost and the promise."""

    arraysize = 1

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._rows: list[tuple[Any, ...]] = []
        self._place = 0
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.answer: Any = None

    def execute(self, operation: str, parameters: Any = None) -> Cursor:
        """Ask one statement."""
        text = operation if parameters is None else operation % _quoted(parameters)
        try:
            self.answer = self._session.ask(text)
        except MaquetteError as error:
            kind = ProgrammingError if error.code.startswith(("query", "schema")) else OperationalError
            raise kind(str(error)) from error
        grouped = len(self.answer.rows[0].groups)
        titles = self.answer.columns
        self.description = [(title, str if i < grouped else float, *[None] * 5) for i, title in enumerate(titles)]
        numbers = titles[grouped:]
        self._rows = [(*row.groups, *(row[title].value for title in numbers)) for row in self.answer.rows]
        self._place, self.rowcount = 0, len(self._rows)
        return self

    def executemany(self, operation: str, many: Sequence[Any]) -> None:
        """Not for statements that return rows."""
        raise NotSupportedError("ask the statements one by one")

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows."""
        if self.description is None:
            raise InterfaceError("nothing was executed")
        found = self._rows[self._place : self._place + (self.arraysize if size is None else size)]
        self._place += len(found)
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All further rows."""
        return self.fetchmany(len(self._rows))

    def setinputsizes(self, sizes: Any) -> None:
        """Nothing to do."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Forget the rows."""
        self._rows, self.description = [], None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row


def _quoted(parameters: Any) -> Any:
    """Parameters as literals of our grammar."""
    if isinstance(parameters, dict):
        return {name: _literal(value) for name, value in parameters.items()}
    return tuple(_literal(value) for value in parameters)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"
