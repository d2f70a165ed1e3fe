"""People: who holds which token. Tokens are made, checked, listed and revoked here, and nowhere else."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from maquette.service import state as kept
from maquette.service.config import PERSON, ServiceConfig
from maquette.service.errors import Forbidden, NotFound, Unauthenticated
from maquette.service.oidc import Provider
from maquette.service.principals import ROLES, Principal, Role
from maquette.service.state import State
from maquette.service.tokens import (
    ITERATIONS,
    Scram,
    ScramKey,
    digest_of,
    looks_like_token,
    new_token,
    salt_of,
    scram_keys,
)

CACHED_SECONDS = 5.0  # how long another process may accept a token after it was revoked
CACHED = 10_000


@dataclass(frozen=True, kw_only=True)
class TokenFacts:
    """A token as it may be listed: everything but the token, with what the configuration says of its holder."""

    id: str
    name: str
    role: Role
    group: str | None
    tables: tuple[str, ...] | None
    created: float
    expires: float | None
    revoked: float | None


class People:
    """The tokens of one service. A checked token is remembered for a few seconds."""

    def __init__(
        self,
        config: ServiceConfig,
        state: State,
        clock: Callable[[], float] = time.time,
        opened: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._config = config
        self._opened = opened  # names of tables and holdouts that are not in the configuration
        self._state = state
        self._clock = clock
        self._seen: dict[str, tuple[float, float | None, Principal]] = {}
        self._revocations = 0
        self._lock = threading.Lock()
        self._provider = None if config.oidc is None else Provider(config.oidc, clock)

    def authenticate(self, token: str | None) -> Principal:
        """Whose token this is; Unauthenticated for any that is not valid now, always with the same text."""
        if token is not None and self._provider is not None and token.count(".") == 2:
            return self._scoped(self._provider.authenticate(token))
        if token is None or not looks_like_token(token):
            raise Unauthenticated
        if (known := self.remembered(token)) is not None:
            return known
        digest, now, before = digest_of(token), self._clock(), self._revocations
        table = kept.tokens
        found = self._state.rows(sa.select(table).where(table.c.sha256 == digest))
        if not found or not self._valid(found[0], now):
            with self._lock:
                self._seen.pop(digest, None)
            raise Unauthenticated
        principal = self._principal(found[0])
        with self._lock:
            if len(self._seen) >= CACHED:
                self._seen.clear()
            if self._revocations == before:  # otherwise it may be the one that was revoked while its row was read
                self._seen[digest] = now, found[0]["expires"], principal
        return principal

    def remembered(self, token: str | None) -> Principal | None:
        """Whose token this is, if it was checked a few seconds ago; never waits."""
        seen = None if token is None else self._seen.get(digest_of(token))
        if seen is None:
            return None
        now = self._clock()
        fresh = 0 <= now - seen[0] < CACHED_SECONDS and (seen[1] is None or now < seen[1])
        return seen[2] if fresh else None

    def was_remembered(self, token: str | None) -> bool:
        """Whether this token was checked before, so that checking it again is no stranger's guess; never waits."""
        return token is not None and digest_of(token) in self._seen

    def holder(self, id: str) -> Principal:  # noqa: A002
        """Whose token has this id; Unauthenticated if it is not valid now."""
        found = self._state.rows(sa.select(kept.tokens).where(kept.tokens.c.id == id))
        if not found or not self._valid(found[0], self._clock()):
            raise Unauthenticated
        return self._principal(found[0])

    def scram(self, user: str) -> Scram:
        """What a SCRAM exchange with this user needs; a user who does not exist has a salt and no keys."""
        table, now = kept.tokens, self._clock()
        rows = self._state.rows(sa.select(table).where(table.c.name == user))
        keys = [
            ScramKey(row["stored_key"], row["server_key"], self._principal(row))
            for row in rows
            if self._valid(row, now)
        ]
        return Scram(salt_of(self._state.secret, user), ITERATIONS, tuple(keys))

    def mint(
        self,
        name: str,
        role: Role = "analyst",
        *,
        tables: tuple[str, ...] | None = None,
        group: str | None = None,
        days: float | None = None,
        lasting: bool = False,
    ) -> tuple[str, TokenFacts]:
        """A new token and its facts; the token is shown now and never again. `lasting` ones do not expire."""
        if not PERSON.fullmatch(name) or role not in ROLES or (group is not None and not PERSON.fullmatch(group)):
            raise Forbidden(
                f"no token can be made for {name[:80]!r} with the role {str(role)[:80]!r}",
                expected=f"a name of letters, digits and . _ @ -, and one of the roles {', '.join(ROLES)}",
            )
        for unknown in sorted(set(tables or ()) - self._config.names - set(self._opened())):
            raise NotFound(f"there is no table {unknown[:80]!r} here")
        token, now = new_token(), self._clock()
        life = None if lasting else now + 86_400 * (self._config.limits.token_days if days is None else days)
        stored_key, server_key = scram_keys(token, salt_of(self._state.secret, name))
        row: dict[str, Any] = {
            "id": secrets.token_hex(8),
            "name": name,
            "role": role,
            "group": group,
            "tables": None if tables is None else json.dumps(sorted(tables)),
            "sha256": digest_of(token),
            "stored_key": stored_key,
            "server_key": server_key,
            "created": now,
            "expires": life,
            "revoked": None,
        }
        with self._state.begin() as connection:
            connection.execute(kept.tokens.insert().values(**row))
        return token, self._facts(row)

    def list(self) -> list[TokenFacts]:
        """Every token, newest first, without the tokens."""
        return [
            self._facts(row) for row in self._state.rows(sa.select(kept.tokens).order_by(kept.tokens.c.created.desc()))
        ]

    def revoke(self, id: str, covers: Callable[[Iterable[str] | None], bool] | None = None) -> TokenFacts:  # noqa: A002
        """End a token now; one for tables that its scope does not cover is as if there were none."""
        table = kept.tokens
        if covers is not None and not any(one.id == id and covers(one.tables) for one in self.list()):
            raise NotFound(f"there is no token {id[:80]!r}")
        with self._state.begin() as connection:
            changed = connection.execute(
                table.update().where(table.c.id == id, table.c.revoked.is_(None)).values(revoked=self._clock())
            )
        found = self._state.rows(sa.select(table).where(table.c.id == id))
        if not found:
            raise NotFound(f"there is no token {id[:80]!r}")
        if changed.rowcount:
            with self._lock:
                self._revocations += 1
                self._seen.pop(found[0]["sha256"], None)
        return self._facts(found[0])

    def _valid(self, row: dict[str, Any], now: float) -> bool:
        return row["revoked"] is None and (row["expires"] is None or now < row["expires"])

    def _principal(self, row: dict[str, Any]) -> Principal:
        """The principal of a token, as `_scoped` has it."""
        tables = None if row["tables"] is None else frozenset(json.loads(row["tables"]))
        return self._scoped(
            Principal(name=row["name"], role=row["role"], tables=tables, group=row["group"], token=row["id"])
        )

    def _scoped(self, principal: Principal) -> Principal:
        """A person's role and group in the configuration are theirs whatever the token says; tables narrow its own."""
        settings = self._config.analyst(principal.name)
        if settings is None:
            return principal
        tables = principal.tables
        if settings.tables is not None:
            tables = frozenset(settings.tables) if tables is None else tables & frozenset(settings.tables)
        role, group = settings.role or principal.role, settings.group or principal.group
        return replace(principal, role=role, tables=tables, group=group)

    def _facts(self, row: dict[str, Any]) -> TokenFacts:
        holder = self._principal(row)
        return TokenFacts(
            id=row["id"],
            name=holder.name,
            role=holder.role,
            group=holder.group,
            tables=None if holder.tables is None else tuple(sorted(holder.tables)),
            created=row["created"],
            expires=row["expires"],
            revoked=row["revoked"],
        )
