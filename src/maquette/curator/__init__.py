"""The wall: the only rooms with raw rows. Outside, import from here and from nowhere deeper."""

from maquette.curator.compile import Question
from maquette.curator.curator import Curator
from maquette.curator.deadline import Deadline
from maquette.curator.desk import Law, Mechanism
from maquette.curator.guard import Guard
from maquette.curator.lazy_guard import LazyGuard
from maquette.curator.lottery import Drawn, Lottery
from maquette.curator.noise import ExactNoise, NoiseSource
from maquette.curator.noise import up as round_scale_up
from maquette.curator.open import open_table
from maquette.curator.results import Chosen, Errors, Measurement, Tested
from maquette.curator.sparse_vector import SparseVector
from maquette.curator.sparse_vector import zcdp as sparse_settings
from maquette.curator.table import PrivateTable

__all__ = [
    "Chosen",
    "Curator",
    "Deadline",
    "Drawn",
    "Errors",
    "ExactNoise",
    "Guard",
    "Law",
    "LazyGuard",
    "Lottery",
    "Measurement",
    "Mechanism",
    "NoiseSource",
    "PrivateTable",
    "Question",
    "SparseVector",
    "Tested",
    "open_table",
    "round_scale_up",
    "sparse_settings",
]
