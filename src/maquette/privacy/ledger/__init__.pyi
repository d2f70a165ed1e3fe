from .api import (
    Charge as Charge,
    Ledger as Ledger,
    Overtaken as Overtaken,
    Receipt as Receipt,
    Recorded as Recorded,
    Request as Request,
    SharedLedger as SharedLedger,
    Terms as Terms,
    Ticket as Ticket,
)
from .book import Book as Book, BookLedger as BookLedger, Storage as Storage, open_book as open_book
from .chain import Chain as Chain, ChainEvent as ChainEvent
from .description import Description as Description
from .exchange import export_ledger as export_ledger, read_export as read_export
from .inspection import Account as Account, inspect as inspect
from .memory import MemoryLedger as MemoryLedger, MemoryStorage as MemoryStorage
from .opening import LedgerSource as LedgerSource, open_ledger as open_ledger
from .places import (
    Place as Place,
    moving as moving,
    read_ledger as read_ledger,
    restore_ledger as restore_ledger,
    rotate_key as rotate_key,
    write_ledger as write_ledger,
)
from .postgres import PostgresLedger as PostgresLedger, network_settings as network_settings
from .postgres_shared import SharedPostgresLedger as SharedPostgresLedger
from .recovery import Recovery as Recovery, recover as recover
from .replay import replayed as replayed
from .sqlite import SqliteLedger as SqliteLedger
