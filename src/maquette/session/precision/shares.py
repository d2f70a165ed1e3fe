"""Shares: how the doubt of a session whose answers all hold together is divided, as its questions come.

The doubt is spent in the order of the charges, each share fixed before the noise it is for is drawn, so all shares add
up to at most one whatever is asked. Numbers measured as asked come first: the first has most of it, since many
sessions ask one question, and the next nine have equal shares. The first charge that buys parts takes half of what is
left for everything that will ever be derived from parts; numbers measured as asked after that share the rest, about
equally for the first five hundred. A guard has a share of its own.
"""

from __future__ import annotations

import math

GUARDED = 0.01
FIRST, NEXT, FEW = 0.64, 0.0305, 10  # shares of the first number measured as asked, and of each until the tenth
_TAIL = 0.02  # of all numbers after these, before any part is bought
DERIVED = 0.5  # of what is left when the first parts are bought; the others are for numbers measured as asked
_EQUAL, _EQUALLY = 512, 0.7  # so many numbers have this share of the rest together, each the same


def alone(number: int) -> float:
    """The share of a number measured as asked before any part was bought; numbered from 1."""
    if number == 1:
        return FIRST
    return NEXT if number <= FEW else _TAIL * _falling(number - FEW)


def left(before: int) -> float:
    """What is left after so many numbers measured as asked."""
    spent = FIRST * (before > 0) + NEXT * max(0, min(before, FEW) - 1)
    return 1.0 - GUARDED - spent - (_TAIL * (1 - 1 / math.sqrt(before - FEW + 1)) if before > FEW else 0.0)


def derived(before: int) -> float:
    """The share of all that is derived from parts, if `before` numbers were measured as asked before the first part."""
    return DERIVED * left(before)


def fresh(number: int, before: int | None) -> float:
    """The share of the given number measured as asked; `before` is None while no part was bought."""
    if before is None or number <= before:
        return alone(number)
    place = number - before
    equal = _EQUALLY / _EQUAL if place <= _EQUAL else 0.0
    return (1 - DERIVED) * left(before) * (equal + (1 - _EQUALLY) * _falling(place))


def guard(number: int) -> float:
    """The share of the given guard; numbered from 1."""
    return GUARDED * 6 / (math.pi * number) ** 2


def _falling(place: int) -> float:
    """A series that adds up to one."""
    return 1 / math.sqrt(place) - 1 / math.sqrt(place + 1)
