"""State: what the service itself remembers: tokens, texts of questions, the audit log, jobs, replies by key.

Nothing here decides what is charged: that is the ledger's. It is kept with SQLAlchemy Core in SQLite (one file in the
service's directory) or in PostgreSQL, where several processes share it. Texts of questions and log lines are written in
groups by a thread of their own, so an answer does not wait for them; tokens and replies are written at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from maquette.privacy.ledger import network_settings

VERSION = 1
FLUSH_SECONDS = 0.2  # that the first row of a group waits for others
RETRY_SECONDS = 1.0
PAUSE = 0.01  # seconds between two looks for room
GROUP = 5_000
PRESSED = 20_000  # rows that wait, from which on those who bring more wait too
MOST_WAITING = 100_000  # rows, from which on no more are taken
PATIENCE = 10.0  # seconds for which the others wait

metadata = sa.MetaData()
facts = sa.Table(
    "maquette_fact", metadata, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
tokens = sa.Table(
    "maquette_token",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, index=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("group", sa.Text),
    sa.Column("tables", sa.Text),
    sa.Column("sha256", sa.Text, nullable=False, unique=True),
    sa.Column("stored_key", sa.LargeBinary, nullable=False),
    sa.Column("server_key", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float),
    sa.Column("revoked", sa.Float),
)
questions = sa.Table(
    "maquette_question",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("table", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False, index=True),
    sa.Column("question", sa.Text),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False, default=False),
)
log = sa.Table(
    "maquette_log",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("role", sa.Text),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("table", sa.Text),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)
replies = sa.Table(
    "maquette_reply",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False, index=True),
    sa.Column("reply", sa.Text),
)
limits = sa.Table(
    "maquette_limit",
    metadata,
    sa.Column("table", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Float, nullable=False),
)
door_spending = sa.Table(
    "maquette_door_spending",
    metadata,
    sa.Column("table", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("units", sa.BigInteger, nullable=False),
)
entries = sa.Table(
    "maquette_entry",
    metadata,
    sa.Column("holdout", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("entry", sa.Text, primary_key=True),
    sa.Column("facts", sa.Text, nullable=False),
)
jobs = sa.Table(
    "maquette_job",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("table", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)


class State:
    """The database of one service, at a SQLAlchemy address."""

    def __init__(self, address: str) -> None:
        self._failed = False  # whether the last attempt to read or write did
        self._engine = _engine(address)
        try:
            metadata.create_all(self._engine)
            self.secret = bytes.fromhex(self._fact("secret", secrets.token_hex(32)))
            self._fact("version", str(VERSION))
            self._fact("tried", "")
        except BaseException:
            self._engine.dispose()
            raise
        self._queue: queue.SimpleQueue[tuple[sa.Table, dict[str, Any]] | threading.Event | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._hurry = threading.Event()  # somebody waits for the group
        self._thread = threading.Thread(target=self._write, name="maquette-state", daemon=True)
        self._thread.start()

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """One transaction."""
        with self._watched(), self._engine.begin() as connection:
            yield connection

    def rows(self, statement: sa.Select[Any]) -> list[dict[str, Any]]:
        """The rows of a query, as dicts."""
        with self._watched(reading=True), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    @property
    def ready(self) -> bool:
        """Whether it can be read and written; tried only if the last attempt failed."""
        if self._failed:
            another = secrets.token_hex(8)  # writing the same again would write nothing
            with suppress(sa.exc.DBAPIError), self.begin() as connection:
                connection.execute(facts.update().where(facts.c.name == "tried").values(value=another))
        return not self._failed

    @property
    def behind(self) -> bool:
        """Whether MOST_WAITING rows wait to be written, so that no more may come."""
        return self._queue.qsize() >= MOST_WAITING

    @property
    def pressed(self) -> bool:
        """Whether whoever brings more rows should wait: many are there already, and they are being written."""
        return self._queue.qsize() >= PRESSED and not self._failed

    async def room(self) -> None:
        """Wait until the rows that are there are few enough, so that a flood of them is slowed down, not refused."""
        until = time.monotonic() + PATIENCE
        while self.pressed and time.monotonic() < until:
            await asyncio.sleep(PAUSE)

    @contextmanager
    def _watched(self, *, reading: bool = False) -> Iterator[None]:
        """Notice whether the database answers; a full one can still be read."""
        try:
            yield
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InternalError):
            self._failed = True
            self._engine.dispose()  # its connections may lead to a server that is no longer written to
            raise
        self._failed = self._failed and reading

    def later(self, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Write a row soon, in a group with others."""
        self._queue.put((table, dict(row)))

    def flush(self) -> None:
        """Return when everything given to `later` is written."""
        done = threading.Event()
        self._queue.put(done)
        self._hurry.set()
        done.wait(10)

    def close(self) -> None:
        """Write what waits, if the database is there, and close."""
        self._closing.set()
        self._queue.put(None)
        self._hurry.set()
        self._thread.join(10)
        self._engine.dispose()

    def _fact(self, name: str, default: str) -> str:
        known = sa.select(facts.c.value).where(facts.c.name == name)
        with self.begin() as connection:
            found = connection.execute(known).scalar()
            if found is not None:
                return str(found)
        try:
            with self.begin() as connection:
                connection.execute(facts.insert().values(name=name, value=default))
        except sa.exc.IntegrityError:  # another process was first
            pass
        with self.begin() as connection:
            return str(connection.execute(known).scalar_one())

    def _write(self) -> None:
        """Write what comes, in groups; while a group gathers, this thread sleeps, so that no row wakes it."""
        open_, full = True, False
        while open_:
            waiting: list[tuple[sa.Table, dict[str, Any]]] = []
            events: list[threading.Event] = []
            item = self._queue.get()
            if not full:
                self._hurry.wait(FLUSH_SECONDS)
            self._hurry.clear()
            with suppress(queue.Empty):
                while True:
                    if item is None:
                        open_ = False
                    elif isinstance(item, threading.Event):
                        events.append(item)
                    else:
                        waiting.append(item)
                    if not open_ or len(waiting) >= GROUP:
                        break
                    item = self._queue.get_nowait()
            full = len(waiting) >= GROUP
            self._keep(waiting)
            for event in events:
                event.set()

    def _keep(self, waiting: Sequence[tuple[sa.Table, dict[str, Any]]]) -> None:
        grouped: dict[str, tuple[sa.Table, list[dict[str, Any]]]] = {}
        for table, row in waiting:
            grouped.setdefault(table.name, (table, []))[1].append(row)
        while grouped:
            try:
                with self.begin() as connection:
                    for table, rows in grouped.values():
                        connection.execute(table.insert(), rows)
                return
            except sa.exc.DBAPIError:  # the database is away
                if self._closing.wait(RETRY_SECONDS):
                    return


def _engine(address: str) -> sa.Engine:
    """What connects to an address: PostgreSQL's own form, as for ledgers, or SQLAlchemy's."""
    if address.startswith(("postgresql://", "postgres://")):
        return sa.create_engine("postgresql+psycopg://", creator=lambda: _connected(address), pool_pre_ping=True)
    engine = sa.create_engine(address, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":
        if (file := engine.url.database) and not file.startswith((":memory:", "file:")):
            _own(Path(file))
        sa.event.listen(engine, "connect", _durable)
    return engine


def _own(path: Path) -> None:
    """Make a file readable by its owner alone: it holds the secret that signs sessions, and everybody's questions.

    SQLite gives the files that it makes beside it the same mode.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):  # another owner's, who chose its mode
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def _connected(address: str) -> Any:
    import psycopg

    return psycopg.connect(**network_settings(address), application_name="maquette state")


def _durable(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA busy_timeout = 10000")
    cursor.close()


def now() -> float:
    """The time of day, for people; nothing about budgets depends on it."""
    return time.time()


def as_text(value: Mapping[str, Any]) -> str:
    """Facts as they are stored."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
