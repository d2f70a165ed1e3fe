"""The private distinguishers by name; others have an entry point under `maquette.distinguishers`, or are given."""

from __future__ import annotations

from typing import Literal, cast

from maquette.distinguisher.api import Distinguisher
from maquette.distinguisher.worst_cell import WorstCell
from maquette.errors import QueryError
from maquette.extensions import choices, find

DISTINGUISHERS: dict[str, Distinguisher] = {
    "exponential": WorstCell("exponential"),
    "permute-and-flip": WorstCell("permute-and-flip"),
    "signed": WorstCell("auto", signed=True),
}
GROUP: Literal["maquette.distinguishers"] = "maquette.distinguishers"


def distinguisher_of(given: str | Distinguisher) -> Distinguisher:
    """The distinguisher of a name, built-in or of an installed package; or the given object itself."""
    found = DISTINGUISHERS.get(given) or find(GROUP, given, DISTINGUISHERS) if isinstance(given, str) else given
    if found is None:
        raise QueryError(f"distinguisher is {given!r}", expected=f"one of {choices(GROUP, DISTINGUISHERS)}")
    made = found() if isinstance(found, type) else found
    if not callable(getattr(made, "point", None)) or not callable(getattr(made, "error", None)):
        raise QueryError(f"{made!r} is not a distinguisher", expected="an object with `point` and `error`")
    return cast("Distinguisher", made)
