"""Dialects: what people are used to write in PostgreSQL, BigQuery, MySQL and SQL Server, as DuckDB says it.

Each rule replaces one node of the tree by nodes that mean the same; what comes out passes the same grammar as any text.
What has no exact equal is left as it is, and the grammar refuses it with what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

from sqlglot import exp

_TO_CHAR = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "Mon": "%b", "IYYY": "%G", "IW": "%V", "DDD": "%j"}
_TO_CHAR |= {"FMMonth": "%B", "FMDay": "%A", "Dy": "%a"}
_CODES = "YymdbjGVABa"  # of strftime, with the same meaning in FORMAT_DATE
_CODES_OF_MYSQL = "Yymdbj"  # its %V counts weeks from Sunday
_UNITS = {"YEAR", "QUARTER", "MONTH", "WEEK", "ISOWEEK", "DAY"}
MOMENT = "moment"  # marks a column that was cast to a moment and is now cast to a day
_DOUBLES = {"FLOAT64"}
_TEXTS = {"VARCHAR", "TEXT", "CHAR", "NVARCHAR", "NCHAR"}
_FRACTIONAL = (
    *(exp.Avg, exp.Median, exp.Quantile, exp.PercentileCont, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance),
    *(exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.Div, exp.Sqrt, exp.Ln, exp.Exp, exp.Pow),
)
_SAME_UNITS = _UNITS - {"WEEK"}  # of BigQuery and SQL Server, whose WEEK begins on Sunday


def translated(tree: Any) -> Any:
    """The tree with every such node replaced, inner ones first."""
    for node in reversed(list(tree.walk())):
        rule = _RULES.get(type(node))
        new = None if rule is None else rule(node)
        if new is None:
            continue
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


def _text(node: Any) -> str | None:
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def _name(node: Any) -> str:
    return str(node.name).upper() if isinstance(node, exp.Column | exp.Var) else ""


def _written(moment: Any, pattern: str) -> Any | None:
    """A date as text, by the codes of strftime; a pattern without one is of a language that has other codes."""
    if (used := set(re.findall(r"%(.)", pattern))) and used <= set(_CODES):
        return exp.TimeToStr(this=moment, format=exp.Literal.string(pattern))
    return None


def _to_char(node: Any) -> Any | None:
    pattern, unknown = _text(node.args.get("format")), exp.Anonymous(this="to_char", expressions=[node.this])
    unknown.meta.update(node.meta)
    if pattern is None:
        return unknown
    parts: list[Any] = []
    for piece in re.split(r'("[^"]*"|(?<![A-Za-z])Q(?![A-Za-z])|(?<=MM|YY)Q(?![A-Za-z]))', pattern):
        if piece == "Q":
            quarter = exp.Extract(this=exp.var("QUARTER"), expression=node.this.copy())
            parts.append(exp.Cast(this=quarter, to=exp.DataType.build("VARCHAR")))
        elif piece.startswith('"'):
            parts.append(exp.Literal.string(piece[1:-1]))
        elif piece:
            parts.append(_of_codes(node.this, piece))
    if None in parts or all(isinstance(part, exp.Literal) for part in parts):
        return unknown
    return exp.Paren(this=reduce(lambda a, b: exp.DPipe(this=a, expression=b, safe=True), parts))


def _of_codes(moment: Any, piece: str) -> Any | None:
    """A piece of a pattern of to_char: codes, or signs alone."""
    words = re.findall(r"[A-Za-z]+|[^A-Za-z]+", re.sub(r"(?<=[A-Za-z])(?=MM|DD|IW)", "\0", piece))
    known = [_TO_CHAR.get(word, None if word[0].isalpha() else word.replace("\0", "")) for word in words]
    if None in known or "%" in piece:
        return None
    if not any(word[0].isalpha() for word in words):
        return exp.Literal.string(piece)
    return _written(moment.copy(), "".join(filter(None, known)))


def _date(node: Any) -> Any | None:
    plain = node.this is not None and not node.args.get("zone") and not node.expressions
    return exp.Cast(this=node.this, to=exp.DataType.build("DATE")) if plain else None


def _safe_divide(node: Any) -> Any:
    below = exp.Nullif(this=node.expression, expression=exp.Literal.number(0))
    return exp.Paren(this=exp.Div(this=exp.Paren(this=node.this), expression=below, typed=False, safe=False))


def _width_bucket(node: Any) -> Any | None:
    low, high, count = (node.args.get(part) for part in ("min_value", "max_value", "num_buckets"))
    try:
        first, last, buckets = (float(part.sql(dialect="duckdb")) for part in (low, high, count))
    except (AttributeError, ValueError):
        return None
    if not (first < last and buckets >= 1 and buckets == int(buckets)):
        return None
    number = exp.Paren(this=node.this)
    inside = f"CAST(floor((x - {first!r}) * {buckets!r} / {last - first!r}) AS INT) + 1"
    outside = f"WHEN x < {first!r} THEN 0 WHEN x >= {last!r} THEN {int(buckets) + 1}"
    case: Any = exp.maybe_parse(f"CASE {outside} WHEN x IS NOT NULL THEN {inside} END", dialect="duckdb")
    for place in list(case.find_all(exp.Column)):
        place.replace(number.copy())
    return case


def _trunc(node: Any) -> Any | None:
    """DATE_TRUNC(x, MONTH) names the unit last."""
    unit = node.args.get("unit")
    last = _name(node.this)
    if isinstance(node.this, exp.Week) and _name(node.this.this) == "MONDAY":  # DATE_TRUNC(x, WEEK(MONDAY))
        last = "ISOWEEK"
    if (
        (isinstance(node.this, exp.Column) or last == "ISOWEEK")
        and last in _SAME_UNITS
        and unit is not None
        and _name(unit) not in _UNITS
    ):
        column = exp.column(unit.name.lower())
        column.this.meta.update(node.this.find(exp.Identifier).meta)
        return exp.TimestampTrunc(this=column, unit=exp.var(last.removeprefix("ISO")))
    return None


def _extract(node: Any) -> Any | None:
    iso = _name(node.this) == "ISOWEEK"
    return exp.Extract(this=exp.var("WEEK"), expression=node.expression) if iso else None


def _any(node: Any) -> Any | None:
    """x = ANY (ARRAY[1, 2]) is x IN (1, 2)."""
    listed = node.expression.this.unnest() if isinstance(node.expression, exp.Any) else None
    return exp.In(this=node.this, expressions=listed.expressions) if isinstance(listed, exp.Array) else None


def _cast(node: Any) -> Any | None:
    """A column of dates, or midnight, is no other moment as a timestamp; FLOAT64 is a DOUBLE; VARCHAR(3) cuts."""
    if (cut := _cut_text(node)) is not None:
        return cut
    if str(node.to.args.get("kind") or "").upper() in _DOUBLES:
        return exp.Cast(this=node.this, to=exp.DataType.build("DOUBLE"))
    day = (_text(node.this) or "").strip()
    midnight = re.fullmatch(r"(\d{4}-\d\d-\d\d)([ T]00:00(:00(\.0+)?)?)?", day)
    if not str(node.to.this.name).startswith("TIMESTAMP") or not (midnight or isinstance(node.this, exp.Column)):
        return None
    inner = exp.Literal.string(midnight[1]) if midnight else node.this
    inner.meta.update(node.this.meta)
    day_of = exp.Cast(this=inner, to=exp.DataType.build("DATE"))
    day_of.meta[MOMENT] = midnight is None
    return day_of


def _cut_text(node: Any) -> Any | None:
    """CAST(x AS VARCHAR(3)) has 3 letters everywhere but in DuckDB, which reads past the number."""
    lengths = [part.this for part in node.to.expressions]
    if str(node.to.this.name) not in _TEXTS or len(lengths) != 1 or not isinstance(lengths[0], exp.Literal):
        return None
    whole = type(node)(this=node.this, to=exp.DataType.build("VARCHAR"))
    return exp.Left(this=whole, expression=exp.Literal.number(str(lengths[0].this)))


def _whole(node: Any) -> Any | None:
    """A whole division of fractions, such as averages, is a division to DuckDB; on rows the engine does it itself."""
    parts = list(node.walk())
    if not any(isinstance(part, exp.AggFunc) for part in parts):
        return None
    fractions = any(isinstance(part, _FRACTIONAL) or _pointed(part) for part in parts)
    below = exp.Paren(this=node.expression)
    return exp.Div(this=exp.Paren(this=node.this), expression=below, typed=False, safe=False) if fractions else None


def _pointed(node: Any) -> bool:
    """Whether a node is a number with a fraction, or a cast to such numbers."""
    if isinstance(node, exp.Literal):
        return not node.is_string and not str(node.this).isdecimal()
    return isinstance(node, exp.Cast) and node.to.this.name in {"DOUBLE", "FLOAT", "DECIMAL"}


def _count(node: Any) -> Any | None:
    """count() is count(*), and count(DISTINCT CASE WHEN c THEN x END) is count(DISTINCT x) FILTER (WHERE c)."""
    if node.this is None:
        return exp.Count(this=exp.Star(), big_int=True)
    inner = node.this.expressions if isinstance(node.this, exp.Distinct) else []
    case = inner[0] if len(inner) == 1 else None
    if not isinstance(case, exp.Case) or isinstance(node.parent, exp.Filter | exp.Window):
        return None
    chosen = case.args["ifs"]
    if case.this is not None or case.args.get("default") is not None or len(chosen) != 1:
        return None
    counted = exp.Count(this=exp.Distinct(expressions=[chosen[0].args["true"]]), big_int=True)
    return exp.Filter(this=counted, expression=exp.Where(this=chosen[0].this))


def _group(node: Any) -> Any | None:
    """GROUP BY a, b WITH ROLLUP is GROUP BY ROLLUP (a, b)."""
    for part, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        listed = node.args.get(part) or []
        if len(listed) == 1 and not listed[0].expressions and set(_filled(node)) == {"expressions", part}:
            return exp.Group(expressions=[kind(expressions=node.expressions)])
    return None


def _filled(node: Any) -> list[str]:
    """The parts of a node that say something."""
    return [part for part, value in node.args.items() if value not in (None, False, [])]


def _select(node: Any) -> Any | None:
    """A SELECT with a clause WINDOW, or without FROM; changed in place."""
    if node.args.get("windows"):
        _write_windows(node)
    if node.args.get("from_") is None and node.args.get("where") is None:
        _write_from(node)
    return None


def _write_from(node: Any) -> None:
    """SELECT (SELECT a) / (SELECT b) is SELECT x / (SELECT b) FROM (SELECT a AS x), where a is an aggregate alone."""
    parts = (part for item in node.expressions for part in item.walk())
    first = next((part for part in parts if isinstance(part, exp.Subquery)), None)
    if first is None or not isinstance(inner := first.this, exp.Select):
        return
    item = inner.expressions[0].unalias()
    several = len(inner.expressions) > 1 or set(_filled(inner)) - {"expressions", "from_", "joins", "where"}
    if several or not item.find(exp.AggFunc):
        return
    title = first.sql(dialect="duckdb", comments=False)
    number = exp.column(title, quoted=True)
    first.replace(exp.alias_(number, title, quoted=True) if first.parent is node else number)
    inner.set("expressions", [exp.alias_(item, title, quoted=True)])
    alias = exp.TableAlias(this=exp.to_identifier("first", quoted=True))
    node.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))


def _write_windows(node: Any) -> None:
    """OVER w is OVER with what the clause WINDOW says of w."""
    clause = {window.name.casefold(): window for window in node.args["windows"]}
    for window in list(node.find_all(exp.Window)):
        meant = clause.get(str(window.args.get("alias") or "").casefold())
        if meant is None or meant is window or meant.args.get("alias") is not None:
            continue
        if any(window.args.get(part) for part in _filled(meant) if part != "this"):
            continue  # one that says the same part again is left, and refused
        for part in _filled(meant):
            if part != "this":
                value = meant.args[part]
                window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        window.set("alias", None)
    node.set("windows", None)


def _named(node: Any) -> Any | None:
    name = str(node.this).upper()
    if name == "IFF" and len(node.expressions) == 3:
        test, true, false = node.expressions
        return exp.If(this=test, true=true, false=false)
    if name == "ZEROIFNULL" and len(node.expressions) == 1:
        return exp.Coalesce(this=node.expressions[0], expressions=[exp.Literal.number(0)])
    rule = _BY_COUNT.get((name, len(node.expressions)))
    return None if rule is None else rule(*node.expressions)


def _formatted(pattern: Any, moment: Any) -> Any | None:
    written = _text(pattern)
    return None if written is None else _written(moment, written)


def _of_mysql(pattern: Any) -> bool:
    return set(re.findall(r"%(.)", _text(pattern) or "")) <= set(_CODES_OF_MYSQL)


def _part(unit: Any, moment: Any) -> Any | None:
    if not isinstance(unit, exp.Column) or _name(unit) not in _SAME_UNITS:
        return None
    return exp.Extract(this=exp.var(_name(unit).removeprefix("ISO")), expression=moment)


def _to_date(day: Any, pattern: Any) -> Any | None:
    return _cast(exp.Cast(this=day, to=exp.DataType.build("TIMESTAMP"))) if _text(pattern) == "YYYY-MM-DD" else None


def _day_of(node: Any) -> Any:
    """A text that is a day, as a date; anything else as it is."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", _text(node) or ""):
        return exp.Cast(this=node, to=exp.DataType.build("DATE"))
    return node


def _later(node: Any) -> Any | None:
    """'2024-12-31' - INTERVAL 1 MONTH, which MySQL takes for a date."""
    if not isinstance(node.expression, exp.Interval) or _day_of(node.this) is node.this:
        return None
    return type(node)(this=_day_of(node.this), expression=node.expression)


def _moved(unit: Any, number: Any, day: Any) -> Any | None:
    """DATEADD(month, -3, x)."""
    word = (_text(unit) or _name(unit)).upper()
    size = number.this if isinstance(number, exp.Neg) else number
    if word not in _UNITS or not isinstance(size, exp.Literal) or not str(size.this).isdecimal():
        return None
    amount = exp.Literal.string(f"-{size.this}" if isinstance(number, exp.Neg) else str(size.this))
    step = exp.Interval(this=amount, unit=exp.var(word.removeprefix("ISO")))
    return exp.Paren(this=exp.Add(this=_day_of(day), expression=step))


def _before(day: Any, step: Any) -> Any | None:
    """DATE_SUB(x, INTERVAL 30 DAY)."""
    if not isinstance(step, exp.Interval):
        return None
    return exp.Paren(this=exp.Sub(this=_day_of(day), expression=step))


def _between_days(node: Any) -> Any | None:
    """DATE_DIFF(last, first, DAY) names the unit last."""
    unit = _name(node.this)
    if not isinstance(node.this, exp.Column) or unit not in _SAME_UNITS or isinstance(node.args.get("unit"), exp.Var):
        return None
    named = exp.var(unit.removeprefix("ISO"))
    return exp.DateDiff(this=node.args["unit"], expression=node.expression, unit=named, date_part_boundary=True)


def _name_of(unit: Any, day: Any) -> Any | None:
    """DATENAME(month, x)."""
    kind = {"WEEKDAY": exp.Dayname, "DW": exp.Dayname, "MONTH": exp.Monthname}.get(_name(unit))
    return None if kind is None else kind(this=day)


def _nvl2(node: Any) -> Any:
    known = exp.Not(this=exp.Is(this=exp.Paren(this=node.this), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=node.args["true"])], default=node.args.get("false"))


_FUNCTIONS: dict[str, Callable[[Any, Any], Any | None]] = {
    "FORMAT_DATE": _formatted,
    "FORMAT_TIMESTAMP": _formatted,
    "DATE_FORMAT": lambda moment, pattern: _formatted(pattern, moment) if _of_mysql(pattern) else None,
    "DATEPART": _part,
    "DATE_PART": _part,
    "ISNULL": lambda value, other: exp.Coalesce(this=value, expressions=[other]),
    "REGEXP_CONTAINS": lambda text, pattern: exp.RegexpLike(this=text, expression=pattern),
    "TO_DATE": _to_date,
    "DATE_SUB": _before,
    "SUBDATE": _before,
    "DATENAME": _name_of,
}
_OF_ONE: dict[str, Callable[[Any], Any | None]] = {
    "COUNT_BIG": lambda counted: exp.Count(this=counted, big_int=True),
    "EOMONTH": lambda day: exp.LastDay(this=day),
    "ISNULL": lambda value: exp.Paren(this=exp.Is(this=value, expression=exp.Null())),
    "TO_DATE": lambda day: exp.Cast(this=day, to=exp.DataType.build("DATE")),
}
_BY_COUNT: dict[tuple[str, int], Callable[..., Any | None]] = {
    **{(name, 2): rule for name, rule in _FUNCTIONS.items()},
    **{(name, 1): rule for name, rule in _OF_ONE.items()},
    ("DATEADD", 3): _moved,
    ("CURDATE", 0): exp.CurrentDate,
}
_RULES: dict[type[Any], Callable[[Any], Any | None]] = {
    exp.ToChar: _to_char,
    exp.Date: _date,
    exp.SafeDivide: _safe_divide,
    exp.WidthBucket: _width_bucket,
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
    exp.Extract: _extract,
    exp.EQ: _any,
    exp.Cast: _cast,
    exp.IntDiv: _whole,
    exp.Count: _count,
    exp.Group: _group,
    exp.Select: _select,
    exp.Anonymous: _named,
    exp.Add: _later,
    exp.Sub: _later,
    exp.DateDiff: _between_days,
    exp.Nvl2: _nvl2,
    exp.TryCast: _cut_text,
    exp.National: lambda node: exp.Literal.string(str(node.this)),
    exp.GroupingId: lambda node: exp.Grouping(expressions=node.expressions),
}
