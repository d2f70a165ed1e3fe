"""Levels: scalar expressions over columns, evaluated on the declared levels instead of on rows.

`lower(region) LIKE 'n%'`, `year(seen)`, `age // 10`, `seen >= CURRENT_DATE - INTERVAL 1 YEAR`: each is a function of
the levels of one or a few columns, so it is a condition, an axis or a weight that the doors know already. DuckDB
evaluates the expression on the public list of levels; no row is read.

A level that is a bin holds many values. A condition or a group must be the same for all of them, or it cuts through the
bin and is refused; every whole number or day of the bin is tried. Real numbers cannot all be tried: there only
expressions that rise or fall with the column are accepted, and the two ends of the bin decide.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.sql.dialects import MOMENT
from maquette.schema import Column, Date, Integer, Number, Schema, arrow_array

if TYPE_CHECKING:
    import duckdb

MOST = 200_000  # values or combinations of levels on which an expression is tried
_MONOTONE = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Paren, exp.Floor, exp.Ceil, exp.Round, exp.Cast),
    *(exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Column, exp.Identifier, exp.Literal, exp.DataType, exp.Trunc, exp.Not),
    *(exp.Is, exp.Null, exp.Boolean, exp.Coalesce, exp.Sign, exp.Greatest, exp.Least),
)
_NUMBERS = {"INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL"}
_LOCK = threading.Lock()

Objects = NDArray[np.object_]
Tried = tuple[list[Any], list[int]]  # values of a column on which an expression is tried, and the level of each


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    import duckdb

    closed = {"enable_external_access": "false", "autoload_known_extensions": "false", "lock_configuration": "true"}
    return duckdb.connect(config={**closed, "memory_limit": "256MB", "threads": 1})


def evaluated(sql: str, columns: Mapping[str, Sequence[Any]], rows: int, told: str | None = None) -> list[Any]:
    """The values of a SQL expression over some columns of plain values; an error calls it `told`, or by its text."""
    import duckdb
    import pyarrow as pa

    arrays: dict[str, Any] = {name: arrow_array(list(values)) for name, values in columns.items()}
    arrays["place of the row"] = pa.array(range(rows), type=pa.int64())
    with _LOCK:
        cursor = _engine().cursor()
        try:
            cursor.register("levels", pa.table(arrays))
            found = cursor.execute(f'SELECT {sql} FROM levels ORDER BY "place of the row"').fetchall()
        except duckdb.Error as error:
            happened = str(error).split("\n", maxsplit=1)[0].split(":", maxsplit=1)[-1].strip()
            raise QueryError(
                f"{told or sql[:60]} cannot be computed: {happened[:160]}", advice=_computable(happened)
            ) from None
        finally:
            cursor.close()
    return [plain_value(value) for (value,) in found]


_COMPUTABLE = (  # what DuckDB complains of, and what to write
    (r"'\+\(VARCHAR", "join texts with ||, as in a || '!'"),
    (
        r"'[!~]+\*?\(DATE|'\w*(like|match|contains|starts|prefix|left|substr)\w*\(DATE",
        "write a date as text: strftime(x, '%Y-%m') LIKE '2024-03%'",
    ),
    (r"'[+-]\((DATE, BIGINT|BIGINT, DATE)", "days are added as whole numbers: x + CAST(y AS INT)"),
    (
        r"\((STRING_LITERAL|VARCHAR), INTERVAL|INTERVAL, (STRING_LITERAL|VARCHAR)",
        "write a date with its word: DATE '2024-12-31'",
    ),
    (r"\(.*BOOLEAN.*\)", "write CAST(x AS INT) for a truth value that is computed with"),
    (r"specifier", "write year, quarter, month, week, day, doy, dow or isodow"),
    (r"'\w+\((BIGINT|DOUBLE|DATE)", "cast to the type that the function takes, as in CAST(x AS VARCHAR)"),
)


def _computable(happened: str) -> str:
    """Advice for an expression that DuckDB cannot compute, by its complaint."""
    found = (advice for pattern, advice in _COMPUTABLE if re.search(pattern, happened))
    return next(found, "compare values of the same type")


def plain_value(value: Any) -> Any:
    """A value of DuckDB as one of ours: whole numbers, floats, texts, truth values, dates, None."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()
    if value is None or isinstance(value, bool | int | float | str | dt.date):
        return value
    return str(value)


def names_in(node: Any) -> tuple[str, ...]:
    """The columns of an expression whose names are resolved."""
    return tuple(dict.fromkeys(str(column.name) for column in node.find_all(exp.Column)))


def on_levels(
    schema: Schema, node: Any, *, middle: bool = False, mixed: bool = False
) -> tuple[tuple[str, ...], Objects]:
    """The columns of an expression, and its value on every combination of their levels.

    With `middle` a bin stands for its midpoint, as in sums; otherwise all its values must agree, or with `mixed` the
    value of a bin on which they do not is `MIXED`.
    """
    names = tuple(name for name in schema.names if name in set(names_in(node)))
    for cast in node.find_all(exp.Cast):
        if cast.meta.get(MOMENT) and any(not isinstance(schema[name], Date) for name in names_in(cast)):
            raise QueryError(
                f"{cast.this.sql(dialect='duckdb')[:60]} as a moment is not supported: dates are declared by days",
                advice="cast to DATE, or compare texts",
            )
    values = _on_levels(schema, names, node.sql(dialect="duckdb"), middle, _rises(node), mixed)
    return names, values


@lru_cache(2**10)
def _on_levels(  # noqa: PLR0917
    schema: Schema, names: tuple[str, ...], sql: str, middle: bool, rises: bool, mixed: bool
) -> Objects:
    columns = [schema[name] for name in names]
    tried = [_representatives(column, middle, rises) for column in columns]
    result = np.full(tuple(column.size for column in columns), _NOTHING, dtype=object)
    for place, value in computed(sql, names, tried):
        if result[place] is _NOTHING:
            result[place] = value
        elif result[place] != value:
            if mixed:
                result[place] = MIXED
                continue
            where = " and ".join(
                f"the bin {column.labels[level]} of {column.name!r}"
                for column, level in zip(columns, place, strict=True)
                if not single(column)
            )
            whole = "; / keeps fractions, so write // for whole numbers" if re.search(r" / \d+\b(?!\.)", sql) else ""
            raise QueryError(
                f"{sql[:60]} cuts through {where}",
                advice="cut between declared bins; a coarser unit may do, and GROUP BY of the column alone has a group "
                f"for each bin{whole if all(isinstance(column, Integer) for column in columns) else ''}",
            )
    result.flags.writeable = False
    return result


def computed(sql: str, names: Sequence[str], tried: Sequence[Tried]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """An expression on every combination of the values tried for each column: the levels, and what it is there."""
    size = math.prod(len(values) for values, _ in tried)
    if size > MOST:
        raise QueryError(
            f"the expression {sql[:60]} would be tried on {size:,} combinations of values, more than {MOST:,}",
            advice="use fewer columns in one expression, or add, multiply and round columns that it names once",
        )
    combined = list(itertools.product(*(values for values, _ in tried)))
    listed = {name: [row[i] for row in combined] for i, name in enumerate(names)}
    places = itertools.product(*(levels for _, levels in tried))
    return zip(places, evaluated(sql, listed, size), strict=True)


def refuse_nan(values: Objects) -> None:
    """Refuse an expression that is not a number on some level: NaN is neither a group nor a part of a sum."""
    if any(isinstance(value, float) and math.isnan(value) for value in values.reshape(-1)):
        raise QueryError(
            "the expression is not a number on some level, as 0 / 0 is", advice="use nullif, as in x / nullif(y, 0)"
        )


_NOTHING = object()
MIXED = object()  # the value of a bin whose values differ


def single(column: Column) -> bool:
    """Whether a level holds one value."""
    if isinstance(column, Integer):
        return column.width == 1
    return column.unit == "day" if isinstance(column, Date) else not isinstance(column, Number)


def _representatives(column: Column, middle: bool, rises: bool) -> Tried:
    """The values on which an expression is tried, and the level of each."""
    if column.known > MOST:
        raise _too_many(column, "levels")
    if middle and column.midpoints is not None and not single(column):
        return _with_null(column, [float(value) for value in column.midpoints], list(range(column.known)))
    if middle:
        return _with_null(column, list(column.values), list(range(column.known)))
    if single(column) or rises:
        return outermost(column)
    if isinstance(column, Number):
        raise QueryError(
            f"column {column.name!r} (number) has bins of real numbers, and this expression may differ inside one",
            advice=f"compare {column.name} with its declared edges, or group by {column.name}",
        )
    return every(column)


def _with_null(column: Column, values: list[Any], levels: list[int]) -> Tried:
    return ([*values, None], [*levels, column.known]) if column.nullable else (values, levels)


def outermost(column: Column) -> Tried:
    """The least and the largest value of each level, with the level of each; a single value once."""
    if column.known > MOST:
        raise _too_many(column, "levels")
    if single(column):
        return _with_null(column, list(column.values), list(range(column.known)))
    firsts: Sequence[Any]
    lasts: Sequence[Any]
    if isinstance(column, Number):
        edges = column.boundaries
        firsts, lasts = edges[:-1].tolist(), [*np.nextafter(edges[1:-1], -np.inf).tolist(), float(edges[-1])]
    elif isinstance(column, Integer):
        firsts, lasts = ([int(value) for value in ends] for ends in column.ends)
    else:
        assert isinstance(column, Date)
        firsts = list(column.values)
        lasts = [*(day - dt.timedelta(days=1) for day in firsts[1:]), dt.date.fromisoformat(str(column.high))]
    values = [value for pair in zip(firsts, lasts, strict=True) for value in pair]
    return _with_null(column, values, [level for level in range(column.known) for _ in range(2)])


def every(column: Column) -> Tried:
    """Every value of the declared range, with its level; of a column without real numbers."""
    return outermost(column) if single(column) else _with_null(column, *_every_value(column))


def _too_many(column: Column, what: str) -> QueryError:
    return QueryError(f"column {column.name!r} holds too many {what} to try an expression on each")


def _every_value(column: Column) -> tuple[list[Any], list[int]]:
    """Every whole number or day of the declared range, with its level."""
    if isinstance(column, Integer):
        if column.high - column.low >= MOST:
            raise _too_many(column, "numbers")
        values: list[Any] = list(range(column.low, column.high + 1))
        return values, [int(level) for level in np.searchsorted(column.ends[0], values, side="right") - 1]
    assert isinstance(column, Date)
    first, last = (dt.date.fromisoformat(str(day)) for day in (column.low, column.high))
    if (last - first).days >= MOST:
        raise _too_many(column, "days")
    values = [first + dt.timedelta(days=i) for i in range((last - first).days + 1)]
    starts = list(column.values)
    levels = list(
        np.searchsorted(np.array(starts, dtype="datetime64[D]"), np.array(values, dtype="datetime64[D]"), side="right")
        - 1
    )
    return values, [int(level) for level in levels]


def turns(node: Any) -> bool:
    """Whether a cast need not keep the order of numbers: to a text or a truth value, or to NULL where it fails."""
    return isinstance(node, exp.Cast) and (type(node) is not exp.Cast or node.to.this.name not in _NUMBERS)


def _rises(node: Any) -> bool:
    """Whether an expression rises or falls with its only column, so that the ends of a bin decide for all of it."""
    columns = list(node.find_all(exp.Column))
    simple = len(columns) == 1 and all(isinstance(part, _MONOTONE) and not turns(part) for part in node.walk())
    divided = (
        any(columns[0] in set(part.expression.find_all(exp.Column)) for part in node.find_all(exp.Div, exp.IntDiv))
        if simple
        else True
    )
    return simple and not divided
