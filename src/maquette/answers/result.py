"""Answer: a released number with its noise interval, its cost and its source."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from maquette.errors import QueryError
from maquette.privacy import Loss

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Source = Literal["cache", "derived", "hypothesis", "measured"]
BoundKind = Literal["measured", "certified", "logical"]

SHOWN = 50  # rows shown in a notebook
TITLE = "value"  # title of the only column of a single number
NOISE_ONLY = "noise interval: the noise that was added to the binned, clamped table; no sampling or binning error"
CERTIFIED = (
    "certified interval: how far the finished model is from the binned, clamped table, measured with noise; all "
    "certified intervals of the release hold together"
)
LOGICAL = "logical interval: only what cannot be otherwise, such as 0 to all rows or the declared range"


def promise_of(kind: BoundKind) -> str:
    """What an interval of this kind promises, in words."""
    return {"measured": NOISE_ONLY, "certified": CERTIFIED, "logical": LOGICAL}[kind]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One number, in the units of the question: a fraction of rows for a predicate, SQL's own number for SQL.

    `low` and `high` bound the exact value on the table as the schema holds it (binned and clamped) with probability
    `confidence` over the noise. `value` lies between them; `unbiased` is the noisy number before it was moved there,
    for further sums. `count` is the number of rows where the question counts rows. `cost` is the loss charged for this
    answer, all its numbers together; `remaining`, in a session, is the budget left after it.

    `bound` says where the interval comes from: "measured" (the noise of measurements), "certified" (the measured
    distance of the finished model from the rows) or "logical" (only what cannot be otherwise).
    """

    value: float
    low: float
    high: float
    confidence: float
    count: float | None
    source: Source
    cost: Loss
    unbiased: float | None = None
    guarantee: str | None = NOISE_ONLY
    remaining: Loss | None = None
    bound: BoundKind = "measured"

    @property
    def numbers(self) -> tuple[Answer, ...]:
        """Itself, as the only number."""
        return (self,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The title of its only column."""
        return (TITLE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row without groups."""
        return (Row((), {TITLE: self}),)

    def row(self, *groups: str) -> Row:
        """Its only row, which has no groups."""
        return _found(self.rows, (), groups)

    def each(self, change: Callable[[Answer], Answer]) -> Answer:
        """The answer with `change` applied."""
        return change(self)

    def recalled(self, cost: Loss) -> Answer:
        """The same answer, marked as coming from the cache, at this cost."""
        return replace(self, source="cache", cost=cost)

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain data, without its cost."""
        facts = {"count": self.count, "source": self.source, "guarantee": self.guarantee}
        return {**_interval(self), **facts, "confidence": self.confidence}

    def to_arrow(self) -> pa.Table:
        """One row of value, low, high and the kind of the interval."""
        return _arrow(self.rows, (), self.columns)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{_show(self.value)} [{_show(self.low)}, {_show(self.high)}]"

    def __repr__(self) -> str:
        kind = "" if self.bound == "measured" else f" ({self.bound})"
        return f"Answer({self} at {self.confidence:.0%}{kind}, {self.source}, cost {self.cost})"

    def _repr_html_(self) -> str:
        return (
            f"<b>{_show(self.value)}</b> [{_show(self.low)}, {_show(self.high)}] {self.bound} at {self.confidence:.0%} "
            f"<small>{self.source}{'' if self.guarantee else ', without a promise'}, {_price(self.cost)}</small>"
        )


@dataclass(frozen=True)
class Row:
    """One group: its labels and its answers, by title."""

    groups: tuple[str, ...]
    answers: dict[str, Answer]

    def __getitem__(self, title: str) -> Answer:
        return self.answers[title]


@dataclass(frozen=True)
class AnswerTable:
    """The answers to a statement with groups or several aggregates; every declared group is there."""

    group_titles: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    cost: Loss

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, groups: int | str | tuple[str, ...]) -> Row:
        """A row by position or by its group labels."""
        if isinstance(groups, int):
            return self.rows[groups]
        return self.row(groups) if isinstance(groups, str) else self.row(*groups)

    def row(self, *groups: str) -> Row:
        """The numbers of one group, by its labels."""
        return _found(self.rows, self.group_titles, groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of the groups, then those of the numbers."""
        return (*self.group_titles, *self.titles)

    @property
    def numbers(self) -> tuple[Answer, ...]:
        """Every number with its interval, row by row."""
        return tuple(row[title] for row in self.rows for title in self.titles)

    @property
    def value(self) -> float:
        """The number, if the table holds only one."""
        return self._only("value").value

    @property
    def low(self) -> float:
        """The lower end of the interval of its only number."""
        return self._only("low").low

    @property
    def high(self) -> float:
        """The upper end of the interval of its only number."""
        return self._only("high").high

    @property
    def count(self) -> float | None:
        """The number of rows, if that is all the table holds."""
        return self._only("count").count

    @property
    def confidence(self) -> float:
        """The probability with which each interval covers its number."""
        return self.rows[0][self.titles[0]].confidence

    @property
    def source(self) -> Source:
        """Where the numbers came from."""
        return self.rows[0][self.titles[0]].source

    @property
    def guarantee(self) -> str | None:
        """What is promised for every number; None if at least one of them has no promise."""
        given = [one.guarantee for one in self.numbers]
        weakest = next((one.guarantee for one in self.numbers if one.bound == self.bound), None)
        return None if None in given else weakest

    @property
    def bound(self) -> BoundKind:
        """The weakest kind of interval in the table: logical, then measured, then certified."""
        kinds = {one.bound for one in self.numbers}
        return "logical" if "logical" in kinds else "measured" if "measured" in kinds else "certified"

    @property
    def remaining(self) -> Loss | None:
        """In a session, the budget left after the charge."""
        return self.rows[0][self.titles[0]].remaining

    def each(self, change: Callable[[Answer], Answer]) -> AnswerTable:
        """The same table with `change` applied to every number."""
        rows = (Row(row.groups, {title: change(one) for title, one in row.answers.items()}) for row in self.rows)
        return replace(self, rows=tuple(rows))

    def recalled(self, cost: Loss) -> AnswerTable:
        """The same table, marked as coming from the cache, at this cost."""
        return replace(self.each(lambda one: one.recalled(cost)), cost=cost)

    def as_dict(self) -> dict[str, Any]:
        """The rows as plain data, without the cost."""
        rows = [
            dict(zip(self.group_titles, row.groups, strict=True)) | {t: _interval(row[t]) for t in self.titles}
            for row in self.rows
        ]
        return {"rows": rows, "confidence": self.confidence}

    def to_arrow(self) -> pa.Table:
        """Group labels, and value, low, high and kind of interval of every aggregate."""
        return _arrow(self.rows, self.group_titles, self.titles)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def _only(self, wanted: str) -> Answer:
        numbers = self.numbers
        if len(numbers) != 1:
            raise QueryError(
                f"the answer is a table of {len(numbers):,} numbers; {wanted} is defined for a single number only",
                advice="read .rows, .row(group)[title] or .to_pandas()",
            )
        return numbers[0]

    def __str__(self) -> str:
        shown = self.rows[:20]
        lines = [[*self.group_titles, *self.titles]]
        lines += [[*row.groups, *(str(row[title]) for title in self.titles)] for row in shown]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        more = [] if len(shown) == len(self.rows) else [f"... {len(self.rows) - len(shown)} more rows"]
        return "\n".join([*text, *more])

    def __repr__(self) -> str:
        return f"AnswerTable({len(self.rows)} rows of {', '.join(self.titles)}, cost {self.cost})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(title)}</th>" for title in (*self.group_titles, *self.titles))
        body = "".join(_html_row(row, self.titles) for row in self.rows[:SHOWN])
        if len(self.rows) > SHOWN:
            width = len(self.group_titles) + len(self.titles)
            body += f'<tr><td colspan="{width}">... {len(self.rows) - SHOWN:,} more rows</td></tr>'
        return f"<table><tr>{head}</tr>{body}</table><small>{_price(self.cost)}</small>"


def _found(rows: Sequence[Row], titles: Sequence[str], groups: tuple[str, ...]) -> Row:
    for row in rows:
        if row.groups == groups:
            return row
    raise KeyError(f"no group {groups}; groups are labelled by {', '.join(titles) or 'nothing'}")


def _interval(answer: Answer) -> dict[str, Any]:
    return {"value": answer.value, "low": answer.low, "high": answer.high, "bound": answer.bound}


def _arrow(rows: Sequence[Row], group_titles: Sequence[str], titles: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {title: [row.groups[i] for row in rows] for i, title in enumerate(group_titles)}
    for title in titles:
        answers = [row[title] for row in rows]
        columns[title] = [answer.value for answer in answers]
        columns[f"{title}_low"] = [answer.low for answer in answers]
        columns[f"{title}_high"] = [answer.high for answer in answers]
        columns[f"{title}_bound"] = [answer.bound for answer in answers]
    return pa.table(columns)


def _price(cost: Loss) -> str:
    return f"cost {html.escape(str(cost))}" if cost.units else "free"


def _html_row(row: Row, titles: Sequence[str]) -> str:
    cells = [html.escape(label) for label in row.groups] + [html.escape(str(row[title])) for title in titles]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _show(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
