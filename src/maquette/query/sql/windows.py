"""Windows: functions OVER answered groups, as descriptions that the evaluator reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from maquette.query.sql import program as p
from maquette.query.sql.axes import literal_value
from maquette.query.sql.grammar import Source, instead
from maquette.query.sql.work import Work

FUNCTIONS = {
    "sum": "sum", "count": "count", "avg": "avg", "min": "min", "max": "max", "rownumber": "row_number", "rank": "rank",
    "denserank": "dense_rank", "percentrank": "percent_rank", "cumedist": "cume_dist", "ntile": "ntile", "lag": "lag",
    "lead": "lead", "firstvalue": "first_value", "lastvalue": "last_value", "first": "first_value", "last": "last_value",  # noqa: E501
}  # fmt: skip

WHOLE = ("ROWS", None, None)  # the frame of a whole partition
_FRAME = "write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"

Described = tuple[str, dict[str, Any], list[tuple[str, Any]]]  # its column, the window, columns computed before it


def described(work: Work, node: Any, rewritten: Callable[[Any], Any]) -> Described:
    """A window function; `rewritten` turns an expression of the text into one over the relation."""
    if node.args.get("alias") is not None or node.args.get("exclude"):
        work.source.refuse(node, "a named window is", "write OVER (...) out")
    computed: list[tuple[str, Any]] = []

    def column(inner: Any) -> str:
        expression = work.checked(rewritten(inner))
        if isinstance(expression, exp.Column):
            return str(expression.name)
        name = work.fresh()
        computed.append((name, expression))
        work.mark(name, expression)
        return name

    if isinstance(node.this, exp.IgnoreNulls):
        work.source.refuse(node, "IGNORE NULLS is", "leave it out, or keep rows WHERE x IS NOT NULL in a subquery")
    kind = node.this.this if isinstance(node.this, exp.RespectNulls) else node.this
    name = type(kind).__name__.lower()
    if name not in FUNCTIONS:
        work.source.refuse(
            node,
            f"{work.source.named(kind)} OVER is",
            instead(kind) or f"use {', '.join(sorted(set(FUNCTIONS.values())))}",
        )
    inner = kind.this if isinstance(getattr(kind, "this", None), exp.Expression) else None
    argument = None if inner is None or isinstance(inner, exp.Star) or name == "ntile" else column(inner)
    offset = kind.args.get("offset") if name in ("lag", "lead") else inner if name == "ntile" else None
    order = node.args.get("order")
    window: dict[str, Any] = {
        "function": FUNCTIONS[name],
        "argument": argument,
        "number": int(literal_value(offset)) if offset is not None else None,  # type: ignore[arg-type]
        "partition": tuple(column(one) for one in node.args.get("partition_by") or ()),
        "order": tuple(
            p.Key(column(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            for key in (order.expressions if order is not None else ())
        ),
        "frame": _frame(node.args.get("spec"), work.source, ordered=order is not None),
    }
    if window["function"] in ("first_value", "last_value") and window["frame"] not in (None, WHOLE):
        work.source.refuse(node, f"{window['function']} in this frame is", "use lag or lead, or the whole partition")
    if any(part in work.uses for part in window["partition"]):
        work.source.refuse(node, "PARTITION BY a noisy number is", "partition by group columns")
    made = work.fresh()
    touched = [argument, *(key.column for key in window["order"])]
    used = frozenset[str]().union(*(work.uses.get(str(one), frozenset()) for one in touched))
    if used:
        work.uses[made] = used
        work.together = True
    return made, window, computed


def _frame(spec: Any, source: Source, *, ordered: bool) -> tuple[str, Any, Any] | None:
    """The rows of a window around the current one: (rows before, rows after), None for unbounded; None by default.

    RANGE and GROUPS count peers instead of rows: they are read where they mean the default or the whole partition.
    """
    if spec is None:
        return None

    def side(which: str) -> Any:
        value = spec.args.get(which)
        if value == "UNBOUNDED":
            return None
        if value == "CURRENT ROW":
            return 0
        number = literal_value(value) if isinstance(value, exp.Literal) else None
        if not isinstance(number, int):
            source.refuse(spec, "this window frame is", _FRAME)
        sign = -1 if spec.args.get(f"{which}_side") == "FOLLOWING" else 1
        return sign * number if which == "start" else -sign * number

    frame = (str(spec.args.get("kind")).upper(), side("start"), 0 if spec.args.get("end") is None else side("end"))
    if frame[0] == "ROWS":
        return frame
    if frame[1:] == (None, None) or (not ordered and {*frame[1:]} <= {None, 0}):  # without an order all are peers
        return WHOLE
    if frame[1:] == (None, 0):
        return None
    source.refuse(spec, f"{frame[0][:20]} with this frame is", _FRAME)
