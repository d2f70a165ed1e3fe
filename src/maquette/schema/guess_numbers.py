"""Guess how texts write numbers: decimal mark, separator of thousands, currency and percent marks, single values.

A style is chosen only if every value is written in it and none is ambiguous: 1.234 may be a thousand or a fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maquette.schema.raw_values import quoted
from maquette.schema.written import number_sql, unmarked_sql, written_as

if TYPE_CHECKING:
    import duckdb

STYLES = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"))
MARKS = ("%", "€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF", "kr", "zł", "Ft")
OFTEN = 0.1  # share of the values from which a single value is drafted as an atom
TOP = 0.003  # the same for the largest value, if it is far above the others: a code, or a limit of the form
FEW = 5  # maximum atoms drafted
CODED, APART = 3, 5  # rows that share a code such as 999.9, and how many times as large as all numbers it must be
PROOF, PLAIN = 20, 3  # different numbers with a mark, and below a thousand without one, that prove thousands
CODES = ((97, 98, 99), (997, 998, 999), (9997, 9998, 9999), (-999, -998, -997, -99, -98, -97, -9, -8, -7, -1))
_THREE = r"^[+-]?\d{1,3}[.,]\d{3}$"


@dataclass(frozen=True)
class Style:
    """How every text of a column writes numbers, and what they are."""

    decimal: str
    thousands: str
    marks: tuple[str, ...]
    whole: bool
    digits: int
    low: float
    high: float
    ambiguous: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a column; what is usual is left out."""
        given = {"decimal": self.decimal, "thousands": self.thousands, "marks": self.marks}
        usual: dict[str, Any] = {"decimal": ".", "thousands": "", "marks": ()}
        return {name: value for name, value in given.items() if value != usual[name]}


def style_of(texts: duckdb.DuckDBPyRelation, known: int) -> Style | None:
    """The style of a column of distinct texts `known` with their counts `seen`; None if no style fits them all."""
    listed = "|".join(rf"\x{{{ord(mark):x}}}" if len(mark) == 1 else mark for mark in MARKS)
    found = texts.filter(f"regexp_matches(known, {quoted(listed)})").project(
        f"unnest(regexp_extract_all(known, {quoted(listed)})) AS mark"
    )
    marks = tuple(sorted({str(row[0]) for row in found.distinct().fetchall()}))
    bare = unmarked_sql("known", marks)
    between = thousands_of(texts, bare)
    for decimal, thousands in STYLES:
        if not (thousands or marks or decimal == ",") or decimal == between:
            continue  # plain numbers are read elsewhere
        number = number_sql("known", decimal, thousands, marks)
        fits = f"regexp_matches({bare}, {quoted(written_as(decimal, thousands))}) AND {number} IS NOT NULL"
        fraction = f"coalesce(length(regexp_extract({bare}, '[{decimal}](\\d*)$', 1)), 0)"
        three = f"regexp_matches({bare}, {quoted(_THREE)})"
        (row,) = (
            texts.filter("known IS NOT NULL")
            .aggregate(
                f"CAST(coalesce(sum(seen) FILTER ({fits}), 0) AS BIGINT), min({number}), max({number}), "
                f"max({fraction}), bool_and({three} OR regexp_matches({bare}, '^[+-]?\\d{{1,3}}$')), bool_or({three})"
            )
            .fetchall()
        )
        fitting, low, high, digits, all_three, some_three = row
        if fitting == known:
            unclear = bool(all_three and some_three) and not between
            return Style(decimal, thousands, marks, not digits, int(digits), float(low), float(high), unclear)
    return None


def thousands_of(texts: duckdb.DuckDBPyRelation, bare: str = "known") -> str:
    """The mark between thousands where numbers below a thousand have none and all others have three digits after it.

    12,345 alone may be a fraction. Beside 100 and 999 it is not: fractions with three digits would be 100,000.
    """
    for mark in (",", "."):
        grouped = rf"^[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}$"
        plain = r"^[+-]?(0|[1-9]\d{0,2})$"
        many, few, others = (
            texts.filter("known IS NOT NULL")
            .aggregate(
                f"count(*) FILTER (regexp_matches({bare}, {quoted(grouped)})), "
                f"count(*) FILTER (regexp_matches({bare}, {quoted(plain)})), "
                f"count(*) FILTER (NOT regexp_matches({bare}, {quoted(grouped)}) "
                f"AND NOT regexp_matches({bare}, {quoted(plain)}))"
            )
            .fetchall()[0]
        )
        if not others and many >= PROOF and few >= PLAIN:
            return mark
    return ""


def without_codes(values: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    """The least and largest of whole numbers in order, and those that look like codes for "no answer".

    Codes are at least two of 97 to 99, 997 to 999 or 9997 to 9999 that lie far above all other values, or negative ones
    such as -9 where every other value is 0 or more.
    """
    for family in CODES:
        codes = tuple(value for value in values if value in family)
        rest = [value for value in values if value not in family]
        if not codes or not rest:
            continue
        above = len(codes) >= 2 and rest[0] >= 0 and 2 * rest[-1] <= codes[0]
        below = codes[-1] < 0 <= rest[0]
        if above or below:
            return rest[0], rest[-1], codes
    return values[0], values[-1], ()


def atoms_of(texts: duckdb.DuckDBPyRelation, known: int, number: str, *, whole: bool) -> list[Any]:
    """Values that many rows share, and a largest value far above all others, in order."""
    values = (
        texts.filter("known IS NOT NULL")
        .project(f"{number} AS n, seen")
        .aggregate("n, CAST(sum(seen) AS BIGINT) AS seen", "n")
    )
    often = values.filter(f"seen >= {OFTEN} * {known}").order("seen DESC, n").limit(FEW).fetchall()
    found = {row[0] for row in often}
    two = values.filter("seen >= 1").order("n DESC").limit(2).fetchall()
    if len(two) == 2 and two[0][1] >= TOP * known and two[0][0] >= 2 * max(two[1][0], 0) > 0:
        found.add(two[0][0])
    return sorted(int(value) if whole else float(value) for value in found)


def top_code(texts: duckdb.DuckDBPyRelation, number: str) -> tuple[list[str], float | None]:
    """How a code such as 999 is written that lies far above all other numbers, and the largest of these.

    A code is made of nines and at least five times as large as the next number; it stands for "no value".
    """
    values = texts.filter("known IS NOT NULL").project(f"{number} AS n, known, seen")
    two = values.aggregate("n, CAST(sum(seen) AS BIGINT) AS seen", "n").order("n DESC").limit(2).fetchall()
    if len(two) < 2:
        return [], None
    (code, often), (rest, _) = two
    if often < CODED or not set(f"{code:.12g}") <= set("9.") or code < APART * max(rest, 1):
        return [], None
    return sorted(str(row[0]) for row in values.filter(f"n = {code!r}").project("known").fetchall()), float(rest)
