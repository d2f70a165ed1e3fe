"""Display: an answer in a notebook, as a table that draws its intervals, or as an altair chart with error bars.

Guesses of the model are drawn hollow and pale, promises solid. Names of groups are data: they are escaped in HTML, and
no chart has them in an expression.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maquette.answers.result import WIDER, Answer, AnswerTable, percent, show
from maquette.errors import QueryError
from maquette.privacy import Loss

if TYPE_CHECKING:
    from maquette.answers.api import Answered

SHOWN = 50  # rows shown in a notebook
WIDE = 120  # pixels of a drawn interval
SOLID, HOLLOW = "#2a8f9e", "#8a9ba8"


def number_html(answer: Answer) -> str:
    """One number, its interval drawn, and what is promised about it."""
    sure = f"{answer.bound} at {percent(answer.confidence)}" if answer.guarantee or answer.wider else "no promise"
    return (
        f"<b>{html.escape(show(answer.value))}</b> [{show(answer.low)}, {show(answer.high)}] {sure} "
        f"<small>{_said(answer)}, {_price(answer.cost)}{_counted(answer)}</small>"
    )


def table_html(table: AnswerTable) -> str:
    """A table of answers: every number beside its interval, drawn on one scale for each column."""
    titles = (*table.group_titles, *table.titles)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    shown = table.rows[:SHOWN]
    scales = {title: _scale([row[title] for row in shown]) for title in table.titles}
    body = ""
    for row in shown:
        labels = "".join(f"<td>{html.escape(label)}</td>" for label in row.groups)
        numbers = "".join(f"<td>{_cell(row[title], scales[title])}</td>" for title in table.titles)
        body += f"<tr>{labels}{numbers}</tr>"
    if len(table.rows) > SHOWN:
        body += f'<tr><td colspan="{len(titles)}">... {len(table.rows) - SHOWN:,} more rows</td></tr>'
    under = f"{_caption(table)}, {_price(table.cost)}{_counted(*table.numbers[:1])}"
    return f"<table><tr>{head}</tr>{body}</table><small>{under}</small>"


def _counted(*answers: Answer) -> str:
    return "".join(f"; {html.escape(answer.counted)}" for answer in answers if answer.counted is not None)


def _cell(answer: Answer, scale: tuple[float, float]) -> str:
    text = html.escape(str(answer))
    return (f"<i>{text}</i>" if answer.standing == "guessed" else text) + _bar(answer, scale)


def _scale(answers: Sequence[Answer]) -> tuple[float, float]:
    ends = [end for answer in answers for end in (answer.low, answer.high, answer.value) if math.isfinite(end)]
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _bar(answer: Answer, scale: tuple[float, float]) -> str:
    """A small drawing: a line from low to high and a point at the value."""
    least, most = scale
    if not all(map(math.isfinite, (answer.low, answer.high, answer.value))) or most <= least:
        return ""
    low, value, high = (4 + (WIDE - 8) * (x - least) / (most - least) for x in (answer.low, answer.value, answer.high))
    promised = answer.standing != "guessed"
    colour, fill = (SOLID, SOLID) if promised else (HOLLOW, "none")
    dashes = "" if promised else ' stroke-dasharray="3 2"'
    return (
        f'<br><svg width="{WIDE}" height="10"><line x1="{low:.1f}" y1="5" x2="{high:.1f}" y2="5" stroke="{colour}" '
        f'stroke-width="2"{dashes}/><circle cx="{value:.1f}" cy="5" r="3" stroke="{colour}" fill="{fill}"/></svg>'
    )


def _said(answer: Answer) -> str:
    if answer.wider:
        return f"{answer.source}, {WIDER}"
    return f"{answer.source}{'' if answer.guarantee else ', guessed by the model, without a promise'}"


def _caption(table: AnswerTable) -> str:
    """What holds for the numbers of a table, in words."""
    guesses = sum(number.standing == "guessed" for number in table.numbers)
    how = "together" if table.together else "each"
    sure = f"intervals at {percent(table.confidence)}, {how}"
    if not guesses:
        return f"{sure}; {table.source}" + (f", {WIDER}" if any(number.wider for number in table.numbers) else "")
    some = "all" if guesses == len(table.numbers) else f"{guesses:,}"
    return f"{some} numbers are guesses of the model, without a promise"


def _price(cost: Loss) -> str:
    return f"cost {html.escape(str(cost))}" if cost.units else "free"


def chart(answer: Answered) -> Any:
    """Every number as a point with its interval as an error bar, one panel for each column of numbers."""
    try:
        import altair
    except ImportError:
        raise QueryError("a chart needs the extra 'charts'", advice="pip install 'maquette[charts]'") from None
    records = [
        {
            "group": ", ".join(row.groups) or title,
            "column": title,
            "value": number.value,
            "low": number.low if math.isfinite(number.low) else number.value,
            "high": number.high if math.isfinite(number.high) else number.value,
            "standing": number.standing,
            "place": place,
        }
        for place, row in enumerate(answer.rows)
        for title, number in row.answers.items()
        if math.isfinite(number.value)
    ]
    colours = altair.Scale(domain=["promised", "cached", "wider", "guessed"], range=[SOLID, SOLID, SOLID, HOLLOW])
    base = altair.Chart(altair.Data(values=records)).encode(
        y=altair.Y("group:N", sort=altair.EncodingSortField("place"), title=None),
        color=altair.Color("standing:N", scale=colours, title=None),
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=altair.X("low:Q", title=None), x2="high:Q")
    points = base.mark_point(size=50).encode(
        x=altair.X("value:Q", title=None),
        fill=altair.condition("datum.standing == 'guessed'", altair.value("white"), altair.Color("standing:N")),
        tooltip=[f"{name}:{kind}" for name, kind in (("group", "N"), ("value", "Q"), ("low", "Q"), ("high", "Q"))],
    )
    panels = (bars + points).properties(width=320)
    return panels.facet(row=altair.Row("column:N", title=None)).resolve_scale(x="independent", y="independent")
