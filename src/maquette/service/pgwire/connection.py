"""Connection: one client, from its first byte to its last: simple and extended queries, portals, cancel.

Messages are handled one by one. Whatever may wait or compute runs in a thread; the event loop only moves bytes. In the
extended protocol an error skips to the next Sync. A portal runs once, at its first Execute; later ones go on with its
rows.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from maquette.service.pgwire import codec, sqlstate
from maquette.service.pgwire.binding import values_of
from maquette.service.pgwire.channel import Channel, Gone
from maquette.service.pgwire.codec import ProtocolViolation, format_of
from maquette.service.pgwire.copying import written
from maquette.service.pgwire.desk import Desk
from maquette.service.pgwire.house import House
from maquette.service.pgwire.limits import Limits
from maquette.service.pgwire.login import Cancel, Tls, authenticate, first_message
from maquette.service.pgwire.plans import Plan, Result
from maquette.service.pgwire.script import pieces
from maquette.service.pgwire.settings import REPORTED
from maquette.service.pgwire.sqlstate import Problem, problem_of
from maquette.service.pgwire.wiretypes import Column, encode

if TYPE_CHECKING:
    from maquette.service import Principal

T = TypeVar("T")


@dataclass
class Portal:
    """A statement with its parameters: its result once it ran, and how many rows were sent."""

    plan: Plan
    values: tuple[Any, ...]
    formats: tuple[int, ...]
    result: Result | None = None
    sent: int = 0


@dataclass
class Connection:
    """One client. `others` are all connections of the door by their process number."""

    house: House
    channel: Channel
    limits: Limits
    tls: Tls | None
    others: dict[int, Connection]
    process: int
    secret: int = field(default_factory=lambda: secrets.randbits(32))

    def __post_init__(self) -> None:
        self._desk: Desk | None = None
        self._statements: dict[str, Plan] = {}
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        self._waiter: asyncio.Future[None] | None = None
        self._user = ""
        self._checked = 0.0

    @property
    def desk(self) -> Desk:
        """The desk of an authenticated connection."""
        assert self._desk is not None, "nothing is asked before login"
        return self._desk

    async def serve(self) -> None:
        """Serve the client until it leaves."""
        try:
            async with asyncio.timeout(self.limits.login_seconds):
                principal = await self._login()
            if principal is not None:
                await self._converse()
        except (Gone, TimeoutError):
            pass
        except ProtocolViolation as error:
            self._fatal(Problem("08P01", str(error)))
        except Problem as problem:
            self._fatal(problem)
        except Exception as error:
            self._fatal(problem_of(error))
        finally:
            self.others.pop(self.process, None)
            await self.channel.close()

    def _fatal(self, problem: Problem) -> None:
        self.channel.send(codec.report(b"E", sqlstate.fields(problem, "FATAL")))

    async def refuse(self, problem: Problem) -> None:
        """Tell a client why it is not served, after its first message."""
        try:
            async with asyncio.timeout(self.limits.login_seconds):
                if not isinstance(await first_message(self.channel, self.tls), Cancel):
                    self._fatal(problem)
        except (Gone, TimeoutError, ProtocolViolation, Problem):
            pass
        finally:
            await self.channel.close()

    # Login

    async def _login(self) -> Principal | None:
        given = await first_message(self.channel, self.tls)
        if isinstance(given, Cancel):
            other = self.others.get(given.process)
            if other is not None and secrets.compare_digest(str(other.secret), str(given.secret)):
                other.cancel()
            return None
        principal = await authenticate(
            self.channel, given, self.house.service, tls=self.tls, limits=self.limits, in_thread=self._in_thread
        )
        self._user, self._checked = given["user"], time.monotonic()
        self._desk = Desk(self.house, principal)
        self.desk.forget_statements = self._forget
        self._apply(given)
        for name in REPORTED:
            value = self._user if name == "session_authorization" else self.desk.settings.get(name)
            self.channel.send(codec.parameter_status(name, value or ""))
        self.channel.send(codec.key_data(self.process, self.secret), codec.ready("I"))
        await self.channel.flush()
        await self._in_thread(lambda: self.house.service.note(principal, "pg.login"))
        return principal

    def _apply(self, given: dict[str, str]) -> None:
        """Settings of the startup message; `options` holds them as -c name=value."""
        chosen = {k: v for k, v in given.items() if k not in ("user", "database", "options", "replication")}
        words = given.get("options", "").replace("\\ ", "\0").split()
        for i, word in enumerate(words):
            pair = words[i + 1] if word == "-c" and i + 1 < len(words) else word.removeprefix("-c").removeprefix("--")
            if "=" in pair and word.startswith("-"):
                name, _, value = pair.partition("=")
                chosen[name.replace("-", "_")] = value.replace("\0", " ")
        for name, value in chosen.items():
            self.desk.settings.set(name, value)

    def _forget(self, name: str | None) -> None:
        if name is None:
            self._statements.clear()
        elif self._statements.pop(name, None) is None:
            raise Problem("26000", f'prepared statement "{name[:63]}" does not exist')

    # Threads and cancel

    def cancel(self) -> None:
        """Stop waiting for what runs now."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run in a thread; a request to cancel ends the wait, not the work: a charged question stays recorded."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self.house.pool, work)
        waiter = self._waiter = loop.create_future()
        try:
            await asyncio.wait({future, waiter}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiter = None
        if future.done():
            return future.result()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise Problem(
            sqlstate.CANCELLED,
            "canceling statement due to user request",
            hint="if the question was charged already, asking it again returns the recorded answer",
        )

    async def _still_valid(self) -> None:
        """End the connection of a token that was revoked or has expired."""
        if time.monotonic() - self._checked < self.limits.recheck_seconds:
            return
        mine = self.desk.principal.token
        keys = await self._in_thread(lambda: self.house.service.scram_verifier(self._user).keys)
        current = next((key.principal for key in keys if key.principal.token == mine), None)
        if current is None:
            raise ProtocolViolation("the token of this connection is no longer valid")
        self.desk.principal, self._checked = current, time.monotonic()

    # Messages

    async def _converse(self) -> None:
        handlers = {
            "Q": self._query,
            "P": self._parse,
            "B": self._bind,
            "D": self._describe,
            "E": self._execute,
            "C": self._close,
        }
        while True:
            kind, body = await self.channel.message()
            if kind == "X":
                return
            if kind == "S":
                await self._sync()
            elif kind == "H":
                await self.channel.flush()
            elif kind in handlers:
                if not self._skipping or kind == "Q":
                    await self._handle(handlers[kind], body, simple=kind == "Q")
            elif kind in "dcf":
                continue  # data of a COPY that this server never asked for
            elif kind == "F":
                await self._handle(self._function_call, body, simple=True)
            else:
                raise ProtocolViolation("a message of an unknown kind")

    async def _handle(self, handler: Callable[[bytes], Any], body: bytes, *, simple: bool) -> None:
        try:
            await self._still_valid()
            await handler(body)
        except (Gone, ProtocolViolation):
            raise
        except Exception as error:
            self._failed(error)
            self._skipping = not simple
        if simple:
            await self._sync()

    def _failed(self, error: Exception, text: str = "") -> None:
        problem = problem_of(error, text)
        self.channel.send(codec.report(b"E", sqlstate.fields(problem)))
        if self.desk.transaction == "T":
            self.desk.transaction = "E"

    async def _sync(self) -> None:
        self._skipping = False
        if self.desk.transaction == "I":
            self._portals.clear()
        self.channel.send(codec.ready(self.desk.transaction))
        await self.channel.flush()

    async def _function_call(self, body: bytes) -> None:
        raise Problem("0A000", "function calls of the protocol are not supported")

    # Simple queries

    async def _query(self, body: bytes) -> None:
        text = codec.read_query(body)
        self._portals.pop("", None)
        found = await self._in_thread(lambda: pieces(text))
        if not found:
            self.channel.send(codec.EMPTY_QUERY)
        for piece in found:
            try:
                plan = await self._in_thread(lambda piece=piece: self.desk.plan(piece))  # type: ignore[misc]
                result = await self._run(plan, ())
            except (Gone, ProtocolViolation):
                raise
            except Exception as error:
                problem = problem_of(error, piece.text)
                if problem.position is not None:
                    problem.position += piece.start
                self._failed(problem)
                return
            await self._send_result(result)

    async def _run(self, plan: Plan, values: Sequence[Any]) -> Result:
        if self.desk.transaction == "E" and not plan.ends:
            raise Problem(
                sqlstate.FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )
        result = await self._in_thread(lambda: plan.run(values))
        self._tell(result)
        return result

    def _tell(self, result: Result) -> None:
        if not self.desk.settings.quiet:
            for said in result.notices:
                self.channel.send(codec.report(b"N", sqlstate.fields(said, "NOTICE")))
        for name, value in result.changed:
            self.channel.send(codec.parameter_status(name, value))

    async def _send_result(self, result: Result) -> None:
        if result.copy is not None:
            await self._send_copy(result)
        elif result.columns is not None:
            self.channel.send(codec.row_description([column.field for column in result.columns], ()))
            await self._send_rows(result.columns, result.rows, ())
        self.channel.send(codec.command_complete(result.tag))

    async def _send_rows(
        self, columns: Sequence[Column], rows: Sequence[tuple[Any, ...]], formats: Sequence[int]
    ) -> None:
        kinds = [(column.oid, format_of(formats, i)) for i, column in enumerate(columns)]
        for row in rows:
            cells = [encode(value, oid, form) for value, (oid, form) in zip(row, kinds, strict=True)]
            self.channel.send(codec.data_row(cells))
            if self.channel.full:
                await self.channel.flush()

    async def _send_copy(self, result: Result) -> None:
        assert result.copy is not None, "this is a COPY"
        assert result.columns is not None, "a COPY has columns"
        self.channel.send(codec.copy_out(len(result.columns), binary=result.copy.form == "binary"))
        for piece in written(result.columns, result.rows, result.copy):
            self.channel.send(codec.copy_data(piece))
            if self.channel.full:
                await self.channel.flush()
        self.channel.send(codec.COPY_DONE)

    # Extended queries

    async def _parse(self, body: bytes) -> None:
        message = codec.read_parse(body)
        if message.name and message.name in self._statements:
            raise Problem("42P05", f'prepared statement "{message.name[:63]}" already exists')
        if len(self._statements) >= self.limits.statements and message.name:
            raise Problem("54000", f"this connection has {self.limits.statements} prepared statements already")
        self._statements.pop("", None) if not message.name else None
        plan = await self._in_thread(lambda: self._planned(message))
        self._statements[message.name] = plan
        self.channel.send(codec.PARSE_COMPLETE)

    def _planned(self, message: codec.Parse) -> Plan:
        found = pieces(message.text)
        if not found:
            return Plan("", lambda values: Result(""))
        if len(found) > 1:
            raise Problem("42601", "cannot insert multiple commands into a prepared statement")
        try:
            return self.desk.plan(found[0], message.types)
        except Exception as error:
            raise problem_of(error, message.text) from None

    def _statement(self, name: str) -> Plan:
        plan = self._statements.get(name)
        if plan is None:
            raise Problem("26000", f'prepared statement "{name[:63]}" does not exist')
        return plan

    def _portal(self, name: str) -> Portal:
        portal = self._portals.get(name)
        cursor = self.desk.cursors.get(name)
        if portal is None and cursor is not None:  # a cursor of DECLARE is a portal as well
            columns = cursor.result.columns
            return Portal(Plan(name, lambda values: cursor.result, lambda: columns), (), (), cursor.result, cursor.at)
        if portal is None:
            raise Problem("34000", f'portal "{name[:63]}" does not exist')
        return portal

    async def _bind(self, body: bytes) -> None:
        message = codec.read_bind(body)
        plan = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise Problem("42P03", f'portal "{message.portal[:63]}" already exists')
        if len(self._portals) >= self.limits.portals:
            raise Problem("54000", f"this connection has {self.limits.portals} portals already")
        values = values_of(message.values, lambda i: format_of(message.formats, i), plan.types)
        self._portals[message.portal] = Portal(plan, values, message.results)
        self.channel.send(codec.BIND_COMPLETE)

    async def _describe(self, body: bytes) -> None:
        target = codec.read_target(body)
        if target.kind == "S":
            plan, formats = self._statement(target.name), ()
            self.channel.send(codec.parameter_description(plan.types))
        else:
            portal = self._portal(target.name)
            plan, formats = portal.plan, portal.formats  # type: ignore[assignment]
        columns = await self._in_thread(lambda: plan.columns)
        if columns is None:
            self.channel.send(codec.NO_DATA)
        else:
            _check_formats(formats, columns)
            self.channel.send(codec.row_description([column.field for column in columns], formats))

    async def _execute(self, body: bytes) -> None:
        message = codec.read_execute(body)
        portal = self._portal(message.portal)
        if not portal.plan.text:
            self.channel.send(codec.EMPTY_QUERY)
            return
        if portal.result is None:
            portal.result = await self._run(portal.plan, portal.values)
        result = portal.result
        if result.copy is not None:
            await self._send_copy(result)
            self.channel.send(codec.command_complete(result.tag))
            return
        if result.columns is None:
            self.channel.send(codec.command_complete(result.tag))
            return
        _check_formats(portal.formats, result.columns)
        end = len(result.rows) if message.limit == 0 else min(portal.sent + message.limit, len(result.rows))
        rows, portal.sent = result.rows[portal.sent : end], end
        await self._send_rows(result.columns, rows, portal.formats)
        if message.limit and len(rows) == message.limit:
            self.channel.send(codec.SUSPENDED)
        else:
            verb = result.tag.split(" ")[0]
            self.channel.send(
                codec.command_complete(f"{verb} {len(rows)}" if verb in ("SELECT", "FETCH") else result.tag)
            )

    async def _close(self, body: bytes) -> None:
        target = codec.read_target(body)
        if target.kind == "S":
            self._statements.pop(target.name, None)
        else:
            self._portals.pop(target.name, None)
        self.channel.send(codec.CLOSE_COMPLETE)


def _check_formats(formats: Sequence[int], columns: Sequence[Column]) -> None:
    if len(formats) > 1 and len(formats) != len(columns):
        raise ProtocolViolation("a bind message has another number of result formats than there are columns")
