"""Markup: pieces of the page that need no chart, as HTML text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from maquette.estimates import Step
from maquette.reports.charts import Spec, vega
from maquette.reports.style import CSS, DRAW
from maquette.reports.tables import Cell

LONG = 26  # letters: longer names are stacked on two lines
FACTS = {
    "alpha": "maximum error of counts, as a fraction of rows",
    "beta": "probability that an accuracy guarantee fails",
    "simultaneous": "whether the guarantee holds for all answers together",
    "epsilon": "what this publication cost",
    "delta": "probability that the epsilon guarantee fails",
    "rho": "the cost in zero-concentrated DP",
    "currency": "composition method",
    "units": "the cost, in units of 1e-15",
    "limit": "the table's budget, in units of 1e-15",
    "relation": "which tables are neighbours",
    "unit": "the column that identifies the privacy unit",
    "counted": "how many rows of one privacy unit are counted",
    "bound_from_rows": "whether that number was chosen by looking at the rows",
    "cut": "what that bound left out, as noisy numbers that were paid for",
    "drafted": "whether bounds and levels were read from the rows",
    "table": "the table's name in questions",
    "method": "the release method",
    "schema": "fingerprint (SHA-256) of the schema",
    "version": "version of maquette",
    "accuracy": "the guarantee of a theorem",
    "checked": "typical error, certified by the check of the finished model",
    "start": "the public start that it was built from",
    "ledger_units": "everything charged to the table up to this publication, in units of 1e-15",
}
ABSENT = {
    "unit": "none: each row is one unit",
    "counted": "every row",
    "rho": "not used",
    "start": "none",
    "table": "none: any name means it",
} | dict.fromkeys(("accuracy", "ledger_units", "checked", "cut"), "none stated")
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"


def stacked(columns: Sequence[str], first: str = "") -> str:
    """The name of a table: on one line, or one column per line if names are long."""
    line = first + " x ".join(columns)
    return line if len(line) <= LONG or len(columns) == 1 else first + " x\n".join(columns)


def sentence(text: str) -> str:
    """A statement as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def spread(cells: Sequence[Cell]) -> str:
    """How wide the noise intervals of a table are, in words."""
    reach = [
        max(cell.seen.high - cell.seen.value, cell.seen.value - cell.seen.low) for cell in cells if cell.seen.known
    ]
    if not reach:
        return "The model's shares of these two columns together have no interval."
    some = "" if len(reach) == len(cells) else f" ({len(reach)} of {len(cells)} squares have one)"
    return f"Noise intervals: half are within ±{np.median(reach):.2%} of rows, all within ±{max(reach):.2%}{some}."


def matrix(cells: Sequence[Cell]) -> str:
    """The squares of a heat map as a table, each with its interval."""
    across = list(dict.fromkeys(cell.labels[1] for cell in cells))
    head = "".join(f'<th scope="col" class="number">{escaped(label)}</th>' for label in across)
    body = ""
    for start in range(0, len(cells), len(across)):
        row = cells[start : start + len(across)]
        shown = "".join(f'<td class="number">{interval(cell)}</td>' for cell in row)
        body += f'<tr><th scope="row">{escaped(row[0].labels[0])}</th>{shown}</tr>'
    table = scrolled(f"<tr><td></td>{head}</tr>{body}")
    title = "The numbers, with their intervals" if any(cell.seen.known for cell in cells) else "The numbers"
    return f"<details><summary>{title}</summary>{table}</details>"


def numbers(name: str, cells: Sequence[Cell]) -> str:
    """The bars of a chart as a table: for screen readers, and for whoever wants the numbers."""
    body = ""
    for cell in cells:
        seen = cell.seen
        within = f"{seen.low:.2%} to {seen.high:.2%}" if seen.known else "not measured"
        body += (
            f'<tr><th scope="row">{escaped(cell.labels[0])}</th><td class="number">{seen.value:.2%}</td>'
            f'<td class="number">{within}</td></tr>'
        )
    caption = f"<caption>Shares of {escaped(name)}</caption>"
    table = scrolled(caption + heads("level", "share", "interval") + body)
    return f"<details><summary>The numbers of {escaped(name)}</summary>{table}</details>"


def heads(first: str, *others: str) -> str:
    """The row of headings of a table of numbers."""
    more = "".join(f'<th scope="col" class="number">{escaped(name)}</th>' for name in others)
    return f'<tr><th scope="col">{escaped(first)}</th>{more}</tr>'


def scrolled(rows: str) -> str:
    """A table that scrolls sideways on a narrow screen, also with the keyboard."""
    return f'<div class="scroll" tabindex="0"><table>{rows}</table></div>'


def place(name: str, label: str, *, heading: str = "", caption: str = "") -> str:
    """A place for the chart `name`, which is drawn when the page opens."""
    top = f"<h3>{escape(heading)}</h3>" if heading else ""
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    empty = f'<div class="chart" id="{name}" role="img" aria-label="{escape(label, quote=True)}"></div>'
    return f"<figure>{top}{empty}{under}</figure>"


def document(title: str, inside: str, sections: Sequence[tuple[str, str, str]], specs: Mapping[str, Spec]) -> str:
    """A page that fetches nothing: what stands above the sections, a list of them, and the sections themselves."""
    links = "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in sections)
    bodies = "".join(f'<section id="{name}"><h2>{heading}</h2>{body}</section>' for name, heading, body in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>"
        f'<a class="skip" href="#{sections[0][0]}">Skip to the content</a><main>'
        f'{inside}<nav aria-label="Sections">{links}</nav>{bodies}'
        "<noscript><p>The charts need JavaScript; the tables hold every number of the budget.</p></noscript>"
        f'</main><script type="application/json" id="specs">{embedded(specs)}</script>'
        f"<script>{vega()}</script><script>{DRAW}</script></body></html>"
    )


def interval(cell: Cell) -> str:
    """A share and its interval, in two lines."""
    seen = cell.seen
    ends = f'<br><span class="soft">{seen.low:.2%} to {seen.high:.2%}</span>' if seen.known else ""
    return f"{seen.value:.2%}{ends}"


def by_round(steps: Sequence[Step]) -> str:
    """One line for each round."""
    body = ""
    for place, group in itertools.groupby(steps, key=lambda step: step.round):
        of = list(group)
        off, noise = (sum(getattr(step, name) for step in of) / len(of) for name in ("distance", "noise"))
        body += (
            f'<tr><td>{place}</td><td class="number">{len(of)}</td><td class="number">{off:.2%}</td>'
            f'<td class="number">{max(step.distance for step in of):.2%}</td><td class="number">{noise:.2%}</td></tr>'
        )
    return scrolled(heads("round", "tables", "mean distance", "largest distance", "from noise alone") + body)


def escaped(text: str) -> str:
    """Text that may stand between tags."""
    return escape(text, quote=False)


def embedded(value: object) -> str:
    """JSON that an HTML parser cannot mistake for markup."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def by_error(tables: list[tuple[tuple[str, ...], float, float]]) -> str:
    """Drawn tables, the least certain first: how far a share can be off, and how large a share is there."""
    if not tables:
        return ""
    body = "".join(
        f'<tr><td>{escaped(" x ".join(names))}</td><td class="number">±{off:.2%}</td>'
        f'<td class="number">{share:.2%}</td></tr>'
        for names, off, share in tables
    )
    intro = "<p>Of the tables drawn above, these are the least certain relative to the size of their shares.</p>"
    return intro + scrolled(heads("table", "a share can be off by", "typical share") + body)
