"""Helpers of plans: a table as text and as HTML, counts as people write them, and the rows that a target needs."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from operator import index
from typing import SupportsIndex

from maquette.errors import QueryError

Lines = Sequence[Sequence[str]]


def text_table(heading: str, lines: Lines) -> str:
    """A heading and aligned columns; the first line names them."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([heading, *table])


def html_table(heading: str, lines: Lines) -> str:
    """The same for a page."""
    head, *body = lines
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in body)
    return f"<table><caption>{html.escape(heading)}</caption><tr>{cells}</tr>{rows}</table>"


def least_rows(enough: Callable[[int], bool], most: int) -> int | None:
    """The least number of rows that is enough, to three digits and rounded up; None if `most` is not enough.

    If some number of rows is enough, any larger one must be.
    """
    low, high = 0, most
    if not enough(high):
        return None
    while high - low > 1 and high > low * 1.0005:
        middle = math.isqrt(low * high) if low else high >> 7
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    step = int(10 ** max(0, len(str(high)) - 3))
    return min(-(-high // step) * step, most)


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`; a float such as 1e6 is accepted."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, SupportsIndex) or index(number) < least:
        raise QueryError(f"{name} is {value!r}", expected=f"a whole number of at least {least}.")
    return index(number)
