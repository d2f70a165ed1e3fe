"""Who points at the error: private distinguishers through the curator's doors, and a solver for public data."""

from maquette.distinguisher.api import Distinguisher, Pointed
from maquette.distinguisher.best_response import Clause, Responder, Response, Solver
from maquette.distinguisher.oracle import best_query
from maquette.distinguisher.solver import Conjunction, widest_conjunction
from maquette.distinguisher.worst_cell import WorstCell

DISTINGUISHERS: dict[str, Distinguisher] = {
    "exponential": WorstCell("exponential"),
    "permute-and-flip": WorstCell("permute-and-flip"),
    "signed": WorstCell("auto", signed=True),
}

__all__ = [
    "DISTINGUISHERS",
    "Clause",
    "Conjunction",
    "Distinguisher",
    "Pointed",
    "Responder",
    "Response",
    "Solver",
    "WorstCell",
    "best_query",
    "widest_conjunction",
]
