"""Shares: how the doubt of a session whose answers all hold together is divided, as its questions come.

The doubt is spent in the order of the charges, each share fixed before the noise it is for is drawn, so all shares add
up to at most one whatever is asked. A number measured as asked takes one place of a falling series; a whole table for
ranges as many as it costs counts, since the price falls by the same amount where each count's share is multiplied by
the same factor. The first place has half of it all, since many sessions ask one question; the first n places together
have 1/2 + 0.49 (1 - n^-POWER). With these, n unrelated questions cost at most 1.31 times what they would with equal
shares, for every n up to ten thousand; no division has less than 1.27 (docs/theory/all-together.md). The first charge
that buys parts takes 0.7 of what is left for everything that will ever be derived from parts, and the places after that
have the rest. Once the number of rows is bought for many counts (`anchor`), the series falls
later. A guard has a share of its own.

A session keeps the division it began with: those that began before there was a choice have `EARLIER`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from maquette.session.precision import anchor as rows

GUARDED = 0.01


class Division(Protocol):
    """How the doubt is divided; places are numbered from 1, and `before` were taken before the first part."""

    centres: bool  # whether counts are measured as what they differ from half of the rows
    derived: float  # of what is left when the first parts are bought; the others are for numbers measured as asked
    weighs: bool  # whether a whole table takes as many places as it costs counts
    bare: bool  # whether tables of one column are read together with the number of rows
    k: float  # of psi

    def left(self, before: int, anchor: int | None = None) -> float:
        """What is left after `before` places; the number of rows was measured after `anchor`, if it was."""
        ...

    def fresh(self, number: int, before: int | None, places: int = 1, anchor: int | None = None) -> float:
        """The share of some places from the given one on; `before` is None while no part was bought."""
        ...


def derived(division: Division, before: int, anchor: int | None = None) -> float:
    """The share of all that is derived from parts, if `before` places were taken before the first part.

    If the number of rows was measured before, its noise may have decided when parts are bought: the least of `psi`.
    """
    early = anchor if anchor is not None and anchor <= before else None
    return division.derived * division.left(before, early) * (1.0 if early is None else rows.least(division.k))


def anchored_after(directs: int, before: int | None) -> int:
    """The place after which the number of rows is measured; one is left out if parts came at the same place.

    So whether parts or the number of rows came first can be told from their places.
    """
    return directs + (before == directs)


def guard(number: int) -> float:
    """The share of the given guard; numbered from 1."""
    return GUARDED * 6 / (math.pi * number) ** 2


class ByPrice:
    """Half of the doubt for the first place; then a series that falls slowly."""

    derived, weighs, centres, bare, k = 0.6, True, False, False, rows.K
    FIRST, POWER = 0.5, 0.295

    def left(self, before: int, anchor: int | None = None) -> float:
        """What is left after `before` places."""
        return (1.0 - GUARDED - self.FIRST) * float(before) ** -self.POWER if before else 1.0 - GUARDED

    def fresh(self, number: int, before: int | None, places: int = 1, anchor: int | None = None) -> float:
        """What the places take away from what is left, or from the part of it that is not for derived answers."""
        share = self.left(number - 1) - self.left(number - 1 + places)
        return share if before is None or number <= before else (1 - self.derived) * share


class FromHalf(ByPrice):
    """The same until the number of rows is bought for many counts; then a series that falls later."""

    derived, centres = 0.7, True
    MANY = 16.0  # places among which shares are then about equal

    def left(self, before: int, anchor: int | None = None) -> float:
        """What is left after `before` places, if a longer series began after the place `anchor`."""
        if anchor is None or before <= anchor:
            return super().left(before)
        return super().left(anchor) / math.sqrt(1 + (before - anchor) / self._many(anchor))

    def _many(self, anchor: int) -> float:
        return self.MANY

    def fresh(self, number: int, before: int | None, places: int = 1, anchor: int | None = None) -> float:
        """The same; numbers after the anchor that do not depend on it have the least of `psi` times this."""
        start = None if anchor is None or number <= anchor else anchor
        share = self.left(number - 1, start) - self.left(number - 1 + places, start)
        return share * (1 - self.derived if before is not None and number > before else 1.0)


class ByRows(FromHalf):
    """The same, with tables of one column that share the number of rows, which may then be bought early."""

    bare, k = True, 0.7
    FEW = 4.0  # places among which shares are about equal where it is bought at once

    def _many(self, anchor: int) -> float:
        return min(self.MANY, max(self.FEW, 2.0 * anchor))


class Earlier:
    """Most of the doubt for the first ten numbers measured as asked; a whole table is one of them."""

    derived, weighs, centres, bare, k = 0.5, False, False, False, rows.K
    FIRST, NEXT, FEW = 0.64, 0.0305, 10  # shares of the first number, and of each until the tenth
    TAIL = 0.02  # of all numbers after these, before any part is bought
    EQUAL, EQUALLY = 512, 0.7  # after the first part EQUAL numbers have this share of the rest, each the same

    def alone(self, number: int) -> float:
        """The share of a number measured as asked before any part was bought."""
        if number == 1:
            return self.FIRST
        return self.NEXT if number <= self.FEW else self.TAIL * _falling(number - self.FEW)

    def left(self, before: int, anchor: int | None = None) -> float:
        """What is left after `before` numbers measured as asked."""
        spent = self.FIRST * (before > 0) + self.NEXT * max(0, min(before, self.FEW) - 1)
        more = before - self.FEW
        return 1.0 - GUARDED - spent - (self.TAIL * (1 - 1 / math.sqrt(more + 1)) if more > 0 else 0.0)

    def fresh(self, number: int, before: int | None, places: int = 1, anchor: int | None = None) -> float:
        """The share of the given number measured as asked; a table has one place."""
        assert places == 1, "every measurement has one number"
        if before is None or number <= before:
            return self.alone(number)
        place = number - before
        equal = self.EQUALLY / self.EQUAL if place <= self.EQUAL else 0.0
        return (1 - self.derived) * self.left(before) * (equal + (1 - self.EQUALLY) * _falling(place))


EARLIER, WHOLE, HALF, NOW = Earlier(), ByPrice(), FromHalf(), ByRows()
DIVISION = 4.0  # the name under which sessions record the division they begin with
DIVISIONS: Mapping[float | None, Division] = {None: EARLIER, 2.0: WHOLE, 3.0: HALF, DIVISION: NOW}


def _falling(place: int) -> float:
    """A series that adds up to one."""
    return 1 / math.sqrt(place) - 1 / math.sqrt(place + 1)
