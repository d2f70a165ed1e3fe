"""Conditions in three-valued logic, as text and as expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, Weight, classes, merged
from maquette.query import Expression, LinearQuery, col, where
from maquette.schema import Schema

Truth = bool | None


@dataclass(frozen=True, eq=False)
class Condition(Weight):
    """A condition in text or as an expression: comparisons joined by and, or, not, in three-valued logic.

    `tree` is a comparison (column, comparison, literal, truth value of every level), or ("and" | "or", trees), or
    ("not", tree).
    """

    schema: Schema = field(repr=False)
    tree: tuple[object, ...]
    as_text: bool

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return where(self.schema, self.text(self.tree) if self.as_text else self._expression(self.tree))

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return int(self._truth(self.tree, record) is True)

    def _truth(self, tree: tuple[object, ...], record: Record) -> Truth:
        match tree:
            case ("not", tuple(part)):
                inner = self._truth(part, record)
                return None if inner is None else not inner
            case ("and" | "or" as join, tuple(parts)):
                found = [self._truth(part, record) for part in parts]
                decides = join == "or"
                if decides in found:
                    return decides
                return None if None in found else not decides
            case (str(name), _, _, tuple(truths)):
                truth: Truth = truths[record[self.schema.position(name)]]
                return truth
        raise TypeError(f"{tree!r} is no condition")

    def text(self, tree: tuple[object, ...]) -> str:
        """The condition in SQL."""
        match tree:
            case ("not", tuple(part)):
                return f"NOT ({self.text(part)})"
            case ("and" | "or" as join, tuple(parts)):
                return f" {join.upper()} ".join(f"({self.text(part)})" for part in parts)
            case (str(name), "null", _, _):
                return f"{quoted(name)} IS NULL"
            case (str(name), str(comparison), literal, _):
                return f"{quoted(name)} {comparison} {_literal(literal)}"
        raise TypeError(f"{tree!r} is no condition")

    def _expression(self, tree: tuple[object, ...]) -> Expression:
        match tree:
            case ("not", tuple(part)):
                return ~self._expression(part)
            case ("and" | "or" as join, tuple(parts)):
                join_two: Callable[[Expression, Expression], Expression] = (
                    (lambda a, b: a & b) if join == "and" else (lambda a, b: a | b)
                )
                return reduce(join_two, [self._expression(part) for part in parts])
            case (str(name), "null", _, _):
                return col(name).is_null()
            case (str(name), str(comparison), literal, _):
                column = col(name)
                by = {"=": column.__eq__, "<>": column.__ne__, "<": column.__lt__, ">=": column.__ge__}
                return by[comparison](literal)
        raise TypeError(f"{tree!r} is no condition")

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(1)

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return 0

    def levels(self) -> Levels:
        """See `Weight`."""
        return self._levels(self.tree)

    def _levels(self, tree: tuple[object, ...]) -> Levels:
        match tree:
            case ("not", tuple(part)):
                return self._levels(part)
            case ("and" | "or", tuple(parts)):
                return merged(*(self._levels(part) for part in parts))
            case (str(name), _, _, tuple(truths)):
                return {self.schema.position(name): classes(truths)}
        raise TypeError(f"{tree!r} is no condition")


def quoted(name: str) -> str:
    """A name as quoted in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'" if not isinstance(value, int | float) else repr(value)
