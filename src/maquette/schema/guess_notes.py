"""What a draft says of each column: what it saw, why it chose, and what its reader should check.

The lines are comments above the column in the draft's file. They use rounded bounds and words, not exact counts.
"""

from __future__ import annotations

from maquette.schema.columns import Boolean, Category, Column
from maquette.schema.dates import Date
from maquette.schema.integers import Integer
from maquette.schema.numbers import Number
from maquette.schema.ordered import Numeric

_ORDERS = {
    "ymd": "year first, as in 2024-12-31",
    "dmy": "day first, as in 31.12.2024",
    "mdy": "month first, as in 12/31/2024",
}
_BETWEEN = {" ": "spaces", "'": "apostrophes", ".": "points", ",": "commas"}


def notes_of(column: Column, *extra: str) -> list[str]:
    """Lines about a drafted column; `extra` are remarks of whoever drafted it."""
    seen, chosen, check = _words(column)
    if column.missing:
        seen += f"; missing values are written {', '.join(map(repr, column.missing))}"
    elif column.nullable:
        seen += "; some are empty"
    return [f"saw: {seen}", f"chose: {chosen}", *([f"check: {check}"] if check else []), *extra]


def _words(column: Column) -> tuple[str, str, str]:
    match column:
        case Boolean():
            words = " and ".join([*column.yes, *column.no]) or "words or signs for true and false"
            return words, "yes or no", ""
        case Category():
            number = len(column.levels)
            return (
                f"{number} text{'s' * (number != 1)} that occur{'s' * (number == 1)} often",
                f"a level for each; all other texts become {column.other!r}",
                "add levels that can occur but are not listed; remove levels that you know only from the rows",
            )
        case Date():
            short = f"; two-digit years up to {column.pivot:02d} are read as 20xx" if column.pivot is not None else ""
            what = (
                f"pivot = {column.pivot} decides the century of two-digit years; " if column.pivot is not None else ""
            )
            return (
                f"dates, {_ORDERS[column.order]}{short}",
                f"one level for each {column.unit}, over whole years",
                f"{what}low and high were read from the rows: write years that you would have named without looking",
            )
        case Numeric():
            return _numbers(column)
    return f"values of kind {column.kind}", "this kind", ""


def _numbers(column: Numeric) -> tuple[str, str, str]:
    whole = isinstance(column, Integer) or (isinstance(column, Number) and column.precision == 0)
    seen = "whole numbers" if whole else "numbers"
    if isinstance(column, Number) and column.precision:
        digits, mark = column.precision, "comma" if column.decimal == "," else "point"
        seen += f" with up to {digits} digit{'s' * (digits > 1)} after the decimal {mark}"
    elif column.decimal == "," and not whole:
        seen += " with a decimal comma"
    if column.thousands:
        seen += f", {_BETWEEN[column.thousands]} between thousands"
    if column.marks:
        seen += f", with the marks {', '.join(column.marks)}"
    first, last = (f"{end:,.12g}" for end in (column.boundaries[0], column.ends[1][-1]))
    width = column.width if isinstance(column, Integer) else None
    chosen = (
        f"one level for each whole number from {first} to {last}"
        if width == 1
        else f"bins of {width:,} from {first} to {last}"
        if width is not None
        else f"{column.known - len(column.atoms)} bins from {first} to {last}"
    )
    if isinstance(column, Number) and column.edges is not None:
        chosen += ", narrow for small numbers, because most are small beside the largest"
    if column.atoms:
        listed = ", ".join(f"{atom:,.12g}" for atom in column.atoms)
        own, it = ("a level of its own", "it") if len(column.atoms) == 1 else ("levels of their own", "them")
        chosen += f"; {listed} as {own}, because many rows have {it}"
    check = "low and high were rounded from the rows: write the range that you would have named without looking"
    return seen, chosen, check
