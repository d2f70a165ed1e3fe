"""Scalars: expressions on answered groups, each result with the interval in which it lies if all inputs lie in theirs.

What depends on public values alone is computed by DuckDB; what depends on noisy numbers is computed here, on values and
on intervals at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from maquette.answers import moments
from maquette.answers.frame import Frame, Vector, as_noisy, exact
from maquette.answers.ratios import Form
from maquette.errors import QueryError
from maquette.query import evaluated

REHEARSED = ContextVar("REHEARSED", default=False)  # before a charge an overflow is an error, after it infinity

Ends = tuple[float, float]
_COMPARE: dict[type[Any], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda a, b: bool(a == b), exp.NEQ: lambda a, b: bool(a != b), exp.LT: lambda a, b: bool(a < b),
    exp.LTE: lambda a, b: bool(a <= b), exp.GT: lambda a, b: bool(a > b), exp.GTE: lambda a, b: bool(a >= b),
}  # fmt: skip


def evaluate(node: Any, frame: Frame, schema: Any) -> Vector:
    """The value of an expression on every row."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return frame.columns[str(node.name)]
    names = [str(column.name) for column in node.find_all(exp.Column)]
    if not any(frame.columns[name].noisy for name in names) and not isinstance(node, exp.Anonymous):
        columns = {name: list(frame.columns[name].values) for name in dict.fromkeys(names)}
        return exact(evaluated(node.sql(dialect="duckdb"), columns, frame.size, "an expression on answered groups"))
    return _Noisy(frame, schema).of(node)


class _Noisy:
    """Evaluates one expression on one frame, row by row."""

    def __init__(self, frame: Frame, schema: Any) -> None:
        self.frame, self.box, self.schema = frame, frame.box, schema

    def of(self, node: Any) -> Vector:  # noqa: PLR0912
        """A noisy expression."""
        match node:
            case exp.Add() | exp.Sub():
                sign = 1.0 if isinstance(node, exp.Add) else -1.0
                return self._linear(self._side(node.this), self._side(node.expression), sign)
            case exp.Neg():
                return self._linear(as_noisy(exact([0] * self.frame.size)), self._side(node.this), -1.0)
            case exp.Mul():
                return self._product(self._side(node.this), self._side(node.expression))
            case exp.Div() | exp.IntDiv():
                quotient = self._quotient(self._side(node.this), self._side(node.expression))
                return quotient if isinstance(node, exp.Div) else self._mapped(quotient, math.trunc)
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Round() | exp.Trunc():
                return self._rounded(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Coalesce():
                return self._coalesce([self._side(part) for part in (node.this, *node.expressions)])
            case exp.Nullif():
                inner = self._side(node.this)
                other = self._side(node.expression)
                same = [a is not None and a == b for a, b in zip(inner.values, other.values, strict=True)]
                gone = np.array(same, dtype=bool)
                return self._nulled(inner, gone)
            case exp.Greatest() | exp.Least():
                pick = max if isinstance(node, exp.Greatest) else min
                return self._extreme([self._side(part) for part in (node.this, *node.expressions)], pick)
            case exp.Floor():
                return self._mapped(self._side(node.this), math.floor)
            case exp.Ceil():
                return self._mapped(self._side(node.this), math.ceil)
            case exp.Sqrt():
                return self._mapped(self._side(node.this), lambda x: math.sqrt(max(x, 0.0)))
            case exp.Exp():
                return self._mapped(self._side(node.this), lambda x: math.exp(min(x, 700.0)))
            case exp.Ln():
                return self._mapped(self._side(node.this), lambda x: math.log(x) if x > 0 else -math.inf)
            case exp.Abs():
                return self._built([self._side(node.this)], abs, _absolute)
            case exp.Pow():
                return self._power(self._side(node.this), self._side(node.expression))
            case exp.Anonymous():
                return self._moment(node)
        return self._truth(node)

    def _side(self, node: Any) -> Vector:
        return as_noisy(evaluate(node, self.frame, self.schema))

    def _built(self, sides: list[Vector], value: Callable[..., Any], ends: Callable[..., Ends]) -> Vector:
        """A new variable for each row, from the values and the intervals of its inputs."""
        values, low, high, forms = list[Any](), list[float](), list[float](), list[Form | None]()
        for row in range(self.frame.size):
            parts = [side.values[row] for side in sides]
            if any(part is None for part in parts):
                values.append(None)
                low.append(math.nan)
                high.append(math.nan)
                forms.append(None)
                continue
            a, b = ends(*((float(side.low[row]), float(side.high[row])) for side in sides))  # type: ignore[index]
            result = value(*(float(part) for part in parts))
            nothing = math.isnan(result)  # as the variance of no rows: NULL, though its range is known
            values.append(None if nothing else min(max(result, a), b))
            low.append(a)
            high.append(b)
            forms.append(None if nothing else self.box.add(a, b))
        return self._vector(values, forms, low, high, sides)

    def _extreme(self, sides: list[Vector], pick: Callable[[Any], Any]) -> Vector:
        """The largest or smallest of several numbers, NULL left out, as DuckDB and PostgreSQL have it."""
        values, low, high, forms = list[Any](), list[float](), list[float](), list[Form | None]()
        for row in range(self.frame.size):
            known = [side for side in sides if side.values[row] is not None]
            values.append(pick(float(side.values[row]) for side in known) if known else None)
            low.append(pick(float(side.low[row]) for side in known) if known else math.nan)  # type: ignore[index]
            high.append(pick(float(side.high[row]) for side in known) if known else math.nan)  # type: ignore[index]
            forms.append(self.box.add(low[-1], high[-1]) if known else None)
        return self._vector(values, forms, low, high, sides)

    def _vector(self, values: list[Any], forms: Any, low: Any, high: Any, sides: list[Vector]) -> Vector:
        column = np.empty(len(values), dtype=object)
        column[:] = values
        weakest = np.min([as_noisy(side).weakest for side in sides], axis=0)  # type: ignore[arg-type]
        promised = np.all([as_noisy(side).promised for side in sides], axis=0)  # type: ignore[arg-type]
        return Vector(column, forms, np.array(low, float), np.array(high, float), weakest, promised)

    def _formed(self, values: list[Any], forms: list[Form | None], sides: list[Vector]) -> Vector:
        ends = [(math.nan, math.nan) if form is None else self.box.bounds(form) for form in forms]
        return self._vector(values, forms, [a for a, _ in ends], [b for _, b in ends], sides)

    def _linear(self, one: Vector, two: Vector, sign: float) -> Vector:
        values, forms = list[Any](), list[Form | None]()
        made: dict[tuple[int, int], Form] = {}  # rows that share their forms share the result
        for row in range(self.frame.size):
            a, b = one.values[row], two.values[row]
            f, g = one.forms[row], two.forms[row]  # type: ignore[index]
            if a is None or b is None or f is None or g is None:
                values.append(None)
                forms.append(None)
                continue
            values.append(a + sign * b)
            if (id(f), id(g)) not in made:
                made[id(f), id(g)] = {v: f.get(v, 0.0) + sign * g.get(v, 0.0) for v in {*f, *g}}
            forms.append(made[id(f), id(g)])
        return self._formed(values, forms, [one, two])

    def _product(self, one: Vector, two: Vector) -> Vector:
        constants = [all(form is None or form.keys() <= {-1} for form in v.forms or ()) for v in (one, two)]
        if not any(constants):
            return self._built([one, two], lambda a, b: a * b, _times)
        factor, other = (one, two) if constants[0] else (two, one)
        values, forms = list[Any](), list[Form | None]()
        made: dict[tuple[int, float], Form] = {}  # rows that share their forms share the result
        for row in range(self.frame.size):
            c, x, form = factor.values[row], other.values[row], other.forms[row]  # type: ignore[index]
            if c is None or x is None or form is None:
                values.append(None)
                forms.append(None)
                continue
            values.append(c * x)
            if (id(form), float(c)) not in made:
                made[id(form), float(c)] = {v: float(c) * k for v, k in form.items()}
            forms.append(made[id(form), float(c)])
        return self._formed(values, forms, [one, two])

    def _quotient(self, one: Vector, two: Vector) -> Vector:
        values, low, high, forms = list[Any](), list[float](), list[float](), list[Form | None]()
        made: dict[tuple[int, float], Form] = {}  # rows that share their forms share the result
        for row in range(self.frame.size):
            a, b, f, g = one.values[row], two.values[row], one.forms[row], two.forms[row]  # type: ignore[index]
            if a is None or b is None or f is None or g is None or b == 0:
                values.append(None)
                low.append(math.nan)
                high.append(math.nan)
                forms.append(None)
                continue
            if g.keys() <= {-1}:
                if (id(f), g[-1]) not in made:
                    made[id(f), g[-1]] = {v: c / g[-1] for v, c in f.items()}
                form = made[id(f), g[-1]]
                ends = self.box.bounds(form)
            else:
                form, ends = self._ratio(f, g)
            values.append(min(max(a / b, ends[0]), ends[1]))
            low.append(ends[0])
            high.append(ends[1])
            forms.append(form)
        return self._vector(values, forms, low, high, [one, two])

    def _ratio(self, above: Form, below: Form) -> tuple[Form, Ends]:
        """A new variable for a ratio, and its range: a share of some rows of which others are a part is at most 1."""
        ends = self.box.ratio(above, below) if self.box.bounds(below)[0] >= 0 else (-math.inf, math.inf)
        most = math.inf if ends[1] <= 0 else self.box.largest_share(above, below)
        ends = min(ends[0], most) + 0.0, min(ends[1], most) + 0.0  # no minus zero
        return self.box.add(*ends), ends

    def _mapped(self, side: Vector, function: Callable[[float], float]) -> Vector:
        """A function that never falls."""

        def total(x: float) -> float:
            return float(function(x)) if math.isfinite(x) else x

        return self._built([side], total, lambda one: (total(one[0]), total(one[1])))

    def _rounded(self, node: Any) -> Vector:
        digits = node.args.get("decimals")
        places = 0 if digits is None else evaluated(digits.sql(dialect="duckdb"), {}, 1)[0]
        if not isinstance(places, int):
            raise QueryError("round to anything but a number of digits is not supported", advice="write round(x, 2)")
        return self._mapped(self._side(node.this), _to_places(places, cut=isinstance(node, exp.Trunc)))

    def _cast(self, node: Any) -> Vector:
        side, kind = self._side(node.this), node.to.this.name
        if kind in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
            return self._mapped(side, _to_places(0))
        if kind == "DECIMAL" and len(node.to.expressions) == 2:
            return self._mapped(side, _to_places(int(node.to.expressions[1].name)))
        if kind in ("DOUBLE", "FLOAT", "DECIMAL"):
            return side
        kind = str(node.to.args.get("kind") or kind)[:30]
        raise QueryError(f"a noisy number as {kind} is not supported", advice="leave the cast out, or cast to DOUBLE")

    def _power(self, base: Vector, exponent: Vector) -> Vector:
        def ends(one: Ends, two: Ends) -> Ends:
            if two[0] == two[1] == 2.0:
                a, b = _absolute(one)
                return a * a, b * b
            if one[0] < 0:
                return -math.inf, math.inf
            corners = [_raised(x, y) for x in one for y in two]
            return min(corners), max(corners)

        return self._built([base, exponent], _raised, ends)

    def _nulled(self, vector: Vector, gone: Any) -> Vector:
        values = vector.values.copy()
        values[gone] = None
        forms = [None if out else form for out, form in zip(gone, vector.forms or (), strict=True)]
        low, high = (np.where(gone, np.nan, end) for end in (vector.low, vector.high))  # type: ignore[arg-type]
        return Vector(values, forms, low, high, vector.weakest, vector.promised)

    def _coalesce(self, sides: list[Vector]) -> Vector:
        result = sides[0]
        for side in sides[1:]:
            empty = np.array([value is None for value in result.values])
            rows = [i if not out else i + len(empty) for i, out in enumerate(empty)]
            from maquette.answers.frame import stacked

            result = stacked([result, side]).take(np.array(rows, dtype=np.int64))
        return result

    def _moment(self, node: Any) -> Vector:
        name = str(node.this)
        if name == "mq_quantile":
            label, *rest = node.expressions
            sides = [self._side(part) for part in rest]
            column = self.schema[str(label.this)]
            return self._built(sides, *moments.quantile(column))
        sides = [self._side(part) for part in node.expressions]
        value, ends = moments.FORMULAS[name]
        return self._built(sides, value, ends)

    # truth values: 1, 0, and between them where the noise leaves it open

    def _truth(self, node: Any) -> Vector:
        match node:
            case exp.And() | exp.Or():
                made = self._connected([self._side(part) for part in node.flatten()], isinstance(node, exp.And))
            case exp.Not():
                made = self._turned(self._side(node.this))
            case exp.Is():
                made = self._is(node)
            case exp.Between():
                low, high = node.args["low"], node.args["high"]
                both = exp.And(
                    this=exp.GTE(this=node.this, expression=low), expression=exp.LTE(this=node.this, expression=high)
                )
                return self._truth(both)
            case exp.In():
                parts = [exp.EQ(this=node.this, expression=part) for part in node.expressions]
                return self._truth(exp.or_(*parts) if len(parts) > 1 else parts[0])
            case _ if type(node) in _COMPARE:
                compare = _COMPARE[type(node)]
                sides = [self._side(node.this), self._side(node.expression)]
                made = self._built(sides, lambda a, b: float(compare(a, b)), lambda a, b: _open(type(node), a, b))
            case _:
                raise QueryError(
                    f"{node.sql(dialect='duckdb')[:60]} of a noisy number is not supported",
                    advice="use arithmetic, round, CASE, coalesce and comparisons",
                )
        values = np.array([None if v is None else bool(v) for v in made.values], dtype=object)
        return Vector(values, made.forms, made.low, made.high, made.weakest, made.promised)

    def _connected(self, sides: list[Vector], both: bool) -> Vector:
        """AND or OR of truth values: NULL is the result only where the other parts do not decide."""
        values, low, high = list[Any](), list[float](), list[float]()
        pick, decided = (min, 0.0) if both else (max, 1.0)
        for row in range(self.frame.size):
            known = [side for side in sides if side.values[row] is not None]
            ends = [(float(side.low[row]), float(side.high[row])) for side in known]  # type: ignore[index]
            value = pick((float(side.values[row]) for side in known), default=None)
            a, b = pick((a for a, _ in ends), default=0.0), pick((b for _, b in ends), default=1.0)
            if len(known) < len(sides):  # never true for sure (AND), or never false for sure (OR)
                value = value if value == decided else None
                a, b = (0.0, b) if both else (a, 1.0)
            values.append(value)
            low.append(a)
            high.append(b)
        return self._vector(values, self._added(values, low, high), low, high, sides)

    def _turned(self, side: Vector) -> Vector:
        """NOT of truth values."""
        values = [None if value is None else 1.0 - float(value) for value in side.values]
        low, high = 1.0 - np.array(side.high, float), 1.0 - np.array(side.low, float)
        return self._vector(values, self._added(values, low, high), low, high, [side])

    def _is(self, node: Any) -> Vector:
        """IS NULL by value; IS TRUE and IS FALSE, which NULL is not."""
        side, wanted = self._side(node.this), node.expression
        if not isinstance(wanted, exp.Null | exp.Boolean):
            raise QueryError("IS of a noisy number is not supported", advice="compare it with = or <>")
        empty = np.array([value is None for value in side.values])
        if isinstance(wanted, exp.Null):
            flags = [float(value) for value in empty]
            return self._vector([bool(v) for v in flags], [{-1: v} for v in flags], flags, flags, [side])
        truth = side if wanted.this else self._turned(side)
        values = [False if value is None else bool(value) for value in truth.values]
        low, high = np.nan_to_num(np.array(truth.low, float)), np.nan_to_num(np.array(truth.high, float))
        return self._vector(values, self._added(values, low, high), low, high, [side])

    def _added(self, values: list[Any], low: Any, high: Any) -> list[Form | None]:
        """A new variable for each row that has a value."""
        return [
            None if v is None else self.box.add(float(a), float(b)) for v, a, b in zip(values, low, high, strict=True)
        ]

    def _case(self, node: Any) -> Vector:
        """The first branch whose condition holds by value; the interval covers every branch that may be meant."""
        branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
        default = node.args.get("false") if isinstance(node, exp.If) else node.args.get("default")
        subject = None if isinstance(node, exp.If) else node.this
        tests = [
            self._side(exp.EQ(this=subject, expression=branch.this) if subject is not None else branch.this)
            for branch in branches
        ]
        results = [evaluate(branch.args["true"], self.frame, self.schema) for branch in branches]
        results.append(evaluate(default if default is not None else exp.Null(), self.frame, self.schema))
        texts = any(isinstance(v, str) for result in results for v in result.values)
        sides = [as_noisy(result) for result in results]
        values, low, high, certain = list[Any](), list[float](), list[float](), list[bool]()
        forms: list[Form | None] = []
        for row in range(self.frame.size):
            chosen, possible = None, []
            for i, test in enumerate(tests):
                if test.values[row] and chosen is None:
                    chosen = i
                if test.values[row] is not None and test.high[row] > 0:  # type: ignore[index]
                    possible.append(i)
                    if test.low[row] >= 1:  # type: ignore[index]
                        break
            else:
                possible.append(len(tests))
            chosen = len(tests) if chosen is None else chosen
            value = results[chosen].values[row]
            ends = [(sides[i].low[row], sides[i].high[row]) for i in possible if results[i].values[row] is not None]  # type: ignore[index]
            a, b = (min((e[0] for e in ends), default=math.nan), max((e[1] for e in ends), default=math.nan))
            values.append(value)
            low.append(a)
            high.append(b)
            certain.append(all(results[i].values[row] == value for i in possible))
            only = sides[chosen].forms[row] if len(possible) == 1 else None  # type: ignore[index]
            forms.append(None if texts or value is None else only or self.box.add(float(a), float(b)))
        made = self._vector(values, forms, low, high, [*tests, *sides])
        return replace(made, promised=made.promised & np.array(certain, dtype=bool)) if texts else made


def _to_places(places: int, *, cut: bool = False) -> Callable[[float], float]:
    """Rounding to `places` decimal places, half away from zero; or cutting off what follows."""
    scale = 10.0 ** min(max(places, -300), 300)

    def nearest(x: float) -> float:
        moved = x * scale
        if not math.isfinite(moved):
            return x
        return (math.trunc(moved) if cut else math.floor(abs(moved) + 0.5) * math.copysign(1, x)) / scale

    return nearest


def _raised(base: float, exponent: float) -> float:
    """A power, also where it is too large for a float or has no number."""
    if base < 0 and not float(exponent).is_integer():
        return math.nan
    try:
        return float(base**exponent)
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        if REHEARSED.get():
            raise
        return -math.inf if base < 0 and exponent % 2 else math.inf


def _times(one: Ends, two: Ends) -> Ends:
    corners = [0.0 if 0.0 in (x, y) else x * y for x in one for y in two]
    return min(corners), max(corners)


def _absolute(one: Ends) -> Ends:
    a, b = abs(one[0]), abs(one[1])
    return (0.0 if one[0] <= 0 <= one[1] else min(a, b)), max(a, b)


def _open(kind: type[Any], one: Ends, two: Ends) -> Ends:
    """Whether a comparison holds for sure (1, 1), never (0, 0), or depends on the noise (0, 1)."""
    below, above = one[1] < two[0], one[0] > two[1]
    least, most = one[1] <= two[0], one[0] >= two[1]
    same = one[0] == one[1] == two[0] == two[1]
    sure, never = {
        exp.LT: (below, most), exp.LTE: (least, above), exp.GT: (above, least), exp.GTE: (most, below),
        exp.EQ: (same, below or above), exp.NEQ: (below or above, same),
    }[kind]  # fmt: skip
    return (1.0, 1.0) if sure else (0.0, 0.0) if never else (0.0, 1.0)
