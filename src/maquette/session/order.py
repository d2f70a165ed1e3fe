"""Order: what one charge buys; and the charge on its way (`Flight`)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from maquette.curator import Measurement
from maquette.estimates import Columns
from maquette.query import Contrasts, Marginal
from maquette.session.question import Goal

Components = list[tuple[Columns, Contrasts, float]]
Directs = list[tuple[Goal, Marginal | Contrasts]]
Owned = tuple[Directs, list[tuple[Goal, Components]]]  # measured as asked, and rented


@dataclass(frozen=True)
class Order:
    """What one charge buys: units by part; goals measured as asked; parts rented for a goal."""

    parts: dict[Columns, int]
    directs: dict[str, tuple[Goal, int]]
    rents: dict[str, tuple[Goal, dict[Columns, int]]]

    @property
    def units(self) -> int:
        """The total price."""
        rents = sum(sum(parts.values()) for _, parts in self.rents.values())
        return sum(self.parts.values()) + sum(units for _, units in self.directs.values()) + rents

    @property
    def undone(self) -> Order:
        """The same with negative prices, for whoever counted an order that was then refused."""
        return Order(
            {part: -units for part, units in self.parts.items()},
            {key: (goal, -units) for key, (goal, units) in self.directs.items()},
            {key: (goal, {part: -units for part, units in parts.items()}) for key, (goal, parts) in self.rents.items()},
        )

    def __bool__(self) -> bool:
        return bool(self.parts or self.directs or self.rents)


class Named(NamedTuple):
    """The caller's name of a request, and what it asked.

    `last`: it buys what the rest of a budget allows, which may not be all that was asked.
    """

    text: str
    asked: str
    last: bool = False

    @property
    def note(self) -> dict[str, Any]:
        """As it is recorded with the charge."""
        return {"name": self.text, "asked": self.asked, **({"last": True} if self.last else {})}


@dataclass(eq=False)
class Flight:
    """One charge on its way: its number in the session, its note, and what became of it.

    It is made before it begins, so that whoever made it can give it up at any moment (`Record.give_up`).
    """

    number: int = -1
    request: str = ""
    note: Any = None
    owned: Owned = field(default_factory=lambda: ([], []))
    name: str | None = None
    veiled: int | None = None  # the thread whose block under a deadline it belongs to
    ahead: bool = False  # whether it was planned on charges that were in flight themselves
    seen: tuple[int, int] = (0, 0)  # in a shared ledger: the events up to which charges were read, and taken
    measured: tuple[Measurement, ...] = ()
    outcome: Literal["flying", "measured", "nothing", "unknown"] = "flying"
    turn: threading.Condition | None = None  # on which its thread waits until it is the first in the line


def components(goal: Goal, parts: Iterable[Columns]) -> Components:
    """The contrasts rented for a goal, by part, and the factors that convert them to counts."""
    view = goal.view(cells=False)
    assert view is not None, "only a goal with a view is rented for"
    found = []
    for part in parts:
        component = view.component(part)
        assert component is not None, "only a part that has a component is rented"
        found.append((part, *component))
    return found
