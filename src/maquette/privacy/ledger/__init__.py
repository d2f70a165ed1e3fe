"""The durable account of a table's budget: reserve, evaluate, commit, release."""

from maquette.privacy.ledger.api import (
    Charge,
    Ledger,
    Receipt,
    Recorded,
    Request,
    Terms,
    Ticket,
)
from maquette.privacy.ledger.inspection import Account, inspect
from maquette.privacy.ledger.recovery import Recovery, recover
from maquette.privacy.ledger.sqlite import SqliteLedger

__all__ = [
    "Account",
    "Charge",
    "Ledger",
    "Receipt",
    "Recorded",
    "Recovery",
    "Request",
    "SqliteLedger",
    "Terms",
    "Ticket",
    "inspect",
    "recover",
]
