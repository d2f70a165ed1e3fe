"""Sequence: charges of a session that were in flight together, in the order in which they began."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from maquette.privacy.ledger import Charge

IN_FLIGHT = 64  # charges at the same time


def is_shared(charge: Charge) -> bool:
    """Whether a charge was made where several processes share the ledger: its place is that in the ledger."""
    return "." in charge.id.rpartition(":")[2]


def number_of(charge: Charge) -> int:
    """Its place in the session, by its name."""
    return int(charge.id.rpartition(":")[2])


def in_order(notes: Iterable[tuple[Charge, Any]]) -> Iterator[tuple[Charge, Any]]:
    """Charges by their number in the session; what guards did comes where it was, when nothing was in flight.

    So do charges of several processes, which have no numbers of their own.

    A number was given out only when all numbers `IN_FLIGHT` below it were settled, so few have to be held back.
    """
    held: list[tuple[int, int, Charge, Any]] = []
    for place, (charge, note) in enumerate(notes):
        if note is None or "values" in note or is_shared(charge):
            yield from ((one, its) for _, _, one, its in sorted(held))
            held = []
            yield charge, note
            continue
        heapq.heappush(held, (number_of(charge), place, charge, note))
        if len(held) > IN_FLIGHT:
            *_, first, its = heapq.heappop(held)
            yield first, its
    yield from ((one, its) for _, _, one, its in sorted(held))
