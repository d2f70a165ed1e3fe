"""What every question returns: one number or a table of numbers, read through one protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self

from maquette.privacy import Loss

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from maquette.answers.result import Answer, BoundKind, Row, Source
    from maquette.answers.rowset import Rowset


class Answered(Protocol):
    """An answer, read as a number or as a table; `Answer` and `AnswerTable` both fit.

    As a number: `value`, `low`, `high` and `count` are for an answer of one number; a table of several numbers refuses
    them. As a table: `rows` by group, `numbers` one after the other, `to_pandas()`; a single number is one row without
    groups.
    """

    @property
    def value(self) -> float:
        """The number, if there is one."""

    @property
    def low(self) -> float:
        """The lower end of its noise interval."""

    @property
    def high(self) -> float:
        """The upper end of its noise interval."""

    @property
    def count(self) -> float | None:
        """The number of rows, where the question counts rows."""

    @property
    def numbers(self) -> tuple[Answer, ...]:
        """Every number with its interval, row by row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of the table: those of the groups, then those of the numbers."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every group with its numbers."""

    @property
    def rowset(self) -> Rowset:
        """The answer as ordered, named and typed columns, as the statement lists them."""

    def row(self, *groups: str) -> Row:
        """The numbers of one group, by its labels."""

    @property
    def confidence(self) -> float:
        """The probability with which each interval covers its number."""

    @property
    def source(self) -> Source:
        """Where the numbers came from."""

    @property
    def cost(self) -> Loss:
        """The loss charged for all of them together."""

    @property
    def guarantee(self) -> str | None:
        """What is promised for every number; None if at least one of them has no promise."""

    @property
    def bound(self) -> BoundKind:
        """Where the intervals come from: measured, certified or logical; of a table, the weakest of its numbers."""

    @property
    def remaining(self) -> Loss | None:
        """In a session, the budget left after the charge."""

    def each(self, change: Callable[[Answer], Answer]) -> Self:
        """The same answer with `change` applied to every number."""

    def joined(self) -> Self:
        """The same, with intervals that hold together."""

    def noted(self, **facts: Any) -> Self:
        """The same answer, every number with these fields."""

    def settled(self, remaining: Loss, **facts: Any) -> Self:
        """As a session gives it: every number rounded, with the budget left after it and these fields."""

    def recalled(self, cost: Loss) -> Self:
        """The same answer, marked as coming from the cache, at this cost."""

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain data, without its cost."""

    def to_arrow(self) -> pa.Table:
        """Group labels, and value, low, high and kind of interval of every number."""

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""

    def plot(self) -> Any:
        """An altair chart of the numbers and their intervals."""

    def _repr_html_(self) -> str: ...
