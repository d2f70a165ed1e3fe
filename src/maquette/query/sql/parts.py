"""Parts: which parts of a clause are read. One that would be read past means something else, so it is refused.

sqlglot understands more than the compiler reads: NATURAL before JOIN, PERCENT after LIMIT, EXCLUDE in a window frame. A
clause that is listed here may have these parts and no others, whatever sqlglot adds to it in a later version.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from maquette.query.sql.advice import PIVOT

PARTS: dict[type[Any], set[str]] = {
    exp.Join: {"this", "side", "kind", "on", "using"},
    exp.Limit: {"this", "expression", "limit_options"},
    exp.Fetch: {"direction", "count", "limit_options"},
    exp.LimitOptions: {"rows"},
    exp.Offset: {"this", "expression"},
    exp.Window: {"this", "partition_by", "order", "spec", "over", "alias"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side"},
    exp.Order: {"this", "expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Lag: {"this", "offset"},
    exp.Lead: {"this", "offset"},
    exp.First: {"this"},
    exp.Last: {"this"},
    exp.Min: {"this"},
    exp.Max: {"this"},
    exp.ApproxQuantile: {"this", "quantile"},
    exp.Union: {"with_", "this", "expression", "distinct", "order", "limit", "offset"},
    exp.Group: {"expressions", "grouping_sets", "cube", "rollup", "all"},
    exp.Star: set(),
    exp.With: {"expressions", "recursive"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Subquery: {"this", "alias"},
    exp.TableAlias: {"this"},
    exp.In: {"this", "expressions", "query", "unnest"},
    exp.Is: {"this", "expression"},
    exp.Round: {"this", "decimals", "casts_non_integer_decimals"},
    exp.Floor: {"this"},
    exp.Ceil: {"this"},
}
_INSTEAD = {
    exp.Join: "use JOIN, LEFT JOIN or CROSS JOIN, with ON or USING",
    exp.LimitOptions: "write LIMIT 10",
    exp.WindowSpec: "write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    exp.Lag: "use coalesce(lag(x) OVER (...), 0)",
    exp.Lead: "use coalesce(lead(x) OVER (...), 0)",
    exp.Union: "select the same columns in the same order in each",
    exp.Star: "name the columns",
    exp.Subquery: "put it into the SELECT inside the parentheses, or after a SELECT around them",
    exp.TableAlias: "name columns with AS in a subquery",
    exp.In: "write a list in parentheses",
}


def unread(tree: Any) -> tuple[Any, str, str | None] | None:
    """The first clause with a part that nothing reads: the words for that part, and what to write instead."""
    for node in tree.walk():
        known = PARTS.get(type(node))
        if known is None:
            continue
        for part, value in node.args.items():
            if part == "pivots" and value:
                return node, f"{'UNPIVOT' if value[0].args.get('unpivot') else 'PIVOT'} is", PIVOT
            if part not in known and value not in (None, False, [], ()):
                return node, _words(node, part, value), _INSTEAD.get(type(node))
    return None


def _words(node: Any, part: str, value: Any) -> str:
    """The part as a text would write it, after or before the clause that it belongs to."""
    said = part.strip("_").replace("_", " ").upper()
    match node:
        case exp.Join() if part == "method":
            return f"{str(value)[:20].upper()} JOIN is"
        case exp.LimitOptions():
            return f"{said} after LIMIT is"
        case exp.TableAlias():
            return "new names of columns after a table are"
    return f"{said} of {type(node).__name__.upper()} is"
