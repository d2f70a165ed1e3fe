"""The private distinguishers by name."""

from __future__ import annotations

from maquette.distinguisher.api import Distinguisher
from maquette.distinguisher.worst_cell import WorstCell

DISTINGUISHERS: dict[str, Distinguisher] = {
    "exponential": WorstCell("exponential"),
    "permute-and-flip": WorstCell("permute-and-flip"),
    "signed": WorstCell("auto", signed=True),
}
