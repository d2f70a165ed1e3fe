"""The configuration of a service: tables, people, doors and limits, checked in full before anything opens.

A file `maquette.toml` holds it; every field below is a setting of that file, under the same name. `docs/operations/`
documents each of them, and a test compares the page with the fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from maquette.errors import MaquetteError
from maquette.schema import files_of, nothing_at
from maquette.service.errors import ConfigError
from maquette.service.origins import shared_files, shared_rows
from maquette.service.principals import ROLES, Role

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
PERSON = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}")
HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[?[0-9A-Fa-f:.]{2,45}\]?")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
DEMO = "demo://survey"


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """One table: where its rows are, what they may hold, its budget, and how its session answers."""

    name: str
    source: str
    schema: str | None = None  # a schema file; the demonstration table brings its own
    epsilon: float
    delta: float = 0.0
    accounting: Literal["auto", "pure", "zcdp", "gdp"] = "auto"
    relation: Literal["add-remove", "replace"] = "add-remove"
    unit: str | None = None
    max_contributions: int = 1
    missing: tuple[str, ...] = ()
    delimiter: str | None = None
    ledger: str | None = None  # a file, or postgresql://...; default: NAME.ledger in the directory
    ledger_key: str | None = None  # the key file of a PostgreSQL ledger; default: NAME.key in the directory
    shared: bool = False  # several processes serve this table at once, through its PostgreSQL ledger
    anchor: str | None = None
    alpha: float = 0.02
    beta: float = 0.05
    promise: Literal["together", "each"] = "together"
    session: str = "online"  # its name in the ledger; another name begins anew, with what is left of the budget
    rows: int | None = None
    deadline: float | Literal["auto", "none"] | None = None  # default: "auto" where max_rows is declared
    max_rows: int | None = None
    public: tuple[str, ...] = ()  # lookup tables for JOIN: NAME=FILE:KEY[,COLUMN:LOW..HIGH]
    cuts: Literal["refuse", "between"] = "refuse"
    bins_epsilon: float | None = None  # charged once for columns declared with bins = "auto"
    planes: str | None = None  # a folder for code planes, where the codes of a large table are kept on disk
    keep_planes: bool = False  # whether the next start reads the planes instead of encoding the source again
    trust_draft: bool = False  # a schema that was drafted by reading the rows is used as it is

    @property
    def ledger_in_postgres(self) -> bool:
        """Whether the ledger is kept by a database."""
        return (self.ledger or "").startswith("postgresql")

    @property
    def fixed_moment(self) -> float | Literal["auto"] | None:
        """The deadline of fresh answers; None if they leave when they are ready.

        Declared bounds are enough for a deadline, so with `max_rows` there is one unless it is switched off.
        """
        if self.deadline is None:
            return None if self.max_rows is None else "auto"
        return None if self.deadline == "none" else self.deadline

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with this table's settings."""
        where = f"table {self.name!r}"
        if not NAME.fullmatch(self.name):
            yield f"{where}: a name has small letters, digits and _, at most 63, and no digit first"
        if self.source == DEMO:
            if self.schema is not None:
                yield f"{where}: the demonstration table has its own schema"
        else:
            yield from self._missing_files(where)
        yield from self._budget_problems(where)
        if not 0 < self.alpha < 1:
            yield f"{where}: alpha is {self.alpha:g}; it lies between 0 and 1"
        if not 0 < self.beta < 1:
            yield f"{where}: beta is {self.beta:g}; it lies between 0 and 1"
        if not self.session or ":" in self.session:
            yield f"{where}: session is {self.session!r}; it is a name without a colon"
        if self.rows is not None and self.rows < 1:
            yield f"{where}: rows is {self.rows}; it is at least 1"
        if self.max_contributions < 1:
            yield f"{where}: max_contributions is {self.max_contributions}; it is at least 1"
        if self.deadline == "auto" and self.max_rows is None:
            yield f'{where}: deadline = "auto" is computed from max_rows, which is not declared'
        if isinstance(self.deadline, int | float) and not 0 < self.deadline <= 3600:
            yield f"{where}: deadline is {self.deadline:g}; it is a number of seconds up to 3600"
        if self.max_rows is not None and self.max_rows < 1:
            yield f"{where}: max_rows is {self.max_rows}; it is at least 1"
        yield from self._ledger_problems(where)
        yield from self._planes_problems(where)

    def _planes_problems(self, where: str) -> Iterator[str]:
        if self.keep_planes and self.planes is None:
            yield f"{where}: keep_planes is set, and planes names no folder to keep them in"
        if self.keep_planes and self.shared:
            yield f"{where}: keep_planes is for one process; processes that share a table write planes of their own"

    def _ledger_problems(self, where: str) -> Iterator[str]:
        if self.shared and not self.ledger_in_postgres:
            yield (
                f"{where}: it is shared by several processes, and its ledger is not in PostgreSQL: set ledger = "
                '"postgresql://...", or leave out shared'
            )
        if self.ledger_in_postgres and len(self.name) > 41:
            yield f"{where}: a ledger in PostgreSQL has the table's name, of at most 41 letters"

    def _missing_files(self, where: str) -> Iterator[str]:
        from maquette.schema import Schema

        if "://" in self.source:
            yield from _address_problems(where, self.source)
        elif not files_of(self.source):
            yield f"{where}: {nothing_at(self.source)}"
        if self.schema is None:
            yield f"{where}: no schema file is named"
        elif not Path(self.schema).is_file():
            yield f"{where}: there is no schema file {self.schema!r}"
        else:
            try:
                declared = Schema.load(self.schema)
            except MaquetteError as error:
                yield f"{where}: {self.schema}: {told(error)}"
            else:
                if declared.guessed and not self.trust_draft:
                    yield (
                        f"{where}: {self.schema!r} is a draft: its bounds and levels were read from the rows, and "
                        "nobody reviewed it. Walk through it with `maquette schema edit`, or delete `guessed = true` "
                        "after a review; trust_draft = true uses it as it is, and every certificate says so"
                    )

    def _budget_problems(self, where: str) -> Iterator[str]:
        from maquette.privacy import Budget

        if self.bins_epsilon is not None and not 0 < self.bins_epsilon < self.epsilon:
            yield f"{where}: bins_epsilon is {self.bins_epsilon:g}; it lies between 0 and epsilon, {self.epsilon:g}"
        try:
            Budget(
                epsilon=self.epsilon,
                delta=self.delta,
                accounting=None if self.accounting == "auto" else self.accounting,
            ).check_private_rows()
        except MaquetteError as error:
            yield f"{where}: {told(error)}"


@dataclass(frozen=True, kw_only=True)
class AnalystConfig:
    """One person: the role, the tables, and the limits of what they may spend on each table and how fast."""

    name: str
    role: Role | None = None  # default: that of the token, or of the provider
    group: str | None = None
    tables: tuple[str, ...] | None = None
    epsilon: float | None = None
    asks_per_minute: int | None = None

    def problems(self, tables: frozenset[str]) -> Iterator[str]:
        """Everything that is wrong with this person's settings."""
        where = f"analyst {self.name!r}"
        if not PERSON.fullmatch(self.name):
            yield f"{where}: a name has letters, digits and . _ @ -, at most 63"
        if self.group is not None and not PERSON.fullmatch(self.group):
            yield f"{where}: group {self.group!r} is not a name"
        if self.role is not None and self.role not in ROLES:
            yield f"{where}: the role is {self.role!r}; it is one of {', '.join(ROLES)}"
        for name in sorted(set(self.tables or ()) - tables):
            yield f"{where}: there is no table {name!r}"
        if self.epsilon is not None and not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            yield f"{where}: epsilon is {self.epsilon:g}; it is 0 or more"
        if self.asks_per_minute is not None and self.asks_per_minute < 1:
            yield f"{where}: asks_per_minute is {self.asks_per_minute}; it is at least 1"


@dataclass(frozen=True, kw_only=True)
class GroupConfig:
    """What all analysts of one group may spend together on each table."""

    name: str
    epsilon: float

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with this group's settings."""
        if not PERSON.fullmatch(self.name):
            yield f"group {self.name!r}: a name has letters, digits and . _ @ -, at most 63"
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            yield f"group {self.name!r}: epsilon is {self.epsilon:g}; it is 0 or more"


@dataclass(frozen=True, kw_only=True)
class HoldoutConfig:
    """A holdout: rows that are used for certified scores and nothing else."""

    name: str
    source: str
    schema: str | None = None  # with a schema, conditions can be asked
    target: str | None = None  # with a target, predictions can be scored
    confidence: float = 0.95
    tolerance: float | None = None

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with this holdout's settings."""
        where = f"holdout {self.name!r}"
        if not NAME.fullmatch(self.name):
            yield f"{where}: a name has small letters, digits and _, at most 63, and no digit first"
        if not self.source.endswith((".csv", ".parquet")) or not Path(self.source).is_file():
            yield f"{where}: there is no .csv or .parquet file {self.source!r}"
        if self.schema is not None and not Path(self.schema).is_file():
            yield f"{where}: there is no schema file {self.schema!r}"
        if self.schema is None and self.target is None:
            yield f"{where}: neither a schema nor a target is named, so nothing can be asked"
        if not 0 < self.confidence < 1:
            yield f"{where}: confidence is {self.confidence:g}; it lies between 0 and 1"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest requests and rates that the service accepts; each is a setting."""

    body_bytes: int = 1_048_576
    header_bytes: int = 16_384
    question_bytes: int = 16_384
    question_depth: int = 64  # brackets within brackets
    questions: int = 1_000  # in one `ask many`
    sample_rows: int = 1_000_000
    upload_bytes: int = 67_108_864  # of a file that a custodian uploads
    unpacked_bytes: int = 1_073_741_824  # what such a file may become once it is unpacked
    connections: int = 2_500
    waiting_asks: int = 1_000  # questions in line for one table
    asks_per_minute: int = 60_000  # of one principal
    wrong_tokens_per_minute: int = 30  # from one address
    jobs: int = 4  # waiting or running, of one table
    request_seconds: float = 60.0
    idle_seconds: float = 30.0
    session_hours: float = 12.0  # of a browser
    token_days: float = 90.0
    question_days: float = 365.0  # how long texts of questions and replies are kept
    log_days: float = 365.0  # how long the audit log is kept
    upload_days: float = 30.0  # how long an uploaded file is kept that was not opened as a table

    def problems(self) -> Iterator[str]:
        """Limits that are not positive."""
        for name, value in vars(self).items():
            if not value > 0:
                yield f"limits: {name} is {value}; it is above 0"


@dataclass(frozen=True, kw_only=True)
class OidcConfig:
    """An OpenID Connect provider whose tokens are accepted beside our own."""

    issuer: str
    audience: str
    name_claim: str = "preferred_username"
    role_claim: str = "maquette_role"
    group_claim: str = "maquette_group"
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    clock_skew: float = 60.0
    allow_http: bool = False  # a provider on this machine, for tests

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with the provider's settings."""
        if not self.issuer.startswith("https://") and not (self.allow_http and self.issuer.startswith("http://")):
            yield f"oidc: the issuer is {self.issuer!r}; it is an https:// address"
        if not self.audience:
            yield "oidc: the audience is empty"
        for name in self.algorithms:
            if not re.fullmatch(r"(RS|ES|PS)(256|384|512)|EdDSA", name):
                yield f"oidc: the algorithm {name!r} is not a signature with a public key"
        if not 0 <= self.clock_skew <= 300:
            yield f"oidc: clock_skew is {self.clock_skew:g}; it is a number of seconds up to 300"


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """Everything a service needs to start. `directory` keeps the ledgers, the state and the releases."""

    directory: Path
    tables: tuple[TableConfig, ...]
    analysts: tuple[AnalystConfig, ...] = ()
    groups: tuple[GroupConfig, ...] = ()
    holdouts: tuple[HoldoutConfig, ...] = ()
    limits: Limits = field(default_factory=Limits)
    oidc: OidcConfig | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    pg_port: int | None = 5433
    hosts: tuple[str, ...] = ()  # further names by which the service is reached, for the Host check
    tls_certificate: str | None = None
    tls_key: str | None = None
    trust_proxy: bool = False  # TLS ends in front of the service
    state: str | None = None  # where tokens and transcripts are kept: default state.db in the directory
    token_file: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    metrics: bool = True
    opentelemetry: bool = False  # send spans and metrics to the collector that OTEL_EXPORTER_OTLP_* names

    def problems(self) -> Iterator[str]:
        """Everything that is wrong, so that one look mends it all."""
        if not self.tables:
            yield "there is no [[table]]"
        kinds: tuple[tuple[str, tuple[Any, ...]], ...] = (
            ("table", (*self.tables, *self.holdouts)),
            ("analyst", self.analysts),
            ("group", self.groups),
        )
        for kind, names in kinds:
            seen: set[str] = set()
            for one in names:
                if one.name in seen:
                    yield f"two {kind}s are called {one.name!r}"
                seen.add(one.name)
        for table in self.tables:
            yield from table.problems()
            yield from self._bins_problems(table)
        yield from shared_rows(self.tables, self.holdouts)
        yield from shared_files(self.tables, self.directory)
        known = self.names
        groups = {group.name for group in self.groups}
        for analyst in self.analysts:
            yield from analyst.problems(known)
            if groups and analyst.group is not None and analyst.group not in groups:
                yield (
                    f"analyst {analyst.name!r}: there is no [[group]] {analyst.group!r}, so nothing would limit it; "
                    f"the groups are {', '.join(sorted(groups))}"
                )
        for group in self.groups:
            yield from group.problems()
        for holdout in self.holdouts:
            yield from holdout.problems()
        yield from self.limits.problems()
        for name in self.hosts:
            if not HOST.fullmatch(name):
                yield f"hosts: {name!r} is not the name of a host: leave out the scheme, the port and the path"
        if self.oidc is not None:
            yield from self.oidc.problems()
        yield from self._door_problems()

    def _bins_problems(self, table: TableConfig) -> Iterator[str]:
        """Bins to be drawn without a price, where no ledger can have drawn them before."""
        from maquette.schema import Schema

        kept = table.ledger or str(self.directory / f"{table.name}.ledger")
        if table.bins_epsilon is not None or table.schema is None or "://" in kept or Path(kept).exists():
            return
        with suppress(MaquetteError):  # a schema that cannot be read is a problem of its own
            if names := Schema.load(table.schema).undrawn:
                yield (
                    f'table {table.name!r}: {", ".join(names)} declared with bins = "auto" and no price: write '
                    f"bins_epsilon = {table.epsilon / 10:.2g}, for example (--bins-epsilon on the command line); it is "
                    "charged once, when the table is first opened"
                )

    def _door_problems(self) -> Iterator[str]:
        if self.opentelemetry:
            from maquette.service.tracing import missing

            for package in missing():
                yield f'opentelemetry is on, and {package} is not installed: pip install "maquette[telemetry]"'
        ports = {"port": self.port, **({} if self.pg_port is None else {"pg_port": self.pg_port})}
        for name, port in ports.items():
            if not 0 <= port <= 65535:
                yield f"{name} is {port}; it lies between 0 and 65535"
        if self.port == self.pg_port and self.port != 0:
            yield f"port and pg_port are both {self.port}"
        if (self.tls_certificate is None) != (self.tls_key is None):
            yield "tls_certificate and tls_key come together"
        for path in filter(None, (self.tls_certificate, self.tls_key)):
            if not Path(path).is_file():
                yield f"there is no file {path!r}"
        if problem := self._tls_problem():
            yield problem
        if self.host not in LOOPBACK and self.tls_certificate is None and not self.trust_proxy:
            yield (
                f"host is {self.host!r}, which others can reach, and there is no tls_certificate: tokens would travel "
                "in plain text. Name a certificate, or set trust_proxy if TLS ends in front of this service"
            )
        if self.directory.exists() and not self.directory.is_dir():
            yield f"directory {str(self.directory)!r} is a file"
        if self.token_file is not None and not self.token_file.parent.is_dir():
            yield f"there is no folder {str(self.token_file.parent)!r} for the token file"

    def _tls_problem(self) -> str | None:
        """A certificate and a key that cannot be used; whatever is missing is a problem of its own."""
        import ssl

        if not (self.tls_certificate and self.tls_key and Path(self.tls_certificate).is_file()):
            return None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_certificate, self.tls_key, lambda: "")
        except FileNotFoundError:
            return None
        except OSError as error:  # ssl.SSLError is one
            why = error.strerror or type(error).__name__
            if "MISMATCH" in str(error):
                why = "the key belongs to another certificate"
            return (
                f"tls_certificate {self.tls_certificate!r} and tls_key {self.tls_key!r} cannot be used: {why}. They "
                "are PEM files, the key without a passphrase, and the service's user can read both"
            )
        return None

    @property
    def names(self) -> frozenset[str]:
        """The names of all tables and holdouts."""
        return frozenset([table.name for table in self.tables] + [holdout.name for holdout in self.holdouts])

    def check(self) -> None:
        """Raise ConfigError with every problem, if there is one; nothing is opened or written."""
        found = list(self.problems())
        if found:
            raise ConfigError(listed(found))

    def analyst(self, name: str) -> AnalystConfig | None:
        """The settings of one person."""
        return next((one for one in self.analysts if one.name == name), None)


def listed(problems: Sequence[str]) -> str:
    """All problems of a configuration, each on a line of its own."""
    lines = "".join(f"\n  - {problem}" for problem in problems)
    count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"nothing was opened: the configuration has {count}:{lines}"


def _address_problems(where: str, source: str) -> Iterator[str]:
    """What is wrong with the address of rows in a database; it may hold a password, so it is not quoted."""
    scheme, _, rest = source.partition("://")
    if scheme not in ("duckdb", "sqlite", "postgresql", "postgres"):
        yield f"{where}: source is an address that nothing reads; it begins with postgresql://, duckdb:// or sqlite://"
    elif "table" not in dict(parse_qsl(rest.partition("?")[2])):
        yield f"{where}: source does not say which table of the database to read; it ends in ?table=NAME"
    elif scheme in ("duckdb", "sqlite") and not Path(file := unquote(rest.partition("?")[0])).is_file():
        yield f"{where}: there is no database file {file!r}"


def told(error: MaquetteError) -> str:
    """An error on one line of the list of problems."""
    happened = error.happened if error.expected is None else f"{error.happened} ({error.expected} was expected)"
    return happened if error.advice is None else f"{happened}; {error.advice}"


def demonstration(directory: Path) -> ServiceConfig:
    """A service on the generated survey, table `survey`."""
    table = TableConfig(name="survey", source=DEMO, epsilon=1.0, delta=1e-9, alpha=0.01)
    return ServiceConfig(directory=directory, tables=(table,))


def load_config(path: Path) -> ServiceConfig:
    """Read `maquette.toml`; names of files in it are relative to its folder."""
    from maquette.service.config_file import read

    return read(path)
