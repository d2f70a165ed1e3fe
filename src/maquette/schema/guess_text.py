"""Guess what a column of texts holds, for a draft: truth values, whole numbers, numbers, dates, or names."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from maquette.schema.columns import NULL_LABEL, Boolean, Category, Column, quoted, text_sql
from maquette.schema.dates import YEAR_LAST, Date
from maquette.schema.ordered import EXACT, Integer, Number

if TYPE_CHECKING:
    import duckdb

LEVELS = 50  # maximum distinct texts that are drafted as levels
SEEN = 3  # a level seen less often may identify one person
BINS = 32
OTHER = "other"
OWNER = "if it identifies the privacy unit, pass it as privacy_unit (--unit)"
ABSENT = ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-", "--", ".", "?")

_IDENTIFIER = re.compile(r"(^|[_\W])(id|key|nr|uuid|ssn|identifier)$|(?-i:[a-z](Id|ID))$", re.IGNORECASE)

Order = Literal["ymd", "dmy", "mdy"]
_YEAR_LAST: tuple[Order, ...] = ("dmy", "mdy")


class Skipped(Exception):
    """Why a column is left out of a draft."""


@dataclass(frozen=True)
class _Facts:
    """Counts over a column of texts. `known` leaves out empty texts and texts that mean "missing"."""

    rows: int
    present: int
    known: int
    truths: int
    numbers: int
    whole: int
    commas: int
    iso: int
    year_last: int
    day_first: int
    month_first: int
    distinct: int
    low: float | None
    high: float | None
    absent: list[str] | None

    @property
    def nullable(self) -> bool:
        return self.known < self.rows

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(self.absent or ())


def draft_text(relation: duckdb.DuckDBPyRelation, name: str, value: str) -> Column:
    """Draft a column of texts. Texts such as NA count as missing, except in a column of names."""
    facts = _facts(relation, value)
    if not facts.known:
        raise Skipped("no values")
    if facts.known < min(SEEN, facts.rows):
        raise Skipped(f"fewer than {SEEN} values")
    missing: dict[str, Any] = {"nullable": facts.nullable, "missing": facts.missing}
    if facts.truths == facts.known:
        return Boolean(name, **missing)
    if facts.numbers == facts.known or (facts.commas and facts.commas == facts.known):
        assert facts.low is not None
        assert facts.high is not None
        if facts.whole == facts.known:
            return draft_integer(name, int(facts.low), int(facts.high), **missing)
        comma = facts.numbers < facts.known
        return draft_number(name, facts.low, facts.high, decimal="," if comma else ".", **missing)
    if facts.iso + facts.year_last == facts.known:
        return _dates(relation, name, value, facts)
    return _names(relation, name, value, facts)


def draft_integer(name: str, low: int, high: int, **settings: Any) -> Integer:
    """About a hundred bins of a round width, starting at 0 if the values start close to it."""
    if _IDENTIFIER.search(name) and high - low > LEVELS:
        raise Skipped(f"its name suggests an identifier of rows; {OWNER}")
    if max(abs(low), abs(high)) > EXACT / 2:
        raise Skipped(f"whole numbers too large for exact bins; {OWNER}")
    width = max(1, int(_nice((high - low) / 100)))
    start = math.floor(low / width) * width if low < 0 or low > 10 * width else 0
    end = math.ceil((high + 1) / width) * width - 1
    return Integer(name, start, max(end, start), width=width, **settings)


def draft_number(name: str, low: float, high: float, **settings: Any) -> Number:
    """At most `BINS` bins, with edges at round numbers."""
    step = _nice((high - low) / BINS) or 1.0
    start = math.floor(low / step) * step
    bins = max(1, math.ceil((high - start) / step))
    return Number(name, start, start + bins * step, bins=bins, **settings)


def draft_date(name: str, low: dt.date, high: dt.date, **settings: Any) -> Date:
    """Months, over whole years."""
    first, last = (day.date() if isinstance(day, dt.datetime) else day for day in (low, high))
    return Date(name, first.replace(month=1, day=1), last.replace(month=12, day=31), unit="month", **settings)


def _facts(relation: duckdb.DuckDBPyRelation, value: str) -> _Facts:
    """Counts over the distinct texts, weighted by frequency: most columns have far fewer distinct texts than rows."""
    said = f"lower(text) IN ({', '.join(map(quoted, ABSENT))})"
    known = f"CASE WHEN NOT {said} THEN text END"
    number = "TRY_CAST(known AS DOUBLE)"
    comma = r"CASE WHEN regexp_matches(known, '^[+-]?\d+(,\d+)?$') THEN known END"
    read = f"coalesce(CASE WHEN isfinite({number}) THEN {number} END, TRY_CAST(replace({comma}, ',', '.') AS DOUBLE))"
    year_last = f"CASE WHEN regexp_matches(known, {quoted(YEAR_LAST)}) THEN known END"
    texts = tally(relation, value).project(f"*, {known} AS known")
    conditions = (
        "true",
        "text IS NOT NULL",
        "known IS NOT NULL",
        "NOT regexp_matches(known, '[0-9]') AND TRY_CAST(known AS BOOLEAN) IS NOT NULL",
        f"isfinite({number})",
        r"regexp_matches(known, '^[+-]?\d+$')",
        f"{comma} IS NOT NULL",
        r"regexp_matches(known, '^\d{4}[-/]') AND TRY_CAST(known AS TIMESTAMP) IS NOT NULL",
        f"{year_last} IS NOT NULL",
        *(f"TRY_CAST({_order(order).iso_sql(year_last)} AS TIMESTAMP) IS NOT NULL" for order in _YEAR_LAST),
    )
    counts = ", ".join(f"CAST(coalesce(sum(seen) FILTER ({condition}), 0) AS BIGINT)" for condition in conditions)
    (facts,) = texts.aggregate(
        f"{counts}, count(text), min({read}), max({read}), list(DISTINCT text ORDER BY text) FILTER ({said})"
    ).fetchall()
    return _Facts(*facts)


def tally(relation: duckdb.DuckDBPyRelation, value: str) -> duckdb.DuckDBPyRelation:
    """The distinct texts of a column and how often each occurs."""
    return relation.project(f"nullif({text_sql(value)}, '') AS text").aggregate("text, count(*) AS seen", "text")


def _order(order: Order) -> Date:
    return Date("date", "2000-01-01", "2000-12-31", order=order)


def _dates(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Date:
    """Draft dates if their order of day, month and year is unambiguous."""
    found: dict[Order, int] = {"dmy": facts.day_first, "mdy": facts.month_first}
    fitting: list[Order] = [order for order, dates in found.items() if dates == facts.year_last]
    if not facts.year_last:
        fitting = ["ymd"]
    if len(fitting) > 1:
        raise Skipped('dates that may have the day or the month first; declare it by hand with order = "dmy" or "mdy"')
    if not fitting:
        raise Skipped("dates, some with the day and some with the month first, or impossible ones; correct them")
    order: Order = fitting[0]
    day = f"TRY_CAST({_order(order).iso_sql(value)} AS TIMESTAMP)"
    ((low, high),) = relation.aggregate(f"min({day}), max({day})").fetchall()
    return draft_date(name, low, high, order=order, nullable=facts.nullable, missing=facts.missing)


def _names(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Category:
    if facts.distinct > LEVELS and max(facts.numbers, facts.commas) > facts.known / 2:
        raise Skipped(
            "numbers mixed with other text; correct the text, or declare it by hand, with missing = [...] for texts "
            'that mean "no value"'
        )
    if facts.distinct > LEVELS and facts.iso + facts.year_last > facts.known / 2:
        raise Skipped("dates mixed with other text; correct the text, or declare it by hand")
    if facts.distinct > LEVELS:
        raise Skipped(f"text with more than {LEVELS} different values; {OWNER}, else declare the levels by hand")
    seen = tally(relation, value).filter(f"text IS NOT NULL AND seen >= {SEEN}").fetchall()
    levels = {str(level) for level, _ in seen} - {OTHER, NULL_LABEL}
    if not levels:
        raise Skipped(f"text with no value seen {SEEN} times or more")
    return Category(name, sorted(levels), other=OTHER, nullable=facts.present < facts.rows)


def _nice(step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten: rounder bounds reveal less."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step)
