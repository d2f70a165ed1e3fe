"""Affine: a number times a column plus a number, and a CASE that keeps such a thing for some rows.

A sum of `a * x + b` is `a` times the sum of x plus `b` times the count, and CASE WHEN c THEN x ELSE 0 END adds up what
FILTER (WHERE c) keeps. Written so, the sum is one of the column's own values, not of the middles of its bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from maquette.query.sql.axes import literal_value
from maquette.query.sql.parser import is_literal

LARGEST = 1e100  # beyond it, and its inverse, a square or a sum may be no number: such texts are left to their levels


@dataclass(frozen=True)
class Affine:
    """`factor` times a column plus `offset`."""

    column: Any
    factor: float = 1
    offset: float = 0

    def of(self, number: Any, counted: Any) -> Any:
        """The same of a sum and a count, or of an average and 1."""
        moved = number if self.factor == 1 else exp.Mul(this=exp.convert(self.factor), expression=number)
        if self.offset == 0:
            return moved
        beside = (
            exp.convert(self.offset) if counted is None else exp.Mul(this=exp.convert(self.offset), expression=counted)
        )
        return exp.Paren(this=exp.Add(this=moved, expression=beside))


def affine(node: Any) -> Affine | None:
    """An expression as a multiple of one column plus a number; None if it is anything else."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return Affine(node)
    if isinstance(node, exp.Neg):
        return _moved(affine(node.this), -1, 0)
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return None
    first, second = node.this.unnest(), node.expression.unnest()
    if (number := _number(second)) is not None:
        match node:
            case exp.Add():
                return _moved(affine(first), 1, number)
            case exp.Sub():
                return _moved(affine(first), 1, -number)
            case exp.Mul():
                return _moved(affine(first), number, 0)
        return _moved(affine(first), 1 / number, 0) if number else None
    if (number := _number(first)) is not None and not isinstance(node, exp.Div):
        factor, offset = (number, 0) if isinstance(node, exp.Mul) else (1 if isinstance(node, exp.Add) else -1, number)
        return _moved(affine(second), factor, offset)
    return None


def searched(node: Any) -> Any:
    """`CASE x WHEN 1 THEN ...`, `if(x = 1, ...)` and `nullif(x, 1)` as `CASE WHEN ...`; anything else as it is."""
    case = node.unnest()
    if isinstance(case, exp.Nullif) and is_literal(case.expression) and literal_value(case.expression) is not None:
        differs = exp.NEQ(this=case.this.copy(), expression=case.expression.copy())
        return exp.Case(ifs=[exp.If(this=differs, true=case.this.copy())])
    if isinstance(case, exp.If):
        branch = exp.If(this=case.this.copy(), true=case.args["true"].copy())
        return exp.Case(ifs=[branch], default=(case.args.get("false") or exp.Null()).copy())
    if not isinstance(case, exp.Case) or case.this is None:
        return node
    copy = case.copy()
    compared = copy.this
    copy.set("this", None)
    for branch in copy.args["ifs"]:
        branch.set("this", exp.EQ(this=compared.copy(), expression=branch.this))
    return copy


def filled(node: Any) -> Any:
    """`coalesce(x, 0)` as `CASE WHEN x IS NOT NULL THEN x ELSE 0 END`; anything else as it is."""
    case = node.unnest()
    if not isinstance(case, exp.Coalesce) or len(case.expressions) != 1:
        return case
    known = exp.Not(this=exp.Is(this=case.this.copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=case.this.copy())], default=case.expressions[0].copy())


def kept_case(node: Any, *, zeros: bool) -> tuple[Any, Any] | None:
    """The condition and the expression of a CASE with one branch; other rows have NULL, or 0 where `zeros` may be."""
    node = node.unnest()
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return None
    default, (branch,) = node.args.get("default"), node.args["ifs"]
    if default is None or isinstance(default, exp.Null) or (zeros and _number(default.unnest()) == 0):
        return branch.this, branch.args["true"]
    return None


def _number(node: Any) -> float | None:
    value = literal_value(node) if is_literal(node) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moved(inner: Affine | None, factor: float, offset: float) -> Affine | None:
    if inner is None:
        return None
    moved = Affine(inner.column, factor * inner.factor, factor * inner.offset + offset)
    return moved if 1 / LARGEST < abs(moved.factor) < LARGEST and abs(moved.offset) < LARGEST else None
