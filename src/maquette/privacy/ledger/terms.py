"""Terms of a ledger: stored in its first event; another table, schema, relation or budget is refused."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from maquette.errors import LedgerMismatch
from maquette.privacy.ledger.api import Terms
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.replay import FORMAT, Replay
from maquette.privacy.units import UNITS_PER_ONE

_CURRENCIES = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu squared"}


def founding(keyed_terms: Terms) -> Entry:
    """The first event. Its random name separates ledgers with the same key: no event of one is valid in the other."""
    return Entry("terms", {**_bound(keyed_terms), "name": secrets.token_hex(16)})


def keyed(terms: Terms, chain: Chain) -> Terms:
    """The terms as they may be stored and shown: with the digest of the data under the ledger's key."""
    return replace(terms, table=chain.fingerprint(terms.table))


def _bound(keyed_terms: Terms) -> dict[str, Any]:
    return {"format": FORMAT, **keyed_terms.facts}


def admit(replay: Replay, keyed_terms: Terms) -> None:
    """Refuse a stored ledger that was made for other terms; version 0.1 had another format."""
    _compare({**replay.terms, **({} if replay.headed else {"format": FORMAT})}, _bound(keyed_terms))


def compare_terms(made_for: Terms, keyed_terms: Terms) -> None:
    """Refuse terms other than those that a ledger was made for."""
    _compare(_bound(made_for), _bound(keyed_terms))


def _compare(stored: dict[str, Any], bound: dict[str, Any]) -> None:
    different = {name for name, value in bound.items() if stored.get(name) != value}
    if not different:
        return
    if different & {"schema", "relation"}:  # the fingerprint of the rows depends on both
        different.discard("table")
    details = [_difference(name, stored, bound) for name in bound if name in different]
    raise LedgerMismatch(
        f"the ledger was made for something else: {'; '.join(details)}",
        advice="Open it with what it was made for, or start "
        "a new ledger if this is a new release; the same rows under two ledgers spend two budgets",
    )


def _difference(name: str, stored: dict[str, Any], bound: dict[str, Any]) -> str:
    if name == "table":
        return "the data (its fingerprint differs)"
    if name == "schema":
        return f"the schema changed since the ledger was made (digest {stored[name][:8]}, now {bound[name][:8]})"
    if name == "limit":
        meant = ", which is what a budget's epsilon and delta come to" if bound["currency"] == "zcdp" else ""
        return f"the ledger has {_limit(stored)}, this opening {_limit(bound)}{meant}"
    return f"the {name} (the ledger has {stored.get(name)}, this opening {bound[name]})"


def _limit(terms: dict[str, Any]) -> str:
    """A limit as text for people: `limit 1 of epsilon`."""
    unit = _CURRENCIES.get(terms["currency"], "epsilon" if terms["currency"].startswith("basic") else terms["currency"])
    return f"limit {terms['limit'] / UNITS_PER_ONE:.16g} of {unit}"
