"""Settings of one question, written in its text: `/* alpha = 0.01 */ SELECT ...` or `SET alpha = 0.01; SELECT ...`.

A comment that consists of settings is read as settings; any other comment is left alone. A setting says how a question
is answered, not what is asked, so it is no part of the grammar: it is read first, and blanked out where it would be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from maquette.errors import QueryError
from maquette.query.sql.words import MAX_TEXT
from maquette.schema import nearest

CutRule = Literal["refuse", "between"]
CUTS: tuple[CutRule, ...] = ("refuse", "between")
LEAST_ALPHA = 1e-12  # below it, squares of widths in rows leave the floats

_MAYBE = re.compile(r"--|/\*|^\s*set\b", re.IGNORECASE)
_COMMENT = re.compile(
    r"--(?P<line>[^\n]*)|/\*\+?(?P<block>.*?)\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`", re.DOTALL
)
_SET = re.compile(r"\s*set\s+(?P<pair>[^;]*);", re.IGNORECASE)
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?:=|\bto\b)\s*([^\s,;=]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """How a question is to be answered; None is the default of whoever answers it."""

    alpha: float | None = None
    """Largest error of a count, as a fraction of rows."""
    confidence: float | None = None
    """Probability with which the intervals hold."""
    max_cost: float | None = None
    """The highest price, as epsilon; dearer questions are refused before anything is charged."""
    cuts: CutRule | None = None
    """Whether a comparison that cuts through a bin is refused, or answered between the two cuts around it."""

    def __post_init__(self) -> None:
        for name, least, most in (("alpha", LEAST_ALPHA, 1.0), ("confidence", 5e-324, 1.0), ("max_cost", 0.0, 1e300)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and least <= value < most):
                wanted = "an epsilon of 0 or more" if name == "max_cost" else "a number between 0 and 1, such as 0.02"
                raise QueryError(f"{name} is {value!r}", expected=wanted)
        if self.cuts is not None and self.cuts not in CUTS:
            raise QueryError(f"cuts is {self.cuts!r}", expected='"refuse" or "between"')

    def over(self, other: Settings) -> Settings:
        """These settings, and those of `other` where this one has none."""
        if NONE in (self, other):
            return other if self == NONE else self
        return replace(other, **{name: value for name, value in vars(self).items() if value is not None})


NONE = Settings()
NAMES = tuple(field.name for field in fields(Settings))


def settings_of(asked: object) -> Settings:
    """The settings that a text holds."""
    return split(asked)[0] if isinstance(asked, str) else NONE


def split(text: str) -> tuple[Settings, str]:
    """The settings of a text, and the text with SET statements blanked out, so that places in it stay the same."""
    if len(text) > MAX_TEXT or _MAYBE.search(text) is None:  # what is too long is refused where it is parsed
        return NONE, text
    found: dict[str, Any] = {}
    begin = 0
    while (match := _SET.match(text, begin)) is not None:
        found |= _pairs(match["pair"], certain=True)
        begin = match.end()
    for comment in _COMMENT.finditer(text):
        found |= _pairs(comment["line"] or comment["block"] or "", certain=False)
    blank = re.sub(r"[^\n]", " ", text[:begin])
    return (Settings(**found) if found else NONE), blank + text[begin:]


def _pairs(text: str, *, certain: bool) -> dict[str, Any]:
    """`name = value, name = value`; a comment of another form holds none. `beta` is 1 - confidence."""
    parts = [_PAIR.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        if certain:
            raise QueryError("SET cannot be read", expected="SET alpha = 0.01; and then the question")
        return {}
    found: dict[str, Any] = {}
    for part in parts:
        assert part is not None
        name = part[1].lower().removeprefix("maquette.")
        if name == "beta":  # the same in other words, as sessions are opened with it
            found["confidence"] = 1.0 - float(_value(name, part[2]))
            continue
        if name not in NAMES:
            close = nearest(name, NAMES)
            if certain or close:
                advice = f"did you mean {close[0]}?" if close else f"settings are {', '.join(NAMES)}"
                raise QueryError(f"there is no setting {part[1]!r}", advice=advice)
            return {}
        found[name] = _value(name, part[2])
    return found


def _value(name: str, written: str) -> float | str:
    if name == "cuts":
        return written.strip("'\"").lower()
    try:
        return float(written.strip("'\""))
    except ValueError:
        raise QueryError(f"{name} is {written[:20]!r}", expected="a number, such as 0.02") from None
