"""The SQL that is answered, with examples: one source for `.help select`, for the reference page and for its tests.

Every example is about the table `people` with the columns age, region, smoker, sex, visits and seen, and a public
lookup `regions` with the columns code, name and weight.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """Some SQL that belongs together: what it does, what it costs, and examples."""

    title: str
    words: str
    examples: tuple[str, ...]


SECTIONS = (
    Section(
        "Counts, sums and averages",
        "Measured. Every declared group is in the answer, also an empty one, unless WHERE rules it out. "
        "FILTER and CASE inside an aggregate are "
        "conditions on rows. count(x) counts the rows on which x is not NULL, for any expression that is not NULL for "
        "a part of a bin. The sum of no rows is 0 and their average is any number of the declared range, where SQL "
        "says NULL: the noise hides whether a group has rows. "
        "A column, a multiple of it, or either in coalesce, nullif or a CASE of up to four branches is "
        "added up by its values. "
        "Any other expression over bins lies between its sums at the lower and at the upper ends of bins, and its "
        "interval holds both; the ends decide if it names each column once, as amount * quantity does. "
        "Numbers of columns with more than 16,777,216 levels are not added up: declare wider bins.",
        (
            "SELECT count(*), avg(age), sum(visits) FROM people WHERE smoker",
            "SELECT region, count(*) AS n FROM people GROUP BY region",
            "SELECT count(*) FILTER (WHERE age >= 60) AS old, countif(smoker) AS smokers FROM people",
            "SELECT sum(CASE WHEN smoker THEN visits ELSE 0 END) AS v FROM people",
            "SELECT avg(smoker) AS share FROM people",
            "SELECT avg(nullif(visits, 0)) AS of_visitors, count(nullif(visits, 0)) AS visitors FROM people",
            "SELECT sum(visits * age) AS v FROM people",
        ),
    ),
    Section(
        "Conditions",
        "=, <>, <, <=, >, >=, IN, BETWEEN, LIKE, ILIKE, IS NULL, AND, OR, NOT, and any expression on columns and "
        "literals. It is evaluated on the declared levels. Names take double quotes or backticks. ~ and "
        "regexp_matches look for a pattern anywhere; SIMILAR TO with % _ . in its pattern is refused: databases read "
        "it in different ways. / keeps fractions, // is whole division; CAST(x AS VARCHAR(3)) cuts to three letters. A "
        "condition that cuts through a bin is refused, or answered "
        "between the two cuts around it (cuts = between; counts only).",
        (
            "SELECT count(*) FROM people WHERE age BETWEEN 20 AND 39 AND region IN ('north', 'south')",
            "SELECT count(*) FROM people WHERE lower(region) LIKE 'n%' OR sex IS NULL",
            "SELECT count(*) FROM people WHERE visits % 2 = 0",
            "/* cuts = between */ SELECT count(*) FROM people WHERE age >= 65",
        ),
    ),
    Section(
        "Dates",
        "year, quarter, month, week, weekday, date_trunc, extract, intervals and CURRENT_DATE, where they cut between "
        "declared bins. Where dialects differ a word means what it means to DuckDB: dayofweek and weekday are 0 on "
        "Sunday, isodow is 7; dayofweek(x) = 7 is refused. DATEADD, DATE_SUB, DATEPART, DATENAME, EOMONTH and to_char "
        "are read as other databases have them. A time of day is ignored in rows and refused in literals.",
        (
            "SELECT quarter(seen) AS q, count(*) AS n FROM people GROUP BY q ORDER BY q",
            "SELECT count(*) FROM people WHERE seen >= DATE '2024-06-01' - INTERVAL 31 DAY",
            "SELECT date_trunc('quarter', seen) AS d, count(*) AS n FROM people GROUP BY 1",
        ),
    ),
    Section(
        "Groups",
        "Columns, CASE, conditions and expressions on levels; by name, by position or by alias. ROLLUP, CUBE and "
        "GROUPING SETS measure one table for each set; GROUPING says which is which. A column that is grouped by goes "
        "before an alias of the same name in HAVING, QUALIFY and expressions of ORDER BY; an alias alone in ORDER BY "
        "goes before a column.",
        (
            "SELECT CASE WHEN age < 40 THEN 'young' ELSE 'old' END AS who, count(*) FROM people GROUP BY 1",
            "SELECT region, smoker, count(*) AS n FROM people GROUP BY ROLLUP (region, smoker)",
            "SELECT region, grouping(region) AS total, count(*) AS n FROM people GROUP BY region WITH ROLLUP",
            "SELECT DISTINCT region FROM people ORDER BY region",
        ),
    ),
    Section(
        "Spread and relation",
        "Variance, standard deviation, covariance and correlation, from counts, sums, squares and products of the "
        "values themselves. A release, and an expression of several columns, has those of levels: values are taken to "
        "be even inside a bin, and the interval allows for any place in it, so narrow bins help.",
        (
            "SELECT var_samp(age), stddev(age) FROM people",
            "SELECT corr(age, visits) AS r, covar_pop(age, visits) AS c FROM people",
        ),
    ),
    Section(
        "Quantiles",
        "Median and any quantile, from the counts at or below every level; the interval is in values. min and max show "
        "one person and are refused: ask an extreme quantile.",
        (
            "SELECT median(visits) FROM people",
            "SELECT region, quantile_disc(visits, 0.9) AS p90 FROM people GROUP BY region",
            "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY visits) FROM people",
        ),
    ),
    Section(
        "People",
        "count(DISTINCT x) of the privacy unit alone. By group a person enters as many groups as rows are kept, "
        "and is priced so.",
        (
            "SELECT count(DISTINCT person) FROM people",
            "SELECT region, count(DISTINCT person) AS n FROM people GROUP BY 1",
        ),
    ),
    Section(
        "Computed from answers, free of charge",
        "Arithmetic, ratios, ROUND, COALESCE and CASE over aggregates; HAVING, ORDER BY, LIMIT, OFFSET, QUALIFY; "
        "window functions, also of a named WINDOW; WITH, subqueries in FROM, subqueries of one number, UNION ALL, "
        "joins of answered groups with each other and with public tables; "
        "titles of earlier items in later ones. After a choice by noisy "
        "numbers the intervals hold for all groups together.",
        (
            "SELECT region, round(100.0 * countif(smoker) / count(*), 1) AS percent FROM people GROUP BY region",
            "SELECT region, count(*) AS n FROM people GROUP BY region HAVING n > 100 ORDER BY n DESC LIMIT 2",
            "SELECT region, count(*) / sum(count(*)) OVER () AS share FROM people GROUP BY region",
            "WITH r AS (SELECT region, count(*) AS n FROM people GROUP BY region) SELECT avg(n) AS a FROM r",
            "SELECT region, rank() OVER (ORDER BY count(*) DESC) AS place FROM people GROUP BY region",
            "SELECT sum(visits) AS total, total / count(*) AS per_row FROM people",
            "SELECT (SELECT count(*) FROM people WHERE smoker) / (SELECT count(*) FROM people) AS share",
            "WITH r AS (SELECT region, count(*) AS n FROM people GROUP BY region) "
            "SELECT * FROM r WHERE n > (SELECT avg(n) FROM r)",
        ),
    ),
    Section(
        "Public tables",
        "JOIN or LEFT JOIN of a lookup on its unique key renames levels; its numbers are clamped to declared bounds. "
        "JOIN drops rows whose key it lacks. A public table alone may be selected from, free of charge, also "
        "as a list for IN. A second private table is not joined.",
        (
            "SELECT r.name, count(*) AS n FROM people p LEFT JOIN regions r ON p.region = r.code GROUP BY 1",
            "SELECT r.name, avg(p.age) AS a FROM people p JOIN regions r ON p.region = r.code GROUP BY 1",
            "SELECT sum(r.weight) AS w FROM people p LEFT JOIN regions r ON p.region = r.code",
            "SELECT count(*) FROM people WHERE region IN (SELECT code FROM regions WHERE name = 'up')",
            "WITH g AS (SELECT region, count(*) AS n FROM people GROUP BY region) "
            "SELECT name, n FROM g JOIN regions ON g.region = regions.code",
        ),
    ),
    Section(
        "Settings of one question",
        "alpha, confidence (or beta, which is 1 - confidence), max_cost (an epsilon) and cuts (refuse or between), in "
        "a comment or with SET before it. A release reads confidence and cuts.",
        (
            "/* alpha = 0.1, max_cost = 0.5 */ SELECT count(*) FROM people",
            "SET confidence = 0.99; SELECT count(*) FROM people",
        ),
    ),
)
REFUSED = (
    ("SELECT * FROM people", "rows are never shown"),
    ("SELECT max(age) FROM people", "it shows one person's value"),
    ("SELECT count(DISTINCT region) FROM people", "only the privacy unit is counted so"),
    ("SELECT count(*) FROM people JOIN visits USING (person)", "a second private table"),
    ("SELECT count(*) FROM peple", "an unknown table"),
    ("SELECT count(*) FROM people WHERE age > (SELECT avg(age) FROM people)", "ask two questions"),
)


def sql_reference() -> str:
    """The supported SQL as plain text."""
    lines = [
        "SELECT columns and aggregates FROM table [WHERE ...] [GROUP BY ...] [HAVING ...] [ORDER BY ...] [LIMIT n]"
    ]
    for section in SECTIONS:
        lines += ["", f"{section.title}: {section.words}", *(f"  {example}" for example in section.examples)]
    lines += ["", "Refused, each with what to type instead:", *(f"  {text}   ({why})" for text, why in REFUSED)]
    return "\n".join(lines)
