from .api import (
    Charge as Charge,
    Ledger as Ledger,
    Receipt as Receipt,
    Recorded as Recorded,
    Request as Request,
    Terms as Terms,
    Ticket as Ticket,
)
from .book import Book as Book, BookLedger as BookLedger, Storage as Storage, open_book as open_book
from .chain import Chain as Chain, ChainEvent as ChainEvent
from .description import Description as Description
from .exchange import export_ledger as export_ledger, import_to_postgres as import_to_postgres
from .inspection import Account as Account, inspect as inspect
from .memory import MemoryLedger as MemoryLedger, MemoryStorage as MemoryStorage
from .opening import LedgerSource as LedgerSource, open_ledger as open_ledger
from .postgres import PostgresLedger as PostgresLedger
from .recovery import Recovery as Recovery, recover as recover
from .replay import replayed as replayed
from .sqlite import SqliteLedger as SqliteLedger
