"""Principal: who asks, in which role, about which tables; and what each role may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from maquette.service.errors import Forbidden, NotFound

Role = Literal["custodian", "analyst", "auditor"]
Right = Literal["look", "ask", "inspect", "publish", "govern"]

ROLES: tuple[Role, ...] = ("custodian", "analyst", "auditor")
RIGHTS: dict[Role, frozenset[Right]] = {
    "custodian": frozenset({"look", "ask", "inspect", "publish", "govern"}),
    "analyst": frozenset({"look", "ask"}),
    "auditor": frozenset({"look", "inspect"}),
}
"""look: schema, own budget, releases; ask: questions that may be charged; inspect: all charges, the audit log and
verification; publish: releases and holdouts; govern: people, tokens and limits."""


@dataclass(frozen=True, kw_only=True)
class Principal:
    """An authenticated person or program. `tables` are the tables it may see, None for all of them.

    `account` is the name its charges carry in the ledger: the group, if it has one, and the name.
    """

    name: str
    role: Role
    tables: frozenset[str] | None = None
    group: str | None = None
    token: str | None = None

    @property
    def account(self) -> str:
        """The analyst of its charges."""
        return self.name if self.group is None else f"{self.group}/{self.name}"

    def may(self, right: Right) -> bool:
        """Whether the role has this right."""
        return right in RIGHTS[self.role]

    def require(self, right: Right) -> None:
        """Refuse what the role may not do."""
        if not self.may(right):
            allowed = ", ".join(role for role in ROLES if right in RIGHTS[role])
            raise Forbidden(f"the role {self.role!r} may not do this", expected=f"one of the roles {allowed}")

    def covers(self, tables: Iterable[str] | None) -> bool:
        """Whether this scope holds all of another; None stands for all tables."""
        return self.tables is None or (tables is not None and self.tables.issuperset(tables))

    def require_all(self) -> None:
        """Refuse what concerns all tables to those who may see some of them."""
        if not self.covers(None):
            raise Forbidden("this token is for some tables only", expected="a token without a list of tables")

    def require_table(self, name: str) -> None:
        """Refuse a table outside the scope; the text is that of a table which does not exist."""
        if self.tables is not None and name not in self.tables:
            raise no_table(name)


def no_table(name: str) -> NotFound:
    """The refusal of a table that does not exist, or that this token may not see."""
    return NotFound(f"there is no table {name[:80]!r} here", advice="GET /v1/tables lists the tables of this token")
