"""Answer: a released number with its noise interval, its cost and its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from maquette.answers.rowset import Cell, ColumnType, Rowset, RowsetColumn, Standing, finite, labels_column
from maquette.errors import QueryError
from maquette.privacy import Loss

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Source = Literal["cache", "derived", "hypothesis", "measured"]
BoundKind = Literal["measured", "certified", "logical"]
T = TypeVar("T")

TITLE = "value"  # title of the only column of a single number
NOISE_ONLY = "noise interval: the noise that was added to the binned, clamped table; no sampling or binning error"
CERTIFIED = (
    "certified interval: how far the finished model is from the binned, clamped table, measured with noise; all "
    "certified intervals of the release hold together"
)
WIDER = "wider than asked for, because the budget cannot pay for more; the interval itself holds"
LOGICAL = (
    "logical interval: only what cannot be otherwise, such as 0 to all rows, or the declared range for the average of "
    "a group that may have few rows or none"
)


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
    distance of the finished model from the rows) or "logical" (only what cannot be otherwise). `standing` says whether
    the interval is promised. Where SQL answers NULL, `value`, `low` and `high` are not numbers (NaN).
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
    title: str = TITLE
    together: bool = False
    type: ColumnType = "number"
    wider: bool = False
    """Measured, with an interval that holds, but wider than the session promises: the budget buys no better."""
    counted: str | None = None
    """How many rows of one privacy unit are counted, in words; None if each row is a unit."""

    @property
    def numbers(self) -> tuple[Answer, ...]:
        """Itself, as the only number."""
        return (self,)

    @property
    def standing(self) -> Standing:
        """Promised, cached (promised, and answered before), wider than promised, or guessed by the public model."""
        if self.wider:
            return "wider"
        return "guessed" if self.guarantee is None else "cached" if self.source == "cache" else "promised"

    @property
    def rowset(self) -> Rowset:
        """One column with one value, under its title in the statement."""
        return Rowset((_numbers_column(self.title, [self]),))

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

    def joined(self) -> Answer:
        """The same answer, whose interval holds together with others."""
        return replace(self, together=True)

    def noted(self, **facts: Any) -> Answer:
        """The answer with these fields."""
        return replace(self, **facts)

    def settled(self, remaining: Loss, **facts: Any) -> Answer:
        """As a session gives it: rounded, with the budget left after it and these fields.

        A number of the public model without a promise has the interval that logic allows. Numbers have twelve digits:
        beyond them, machines may differ in how they add.
        """
        alone = self.guarantee is None and self.source == "hypothesis"
        return _with(
            self,
            value=_short(self.value),
            low=_short(self.low),
            high=_short(self.high),
            count=None if self.count is None else _short(self.count),
            bound="logical" if alone else self.bound,
            remaining=remaining,
            **facts,
        )

    def recalled(self, cost: Loss) -> Answer:
        """The same answer, marked as coming from the cache, at this cost."""
        return _with(self, source="cache", cost=cost)

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain data, without its cost."""
        facts = {"count": self.count, "source": self.source, "guarantee": self.guarantee}
        facts |= {} if self.counted is None else {"counted": self.counted}
        facts |= {"remark": WIDER} if self.wider else {}
        return {**_interval(self), **facts, "confidence": _level(self)}

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
        if self.value != self.value:
            return "NULL"
        return f"{show(self.value)} [{show(self.low)}, {show(self.high)}]{'' if self.guarantee else _aside(self)}"

    def __repr__(self) -> str:
        kind = "" if self.bound == "measured" else f" ({self.bound})"
        sure = f" at {percent(self.confidence)}{kind}" if self.guarantee or self.wider else ", no promise"
        counted = "" if self.counted is None else f", {self.counted}"
        return f"Answer({self}{sure}, {self.source}, cost {self.cost}{counted})"

    def _repr_html_(self) -> str:
        from maquette.answers.display import number_html

        return number_html(self)

    def plot(self) -> Any:
        """An altair chart of the number and its interval; needs the extra `charts`."""
        from maquette.answers.display import chart

        return chart(self)


@dataclass(frozen=True)
class Row:
    """One group: its labels and its answers, by title."""

    groups: tuple[str, ...]
    answers: dict[str, Answer]
    values: tuple[Cell, ...] = ()
    """The same groups as values, where a label stands for one: a number, a truth value or a date."""
    standings: tuple[Standing, ...] = ()
    """Of labels that were computed from noisy numbers, whether the noise leaves them open; empty if all are public."""

    def __getitem__(self, title: str) -> Answer:
        return self.answers[title]


@dataclass(frozen=True)
class AnswerTable:
    """The answers to a statement with groups or several aggregates.

    Every declared group is there, unless the statement itself leaves some out (WHERE, HAVING, LIMIT). `order` lists the
    columns as the statement does; `together` says that all intervals hold together at `confidence`, which they do
    wherever groups were chosen, sorted or combined by their noisy numbers.
    """

    group_titles: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    cost: Loss
    order: tuple[str, ...] | None = None
    together: bool = False
    sure: float | None = None

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
        return next((one.confidence for one in self.numbers), 1.0 if self.sure is None else self.sure)

    @property
    def source(self) -> Source:
        """Where the numbers came from."""
        return next((one.source for one in self.numbers), "derived")

    @property
    def rowset(self) -> Rowset:
        """The columns in the order of the statement, each with its type and intervals."""
        groups = {title: i for i, title in enumerate(self.group_titles)}
        columns = []
        for title in self.columns if self.order is None else self.order:
            if title in groups:
                place = groups[title]
                values = [(row.values or row.groups)[place] for row in self.rows]
                standing = tuple(row.standings[place] if row.standings else "exact" for row in self.rows)
                columns.append(labels_column(title, values, standing))
            else:
                columns.append(_numbers_column(title, [row[title] for row in self.rows]))
        return Rowset(tuple(columns))

    @property
    def guarantee(self) -> str | None:
        """What is promised for every number; None if at least one of them has no promise."""
        numbers, weakest = self.numbers, self.bound
        if any(one.guarantee is None for one in numbers):
            return None
        return next((one.guarantee for one in numbers if one.bound == weakest), NOISE_ONLY)

    @property
    def bound(self) -> BoundKind:
        """The weakest kind of interval in the table: logical, then measured, then certified."""
        kinds = {one.bound for one in self.numbers}
        return "logical" if "logical" in kinds else "measured" if "measured" in kinds else "certified"

    @property
    def remaining(self) -> Loss | None:
        """In a session, the budget left after the charge."""
        return next((one.remaining for one in self.numbers), None)

    def each(self, change: Callable[[Answer], Answer]) -> AnswerTable:
        """The same table with `change` applied to every number."""
        rows = (_with(row, answers={title: change(one) for title, one in row.answers.items()}) for row in self.rows)
        return _with(self, rows=tuple(rows))

    def joined(self) -> AnswerTable:
        """The same table, with intervals that hold together."""
        return replace(self.noted(together=True), together=True)

    def noted(self, **facts: Any) -> AnswerTable:
        """The same table, every number with these fields."""
        return self.each(lambda one: one.noted(**facts))

    def settled(self, remaining: Loss, **facts: Any) -> AnswerTable:
        """As a session gives it: every number rounded, with the budget left after it and these fields."""
        return self.each(lambda one: one.settled(remaining, **facts))

    def recalled(self, cost: Loss) -> AnswerTable:
        """The same table, marked as coming from the cache, at this cost."""
        return _with(self.each(lambda one: one.recalled(cost)), cost=cost)

    def as_dict(self) -> dict[str, Any]:
        """The rows as plain data, without the cost."""
        rows = [
            dict(zip(self.group_titles, row.groups, strict=True)) | {t: _interval(row[t]) for t in self.titles}
            for row in self.rows
        ]
        remark = {"remark": WIDER} if any(one.wider for one in self.numbers) else {}
        return {"rows": rows, "confidence": self.confidence, "together": self.together, **remark}

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
        return "\n".join([*text, *more, *self._standing])

    @property
    def _standing(self) -> list[str]:
        """A line of text that says what the numbers are: promised, cached or guessed."""
        found = {standing: sum(one.standing == standing for one in self.numbers) for standing in get_args(Standing)}
        told = [standing for standing, count in found.items() if count]
        if not told:
            return []
        sure = f" at {percent(self.confidence)}, {'together' if self.together else 'each'}"
        if len(told) == 1:
            return [f"({told[0]}{'' if told[0] == 'guessed' else sure})"]
        return [f"({', '.join(f'{found[standing]:,} {standing}' for standing in told)}; promises{sure})"]

    def plot(self) -> Any:
        """An altair chart of every group with its interval; needs the extra `charts`."""
        from maquette.answers.display import chart

        return chart(self)

    def __repr__(self) -> str:
        return f"AnswerTable({len(self.rows)} rows of {', '.join(self.titles)}, cost {self.cost})"

    def _repr_html_(self) -> str:
        from maquette.answers.display import table_html

        return table_html(self)


def _with(one: T, **changes: Any) -> T:
    """`dataclasses.replace` in a third of the time, for classes that compute nothing when they are made."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    made.__dict__.update(changes)
    return made


def _found(rows: Sequence[Row], titles: Sequence[str], groups: tuple[str, ...]) -> Row:
    for row in rows:
        if row.groups == groups:
            return row
    raise KeyError(f"no group {groups}; groups are labelled by {', '.join(titles) or 'nothing'}")


def _interval(answer: Answer) -> dict[str, Any]:
    ends = {"value": answer.value, "low": answer.low, "high": answer.high, "bound": answer.bound}
    return {**ends, "standing": answer.standing}


def _level(answer: Answer) -> float | None:
    """The confidence of an interval that holds; a guess has none."""
    return None if answer.guarantee is None and not answer.wider else answer.confidence


def _aside(answer: Answer) -> str:
    return " (wider than asked for)" if answer.wider else " (guess)"


def _numbers_column(title: str, answers: Sequence[Answer]) -> RowsetColumn:
    kinds = {answer.type for answer in answers}
    return RowsetColumn(
        title,
        kinds.pop() if len(kinds) == 1 else "number",
        tuple(finite(answer.value) for answer in answers),
        tuple(finite(answer.low) for answer in answers),
        tuple(finite(answer.high) for answer in answers),
        tuple(answer.standing for answer in answers),
    )


def _arrow(rows: Sequence[Row], group_titles: Sequence[str], titles: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {title: [row.groups[i] for row in rows] for i, title in enumerate(group_titles)}
    for title in titles:
        answers = [row[title] for row in rows]
        columns[title] = [answer.value for answer in answers]
        columns[f"{title}_low"] = [answer.low for answer in answers]
        columns[f"{title}_high"] = [answer.high for answer in answers]
        columns[f"{title}_bound"] = [answer.bound for answer in answers]
        columns[f"{title}_standing"] = [answer.standing for answer in answers]
    return pa.table(columns)


def _short(number: float) -> float:
    return float(f"{number:.12g}")


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.6g}%"


def show(number: float) -> str:
    """A number as people read it."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
