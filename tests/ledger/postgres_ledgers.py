"""Terms, key and requests of the tests of ledgers in PostgreSQL."""

from __future__ import annotations

from typing import Any

from maquette.privacy.ledger import Request, Terms

TERMS = Terms(table="ab" * 32, schema="cd" * 32, relation="add-remove", currency="pure", limit=1_000)
KEY = bytes(range(32))


def asked(id: str, units: int = 10, analyst: str = "ada", **given: Any) -> Request:  # noqa: A002
    """A request of `units`."""
    return Request(**{"id": id, "analyst": analyst, "digest": "q", "units": units, "description": "{}", **given})
