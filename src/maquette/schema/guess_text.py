"""Guess what a column of texts holds, for a draft: truth values, whole numbers, numbers, dates, or names."""

from __future__ import annotations

import datetime as dt
import math
import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from maquette.schema.columns import NULL_LABEL, Boolean, Category, Column
from maquette.schema.dates import SHORT, YEAR_LAST, Date
from maquette.schema.guess_numbers import Style, atoms_of, style_of, thousands_of, top_code, without_codes
from maquette.schema.guess_tails import with_tails
from maquette.schema.integers import Integer
from maquette.schema.numbers import Number
from maquette.schema.ordered import EXACT
from maquette.schema.raw_values import quoted, text_sql
from maquette.schema.written import number_sql

if TYPE_CHECKING:
    import duckdb

LEVELS = 50  # maximum distinct texts that are drafted as levels
SEVERAL = 5  # frequent texts that make a column with more texts a column of codes
COMMON, FIRST = 0.5, 0.1  # and the share of the rows that all of them, and the first of them, have: people are even
STRAYS = 3  # maximum different words among numbers that are read as missing
SEEN = 3  # a level seen less often may identify one person
BINS = 32
WHOLE = 120  # maximum bins of whole numbers
OTHER = "other"
SIGNS: tuple[str, ...] = (
    "n/a",
    "n.a.",
    "n/d",
    "n.d.",
    "k.a.",
    "s/d",
    "#n/a",
    "#n/v",
    "#nv",
    "#n/d",
    "(null)",
    "-",
    "--",
    ".",
    "?",
)
SIGNS += ("#value!", "#wert!", "#ref!", "#bezug!", "#div/0!")  # all these mean "missing" in a column of names too
ABSENT = (*SIGNS, "na", "nd", "nc", "nan", "null", "none", "nil", "missing", "unknown", "unbekannt", "inconnu")
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


class _Mixed(Exception):
    """What a column holds beside other text."""


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
    texts = _kept(tally(relation, value))
    facts = _facts(texts)
    if strays := _strays(texts, facts):
        try:
            return _without(strays, relation, name, value)
        except Skipped:  # they recur among texts, not among numbers or dates: then they are texts like the others
            if _reads_as_numbers(facts) or _reads_as_dates(facts):
                raise
    try:
        column = _drafted(texts, name, facts)
    except _Mixed as found:
        raise Skipped(
            f"{found} mixed with other text{_first(relation, value)}; correct the text, or declare the column by hand, "
            'with missing = [...] for texts that mean "no value"'
        ) from None
    remarks = []
    codes = [text for text in column.missing if text not in facts.missing]
    if codes:
        look = "looks like a code" if len(codes) == 1 else "look like codes"
        it = "it" if len(codes) == 1 else "them"
        remarks.append(f'check: {", ".join(codes)} {look} for "no answer"; if not, remove {it} from missing')
    if isinstance(column, Integer) and column.width == 1 and (apart := _apart(texts, facts)) is not None:
        remarks.append(
            f'check: {apart} is far from the other values; if it means "no answer", write nullable = true and '
            f'missing = ["{apart}"]'
        )
    if isinstance(column, Category) and facts.distinct > LEVELS:
        remarks.append(f"check: there are more than {LEVELS} different texts; add levels that matter to you")
    if isinstance(column, Integer) and not column.thousands and _dense(facts):
        remarks.append(
            f"check: many different numbers, close together. If they identify people, use --unit {shlex.quote(name)} "
            "and drop the column"
        )
    return column, remarks


def _strays(texts: duckdb.DuckDBPyRelation, facts: _Facts) -> list[str]:
    """A few words that recur in a column of many different texts with digits, numbers or dates: they mean no value."""
    if facts.distinct <= LEVELS:
        return []
    words = _known(texts).filter(r"NOT regexp_matches(known, '\d')").limit(STRAYS + 1).fetchall()
    recur = len(words) <= STRAYS and all(seen >= SEEN for _, seen in words)
    return sorted(str(word) for word, _ in words) if recur and 2 * sum(n for _, n in words) < facts.known else []


def _without(strays: list[str], relation: duckdb.DuckDBPyRelation, name: str, value: str) -> tuple[Column, list[str]]:
    """The column that is drafted where these texts count as missing, and remarks."""
    text = text_sql(value)
    left = relation.project(f"CASE WHEN {text} NOT IN ({', '.join(map(quoted, strays))}) THEN {text} END AS rest")
    column, remarks = draft_text(left, name, "rest")
    listed = ", ".join(map(repr, strays))
    meant = replace(column, nullable=True, missing=(*column.missing, *strays))
    return meant, [*remarks, f"check: {listed} occurs among numbers or dates and is read as a missing value"]


def _apart(texts: duckdb.DuckDBPyRelation, facts: _Facts) -> int | None:
    """A single largest number made of one digit from 7 on, such as 9 or 99, at least twice as large as all others."""
    if facts.distinct > LEVELS:
        return None
    listed = sorted({int(row[0]) for row in _known(texts).project("CAST(known AS BIGINT)").fetchall()})
    digits = set(str(listed[-1]))
    if len(listed) < 3 or len(digits) > 1 or not digits <= set("789") or 2 * listed[-2] > listed[-1]:
        return None
    return listed[-1] if str(listed[-1]) not in facts.missing else None


def _dense(facts: _Facts) -> bool:
    """Whether many different whole numbers fill half of their range, as numbers given in turn do."""
    if facts.low is None or facts.high is None:
        return False
    return facts.distinct >= NUMBERED and facts.high - facts.low < 2 * facts.distinct


def _drafted(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts) -> Column:
    if not facts.known:
        raise Skipped("no values")
    if facts.known < min(SEEN, facts.rows):
        raise Skipped(f"fewer than {SEEN} values")
    missing: dict[str, Any] = {"nullable": facts.nullable, "missing": facts.missing}
    if facts.truths == facts.known:
        return Boolean(name, **missing)
    if (words := _truths(texts)) is not None:
        return Boolean(name, yes=words[0], no=words[1], **missing)
    if facts.whole == facts.known == facts.distinct >= KEYS and _running(facts):
        raise Skipped(_key(name))
    if facts.numbers == facts.known and not (facts.digits == 3 and thousands_of(_known(texts))):
        assert facts.low is not None
        assert facts.high is not None
        number = number_sql("known")
        if facts.whole == facts.known:
            whole = _whole(texts, name, facts)
            return _shaped(whole, texts, facts, number)
        digits = facts.digits if facts.digits and facts.digits <= PRECISE else None
        codes, high = top_code(_known(texts), number)
        missing = {"nullable": facts.nullable or bool(codes), "missing": (*facts.missing, *codes)}
        drafted = draft_number(name, facts.low, facts.high if high is None else high, precision=digits, **missing)
        return drafted if codes else _shaped(drafted, texts, facts, number)
    if (style := style_of(_known(texts), facts.known)) is not None:
        return _styled(texts, name, facts, style)
    if facts.iso + facts.year_last == facts.known:
        return _dates(texts, name, facts)
    if (short := _short_dates(texts, name, facts)) is not None:
        return short
    return _names(texts, name, facts)


def _whole(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts) -> Integer:
    """Whole numbers; the codes of a survey, such as 97 to 99 beside answers from 1 to 5, are read as missing."""
    assert facts.low is not None
    assert facts.high is not None
    codes: tuple[int, ...] = ()
    low, high = int(facts.low), int(facts.high)
    if facts.distinct <= LEVELS:
        listed = sorted({int(row[0]) for row in _known(texts).project("CAST(known AS BIGINT)").fetchall()})
        low, high, codes = without_codes(listed)
    missing = (*facts.missing, *map(str, codes))
    return draft_integer(name, low, high, nullable=facts.nullable or bool(codes), missing=missing)


def _running(facts: _Facts) -> bool:
    """Whether whole numbers that occur once are close together, as numbers given in turn are; amounts are far apart."""
    return facts.low is not None and facts.high is not None and facts.high - facts.low < 20 * facts.known


def _key(name: str) -> str:
    unit = f"--unit {shlex.quote(name)}"
    return f"every value occurs once: it looks like a key. Make it the privacy unit ({unit}) or drop it"


def _owner(name: str) -> str:
    return f"if it says whose row it is, make it the privacy unit (--unit {shlex.quote(name)})"


def _truths(texts: duckdb.DuckDBPyRelation) -> tuple[list[str], list[str]] | None:
    """The words for yes and no, if a column holds one pair of them and nothing else."""
    found = {str(row[0]) for row in _known(texts).project("lower(known)").distinct().limit(4).fetchall()}
    found -= {"None"}
    pair = next((pair for pair in WORDS if found == set(pair)), None)
    return None if pair is None else ([pair[0]], [pair[1]])


def _known(texts: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The distinct texts that are values, as `known`, and how often each occurs."""
    said = f"lower(text) IN ({', '.join(map(quoted, ABSENT))})"
    return texts.filter(f"text IS NOT NULL AND NOT {said}").project("text AS known, seen")


def _shaped(column: Integer | Number, texts: duckdb.DuckDBPyRelation, facts: _Facts, number: str) -> Integer | Number:
    """The column with a level of its own for every value that many rows share, and bins that suit the others."""
    if isinstance(column, Integer) and column.width == 1:
        return column
    atoms = atoms_of(_known(texts), facts.known, number, whole=isinstance(column, Integer))
    return with_tails(replace(column, atoms=atoms), _known(texts), number, BINS)


def _styled(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts, style: Style) -> Integer | Number:
    if style.ambiguous:
        raise Skipped(
            "numbers such as 1.234 or 1,234, which may be thousands or fractions; declare the column by hand, with "
            'thousands = "." or decimal = "."'
        )
    settings: dict[str, Any] = {**style.settings, "nullable": facts.nullable, "missing": facts.missing}
    number = number_sql("known", style.decimal, style.thousands, style.marks)
    if style.whole:
        whole = draft_integer(name, int(style.low), int(style.high), **settings)
        return _shaped(whole, texts, facts, number)
    drafted = draft_number(name, style.low, style.high, precision=min(style.digits, PRECISE), **settings)
    return _shaped(drafted, texts, facts, number)


def draft_integer(name: str, low: int, high: int, **settings: Any) -> Integer:
    """At most 120 bins of a round width, starting at 0 if the values start close to it: ages have a level each.

    Widths are 1, 5, 10, 50, ...: people ask about 65 and over or 15 to 29, which cut through bins of 2.
    """
    if _IDENTIFIER.search(name) and high - low > LEVELS:
        raise Skipped(f"its name suggests an identifier of rows; {_owner(name)}")
    if max(abs(low), abs(high)) > EXACT / 2:
        raise Skipped(f"whole numbers too large for exact bins; {_owner(name)}")
    width = max(1, int(_nice((high - low) / WHOLE, (1, 5, 10))))
    start = math.floor(low / width) * width if low < 0 or low > 10 * width else 0
    end = math.ceil((high + 1) / width) * width - 1
    return Integer(name, start, max(end, start), width=width, **settings)


def draft_number(name: str, low: float, high: float, **settings: Any) -> Number:
    """At most `BINS` bins, with edges at round numbers: steps of 1, 2.5, 5 or 10 have edges at 5 and 25."""
    step = _nice((high - low) / BINS, (1, 2.5, 5, 10)) or 1.0
    if (precision := settings.get("precision")) is not None and round(step, precision) != step:
        step = _nice((high - low) / BINS, (1, 5, 10))
    start = math.floor(low / step) * step
    bins = max(1, math.ceil((high - start) / step))
    return Number(name, start, start + bins * step, bins=bins, **settings)


def draft_date(name: str, low: dt.date, high: dt.date, **settings: Any) -> Date:
    """Months, over whole years."""
    first, last = (day.date() if isinstance(day, dt.datetime) else day for day in (low, high))
    return Date(name, first.replace(month=1, day=1), last.replace(month=12, day=31), unit="month", **settings)


def _facts(texts: duckdb.DuckDBPyRelation) -> _Facts:
    """Counts over the distinct texts, weighted by frequency: most columns have far fewer distinct texts than rows."""
    said = f"lower(text) IN ({', '.join(map(quoted, ABSENT))})"
    known = f"CASE WHEN NOT {said} THEN text END"
    number = "TRY_CAST(known AS DOUBLE)"
    comma = r"CASE WHEN regexp_matches(known, '^[+-]?\d+(,\d+)?$') THEN known END"
    read = f"coalesce(CASE WHEN isfinite({number}) THEN {number} END, TRY_CAST(replace({comma}, ',', '.') AS DOUBLE))"
    digits = r"length(regexp_extract(known, '^[+-]?\d*[.,](\d+)$', 1))"
    year_last = f"CASE WHEN regexp_matches(known, {quoted(YEAR_LAST)}) THEN known END"
    read_texts = texts.project(f"*, {known} AS known")
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
    (facts,) = read_texts.aggregate(
        f"{counts}, count(text), min({read}), max({read}), max({digits}), {absent}"
    ).fetchall()
    return _Facts(*facts)


def _kept(texts: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The same rows, kept by the engine, so that each of many questions about them does not read the column again."""
    name = f"texts_{secrets.token_hex(8)}"
    texts.create(name)
    kept = texts.query(f"{name}_of", f"SELECT * FROM {name}")
    assert kept is not None
    return kept


def tally(relation: duckdb.DuckDBPyRelation, value: str) -> duckdb.DuckDBPyRelation:
    """The distinct texts of a column and how often each occurs."""
    return relation.project(f"nullif({text_sql(value)}, '') AS text").aggregate("text, count(*) AS seen", "text")


def _order(order: Order) -> Date:
    return Date("date", "2000-01-01", "2000-12-31", order=order)


def _dates(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts) -> Date:
    """Draft dates if their order of day, month and year is unambiguous."""
    found: dict[Order, int] = {"dmy": facts.day_first, "mdy": facts.month_first}
    fitting: list[Order] = [order for order, dates in found.items() if dates == facts.year_last]
    if not facts.year_last:
        fitting = ["ymd"]
    if len(fitting) > 1:
        raise Skipped(
            "dates in which the day or the month may come first; declare the column by hand, "
            'with order = "dmy" or "mdy"'
        )
    if not fitting:
        raise Skipped(
            "dates, some with the day first and some with the month first, or dates that do not exist; correct them"
        )
    order: Order = fitting[0]
    day = f"TRY_CAST({_order(order).iso_sql('known')} AS TIMESTAMP)"
    ((low, high),) = _known(texts).aggregate(f"min({day}), max({day})").fetchall()
    return draft_date(name, low, high, order=order, nullable=facts.nullable, missing=facts.missing)


def _short_dates(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts) -> Date | None:
    """Draft dates whose years have two digits; None if some value is none. The pivot is the present year."""
    short = f"regexp_matches(known, {quoted(SHORT)})"
    if not facts.known or _known(texts).filter(f"NOT {short}").limit(1).fetchall():
        return None
    pivot = dt.datetime.now(dt.UTC).year % 100
    tried = {order: Date("date", "2000-01-01", "2000-12-31", order=order, pivot=pivot) for order in ORDERS}
    read = ", ".join(
        f"CAST(coalesce(sum(seen) FILTER (TRY_CAST({date.iso_sql('known')} AS TIMESTAMP) IS NOT NULL), 0) AS BIGINT)"
        for date in tried.values()
    )
    (fits,) = _known(texts).aggregate(read).fetchall()
    fitting = [order for order, fit in zip(tried, fits, strict=True) if fit == facts.known]
    if len(fitting) == 2 and "ymd" in fitting and not _known(texts).filter("contains(known, '-')").limit(1).fetchall():
        fitting.remove("ymd")  # with points or slashes the year comes last; with hyphens it may come first
    if len(fitting) != 1:
        raise Skipped(
            f'dates with two-digit years; declare the column by hand, with order = "dmy", "mdy" or "ymd" and '
            f"pivot = {pivot}, the last two-digit year that means 20xx"
        )
    day = f"TRY_CAST({tried[fitting[0]].iso_sql('known')} AS TIMESTAMP)"
    ((low, high),) = _known(texts).aggregate(f"min({day}), max({day})").fetchall()
    missing: dict[str, Any] = {"nullable": facts.nullable, "missing": facts.missing}
    return draft_date(name, low, high, order=fitting[0], pivot=pivot, **missing)


def _reads_as_numbers(facts: _Facts) -> bool:
    return max(facts.numbers, facts.commas) > facts.known / 2


def _reads_as_dates(facts: _Facts) -> bool:
    return facts.iso + facts.year_last > facts.known / 2


def _names(texts: duckdb.DuckDBPyRelation, name: str, facts: _Facts) -> Category:
    if facts.distinct > LEVELS and _reads_as_numbers(facts):
        raise _Mixed("numbers")
    if facts.distinct > LEVELS and _reads_as_dates(facts):
        raise _Mixed("dates")
    if facts.distinct == facts.known >= KEYS:
        raise Skipped(_key(name))
    common = texts.filter(f"text IS NOT NULL AND seen >= {SEEN}").order("seen DESC, text").limit(LEVELS)
    seen: dict[str, int] = {str(text): int(often) for text, often in common.fetchall()}
    share = [often / facts.present for often in seen.values()]  # from the most frequent on
    codes = len(share) >= SEVERAL and sum(share) >= COMMON and share[0] >= FIRST
    if facts.distinct > LEVELS and (not codes or _IDENTIFIER.search(name)):
        raise Skipped(
            f"text with more than {LEVELS} different values; {_owner(name)}; otherwise declare by hand the levels that "
            f'matter, and other = "{OTHER}"'
        )
    missing = tuple(sorted(text for text in facts.missing if text.lower() in SIGNS))
    levels = set(seen) - {OTHER, NULL_LABEL, *missing}
    if not levels:
        raise Skipped(f"text in which no value occurs {SEEN} times or more")
    nullable = facts.present < facts.rows or bool(missing)
    return Category(name, sorted(levels), other=OTHER, nullable=nullable, missing=missing)


def _first(relation: duckdb.DuckDBPyRelation, value: str) -> str:
    """Where the first text without a digit stands; it is not quoted, as a text that occurs once may name somebody."""
    rows = relation.project(f"row_number() OVER () AS place, nullif({text_sql(value)}, '') AS text")
    said = ", ".join(map(quoted, ABSENT))
    odd = rows.filter(rf"NOT regexp_matches(text, '\d') AND lower(text) NOT IN ({said})")
    ((place,),) = odd.aggregate("min(place)").fetchall()
    return "" if place is None else f", first in row {place:,} below the header"


def _nice(step: float, steps: Sequence[float]) -> float:
    """Round up to one of the steps times a power of ten: rounder bounds reveal less."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in steps if m * power >= step)
