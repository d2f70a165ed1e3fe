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
from maquette.privacy.ledger.sqlite import SqliteLedger

__all__ = [
    "Account",
    "Charge",
    "Ledger",
    "Receipt",
    "Recorded",
    "Request",
    "SqliteLedger",
    "Terms",
    "Ticket",
    "inspect",
]
