"""Guess what a column of texts holds, for a draft: truth values, whole numbers, numbers, dates, or names."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from maquette.schema.columns import NULL_LABEL, Boolean, Category, Column, quoted, text_sql
from maquette.schema.dates import SHORT, YEAR_LAST, Date
from maquette.schema.guess_numbers import Style, atoms_of, style_of, thousands_of, without_codes
from maquette.schema.integers import Integer
from maquette.schema.numbers import Number
from maquette.schema.ordered import EXACT
from maquette.schema.written import number_sql

if TYPE_CHECKING:
    import duckdb

LEVELS = 50  # maximum distinct texts that are drafted as levels
SEEN = 3  # a level seen less often may identify one person
BINS = 32
OTHER = "other"
OWNER = "if it identifies the privacy unit, pass it as privacy_unit (--unit)"
ABSENT = ("na", "n/a", "#n/a", "#n/v", "#nv", "nan", "null", "none", "nil", "missing", "-", "--", ".", "?")
SIGNS = ("n/a", "#n/a", "#n/v", "#nv", "-", "--", ".", "?")  # these mean "missing" in a column of names too
WORDS: tuple[tuple[str, str], ...] = (
    ("ja", "nein"),
    ("wahr", "falsch"),
    ("oui", "non"),
    ("vrai", "faux"),
    ("si", "no"),
    ("sí", "no"),
)
WORDS += (("sim", "não"), ("y", "n"), ("yes", "no"), ("j", "n"), ("tak", "nie"))
NUMBERED = 1_000  # from this number of different whole numbers on, a column is asked whether it names people
KEYS = 100  # from this number of rows on, a column without a repeated value looks like a key

_IDENTIFIER = re.compile(r"(^|[_\W])(id|key|nr|uuid|ssn|identifier)$|(?-i:[a-z](Id|ID))$", re.IGNORECASE)

Order = Literal["ymd", "dmy", "mdy"]
_YEAR_LAST: tuple[Order, ...] = ("dmy", "mdy")
ORDERS: tuple[Order, ...] = ("dmy", "mdy", "ymd")
PRECISE = 6  # maximum digits after the decimal mark that are drafted as the precision of a column


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
    digits: int | None
    absent: list[str] | None

    @property
    def nullable(self) -> bool:
        return self.known < self.rows

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(self.absent or ())


def draft_text(relation: duckdb.DuckDBPyRelation, name: str, value: str) -> tuple[Column, list[str]]:
    """Draft a column of texts, and remarks. Texts such as NA count as missing, except in a column of names."""
    facts = _facts(relation, value)
    column = _drafted(relation, name, value, facts)
    remarks = []
    codes = [text for text in column.missing if text not in facts.missing]
    if isinstance(column, Integer) and codes:
        remarks.append(f'check: {", ".join(codes)} look like codes for "no answer"; if not, remove them from missing')
    if isinstance(column, Integer) and _dense(facts):
        remarks.append(
            f"check: many numbers close together. If they name people, use --unit {name} and drop the column"
        )
    return column, remarks


def _dense(facts: _Facts) -> bool:
    """Whether many different whole numbers fill half of their range, as numbers given in turn do."""
    if facts.low is None or facts.high is None:
        return False
    return facts.distinct >= NUMBERED and facts.high - facts.low < 2 * facts.distinct


def _drafted(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Column:
    if not facts.known:
        raise Skipped("no values")
    if facts.known < min(SEEN, facts.rows):
        raise Skipped(f"fewer than {SEEN} values")
    missing: dict[str, Any] = {"nullable": facts.nullable, "missing": facts.missing}
    if facts.truths == facts.known:
        return Boolean(name, **missing)
    if (words := _truths(relation, value)) is not None:
        return Boolean(name, yes=words[0], no=words[1], **missing)
    if facts.whole == facts.known == facts.distinct >= KEYS and _running(facts):
        raise Skipped(_key(name))
    if facts.numbers == facts.known and not (facts.digits == 3 and thousands_of(_known(relation, value))):
        assert facts.low is not None
        assert facts.high is not None
        number = number_sql("known")
        if facts.whole == facts.known:
            whole = _whole(relation, name, value, facts)
            return _with_atoms(whole, relation, value, facts, number)
        digits = facts.digits if facts.digits and facts.digits <= PRECISE else None
        drafted = draft_number(name, facts.low, facts.high, precision=digits, **missing)
        return _with_atoms(drafted, relation, value, facts, number)
    if (style := style_of(_known(relation, value), facts.known)) is not None:
        return _styled(relation, name, value, facts, style)
    if facts.iso + facts.year_last == facts.known:
        return _dates(relation, name, value, facts)
    if (short := _short_dates(relation, name, value, facts)) is not None:
        return short
    return _names(relation, name, value, facts)


def _whole(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Integer:
    """Whole numbers; the codes of a survey, such as 97 to 99 beside answers from 1 to 5, are read as missing."""
    assert facts.low is not None
    assert facts.high is not None
    codes: tuple[int, ...] = ()
    low, high = int(facts.low), int(facts.high)
    if facts.distinct <= LEVELS:
        listed = sorted({int(row[0]) for row in _known(relation, value).project("CAST(known AS BIGINT)").fetchall()})
        low, high, codes = without_codes(listed)
    missing = (*facts.missing, *map(str, codes))
    return draft_integer(name, low, high, nullable=facts.nullable or bool(codes), missing=missing)


def _running(facts: _Facts) -> bool:
    """Whether whole numbers that occur once are close together, as numbers given in turn are; amounts are far apart."""
    return facts.low is not None and facts.high is not None and facts.high - facts.low < 20 * facts.known


def _key(name: str) -> str:
    return f"every value occurs once: it looks like a key. Make it the privacy unit (--unit {name}) or drop it"


def _truths(relation: duckdb.DuckDBPyRelation, value: str) -> tuple[list[str], list[str]] | None:
    """The words for yes and no, if a column holds one pair of them and nothing else."""
    found = {str(row[0]) for row in _known(relation, value).project("lower(known)").distinct().limit(4).fetchall()}
    found -= {"None"}
    pair = next((pair for pair in WORDS if found == set(pair)), None)
    return None if pair is None else ([pair[0]], [pair[1]])


def _known(relation: duckdb.DuckDBPyRelation, value: str) -> duckdb.DuckDBPyRelation:
    """The distinct texts that are values, as `known`, and how often each occurs."""
    said = f"lower(text) IN ({', '.join(map(quoted, ABSENT))})"
    return tally(relation, value).filter(f"text IS NOT NULL AND NOT {said}").project("text AS known, seen")


def _with_atoms(
    column: Integer | Number, relation: duckdb.DuckDBPyRelation, value: str, facts: _Facts, number: str
) -> Integer | Number:
    """The column with a level of its own for every value that many rows share, unless it has one already."""
    if isinstance(column, Integer) and column.width == 1:
        return column
    atoms = atoms_of(_known(relation, value), facts.known, number, whole=isinstance(column, Integer))
    return replace(column, atoms=atoms)


def _styled(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts, style: Style) -> Integer | Number:
    if style.ambiguous:
        raise Skipped(
            "numbers such as 1.234 or 1,234, which may be thousands or fractions; declare it by hand, with thousands = "
            '"." or decimal = "."'
        )
    settings: dict[str, Any] = {**style.settings, "nullable": facts.nullable, "missing": facts.missing}
    number = number_sql("known", style.decimal, style.thousands, style.marks)
    if style.whole:
        whole = draft_integer(name, int(style.low), int(style.high), **settings)
        return _with_atoms(whole, relation, value, facts, number)
    drafted = draft_number(name, style.low, style.high, precision=min(style.digits, PRECISE), **settings)
    return _with_atoms(drafted, relation, value, facts, number)


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
    digits = r"length(regexp_extract(known, '^[+-]?\d*[.,](\d+)$', 1))"
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
    absent = f"list(DISTINCT text ORDER BY text) FILTER ({said})"
    (facts,) = texts.aggregate(f"{counts}, count(text), min({read}), max({read}), max({digits}), {absent}").fetchall()
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


def _short_dates(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Date | None:
    """Draft dates whose years have two digits; None if some value is none. The pivot is the present year."""
    short = f"regexp_matches(known, {quoted(SHORT)})"
    if not facts.known or _known(relation, value).filter(f"NOT {short}").limit(1).fetchall():
        return None
    pivot = dt.datetime.now(dt.UTC).year % 100
    tried = {order: Date("date", "2000-01-01", "2000-12-31", order=order, pivot=pivot) for order in ORDERS}
    read = ", ".join(
        f"CAST(coalesce(sum(seen) FILTER (TRY_CAST({date.iso_sql('known')} AS TIMESTAMP) IS NOT NULL), 0) AS BIGINT)"
        for date in tried.values()
    )
    (fits,) = _known(relation, value).aggregate(read).fetchall()
    fitting = [order for order, fit in zip(tried, fits, strict=True) if fit == facts.known]
    if len(fitting) != 1:
        raise Skipped(
            f'dates with years of two digits; declare it by hand, with order = "dmy", "mdy" or "ymd" and '
            f"pivot = {pivot}, the last year that begins with 20"
        )
    day = f"TRY_CAST({tried[fitting[0]].iso_sql('known')} AS TIMESTAMP)"
    ((low, high),) = _known(relation, value).aggregate(f"min({day}), max({day})").fetchall()
    missing: dict[str, Any] = {"nullable": facts.nullable, "missing": facts.missing}
    return draft_date(name, low, high, order=fitting[0], pivot=pivot, **missing)


def _names(relation: duckdb.DuckDBPyRelation, name: str, value: str, facts: _Facts) -> Category:
    if facts.distinct > LEVELS and max(facts.numbers, facts.commas) > facts.known / 2:
        raise Skipped(
            "numbers mixed with other text; correct the text, or declare it by hand, with missing = [...] for texts "
            'that mean "no value"'
        )
    if facts.distinct > LEVELS and facts.iso + facts.year_last > facts.known / 2:
        raise Skipped("dates mixed with other text; correct the text, or declare it by hand")
    if facts.distinct == facts.known >= KEYS:
        raise Skipped(_key(name))
    if facts.distinct > LEVELS:
        raise Skipped(f"text with more than {LEVELS} different values; {OWNER}, else declare the levels by hand")
    seen = tally(relation, value).filter(f"text IS NOT NULL AND seen >= {SEEN}").fetchall()
    missing = tuple(sorted(text for text in facts.missing if text.lower() in SIGNS))
    levels = {str(level) for level, _ in seen} - {OTHER, NULL_LABEL, *missing}
    if not levels:
        raise Skipped(f"text with no value seen {SEEN} times or more")
    nullable = facts.present < facts.rows or bool(missing)
    return Category(name, sorted(levels), other=OTHER, nullable=nullable, missing=missing)


def _nice(step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten: rounder bounds reveal less."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step)
