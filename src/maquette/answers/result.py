"""Answer: a released number with its noise interval, what it cost and where it came from."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from maquette.privacy import Loss

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Source = Literal["cache", "derived", "hypothesis", "measured"]

SHOWN = 50  # rows in a notebook
NOISE_ONLY = "noise interval: the noise that was added to the binned, clamped table; no sampling or binning error"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One number, in the units of the question: a fraction of rows for a predicate, SQL's own number for SQL.

    `low` and `high` bound the exact value on the table as the schema holds it (binned and clamped) with probability
    `confidence` over the noise. `value` lies between them; `unbiased` is the noisy number before it was moved there,
    for further sums. `count` is the number of rows where the question counts rows. `cost` is what this answer's charge
    took, for all its numbers together; `remaining`, in a session, what was left after it.
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

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{_show(self.value)} [{_show(self.low)}, {_show(self.high)}]"

    def __repr__(self) -> str:
        return f"Answer({self} at {self.confidence:.0%}, {self.source}, cost {self.cost})"

    def _repr_html_(self) -> str:
        return (
            f"<b>{_show(self.value)}</b> [{_show(self.low)}, {_show(self.high)}] at {self.confidence:.0%} "
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
    """The answers of a statement with groups or several aggregates; every declared group is there."""

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
        wanted = (groups,) if isinstance(groups, str) else tuple(groups)
        for row in self.rows:
            if row.groups == wanted:
                return row
        raise KeyError(f"no group {wanted}; groups are labelled by {', '.join(self.group_titles)}")

    def to_arrow(self) -> pa.Table:
        """Group labels, and value, low and high of every aggregate."""
        import pyarrow as pa

        columns: dict[str, list[Any]] = {
            title: [row.groups[i] for row in self.rows] for i, title in enumerate(self.group_titles)
        }
        for title in self.titles:
            answers = [row[title] for row in self.rows]
            columns[title] = [answer.value for answer in answers]
            columns[f"{title}_low"] = [answer.low for answer in answers]
            columns[f"{title}_high"] = [answer.high for answer in answers]
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

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


def _price(cost: Loss) -> str:
    return f"cost {html.escape(str(cost))}" if cost.units else "free"


def _html_row(row: Row, titles: Sequence[str]) -> str:
    cells = [html.escape(label) for label in row.groups] + [html.escape(str(row[title])) for title in titles]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _show(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
