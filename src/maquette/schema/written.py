"""How texts write numbers: decimal commas, separators of thousands, currency and percent marks.

A text is read only if it is written exactly as declared: groups of three digits, one decimal mark. So 1.234 is 1234
where points separate thousands, and 1.23 is then refused instead of becoming 123.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.schema.raw_values import number_type_sql, quoted, text_sql

_SPACES = r"[ \x{a0}\x{2009}\x{202f}]"  # the space, and the non-breaking and thin ones of typography
_QUOTES = r"['\x{2019}]"
_SEPARATORS = {",": ",", ".": r"\.", " ": _SPACES, "'": _QUOTES}
SAFE = r"\x{a0}\x{2009}\x{202f} "


def number_sql(identifier: str, decimal: str = ".", thousands: str = "", marks: Sequence[str] = ()) -> str:
    """SQL for the number that a raw value stands for; NULL if it is not written as declared."""
    if not (thousands or marks):
        if decimal == ".":
            return f"TRY_CAST({identifier} AS DOUBLE)"
        text = f"translate(CAST({identifier} AS VARCHAR), ',.', '.?')"
        typed = f"{number_type_sql(identifier)} THEN TRY_CAST({identifier} AS DOUBLE)"
        return f"CASE WHEN {typed} ELSE TRY_CAST({text} AS DOUBLE) END"
    text = unmarked_sql(identifier, marks)
    pattern = quoted(written_as(decimal, thousands))
    bare = f"regexp_replace({text}, {quoted(_SEPARATORS[thousands])}, '', 'g')" if thousands else text
    pointed = f"replace({bare}, ',', '.')" if decimal == "," else bare
    read = f"CASE WHEN regexp_matches({text}, {pattern}) THEN {pointed} END"
    plain = f"TRY_CAST({identifier} AS DOUBLE)"  # a value that the source holds as a number
    return f"CASE WHEN {number_type_sql(identifier)} THEN {plain} ELSE TRY_CAST({read} AS DOUBLE) END"


def written_as(decimal: str = ".", thousands: str = "") -> str:
    """A regular expression of the numbers that are written this way, with or without separators."""
    fraction = rf"({_SEPARATORS[decimal]}\d*)?"
    grouped = rf"\d{{1,3}}({_SEPARATORS[thousands]}\d{{3}})+{fraction}" if thousands else ""
    plain = rf"\d+{fraction}|{_SEPARATORS[decimal]}\d+"
    return rf"^[+-]?({plain}{'|' * bool(grouped)}{grouped})$"


def unmarked_sql(identifier: str, marks: Sequence[str]) -> str:
    """A raw value as text without marks before or after the number, and without the white space around them."""
    text = f"({text_sql(identifier)})"
    if not marks:
        return text
    listed = "|".join(_escaped(mark) for mark in sorted(marks, key=len, reverse=True))
    before = rf"^([+-]?)[{SAFE}]*({listed})[{SAFE}]*"
    after = rf"[{SAFE}]*({listed})$"
    return rf"regexp_replace(regexp_replace({text}, {quoted(before)}, '\1'), {quoted(after)}, '')"


def _escaped(mark: str) -> str:
    return "".join(letter if letter.isalnum() else f"\\x{{{ord(letter):x}}}" for letter in mark)
