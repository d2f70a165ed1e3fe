"""Settings of a connection: `SET maquette.alpha = 0.01`, and those of PostgreSQL that clients send at their start.

Settings of PostgreSQL are kept and shown, and change nothing, except `client_min_messages`, which silences notices.
Output is always UTF-8, ISO dates and standard strings; a client that wants something else is told so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from maquette.service.pgwire.sqlstate import Problem

SERVER_VERSION = "15.0"
VERSION_TEXT = "PostgreSQL 15.0 (Maquette: answers under differential privacy)"
UNLIMITED = "unlimited"

PRESET = {
    "server_version": (SERVER_VERSION, "Version of PostgreSQL whose protocol and catalogue are spoken"),
    "server_version_num": ("150000", "The same as a number"),
    "server_encoding": ("UTF8", "Encoding of the server"),
    "is_superuser": ("off", "Nobody is"),
    "integer_datetimes": ("on", "Times are whole numbers"),
    "in_hot_standby": ("off", "There is no standby"),
    "max_identifier_length": ("63", "Longest name"),
    "max_index_keys": ("32", "There are no indexes"),
    "block_size": ("8192", "Without meaning here"),
    "lc_collate": ("C.UTF-8", "Order of texts"),
    "lc_ctype": ("C.UTF-8", "Kinds of letters"),
    "data_checksums": ("off", "Without meaning here"),
    "transaction_read_only": ("on", "Nothing can be written"),
    "ssl": ("on", "Encryption is offered where the service has a certificate"),
}
STANDARD = {
    "client_encoding": ("UTF8", "Encoding of texts on the wire"),
    "datestyle": ("ISO, MDY", "How dates are written"),
    "timezone": ("UTC", "Time zone"),
    "intervalstyle": ("postgres", "How durations are written"),
    "standard_conforming_strings": ("on", "Backslashes in texts are letters"),
    "application_name": ("", "Name of the program that is connected"),
    "client_min_messages": ("notice", "Which notices are sent"),
    "search_path": ('"$user", public', "Schemas that need not be named"),
    "extra_float_digits": ("1", "Numbers are always written in full"),
    "bytea_output": ("hex", "How bytes are written"),
    "transaction_isolation": ("read committed", "Without meaning here"),
    "default_transaction_isolation": ("read committed", "Without meaning here"),
    "default_transaction_read_only": ("on", "Nothing can be written"),
    "statement_timeout": ("0", "Without meaning here"),
    "lock_timeout": ("0", "Without meaning here"),
    "idle_in_transaction_session_timeout": ("0", "Without meaning here"),
    "row_security": ("off", "Without meaning here"),
    "geqo": ("on", "Without meaning here"),
    "ksqo": ("on", "Without meaning here"),
    "jit": ("off", "Without meaning here"),
    "enable_seqscan": ("on", "Without meaning here"),
    "default_table_access_method": ("heap", "Without meaning here"),
    "max_parallel_workers_per_gather": ("0", "Without meaning here"),
    "role": ("none", "Without meaning here"),
    "session_authorization": ("default", "Without meaning here"),
    "synchronize_seqscans": ("off", "Without meaning here"),
    "xmloption": ("content", "Without meaning here"),
    "default_tablespace": ("", "Without meaning here"),
    "check_function_bodies": ("on", "Without meaning here"),
    "quote_all_identifiers": ("off", "Without meaning here"),
}
OWN = {
    "maquette.alpha": ("default", "Largest error of a count, as a fraction of rows"),
    "maquette.confidence": ("default", "Probability with which an interval covers its number"),
    "maquette.max_cost": (
        "default",
        "Most that you may spend on a table, on all connections, in epsilon; or unlimited",
    ),
    "maquette.intervals": ("off", "Whether every number is followed by columns with the ends of its interval"),
    "maquette.sample_rows": ("1000", "How many synthetic rows stand for a table"),
    "maquette.request": ("", "Name of the next question, under which it is paid at most once"),
}
_OURS = "Ours are " + ", ".join([*OWN, "maquette.budget (to SHOW)"])
REPORTED = (
    *("server_version", "server_encoding", "client_encoding", "application_name", "is_superuser", "DateStyle"),
    *("IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings", "in_hot_standby"),
    *("default_transaction_read_only", "session_authorization"),
)
_UTF8 = {"utf8", "utf-8", "unicode", "auto", "default"}
_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
ALIASES = {"transaction isolation level": "transaction_isolation", "time zone": "timezone", "names": "client_encoding"}


def fraction(text: str) -> float | None:
    """A number between 0 and 1; None for the default."""
    if text == "default":
        return None
    number = _number(text)
    if not 0 < number < 1:
        raise Problem("22023", f"{text[:40]!r} is not a number between 0 and 1")
    return number


def cap(text: str) -> float | None:
    """A cost in epsilon: None for the default, infinite for unlimited."""
    if text == "default":
        return None
    if text == UNLIMITED:
        return math.inf
    number = _number(text)
    if not 0 <= number < math.inf:
        raise Problem("22023", f"{text[:40]!r} is not a cost", hint="write an epsilon such as 0.05, or unlimited")
    return number


def switch(text: str) -> bool:
    """on or off."""
    word = text.lower()
    if word not in ("on", "off", "true", "false", "yes", "no", "1", "0", "default"):
        raise Problem("22023", f"{text[:40]!r} is neither on nor off")
    return word in ("on", "true", "yes", "1")


def rows(text: str) -> int:
    """A number of synthetic rows."""
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= 100_000:
        raise Problem("22023", f"{text[:40]!r} is not a number of rows", detail="expected 1 to 100,000")
    return int(text)


def request(text: str) -> str | None:
    """The name of a request; None if there is none."""
    if len(text) > 200 or not text.isprintable():
        raise Problem("22023", "the name of a request has 1 to 200 letters that can be printed")
    return text or None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise Problem("22023", f"{text[:40]!r} is not a number") from None
    return number


_CHECKS: dict[str, Callable[[str], object]] = {
    "maquette.alpha": fraction,
    "maquette.confidence": fraction,
    "maquette.max_cost": cap,
    "maquette.intervals": switch,
    "maquette.sample_rows": rows,
    "maquette.request": request,
}


@dataclass
class Settings:
    """What one connection has set."""

    def __post_init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        """The value of a setting; None if there is none of this name."""
        key = ALIASES.get(name.lower(), name.lower())
        if key in self._values:
            return self._values[key]
        for known in (PRESET, STANDARD, OWN):
            if key in known:
                return known[key][0]
        return None

    def show(self, name: str, *, missing: bool = False) -> str | None:
        """The value of a setting; one that does not exist is refused, or None where it may be missing."""
        value = self.get(name)
        if value is None and not missing:
            hint = _OURS if name.lower().startswith("maquette") else None
            raise Problem("42704", f'unrecognized configuration parameter "{name[:80]}"', hint=hint)
        return value

    def set(self, name: str, value: str | None) -> list[tuple[str, str]]:
        """Set it, or with None set it back; what the client must be told."""
        key = ALIASES.get(name.lower(), name.lower())
        if key in PRESET:
            raise Problem("55P02", f'parameter "{key}" cannot be changed')
        if key.startswith("maquette.") and key not in OWN:
            raise Problem("42704", f'unrecognized configuration parameter "{key[:80]}"', hint=_OURS)
        if value is None or (value.lower() == "default" and key in _CHECKS):
            self._values.pop(key, None)
        else:
            self._check(key, value)
            if key not in self._values and len(self._values) >= 500:
                raise Problem("54000", "this connection has set 500 settings already")
            self._values[key] = value[:2000]
        reported = {one.lower(): one for one in REPORTED}
        return [(reported[key], self.get(key) or "")] if key in reported else []

    def _check(self, key: str, value: str) -> None:
        if key in _CHECKS:
            _CHECKS[key](value)
        elif key == "client_encoding" and value.strip("'\" ").lower() not in _UTF8:
            raise Problem("22023", f"the encoding {value[:40]!r} is not offered", hint="use UTF8")
        elif key == "standard_conforming_strings" and not switch(value):
            raise Problem("0A000", "standard_conforming_strings is always on")
        elif key == "client_min_messages" and value.lower() not in _LEVELS:
            raise Problem("22023", f"{value[:40]!r} is not a level of messages", detail=", ".join(_LEVELS))

    def reset(self) -> None:
        """Everything as it was."""
        self._values.clear()

    @property
    def quiet(self) -> bool:
        """Whether notices are not wanted."""
        return (self.get("client_min_messages") or "notice").lower() in ("warning", "error", "fatal", "panic")

    @property
    def alpha(self) -> float | None:
        """The tolerance for the next questions."""
        return fraction(self.get("maquette.alpha") or "default")

    @property
    def confidence(self) -> float | None:
        """The confidence of the next questions."""
        return fraction(self.get("maquette.confidence") or "default")

    @property
    def max_cost(self) -> float | None:
        """What the analyst may spend on a table through this door; None for the default."""
        return cap(self.get("maquette.max_cost") or "default")

    @property
    def intervals(self) -> bool:
        """Whether the ends of intervals are columns."""
        return switch(self.get("maquette.intervals") or "off")

    @property
    def sample_rows(self) -> int:
        """How many synthetic rows stand for a table."""
        return rows(self.get("maquette.sample_rows") or "1000")

    def take_request(self) -> str | None:
        """The name of the next question, once."""
        return request(self._values.pop("maquette.request", ""))


def described() -> dict[str, tuple[str, str]]:
    """Every setting with its default and its description."""
    return {**PRESET, **STANDARD, **OWN}
