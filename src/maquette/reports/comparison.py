"""A comparison of two releases: what each promises, where their numbers differ, and whether noise explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from maquette.errors import DataError, QueryError
from maquette.reports import charts
from maquette.reports.markup import document, escaped, heads, place, scrolled
from maquette.reports.risk import told
from maquette.reports.subject import Subject, subject_of
from maquette.reports.tables import Cell, column_cells, columns_shown

CHANGES = 20  # levels that are listed


@dataclass(frozen=True)
class Change:
    """The share of one level in both releases; `clear` if their noise intervals do not meet."""

    column: str
    label: str
    one: Cell
    other: Cell

    @property
    def by(self) -> float:
        """By how much the share is larger in the second release."""
        return self.other.seen.value - self.one.seen.value

    @property
    def clear(self) -> bool | None:
        """Whether noise alone does not explain the difference; None if a share has no interval."""
        first, second = self.one.seen, self.other.seen
        if not (first.known and second.known):
            return None
        return first.high < second.low or second.high < first.low


def compare(one: object, other: object, path: str | Path, *, names: tuple[str, str] = ("first", "second")) -> Path:
    """A page that compares two releases, written to `path`. Needs the extra "charts".

    Privacy: post-processing of released numbers; free. Whoever reads both releases of the same people learns from both:
    the page says what their epsilons add up to.
    """
    charts.altair()
    place_of = Path(path)
    if not place_of.parent.is_dir():
        raise DataError(
            f"the comparison cannot be written to {str(path)!r}: there is no folder {str(place_of.parent)!r}"
        )
    text = _page(subject_of(one), subject_of(other), names)
    try:
        place_of.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"the comparison cannot be written to {str(path)!r}: {error.strerror}") from None
    return place_of


def changes(one: Subject, other: Subject) -> list[Change]:
    """Every level of the columns that both releases declare alike, the largest differences first."""
    found = []
    for name in columns_shown(one):
        if name not in other.schema or one.schema[name] != other.schema[name]:
            continue
        try:
            first, second = column_cells(one, name), column_cells(other, name)
        except QueryError:  # one of the two knows nothing about this column
            continue
        known = {cell.labels[0]: cell for cell in second}
        found += [Change(name, c.labels[0], c, known[c.labels[0]]) for c in first if c.labels[0] in known]
    return sorted(found, key=lambda change: -abs(change.by))


def _page(one: Subject, other: Subject, names: tuple[str, str]) -> str:
    title = f"{names[0]} and {names[1]}, compared"
    found = changes(one, other)
    specs: dict[str, charts.Spec] = {}
    sections = [
        ("short", "In short", _short(one, other, found)),
        ("promises", "What each promises", _promises(one, other, names)),
        ("columns", "Columns that differ", _columns(found, specs)),
        ("levels", "Shares that differ most", _levels(found, names)),
        ("declared", "Declared differently", _declared(one, other, names)),
    ]
    header = f"<header><h1>{escape(title)}</h1></header>"
    return document(title, header, [section for section in sections if section[2]], specs)


def _short(one: Subject, other: Subject, found: Sequence[Change]) -> str:
    clear = sum(bool(change.clear) for change in found)
    sure = sum(change.clear is not None for change in found)
    both = told(one.total)[0] + told(other.total)[0]
    if not found:
        said = "The two have no column with the same declaration, so no numbers are compared."
    elif not sure:
        said = f"{len(found):,} shares are compared. They have no intervals, so noise may explain every difference."
    elif not clear:
        said = f"{len(found):,} shares are compared. Noise can explain every difference: all intervals overlap."
    else:
        said = (
            f"{len(found):,} shares are compared. For {clear:,} of the {sure:,} with intervals, noise alone does not "
            "explain the difference: their intervals do not overlap."
        )
    return (
        f"<p>{said}</p><p>If both are about the same people, their epsilons add up to at most <b>{both:.3g}</b> for "
        "someone who reads both. If both were paid from one ledger, that ledger states the exact total.</p>"
    )


def _promises(one: Subject, other: Subject, names: tuple[str, str]) -> str:
    facts = zip(_facts(one).items(), _facts(other).values(), strict=True)
    body = "".join(
        f'<tr><th scope="row">{escaped(word)}</th><td>{escaped(first)}</td><td>{escaped(second)}</td></tr>'
        for (word, first), second in facts
    )
    columns = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    return scrolled(f"<tr><td></td>{columns}</tr>{body}")


def _facts(subject: Subject) -> dict[str, str]:
    epsilon, delta = told(subject.loss)
    return {
        "epsilon": f"{epsilon:.4g}",
        "delta": f"{delta:g}",
        "protected": subject.unit,
        "relation": subject.relation,
        "method": subject.method,
        "rows (estimated)": f"{subject.rows:,.0f}",
        "columns": f"{len(subject.schema):,}",
        "certified error": _certified(subject),
    }


def _certified(subject: Subject) -> str:
    check = None if subject.release is None else subject.release.check
    return "none stated" if check is None else check.statement(subject.confidence)


def _columns(found: Sequence[Change], specs: dict[str, charts.Spec]) -> str:
    """Half the sum of absolute differences for every column, as a chart and a table."""
    columns = list(dict.fromkeys(change.column for change in found))
    if not columns:
        return ""
    apart = [(name, sum(abs(c.by) for c in found if c.column == name) / 2, None) for name in columns]
    apart.sort(key=lambda one: -one[1])
    specs["chart-1"] = charts.distances(apart[:CHANGES], "distance between the two")
    body = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td class="number">{distance:.2%}</td>'
        f'<td class="number">{sum(bool(c.clear) for c in found if c.column == name):,}</td></tr>'
        for name, distance, _ in apart
    )
    table = scrolled(heads("column", "distance", "levels that noise does not explain") + body)
    drawn = place("chart-1", "Distance between the two releases, by column; the numbers follow")
    return (
        "<p>The distance is the share of rows that would have to move to another level to make the two equal. Noise "
        f"alone causes some distance.</p>{drawn}{table}"
    )


def _levels(found: Sequence[Change], names: tuple[str, str]) -> str:
    if not found:
        return ""
    words = {True: "no", False: "yes", None: "no interval"}
    body = "".join(
        f'<tr><th scope="row">{escaped(f"{c.column}: {c.label}")}</th><td class="number">{c.one.seen.value:.2%}</td>'
        f'<td class="number">{c.other.seen.value:.2%}</td><td class="number">{c.by:+.2%}</td>'
        f'<td class="number">{words[c.clear]}</td></tr>'
        for c in found[:CHANGES]
    )
    return scrolled(heads("level", names[0], names[1], "difference", "can noise explain it?") + body)


def _declared(one: Subject, other: Subject, names: tuple[str, str]) -> str:
    """Columns that only one has, or that have other levels, and so cannot be compared."""
    parts = []
    for first, second, name in ((one, other, names[0]), (other, one, names[1])):
        only = [column.name for column in first.schema if column.name not in second.schema]
        if only:
            parts.append(f"<p>Only in {escaped(name)}: {escaped(', '.join(only))}.</p>")
    both = [column.name for column in one.schema if column.name in other.schema]
    changed = [name for name in both if one.schema[name] != other.schema[name]]
    if changed:
        parts.append(f"<p>With different levels or bins: {escaped(', '.join(changed))}.</p>")
    return "".join(parts)
