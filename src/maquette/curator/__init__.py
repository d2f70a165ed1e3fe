"""The wall: the only rooms with raw rows. Outside, import from here and from nowhere deeper."""

from maquette.curator.curator import Curator, Law, Mechanism, Question
from maquette.curator.guard import Guard
from maquette.curator.lazy_guard import LazyGuard
from maquette.curator.open import open_table
from maquette.curator.results import Chosen, Errors, Measurement, Tested
from maquette.curator.table import PrivateTable

__all__ = [
    "Chosen",
    "Curator",
    "Errors",
    "Guard",
    "Law",
    "LazyGuard",
    "Measurement",
    "Mechanism",
    "PrivateTable",
    "Question",
    "Tested",
    "open_table",
]
