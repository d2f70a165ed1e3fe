from .api import (
    Charge as Charge,
    Ledger as Ledger,
    Receipt as Receipt,
    Recorded as Recorded,
    Request as Request,
    Terms as Terms,
    Ticket as Ticket,
)
from .inspection import Account as Account, inspect as inspect
from .memory import MemoryLedger as MemoryLedger
from .recovery import Recovery as Recovery, recover as recover
from .sqlite import SqliteLedger as SqliteLedger
