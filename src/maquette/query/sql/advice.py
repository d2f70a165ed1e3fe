"""Advice: functions that are not supported, and what to write instead; names in lower case without underscores."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.schema import nearest

TIMES = "dates are declared by days, months or years, without a time; use day, week, month, quarter or year"
_ONE = "it is the value of one row; GROUP BY the column with count(*)"
_LISTED = "values of rows are never listed: GROUP BY the column with count(*)"
_QUANTILE = "ask one quantile at a time: quantile_cont(x, 0.25)"
_ANSWERED = "GROUP BY the column with count(*), and compute it from the groups that are answered"
_TEXTS = "write replace(x, 'a', 'b'), or CASE x WHEN 'a' THEN 'b' END"
_LATER, _EARLIER = (f"write DATE '2024-12-31' {sign} INTERVAL 30 DAY" for sign in "+-")

FUNCTIONS = {
    "tochar": "group by year(x), monthname(x), dayname(x), date_trunc('month', x), or strftime(x, '%Y-%m')",
    **dict.fromkeys(("formatdate", "formattimestamp", "dateformat"), "write strftime(x, '%Y-%m')"),
    **dict.fromkeys(("todate", "makedate", "datefromparts"), "write DATE '2024-12-31'"),
    "addmonths": "write DATE '2024-12-31' - INTERVAL 3 MONTH",
    "format": "write strftime(x, '%Y-%m') of a date; a number is shown as it is",
    **dict.fromkeys(("dateadd", "adddate"), _LATER),
    **dict.fromkeys(("datesub", "subdate"), _EARLIER),
    **dict.fromkeys(("now", "getdate", "currenttimestamp", "currentdatetime"), "use CURRENT_DATE"),
    **dict.fromkeys(("hour", "minute", "second"), TIMES),
    "isnull": "use coalesce(x, y) or x IS NULL",
    "widthbucket": "group by floor(x / 20), with a width that cuts between declared bins",
    **dict.fromkeys(("groupconcat", "arrayagg"), _LISTED),
    **dict.fromkeys(("anyvalue", "first", "last"), _ONE),
    "logicaland": "it shows one person; compare count_if(NOT x) with 0",
    "logicalor": "it shows one person; compare count_if(x) with 0",
    **dict.fromkeys(("percentile", "approxquantiles"), _QUANTILE),
    "histogram": "GROUP BY the column with count(*)",
    **dict.fromkeys(("skewness", "kurtosis", "kurtosispop", "entropy", "mad", "geomean", "product"), _ANSWERED),
    **dict.fromkeys(("approxpercentile", "percentilecont", "percentiledisc"), "write quantile_cont(x, 0.9)"),
    **dict.fromkeys(("div0", "div0null"), "write x / nullif(y, 0)"),
    "nvl2": "write CASE WHEN x IS NOT NULL THEN ... ELSE ... END",
    "ratiotoreport": "write count(*) / sum(count(*)) OVER ()",
    "std": "write stddev_pop(x) for all rows, stddev_samp(x) for a sample",
    "stdevp": "write stddev_pop(x)",
    "var": "write var_samp(x)",
    "varp": "write var_pop(x)",
    "log": "write ln(x) / ln(10)",
    **dict.fromkeys(("pad", "lpad", "rpad", "repeat", "translate", "regexpreplace", "unicode", "md5"), _TEXTS),
    "any": "write x LIKE 'a%' OR x LIKE 'b%'",
    "all": "write x NOT IN (1, 2), or x > 1 AND x > 2",
    "tuple": "compare each column by itself: a = 1 AND b = 2",
    "regrslope": "the slope of y over x is covar_pop(y, x) / var_pop(x)",
    "regrintercept": "it is avg(y) - covar_pop(y, x) / var_pop(x) * avg(x)",
    "regrr2": "write power(corr(y, x), 2)",
    "regrcount": "write count(*) FILTER (WHERE y IS NOT NULL AND x IS NOT NULL)",
    "every": "it shows one person; compare count_if(NOT x) with 0",
    "approxcountdistinct": "count(DISTINCT x) counts the privacy unit; for any other column GROUP BY x with count(*)",
    **dict.fromkeys(("timestamp", "datetime", "parsedate", "parsetimestamp"), "write DATE '2024-12-31'"),
    "age": "write date_diff('day', x, CURRENT_DATE), or date_diff('year', x, DATE '2024-12-31')",
    "findinset": "write x IN ('a', 'b')",
    **dict.fromkeys(("argmax", "argmin", "maxby", "minby"), _ONE),
    "choose": "write CASE x WHEN 1 THEN 'a' WHEN 2 THEN 'b' END",
}
_UNREADABLE = {
    "decode": "write CASE x WHEN 'a' THEN 'b' ELSE 'c' END instead of DECODE",
    "datediff": "write date_diff('day', first, last) instead of DATEDIFF",
    "xor": "write (a) <> (b) instead of XOR",
    "mod": "write x % 2",
    "convert": "write CAST(x AS DATE) instead of CONVERT",
    "group": "write GROUP BY",
    "groupby": "write GROUP BY",
    "order": "write ORDER BY",
    "orderby": "write ORDER BY",
    "ties": "write TOP 3 alone, or LIMIT 3",
}
_KNOWN = (
    *("count", "sum", "avg", "average", "median", "stddev", "variance", "var_pop", "stddev_pop", "corr", "covar_pop"),
    *("quantile_cont", "quantile_disc", "percentile_cont", "count_if", "round", "floor", "ceil", "abs", "sqrt", "ln"),
    *("exp", "sign", "power", "coalesce", "nullif", "greatest", "least", "lower", "upper", "trim", "substring"),
    *("length", "concat", "replace", "split_part", "starts_with", "contains", "year", "quarter", "month", "week"),
    *("dayofweek", "isodow", "dayofyear", "monthname", "dayname", "date_trunc", "date_part", "date_diff", "last_day"),
    *("strftime", "row_number", "rank", "dense_rank", "width_bucket", "regexp_matches"),
)
_CHANGES = "nothing can be written here: only SELECT"
PIVOT = "write a column for each value: count(*) FILTER (WHERE x = 'a') AS a, with GROUP BY"
_COLUMNS = ("DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "TABLE")
_KEYWORDS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "BETWEEN", "DISTINCT")


def unreadable(words: Sequence[str]) -> str | None:
    """Advice for a text that cannot be read: what to write instead of a word of another dialect."""
    return next((_UNREADABLE[word.lower()] for word in words if word.lower() in _UNREADABLE), None)


def misspelt_keyword(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Advice for a text that cannot be read: the keyword that a word may have been meant as, as FROM by form."""
    known = {name.casefold() for name in names}
    for word in words:
        meant = nearest(word.upper(), _KEYWORDS, likeness=0.7)
        if word.casefold() in known or not meant or word.upper() == meant[0] or len(word) > len(meant[0]):
            continue
        return f"did you mean {meant[0]} instead of {word[:20]}?"
    return None


def misspelt_function(name: str) -> str | None:
    """Advice for a function that is unknown: the one that it may have been meant as."""
    close = nearest(name.lower(), _KNOWN, likeness=0.66)
    return f"did you mean {'avg' if close[0] == 'average' else close[0]}?" if close else None


def statement_instead(first: str, names: Sequence[str]) -> str | None:
    """Advice for a statement that is not SELECT, by its first word; `names` are the columns."""
    word = first.upper()
    if word == "EXPLAIN":
        return "session.explain(text) in Python and .explain at the prompt tell the price of a SELECT, free of charge"
    if word in _COLUMNS and names:
        return f"the columns are {', '.join(names)}; ask for groups of them: SELECT x, count(*) FROM t GROUP BY x"
    if word in ("PIVOT", "UNPIVOT"):
        return PIVOT
    if word in ("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "COPY"):
        return _CHANGES
    return "begin with SELECT, and write values into it" if word == "DECLARE" else None
