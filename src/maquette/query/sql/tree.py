"""The tree of a SELECT: the step between its text and its questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maquette.query.expression import Expression, Place


@dataclass(frozen=True)
class Aggregate:
    """count(*) if `column` is None, else count, sum or avg of a column, over the rows for which `keep` holds."""

    function: Literal["count", "sum", "avg"]
    column: str | None
    keep: Expression


@dataclass(frozen=True)
class Case:
    """A CASE: the label of the first condition that holds, else `otherwise` (None: the NULL bucket)."""

    branches: tuple[tuple[Expression, str], ...]
    otherwise: str | None


@dataclass(frozen=True)
class Item:
    """One entry of the select list or of GROUP BY: a column name, a CASE or an aggregate."""

    body: str | Case | Aggregate
    title: str
    at: Place | None


@dataclass(frozen=True)
class Select:
    """One statement; a number in `group` points into `items`."""

    items: tuple[Item, ...]
    table: str
    where: Expression
    group: tuple[Item | int, ...]
