"""Service: the engine room behind every door: tables, people, jobs and the state they share. It knows no protocol.

    with Service(config) as service:
        principal = service.authenticate(token)
        service.tables["people"].ask(principal, "SELECT count(*) FROM people WHERE age >= 65")

`start` checks the configuration in full, then opens every table; `close` finishes what waits and closes the ledgers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from logging import WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from maquette.errors import MaquetteError
from maquette.service import state as kept
from maquette.service.config import DEMO, HoldoutConfig, ServiceConfig, TableConfig
from maquette.service.drafts import Drafts
from maquette.service.errors import ConfigError, Unauthenticated, Unavailable
from maquette.service.holdouts import ServedHoldout, no_holdout
from maquette.service.jobs import Jobs
from maquette.service.origins import shared_rows
from maquette.service.people import People
from maquette.service.principals import Principal, no_table
from maquette.service.publishing import Publisher
from maquette.service.rates import Rates
from maquette.service.registering import Registrar
from maquette.service.served import ServedTable
from maquette.service.state import State, as_text, now
from maquette.service.telemetry import Telemetry
from maquette.service.tokens import Scram

if TYPE_CHECKING:
    from maquette.curator import PrivateTable
    from maquette.privacy.ledger import LedgerSource

CUSTODIAN = "custodian"


class Service:
    """All tables of one configuration, and who may ask them."""

    def __init__(self, config: ServiceConfig, *, clock: Callable[[], float] = time.time) -> None:
        self.config = config
        self._clock = clock
        self._tables: dict[str, ServedTable] = {}
        self._holdouts: dict[str, ServedHoldout] = {}
        self._state: State | None = None
        self._people: People | None = None
        self._jobs: Jobs | None = None
        self._publisher: Publisher | None = None
        self.drafts = Drafts(self)
        self.registrar = Registrar(self)
        self.rates = Rates(config)
        self.telemetry = Telemetry(traced=config.opentelemetry)
        self.stopping = False

    @property
    def tables(self) -> Mapping[str, ServedTable]:
        """The tables by name, in the order of the configuration."""
        return self._tables

    def table(self, principal: Principal, name: str) -> ServedTable:
        """A table that this principal may see; NotFound otherwise."""
        found = self._tables.get(name)
        if found is None:
            raise no_table(name)
        principal.require_table(name)
        return found

    @property
    def holdouts(self) -> Mapping[str, ServedHoldout]:
        """The holdouts by name."""
        return self._holdouts

    def holdout(self, principal: Principal, name: str) -> ServedHoldout:
        """A holdout that this principal may see; NotFound otherwise."""
        found = self._holdouts.get(name)
        if found is None or (principal.tables is not None and name not in principal.tables):
            raise no_holdout(name)
        return found

    @property
    def people(self) -> People:
        """Who holds which token."""
        if self._people is None:
            raise Unavailable("the service has not started")
        return self._people

    @property
    def state(self) -> State:
        """What the service remembers beside the ledgers."""
        if self._state is None:
            raise Unavailable("the service has not started")
        return self._state

    @property
    def jobs(self) -> Jobs:
        """Long work, and its progress."""
        if self._jobs is None:
            raise Unavailable("the service has not started")
        return self._jobs

    @property
    def publisher(self) -> Publisher:
        """Makes releases and keeps them."""
        if self._publisher is None:
            raise Unavailable("the service has not started")
        return self._publisher

    def authenticate(self, token: str | None) -> Principal:
        """Whose token this is; Unauthenticated if it is not valid now."""
        return self.people.authenticate(token)

    def scram_verifier(self, user: str) -> Scram:
        """What a SCRAM-SHA-256 exchange with this user needs: salt, iterations, keys; `Scram.prove` checks a proof."""
        return self.people.scram(user)

    def start(self) -> None:
        """Check the configuration in full, then open everything; on failure nothing stays open."""
        self.config.check()
        try:
            self.config.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._state = State(self.config.state or f"sqlite:///{self.config.directory / 'state.db'}")
            opened = lambda: (*self._tables, *self._holdouts)  # noqa: E731
            self._people = People(self.config, self._state, self._clock, opened)
            for holdout in (*self.config.holdouts, *self.registrar.registered()):
                self.hold(holdout)
            self._jobs = Jobs(self._state, self.config.limits.jobs)
            self._publisher = Publisher(self.config.directory, self._jobs)
            tables = (*self.config.tables, *self.drafts.opened())
            for table in tables:
                with told_of(f"table {table.name!r}" if len(tables) > 1 else None):
                    self.open(table)
            self.erase()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | sa.exc.DBAPIError):
                raise unusable(error) from None
            raise

    def open(self, config: TableConfig) -> None:
        """Open one more table, with its releases and the limits of its analysts; its rows are no other table's."""
        for problem in self.shared(config):
            raise ConfigError(problem, advice="Nothing was charged")
        served = self._open(config)
        if served.schema.guessed:
            self.note(None, "draft trusted", table=config.name)
        self._let_in(served)

    def mend(self) -> bool:
        """Open every table again whose ledger has stopped, as a restart would; whether all of them are open.

        The ledger is verified, and what was reserved and not answered is lost. A ledger stops when a write fails or its
        PostgreSQL goes away; until it can be opened again its table refuses every question, and nothing is charged.
        """
        stopped = [table for table in self._tables.values() if table.stopped and not self.stopping]
        mended = [self._mended(table) for table in stopped]
        return all(mended)

    def _mended(self, table: ServedTable) -> bool:
        table.close()
        served: ServedTable | None = None
        try:
            served = self._open(table.config)
            self._let_in(served)
            self.note(None, "ledger opened again", table=table.name)
        except Exception as error:  # its text may hold anything
            self.telemetry.log(WARNING, "ledger stopped", {"table": table.name, "error": type(error).__name__})
        else:
            self.telemetry.log(WARNING, "ledger opened again", {"table": table.name})
        let_in = self._tables[table.name] is served
        if served is not None and (self.stopping or not let_in):
            served.close()
        return let_in

    def _let_in(self, served: ServedTable) -> None:
        self.publisher.load(served)
        self._set_limits(served)
        self._tables = {**self._tables, served.name: served}

    def shared(self, config: TableConfig | HoldoutConfig) -> list[str]:
        """How the rows of a table or holdout that is not open yet are those of an open one."""
        tables = [table.config for table in self._tables.values()]
        holdouts = [holdout.config for holdout in self._holdouts.values()]
        if isinstance(config, TableConfig):
            return list(shared_rows([*tables, config], holdouts))
        return list(shared_rows(tables, [*holdouts, config]))

    def hold(self, config: HoldoutConfig) -> None:
        """Open one more holdout."""
        held = ServedHoldout(config, self.state, self.config.directory)
        self._holdouts = {**self._holdouts, config.name: held}

    def close(self) -> None:
        """Refuse new work, finish what waits, close every ledger and the state."""
        self.stopping = True
        if self._jobs is not None:
            self._jobs.close()
        for table in self._tables.values():
            table.close()
        for holdout in self._holdouts.values():
            holdout.close()
        if self._state is not None:
            self._state.close()
            self._state = None

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def custodian_token(self) -> str:
        """The custodian's token: the one in the token file if it is still valid, else a new one written there."""
        path = self.config.token_file or self.config.directory / "custodian.token"
        try:
            known = path.read_text(encoding="ascii").strip()
            if self.authenticate(known).role == "custodian":
                return known
        except (OSError, UnicodeDecodeError, Unauthenticated):
            pass
        token, _ = self.people.mint(CUSTODIAN, "custodian", lasting=True)
        try:
            write_secret(path, token)
        except OSError as error:
            raise unusable(error) from None
        return token

    def note(
        self, principal: Principal | None, what: str, *, table: str | None = None, outcome: str = "done", **facts: Any
    ) -> None:
        """Write a line of the audit log: who did what, and how it ended; never a token, an answer or a question."""
        who, role = ("-", None) if principal is None else (principal.account, principal.role)
        self.state.later(
            kept.log,
            {
                "at": now(),
                "who": who,
                "role": role,
                "what": what,
                "table": table,
                "outcome": outcome,
                "facts": as_text(facts),
            },
        )

    def audit_log(self, principal: Principal, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """The audit log, for a custodian or an auditor: the lines about tables that they may see."""
        principal.require("inspect")
        self.state.flush()
        table = kept.log
        chosen = sa.select(table).where(table.c.id > after).order_by(table.c.id).limit(max(1, min(count, 10_000)))
        if principal.tables is not None:
            chosen = chosen.where(table.c.table.in_(sorted(principal.tables)))
        return self.state.rows(chosen)

    def erase(self) -> None:
        """Erase transcripts, replies, log lines and uploads that are older than the settings allow; called hourly."""
        limits, today = self.config.limits, now()
        days = {kept.questions: limits.question_days, kept.replies: limits.question_days, kept.log: limits.log_days}
        with self.state.begin() as connection:
            for table, most in days.items():
                connection.execute(table.delete().where(table.c.at < today - 86_400 * most))
        self.drafts.erase(today - 86_400 * limits.upload_days)

    @property
    def ready(self) -> bool:
        """Whether every ledger answers, the state can be written and the service is not stopping."""
        if self.stopping or self._state is None or not self._state.ready:
            return False
        return bool(self._tables) and all(table.ready for table in self._tables.values())

    def _open(self, config: TableConfig) -> ServedTable:
        from maquette.curator import Curator, settle_bins
        from maquette.privacy import Budget
        from maquette.query import named_table
        from maquette.session import online

        budget = Budget(
            epsilon=config.epsilon,
            delta=config.delta,
            accounting=None if config.accounting == "auto" else config.accounting,
        )
        curator = Curator(
            _rows_of(config),
            budget,
            ledger=self._ledger(config),
            anchor=None if config.ledger_in_postgres else config.anchor,
            relation=config.relation,
            max_rows=config.max_rows,
        )
        try:
            settle_bins(curator, config.bins_epsilon, "bins_epsilon = {} in the settings of the table")
            session = online(
                curator,
                alpha=config.alpha,
                beta=config.beta,
                simultaneous=config.promise == "together",
                name=config.session,
                rows=config.rows,
                deadline=config.fixed_moment,
                table=config.name,
                public=dict(map(named_table, config.public)),
                cuts=config.cuts,
            )
        except BaseException:
            curator.close()
            raise
        return ServedTable(config, curator, session, state=self.state, limits=self.config.limits, rates=self.rates)

    def ledger_file(self, config: TableConfig) -> Path:
        """Where the ledger of a table is kept, unless it is in PostgreSQL."""
        return Path(config.ledger or self.config.directory / f"{config.name}.ledger")

    def _ledger(self, config: TableConfig) -> LedgerSource:
        if config.ledger is None or not config.ledger_in_postgres:
            return str(self.ledger_file(config))
        from maquette.privacy.ledger import PostgresLedger, SharedPostgresLedger

        address = config.ledger
        key = Path(config.ledger_key or self.config.directory / f"{config.name}.key")
        kind = SharedPostgresLedger if config.shared else PostgresLedger
        return lambda terms: kind(address, terms, name=config.name, key_path=key, anchor=config.anchor)

    def _set_limits(self, table: ServedTable) -> None:
        """Write the limits of the configuration into the ledger, which keeps them; a group's name ends in a slash."""
        for group in self.config.groups:
            table.limit(f"{group.name}/", group.epsilon)
        for analyst in self.config.analysts:
            if analyst.epsilon is not None and (analyst.tables is None or table.name in analyst.tables):
                account = analyst.name if analyst.group is None else f"{analyst.group}/{analyst.name}"
                table.limit(account, analyst.epsilon)

    def __repr__(self) -> str:
        return f"Service({len(self._tables)} tables)"


@contextmanager
def told_of(what: str | None) -> Iterator[None]:
    """An error inside the block says what it is about, where that is not clear."""
    try:
        yield
    except MaquetteError as error:
        if what is not None:
            error.happened = f"{what}: {error.happened}"
        raise


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read; the text alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def unusable(error: OSError | sa.exc.DBAPIError) -> ConfigError:
    """A file, or the database of the state, that the service cannot read or write when it starts."""
    if isinstance(error, OSError):
        return ConfigError(
            f"{str(error.filename or 'a file of the service')!r} cannot be used ({error.strerror or error})",
            advice="make room, or give the service's user the right to write there",
        )
    return ConfigError(
        f"the service's state cannot be used ({next(iter(str(error.orig).splitlines()), type(error).__name__)})",
        advice="look for a full or read-only disk, or a database that does not answer at the address `state`",
    )


def _rows_of(config: TableConfig) -> PrivateTable:
    """Open the source of a table."""
    from maquette.curator import open_table
    from maquette.schema import Schema

    if config.source == DEMO:
        from maquette.demo import SCHEMA, survey

        return open_table(survey(), SCHEMA)
    assert config.schema is not None, "the configuration was checked"
    return open_table(
        config.source,
        Schema.load(config.schema),
        privacy_unit=config.unit,
        max_contributions=config.max_contributions,
        missing=config.missing,
        delimiter=config.delimiter,
        planes=config.planes,
        keep_planes=config.keep_planes,
    )
