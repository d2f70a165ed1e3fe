"""The books of a ledger in PostgreSQL during one transaction: read at once at its start, written at once at its end.

Every exchange with the server takes longer than what it does there, and while a transaction lasts all others wait for
the ledger's row. So the rows that the waiting operations are about are asked for together with the lock; the operations
decide in memory, one after the other, each on what those before it wrote; and all that they wrote is sent with the
COMMIT. An operation that is refused is undone in memory, where nothing of it was sent yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.bounded import Bounded
from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger.chain import ChainEvent
from maquette.privacy.ledger.machine import TABLE_SCOPE, Hits, Membership, Place, Spending, analyst_scope
from maquette.privacy.ledger.store import Row, Rows, SqliteStorage

if TYPE_CHECKING:
    import psycopg

Statement = tuple[str, Sequence[Any]]
Facts = Bounded[int, Sequence[Any]]

EVENTS = "SELECT seq, kind, facts, content, mac FROM event"
_APPEND = "INSERT INTO event SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bytea[], %s::bytea[])"
_HEAD = "SELECT seq, mac FROM event ORDER BY seq DESC LIMIT 1"
LONGEST = 2_600  # bytes of a name: an index of PostgreSQL takes 2,704


class Sql(NamedTuple):
    """How one of the tables is read and written: a row, some rows, and rows new or not."""

    one: str
    some: str
    write: str


REQUESTS = Sql(
    "SELECT charged, answered FROM request WHERE id = %s",
    "SELECT id, charged, answered FROM request WHERE id = ANY(%s)",
    "INSERT INTO request SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) "
    "ON CONFLICT (id) DO UPDATE SET answered = excluded.answered",
)
BUDGETS = Sql(
    'SELECT "limit", spent FROM budget WHERE scope = %s',
    'SELECT scope, "limit", spent FROM budget WHERE scope = ANY(%s)',
    "INSERT INTO budget SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) "
    'ON CONFLICT (scope) DO UPDATE SET "limit" = excluded."limit", spent = excluded.spent',
)
GUARDS = Sql(
    "SELECT opened, hits, used FROM guard WHERE id = %s",
    "SELECT id, opened, hits, used FROM guard WHERE id = ANY(%s)",
    "INSERT INTO guard SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) "
    "ON CONFLICT (id) DO UPDATE SET used = excluded.used",
)
MEMBERS = Sql(
    'SELECT "left" FROM member WHERE epoch = %s',
    'SELECT epoch, "left" FROM member WHERE epoch = ANY(%s)',
    "INSERT INTO member SELECT * FROM unnest(%s::bigint[], %s::bigint[]) "
    'ON CONFLICT (epoch) DO UPDATE SET "left" = excluded."left"',
)


class PostgresBroken(LedgerError):
    """The database failed, or the connection to it."""


class Connection:
    """A connection whose failures are ledger errors, with a text that cannot hold a value."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement."""
        import psycopg

        try:
            return self._connection.execute(statement, values or None, prepare=True)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise broken(error) from None

    def together(self, statements: Iterable[Statement]) -> list[list[Any]]:
        """Run statements in order, none after one that fails, in one exchange if the driver can; the rows of each."""
        import psycopg

        try:
            with self._connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():
                cursors = [self._connection.execute(one, values or None, prepare=True) for one, values in statements]
            if any(cursor.statusmessage == "ROLLBACK" for cursor in cursors):
                raise PostgresBroken("PostgreSQL did not commit", advice="look at the server")
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise broken(error) from None

    def close(self) -> None:
        """Close it, whatever its state; its locks are free when this returns, and not a moment later."""
        with suppress(Exception):
            self._connection.rollback()
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        with suppress(Exception):
            self._connection.close()


class Kept(Rows[Row]):
    """One of the tables, during one transaction: what is written is kept here until it is sent."""

    __slots__ = ("_before", "_new", "_sql")

    def __init__(self, connection: Any, sql: Sql) -> None:
        super().__init__(connection, sql.one, sql.write)
        self._sql = sql
        self._new: dict[Any, Row] = {}  # not sent yet
        self._before: list[tuple[Any, dict[Any, Any], dict[Any, Any]]] = []  # what the present operation has replaced

    def asked(self, keys: Sequence[Any]) -> Statement:
        """The statement that reads some rows."""
        return self._sql.some, (list(keys),)

    def get(self, key: Any, /) -> Row | None:
        """The row of this key, without the key; a name that cannot be kept is refused before anything is sent."""
        size = 0 if isinstance(key, int) else _size(key)
        row = super().get(key)
        if row is None and size > LONGEST:
            raise LedgerError(
                f"a name has {size:,} bytes", expected=f"at most {LONGEST:,}", advice="Nothing was charged"
            )
        return row

    def found(self, keys: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
        """Remember what was read of some rows, also that one is not there; what was written since is newer."""
        read: dict[Any, Any] = {key: tuple(row) for key, *row in rows}
        self._seen = {**{key: read.get(key) for key in keys}, **self._seen}

    def __setitem__(self, key: Any, row: Row, /) -> None:
        """Write the row of this key, new or not; once sent, the table's own CHECK refuses a row beyond its limit."""
        held = [{key: rows[key]} if key in rows else {} for rows in (self._seen, self._new)]
        self._before.append((key, *held))
        self._seen[key] = self._new[key] = row

    @property
    def touched(self) -> bool:
        """Whether the present operation has written anything that was not sent."""
        return bool(self._before)

    def mark(self) -> None:
        """Begin an operation."""
        self._before.clear()

    def undo(self) -> None:
        """Take back what the operation wrote."""
        for key, seen, new in reversed(self._before):
            for rows, before in ((self._seen, seen), (self._new, new)):
                rows.pop(key, None)
                rows.update(before)
        self._before.clear()

    def sent(self) -> list[Statement]:
        """The statement that writes what was not sent yet; none if nothing is left."""
        if not self._new:
            return []
        columns = zip(*((key, *row) for key, row in self._new.items()), strict=True)  # type: ignore[misc]
        self._new = {}
        return [(self._sql.write, [list(column) for column in columns])]


class PostgresStorage(SqliteStorage):
    """The chain and its books in one schema of a database, for a transaction that has locked the ledger's row."""

    requests: Kept[Place]
    budgets: Kept[Spending]
    guards: Kept[Hits]
    members: Kept[Membership]

    def __init__(
        self,
        connection: Connection,
        *,
        limit: int,
        boot: int,
        facts: Facts | None = None,
        expected: Callable[[], Sequence[tuple[str, str]]] | None = None,
    ) -> None:
        """`expected` tells, when the first operation begins, the requests and analysts that operations are about.

        `facts` of charges and answers are kept from one transaction of a process to the next: they never change.
        """
        super().__init__(connection, limit=limit, boot=boot)  # type: ignore[arg-type]
        self.requests, self.budgets = Kept(connection, REQUESTS), Kept(connection, BUDGETS)
        self.guards, self.members = Kept(connection, GUARDS), Kept(connection, MEMBERS)
        self._kept: tuple[Kept[Any], ...] = self.requests, self.budgets, self.guards, self.members
        self._server = connection
        self._facts = facts
        self._expected = expected
        self._last: tuple[int, bytes] | None = None
        self._events: list[ChainEvent] = []  # not sent yet
        self._began: tuple[int, tuple[int, bytes] | None] | None = 0, None  # of an operation: None once it was sent

    def _read(self, expected: Sequence[tuple[str, str]]) -> None:
        """Read at once what some requests of analysts depend on; once in a transaction."""
        self._expected = None
        requests = list(dict.fromkeys(request for request, _ in expected))
        names = [
            name for _, analyst in expected for name in (analyst, "".join(analyst.partition("/")[:2]))
        ]  # and group
        scopes = list(dict.fromkeys([TABLE_SCOPE, *map(analyst_scope, names)]))
        reads = [(_HEAD, ()), self.requests.asked(requests), self.budgets.asked(scopes)]
        head, places, spendings = self._server.together(reads)
        self._last = self._last or next((tuple(row) for row in head), None)
        self.requests.found(requests, places)
        self.budgets.found(scopes, spendings)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """A statement inside the transaction, after all that was written; savepoints are kept here."""
        if statement.startswith("SAVEPOINT"):
            if self._expected is not None:
                self._read(self._expected())
            self._began = len(self._events), self._last
            for table in self._kept:
                table.mark()
        elif statement.startswith("ROLLBACK TO"):
            self._undo()
        elif not statement.startswith("RELEASE"):
            self.send()
            return self._server.execute(statement, values)
        return None

    def send(self, *last: Statement) -> None:
        """Send what was written and not sent yet, then other statements, in one exchange."""
        events: list[Statement] = []
        if self._events:
            events = [(_APPEND, [list(column) for column in zip(*self._events, strict=True)])]
        statements = [*events, *(statement for table in self._kept for statement in table.sent()), *last]
        wrote = len(self._events) > (self._began or (0,))[0] or any(table.touched for table in self._kept)
        self._events, self._began = [], None if wrote or self._began is None else (0, self._last)
        if statements:
            self._server.together(statements)

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC."""
        if self._last is None:
            self._last = super().head()
        return self._last

    def append(self, event: ChainEvent) -> None:
        """Add one event to the chain."""
        self._events.append(event)
        self._last = event.seq, event.mac
        if self._facts is not None:
            self._facts[event.seq] = json.loads(event.facts)

    def event(self, seq: int) -> ChainEvent:
        """The event with this number; the index says that it exists."""
        row = self.execute(f"{EVENTS} WHERE seq = %s", (seq,)).fetchone()
        if row is None:
            raise LedgerCorrupted(f"event {seq} is missing", advice="Restore the ledger from a backup that verifies")
        return ChainEvent(*row)

    def facts(self, seq: int) -> Sequence[Any]:
        """The facts of the charge or answer with this event number."""
        known = None if self._facts is None else self._facts.get(seq)
        return super().facts(seq) if known is None else known

    def charges_after(self, seq: int, count: int) -> list[ChainEvent]:
        """The next `count` charges after this number, oldest first."""
        query = f"{EVENTS} WHERE seq > %s AND kind = 'charge' ORDER BY seq LIMIT %s"
        return [ChainEvent(*row) for row in self.execute(query, (seq, count)).fetchall()]

    def _undo(self) -> None:
        """Take back what the present operation wrote; a number that it used is another event's now."""
        if self._began is None:
            raise PostgresBroken("an operation was refused after it had written", advice="open the ledger again")
        count, last = self._began
        for event in self._events[count:]:
            if self._facts is not None:
                self._facts.pop(event.seq, None)
        del self._events[count:]
        self._last = last
        for table in self._kept:
            table.undo()


def _size(name: str) -> int:
    """The bytes of a name; LedgerError if it has characters that PostgreSQL does not know."""
    try:
        if "\0" not in name:
            return len(name.encode())
    except UnicodeEncodeError:
        pass
    raise LedgerError(
        "a name holds a NUL or half a character, which PostgreSQL cannot keep", advice="nothing was charged"
    )


def broken(error: Exception) -> PostgresBroken:
    """A failure of the database as a ledger error: its class and SQLSTATE only, for its text could hold anything."""
    state = getattr(error, "sqlstate", None)
    return PostgresBroken(
        f"PostgreSQL could not read or write ({type(error).__name__}{'' if state is None else f', {state}'})",
        advice="look at the server; the ledger is verified when it is opened again",
    )
